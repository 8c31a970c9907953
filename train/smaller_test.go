package train_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// deep is a recipe for a classifier of many layers.
func deep(t *testing.T) *recipe.Recipe {
	t.Helper()
	return layers(t, 12, 64, true)
}

// layers is a recipe for a classifier of so many layers of a width. Each has weights, or the first
// alone.
func layers(t *testing.T, count, width int, each bool) *recipe.Recipe {
	t.Helper()
	g := &graph.Graph{Name: "deep", Opsets: map[string]int{"": 17}}
	x := &graph.Value{Name: "image", Type: op.Ranked(tensor.Float32, op.Sym("n"), op.Known(1),
		op.Known(8), op.Known(8))}
	g.Inputs = []*graph.Value{x}
	rng := rand.New(rand.NewPCG(1, 2))
	add := func(typ, name string, in ...*graph.Value) {
		n := graph.NewNode(name, typ, 13, nil, in, name)
		if err := n.InferTypes(); err != nil {
			t.Fatal(err)
		}
		g.Nodes, x = append(g.Nodes, n), n.Out[0]
	}
	weights := func(name string, rows, columns int) *graph.Value {
		w := make([]float32, rows*columns)
		for i := range w {
			w[i] = float32(rng.NormFloat64()) / 8
		}
		return graph.NewConst(name, tensor.From(w, rows, columns))
	}
	add("Reshape", "flat", x, graph.NewConst("shape", tensor.From([]int64{0, 64}, 2)))
	rows := 64
	for i := range count {
		if i == 0 || each {
			add("MatMul", fmt.Sprint("h", i), x, weights(fmt.Sprint("w", i), rows, width))
			rows = width
		}
		add("Tanh", fmt.Sprint("a", i), x)
	}
	add("MatMul", "scores", x, weights("last", rows, 10))
	g.Outputs = []*graph.Value{x}
	r := short(t)
	r.Model = filepath.Join(t.TempDir(), "deep.onnx")
	if err := onnx.WriteFile(r.Model, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Data.Batch = 256
	return r
}

// TestSmaller: under a bound that its plans as they are do not keep, a run keeps it, and has the
// digest of one that takes what it likes; what a forecast says of that is what it takes.
func TestSmaller(t *testing.T) {
	r := deep(t)
	digest := func(o train.Options) (string, int64) {
		run := open(t, r, 2, o)
		res, err := run.Train(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return res.Digest, run.Bytes()
	}
	want, whole := digest(train.Options{})
	most := whole * 3 / 4
	got, bytes := digest(train.Options{Memory: most,
		Quota: seat.NewCounted("--memory", share.Bytes(most))})
	if got != want || bytes > most {
		t.Errorf("digest %s in %d bytes, want %s in %d at most", got, bytes, want, most)
	}
	on, err := machine.Open("cpu:0", machine.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	f, err := train.Plan(t.Context(), r, train.Options{Machine: on})
	if err != nil {
		t.Fatal(err)
	}
	for i, trade := range f.Recompute {
		if trade.Time < 1 || trade.Again < 0 || trade.ArenaBytes >= f.ArenaBytes ||
			i > 0 && trade.ArenaBytes >= f.Recompute[i-1].ArenaBytes {
			t.Errorf("%+v", f.Recompute)
		}
	}
	if n := len(f.Recompute); n < 3 || f.Recompute[n-1].Time <= 1 {
		t.Errorf("%+v", f.Recompute)
	}
	_, err = train.Open(t.Context(), r, train.Options{Machine: on, Memory: 1 << 16})
	if !errors.Is(err, plan.ErrArena) || !strings.Contains(err.Error(), "65536 are allowed") {
		t.Error(err)
	}
}

// TestForecastOfSmaller: of a plan that computes again unasked, a forecast says what takes less
// than that plan, not than one that keeps all.
func TestForecastOfSmaller(t *testing.T) {
	on, err := machine.Open("cpu:0", machine.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	r := layers(t, 16, 1024, false)
	r.Data.Batch = 1024
	run, err := train.Prepare(t.Context(), r, on)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	f, err := train.Plan(t.Context(), r, train.Options{Machine: on})
	if err != nil || len(f.Recompute) == 0 {
		t.Fatal(f, err)
	}
	for _, trade := range f.Recompute {
		if trade.ArenaBytes >= run.Update().ArenaBytes {
			t.Errorf("%+v is no less than %d", trade, run.Update().ArenaBytes)
		}
	}
}
