package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// ReadInputs reads files by input name: .npy files, or .pb files in the form of ONNX's test data,
// which alone have a form for sequences, optionals and maps. Of more than most bytes together it
// reads no further, and fails with device.ErrOutOfMemory; most of 0 stands for any number.
func ReadInputs(g *graph.Graph, files map[string]string, most int64) (map[string]*tensor.Tensor,
	error) {
	given := map[string]*tensor.Tensor{}
	room := Room{Most: most}
	for name, file := range files {
		v := g.Input(name)
		if v == nil {
			return nil, fmt.Errorf("%w: the model has no input %q; it takes %s", ErrInput, name,
				inputNames(g))
		}
		t, err := room.ReadFile(file, v.Type)
		if err != nil {
			return nil, err
		}
		given[name] = t
	}
	return given, nil
}

// ReadFile reads a value of a type from a file whose name tells its form, ONNX's own or NumPy's.
func (r *Room) ReadFile(file string, typ op.Type) (*tensor.Tensor, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	t, err := r.value(f, strings.HasSuffix(file, ".pb"), typ)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// Room is the memory that the inputs of a request may take together. Who reads them asks it for
// each, so that a file larger than the machine's memory is refused in place of ending the process.
type Room struct {
	Most int64 // bytes; 0 stands for any number
	used int64
}

// value reads a value of a type from ONNX's own form, or else from NumPy's.
func (r *Room) value(from io.Reader, pb bool, typ op.Type) (*tensor.Tensor, error) {
	from = r.Reader(from)
	if !pb {
		return npy.ReadAs(from, typ.DType)
	}
	b, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	return onnx.DecodeValue(b, typ)
}

// Reader returns what reads from a reader and takes room for it. Where there is none left it fails
// with device.ErrOutOfMemory.
func (r *Room) Reader(from io.Reader) io.Reader { return &roomReader{r, from} }

type roomReader struct {
	room *Room
	from io.Reader
}

// Read implements io.Reader.
func (r *roomReader) Read(p []byte) (int, error) {
	if r.room.Most == 0 || len(p) == 0 {
		return r.from.Read(p)
	}
	left := r.room.Most - r.room.used
	if left == 0 { // which is no error where there is nothing more, either
		n, err := r.from.Read(make([]byte, 1))
		if n > 0 {
			err = fmt.Errorf("%w: inputs of more than %s, which is all that they may have: raise "+
				"memory or give smaller ones", device.ErrOutOfMemory,
				share.Bytes(r.room.Most).About())
		}
		return 0, err
	}
	n, err := r.from.Read(p[:min(int64(len(p)), left)])
	r.room.used += int64(n)
	return n, err
}
