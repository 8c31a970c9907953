package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/training"
	"github.com/weirgpu/weir/tensor"
)

// capped follows a recipe at a server, which halves the memory that the training may hold, and
// gives it back, again and again.
func (b *bench) capped(path string) (_ row, err error) {
	s, err := server.New(server.Options{Log: slog.New(slog.DiscardHandler),
		Host: weir.HostOptions{Threads: 2}})
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all, err := training.Open(training.Options{Server: s, Recipes: []string{path}})
	if err != nil {
		return row{}, err
	}
	defer all.Close(context.Background())
	for pattern, h := range all.Routes() {
		s.Handle(pattern, h)
	}
	n := int64(0)
	for ; n < b.moves; n++ {
		at, err := waits(all, func(s training.State) bool {
			return s.Phase == training.Running && s.MemoryBytes > 0
		})
		if err != nil {
			return row{}, err
		}
		most := int64(0)
		if n%2 == 0 {
			most = at.WholeBytes / 2
		}
		if at, err = setCap(s, at.Name, most); err != nil {
			return row{}, err
		}
		if most > 0 && at.NeedBytes > most {
			return row{}, fmt.Errorf("under a cap of %d it needs %d", most, at.NeedBytes)
		}
		// some updates under this cap
		if _, err := waits(all, func(s training.State) bool {
			return s.Update > at.Update+20 && s.MemoryBytes > 0 && (most == 0 ||
				s.MemoryBytes <= most)
		}); err != nil {
			return row{}, err
		}
	}
	end, err := waits(all, func(s training.State) bool { return s.Phase == training.Done })
	return row{What: "cap of memory halved and restored", Times: n, Updates: end.Update,
		Digest: end.Digest}, err
}

// waits looks at the one training until it is as wanted.
func waits(all *training.Trainings, wanted func(training.State) bool) (training.State, error) {
	for {
		s := all.List()[0]
		if wanted(s) {
			return s, nil
		}
		if s.Phase == training.Failed || s.Phase == training.Done {
			return s, fmt.Errorf("the training is %s after update %d: %s: give it more epochs, or "+
				"fewer -caps", s.Phase, s.Update, s.Reason)
		}
		time.Sleep(time.Millisecond)
	}
}

// setCap asks the server to cap the memory of a training; 0 takes the cap away.
func setCap(s *server.Server, name string, most int64) (now training.State, err error) {
	body, err := json.Marshal(training.Terms{Memory: &most})
	if err != nil {
		return now, err
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/v1/train/"+name+"/share",
		bytes.NewReader(body)))
	answer, err := io.ReadAll(w.Result().Body)
	if err == nil && w.Code != http.StatusOK {
		err = fmt.Errorf("a cap of %d bytes: %d %s", most, w.Code, answer)
	}
	if err != nil {
		return now, err
	}
	return now, json.Unmarshal(answer, &now)
}

// layers and width are those of the deep network.
const (
	layers = 16
	width  = 64
)

// writeDeep writes a classifier of images of 64 pixels in many layers.
func writeDeep(path string) error {
	g := &graph.Graph{Name: "deep", Opsets: map[string]int{"": 17}}
	x := &graph.Value{Name: "image", Type: op.Ranked(tensor.Float32, op.Sym("n"), op.Known(1),
		op.Known(8), op.Known(8))}
	g.Inputs = []*graph.Value{x}
	rng := rand.New(rand.NewPCG(1, 2))
	var err error
	add := func(typ, name string, in ...*graph.Value) {
		n := graph.NewNode(name, typ, 13, nil, in, name)
		err = errors.Join(err, n.InferTypes())
		g.Nodes, x = append(g.Nodes, n), n.Out[0]
	}
	weights := func(name string, columns int) *graph.Value {
		w := make([]float32, width*columns)
		for i := range w {
			w[i] = float32(rng.NormFloat64()) / 8
		}
		return graph.NewConst(name, tensor.From(w, width, columns))
	}
	add("Reshape", "flat", x, graph.NewConst("shape", tensor.From([]int64{0, width}, 2)))
	for i := range layers {
		add("MatMul", fmt.Sprint("h", i), x, weights(fmt.Sprint("w", i), width))
		add("Tanh", fmt.Sprint("a", i), x)
	}
	add("MatMul", "scores", x, weights("last", 10))
	g.Outputs = []*graph.Value{x}
	if err != nil {
		return err
	}
	return onnx.WriteFile(path, g, onnx.WriteOptions{})
}
