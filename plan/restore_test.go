package plan

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestRestore makes the plans of small networks again, of the text of their graphs without the
// constants that are in the packed weights: they must be the same and give the same bits on the
// weights of the first.
func TestRestore(t *testing.T) {
	pool := newPool(t)
	for _, a := range small {
		g, err := zoo.New(a.name, a.options)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Target: host, Shapes: shapesOf(g, a.shape), Threads: threads}
		p := compileAs(t, g, o)
		weights := memory(t, p.PackedBytes)
		if err := p.Pack(weights, PackOptions{}); err != nil {
			t.Fatal(err)
		}
		absorbed := p.Absorbed()
		bare := func(c *tensor.Tensor) bool { return absorbed[c] }
		q, err := Restore(context.Background(), throughText(t, p.Graph, bare), o)
		if err != nil {
			t.Fatal(err)
		}
		if q.Fingerprint() != p.Fingerprint() || q.ArenaBytes != p.ArenaBytes ||
			q.ConstBytes != p.ConstBytes || q.Flops != p.Flops {
			t.Errorf("%s: another plan", a.name)
		}
		if err := q.Pack(weights, PackOptions{}); !errors.Is(err, ErrBare) || len(absorbed) == 0 {
			t.Errorf("%s: packing without constants: error %v; %d are left out", a.name, err,
				len(absorbed))
		}
		in := like(rand.New(rand.NewPCG(2, 3)), g, o.Shapes)
		want, got := runOn(t, pool, p, weights, in), runOn(t, pool, q, weights, in)
		for i := range want {
			if !bytes.Equal(want[i].Data, got[i].Data) {
				t.Errorf("%s: output %d has other bits", a.name, i)
			}
		}
		// One that steps read in place cannot be left out.
		some := false
		all := func(c *tensor.Tensor) bool {
			left := !absorbed[c] && c.DType == tensor.Float32 && c.Rank() > 0 && len(c.Data) >= 64
			some = some || left
			return left
		}
		_, err = Restore(context.Background(), throughText(t, p.Graph, all), o)
		if some && !errors.Is(err, ErrBare) {
			t.Errorf("%s: without constants that steps read: error %v, want ErrBare", a.name, err)
		}
	}
	g, err := zoo.New("gpt2", small[5].options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Restore(context.Background(), g, Options{Target: host})
	if !errors.Is(err, ErrShape) {
		t.Errorf("a graph of open shapes: error %v, want ErrShape", err)
	}
}

// runOn runs a plan once on packed weights.
func runOn(t *testing.T, pool *cpu.Pool, p *Plan, weights []byte,
	in []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	prog, err := p.Bind(memory(t, p.ArenaBytes), weights)
	if err != nil {
		t.Fatal(err)
	}
	set(prog, in)
	if err := prog.Run(exec(pool)); err != nil {
		t.Fatal(err)
	}
	return prog.Outputs
}

// throughText prints and parses a graph, leaving out the contents of some constants.
func throughText(t *testing.T, g *graph.Graph, leave func(c *tensor.Tensor) bool) *graph.Graph {
	t.Helper()
	var text strings.Builder
	if err := graph.PrintExternal(&text, g, func(c *tensor.Tensor) (int64, bool) {
		return 7, leave(c)
	}); err != nil {
		t.Fatal(err)
	}
	back, err := graph.ParseExternal(text.String(),
		func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
			if at != 7 {
				t.Errorf("place %d, want 7", at)
			}
			return &tensor.Tensor{DType: d, Shape: append([]int{}, shape...)}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return back
}
