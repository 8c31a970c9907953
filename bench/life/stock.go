package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/repo"
	"github.com/weirgpu/weir/tensor"
)

// stock is a server's folder, and versions of a model that are still to be pushed into it: the
// digits, each with other weights, as if they were trained anew each time.
type stock struct {
	server.Folder
	files  string // of the versions, by their numbers
	pushed []int64
	left   []int64
}

// restock makes a folder without models, and so many versions.
func restock(dir string, versions int) (*stock, error) {
	s := &stock{files: filepath.Join(dir, "versions")}
	s.Path = filepath.Join(dir, "models")
	plans := filepath.Join(dir, "plans")
	s.Options = []weir.Option{weir.WithCache(plans)} // as weir up has them
	if err := errors.Join(os.Mkdir(s.Path, 0o700), os.Mkdir(s.files, 0o700),
		os.Mkdir(plans, 0o700)); err != nil {
		return nil, err
	}
	m, err := onnx.Decode(digits.Model, "", onnx.Options{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	weights := consts(m.Graph)
	if len(weights) == 0 {
		return nil, errors.New("the digits have no weights")
	}
	for n := range int64(versions) {
		for _, v := range weights {
			v.Type.Const = scaled(v.Type.Const, 1+float32(n%97)/1024)
		}
		if err := onnx.WriteFile(s.file(n+1), m.Graph, onnx.WriteOptions{}); err != nil {
			return nil, err
		}
		s.left = append(s.left, n+1)
	}
	return s, nil
}

// file is where a version waits to be pushed.
func (s *stock) file(version int64) string {
	return filepath.Join(s.files, strconv.FormatInt(version, 10))
}

// consts are the weights of a graph.
func consts(g *graph.Graph) (list []*graph.Value) {
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && v.IsConst() && v.Const().DType == tensor.Float32 &&
				!slices.Contains(list, v) {
				list = append(list, v)
			}
		}
	}
	return list
}

// scaled is a tensor with all elements by so much larger, but for one that is told by it.
func scaled(t *tensor.Tensor, by float32) *tensor.Tensor {
	all := slices.Clone(tensor.As[float32](t))
	for i := range all {
		all[i] *= by
	}
	all[0] = math.Nextafter32(all[0], 2)
	return tensor.From(all, t.Shape...)
}

// push puts the next version into the folder, as weir model push does, and removes those that no
// rollback can serve.
func (s *stock) push() error {
	if len(s.left) == 0 {
		return errors.New("there are no more versions")
	}
	n := s.left[0]
	f, err := os.Open(s.file(n))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := repo.Push(s.Path, "digits", n, f, 1<<30, nil); err != nil {
		return err
	}
	s.left, s.pushed = s.left[1:], append(s.pushed, n)
	if len(s.pushed) <= rollbacks {
		return nil
	}
	old := s.pushed[0]
	s.pushed = s.pushed[1:]
	return os.RemoveAll(filepath.Join(s.Path, "digits", fmt.Sprint(old)))
}

// rollbacks is how many versions stay in the folder: the newest, and those that may be served.
const rollbacks = 3
