package plan

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestAhead holds that plans of several shapes made from the graph that Ahead leaves have the steps
// of those made from the model, give its results, and leave less to the passes.
func TestAhead(t *testing.T) {
	pool := newPool(t)
	for _, a := range small {
		g, err := zoo.New(a.name, a.options)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Ahead(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 3} {
			if n > 1 && g.Inputs[0].Type.Static() {
				continue
			}
			shape := append([]int{n}, a.shape[1:]...)
			o := Options{Target: host, Shapes: shapesOf(g, shape), Threads: threads}
			in := like(rand.New(rand.NewPCG(2, uint64(n))), g, o.Shapes)
			whole, rest := compileAs(t, g, o), compileAs(t, s, o)
			if len(whole.Steps) != len(rest.Steps) {
				t.Errorf("%s: %d steps from the model, %d from what is left of it", a.name,
					len(whole.Steps), len(rest.Steps))
			}
			if w, r := whole.Passes.Changes(), rest.Passes.Changes(); r >= w {
				t.Errorf("%s: %d changes to the model, %d to what is left of it", a.name, w, r)
			}
			want, got := runPlan(t, pool, whole, in), runPlan(t, pool, rest, in)
			for i := range want {
				if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > 1e-5 {
					t.Errorf("%s: output %d: relative distance %v, %v", a.name, i, d, err)
				}
			}
		}
	}
}

// TestAheadKeepsWeights holds that the graph which Ahead leaves has hardly a byte of weights beside
// the model's, and becomes the model's plan: weights of convolutions with a normalisation behind
// them, quantised ones, which are not to become floats, and transposed ones.
func TestAheadKeepsWeights(t *testing.T) {
	g, err := graph.ParseExternal(`graph "weights" {
		opset "" 17
		input %x: float32[N,64,8,8]
		const %w: float32[64,64,3,3] = at 1
		const %scale: float32[64] = at 2
		const %shift: float32[64] = at 3
		const %mean: float32[64] = at 4
		const %var: float32[64] = at 5
		const %b: int8[64,64,3,3] = at 6
		const %v: float32[8192,8] = at 7
		const %s: float32[] = {0.5}
		const %z: uint8[] = {3}
		const %o: int8[] = {0}
		%c: float32[N,64,8,8] = Conv@11 (%x, %w) {pads=[1,1,1,1]}
		%n: float32[N,64,8,8] = BatchNormalization@15 (%c, %scale, %shift, %mean, %var)
		%q: uint8[N,64,8,8] = QuantizeLinear@13 (%n, %s, %z)
		%d: float32[N,64,8,8] = DequantizeLinear@13 (%q, %s, %z)
		%f: float32[64,64,3,3] = DequantizeLinear@13 (%b, %s, %o)
		%e: float32[N,64,8,8] = Conv@11 (%d, %f) {pads=[1,1,1,1]}
		%p: uint8[N,64,8,8] = QuantizeLinear@13 (%e, %s, %z)
		%r: float32[N,64,8,8] = DequantizeLinear@13 (%p, %s, %z)
		%t: float32[8,8192] = Transpose@13 (%v)
		%y: float32[N,64,8,8192] = MatMul@13 (%r, %t)
		output %y
	}`, func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
		x, err := tensor.New(d, shape...)
		for i := range x.Data {
			x.Data[i] = byte(i*int(at)) % 3
		}
		if d == tensor.Float32 {
			for i := range tensor.As[float32](x) {
				tensor.As[float32](x)[i] = float32(1+i*int(at)%5) / 8
			}
		}
		return x, err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Ahead(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	has := map[*tensor.Tensor]bool{}
	for _, v := range g.Constants() {
		has[v.Const()] = true
	}
	own := 0
	for _, v := range s.Constants() {
		if !has[v.Const()] {
			own += len(v.Const().Data)
		}
	}
	if own > 1<<10 {
		t.Errorf("%d bytes of constants beside the model's:\n%v", own, s)
	}
	kinds := func(p *Plan) (list []string) {
		for i := range p.Steps {
			list = append(list, p.Steps[i].Node.Type)
		}
		return list
	}
	pool := newPool(t)
	for _, n := range []int{1, 2} {
		o := Options{Target: host, Shapes: map[string][]int{"x": {n, 64, 8, 8}}, Threads: threads}
		in := like(rand.New(rand.NewPCG(2, uint64(n))), g, o.Shapes)
		whole, rest := compileAs(t, g, o), compileAs(t, s, o)
		if want, got := kinds(whole), kinds(rest); !slices.Equal(got, want) {
			t.Errorf("%d rows: steps %v from the model, %v from what is left of it", n, want, got)
		}
		want, got := runPlan(t, pool, whole, in), runPlan(t, pool, rest, in)
		if !bytes.Equal(got[0].Data, want[0].Data) {
			t.Errorf("%d rows: other results", n)
		}
	}
}

// TestSimplifiedLoopDeclaresItsCounters holds that the number of the iteration and the condition
// keep their declared ranks in a Loop over a sequence, of which no rule tells them.
func TestSimplifiedLoopDeclaresItsCounters(t *testing.T) {
	g := parse(t, `input %s: sequence(float32[...])
		input %x: float32[3]
		const %n: int64[] = {2}
		const %c: bool[] = {true}
		%r = Loop@17 (%n, %c, %s | %x) {body=graph "body" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %s: sequence(float32[...])
			input %x: float32[3]
			%t = SequenceInsert@11 (%s, %x)
			output %c
			output %t
		}}
		output %r`)
	s, err := Simplify(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	loops := 0
	s.Walk(func(b *graph.Graph) {
		for _, n := range b.Nodes {
			for _, body := range n.Bodies() {
				loops++
				for _, v := range body.Inputs[:2] {
					if !v.Type.Ranked || len(v.Type.Shape) != 0 {
						t.Errorf("%s is declared as %v", v.Name, v.Type)
					}
				}
			}
		}
	})
	if loops != 1 {
		t.Errorf("%d bodies", loops)
	}
}
