package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestJoinedAndSplitAreNoSteps holds which moves cost a step, and the arena in values of x's size.
func TestJoinedAndSplitAreNoSteps(t *testing.T) {
	pool := newPool(t)
	for _, e := range []struct {
		name, body string
		steps      int
		values     int64
	}{
		{"joined", `%a = Exp@17 (%x)
			%b = Neg@17 (%x)
			%c = Concat@17 (%a, %b) {axis=1}
			output %c`, 2, 3},
		{"joined would take more memory", `%a = Exp@17 (%x)
			%b = Neg@17 (%x)
			%c = Concat@17 (%a, %b) {axis=1}
			%d = Neg@17 (%c)
			%e = Exp@17 (%b)
			output %d
			output %e`, 5, 4},
		{"whole of wholes", `%a = Exp@17 (%x)
			%b = Neg@17 (%x)
			%c = Concat@17 (%a, %b) {axis=1}
			%d = Exp@17 (%b)
			%e = Concat@17 (%d, %c) {axis=1}
			output %e`, 3, 4},
		{"a value twice", `%a = Exp@17 (%x)
			%c = Concat@17 (%a, %a) {axis=1}
			output %c`, 2, 3},
		{"an input of the graph", `%a = Exp@17 (%x)
			%c = Concat@17 (%x, %a) {axis=1}
			output %c`, 2, 3},
		{"a value of two wholes", `%a = Exp@17 (%x)
			%b = Neg@17 (%x)
			%c = Concat@17 (%a, %b) {axis=1}
			%d = Concat@17 (%b, %a) {axis=1}
			output %c
			output %d`, 3, 4},
		{"along an inner axis", `%a = Exp@17 (%x)
			%b = Neg@17 (%x)
			%c = Concat@17 (%a, %b) {axis=2}
			output %c`, 3, 4},
		{"split", `%a = Exp@17 (%x)
			%b, %c = Split@13 (%a) {axis=1}
			%d = Neg@17 (%b)
			%e = Mul@17 (%d, %c)
			output %e`, 3, 2},
		{"split and joined the other way round", `%a = Exp@17 (%x)
			%b, %c = Split@13 (%a) {axis=1}
			%d = Neg@17 (%b)
			%e = Concat@17 (%c, %d) {axis=1}
			output %e`, 3, 2},
		{"split and joined again with what was made of it", `%a = Exp@17 (%x)
			%b, %c = Split@13 (%a) {axis=1}
			%d = Neg@17 (%c)
			%e = Concat@17 (%b, %c, %d) {axis=1}
			output %e`, 2, 3},
		{"split along an inner axis", `%a = Exp@17 (%x)
			%b, %c = Split@13 (%a) {axis=2}
			%e = Mul@17 (%b, %c)
			output %e`, 3, 2},
	} {
		t.Run(e.name, func(t *testing.T) {
			g := parse(t, "input %x: float32[1,32,8]\n"+e.body)
			if err := g.InferTypes(); err != nil {
				t.Fatal(err)
			}
			p := compileAs(t, g, unoptimised)
			if got := (p.ArenaBytes + 1023) / 1024; len(p.Steps) != e.steps || got != e.values {
				t.Errorf("%d steps and %d values, want %d and %d", len(p.Steps), got, e.steps,
					e.values)
			}
			equal(t, pool, g, unoptimised, fill(rand.New(rand.NewPCG(1, 2)), g))
		})
	}
}

// joiner makes random graphs in which values of whole cache lines are joined and split much.
type joiner struct{ grower }

func (b *joiner) grow() {
	pick := func() *graph.Value { return b.values[len(b.values)-1-b.r.IntN(min(len(b.values), 8))] }
	x := pick()
	axis := op.Attrs{op.IntAttr("axis", 1)}
	switch b.r.IntN(8) {
	case 0, 1:
		b.add([]string{"Relu", "Tanh", "Neg", "Identity"}[b.r.IntN(4)], 1, nil, x)
	case 2:
		b.add("Add", 1, nil, x, pick())
	case 3:
		b.add("Concat", 1, axis, x, pick())
	case 4:
		b.add("Concat", 1, axis, x, pick(), pick())
	case 5:
		b.add("Split", 2, axis, x)
	case 6:
		b.add("Slice", 1, nil, x, b.ints(b.r.IntN(3)), b.ints(1+b.r.IntN(40)), b.ints(1))
	case 7:
		b.add("Reshape", 1, nil, x, b.ints(1, -1, 16))
	}
}

func joined(seed uint64) (*graph.Graph, *rand.Rand) {
	b := &joiner{grower{r: rand.New(rand.NewPCG(seed, 7)),
		g: &graph.Graph{Name: "joined", Opsets: map[string]int{"": 13}}}}
	for _, channels := range []int{4, 2} {
		v := &graph.Value{Name: b.name(), Type: op.Concrete(tensor.Float32, 1, channels, 16)}
		b.g.Inputs, b.values = append(b.g.Inputs, v), append(b.values, v)
	}
	for range 4 + b.r.IntN(30) {
		b.grow()
	}
	for i := len(b.values) - 1; i >= 2 && len(b.g.Outputs) < 4; i -= 1 + b.r.IntN(4) {
		b.g.Outputs = append(b.g.Outputs, b.values[i])
	}
	if len(b.g.Outputs) == 0 {
		b.g.Outputs = b.g.Inputs[:1]
	}
	return b.g, b.r
}

// TestRandomJoins compares plans of joined and split values with the evaluation of the graph, and
// holds that joining takes no more memory than copying.
func TestRandomJoins(t *testing.T) {
	pool := newPool(t)
	views := 0
	for seed := range uint64(200) {
		g, r := joined(seed)
		in := fill(r, g)
		equal(t, pool, g, unoptimised, in)
		equal(t, pool, g, Options{Target: host, Placement: seed + 1, Passes: unoptimised.Passes},
			in)
		p := compileAs(t, g, unoptimised)
		for i := range p.Slots {
			if s := &p.Slots[i]; s.Place == Alias && s.Bytes < p.Slots[s.Of].Bytes {
				views++
			}
		}
	}
	if views < 200 {
		t.Errorf("%d parts in all graphs: the test tests little", views)
	}
}

func FuzzRandomJoins(f *testing.F) {
	f.Add(uint64(1000))
	pool := newPool(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		g, r := joined(seed)
		in := fill(r, g)
		equal(t, pool, g, unoptimised, in)
		equal(t, pool, g, Options{Target: host, Placement: seed | 1, Passes: unoptimised.Passes},
			in)
	})
}

// TestJoiningNeverTakesMoreMemory joins a value that waits long for its whole: reserving all of
// that meanwhile would cost more than the copy.
func TestJoiningNeverTakesMoreMemory(t *testing.T) {
	body := `input %x: float32[1,32,8]
		%a = Exp@17 (%x)
		%h0 = Concat@17 (%a, %a, %a, %a, %a, %a, %a, %a) {axis=1}
		`
	for i := range 20 {
		body += fmt.Sprintf("%%h%d = Neg@17 (%%h%d)\n", i+1, i)
	}
	body += `%m = ReduceMax@13 (%h20) {axes=[2]}
		%y = Concat@17 (%a, %x, %x, %x, %x, %x, %x, %x) {axis=1}
		output %y
		output %m`
	g := parse(t, body)
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	p := compileAs(t, g, unoptimised)
	if most := int64(1024 * (1 + 1 + 8 + 8 + 1)); p.ArenaBytes > most {
		t.Errorf("arena of %d bytes, want at most %d", p.ArenaBytes, most)
	}
	equal(t, newPool(t), g, unoptimised, fill(rand.New(rand.NewPCG(1, 2)), g))
}

// TestShortWaitsAreJoined holds that where a value waits so long for its whole that it had better
// be copied, what waits at most 12 steps is joined, and no more is.
func TestShortWaitsAreJoined(t *testing.T) {
	for wait, copied := range map[int]bool{2: false, 12: false, 13: true} {
		body := `input %x: float32[1,32,8]
			input %w: float32[1,256,8]
			%a = Exp@17 (%x)
			%h0 = Neg@17 (%w)
			`
		for i := range 20 {
			body += fmt.Sprintf("%%h%d = Neg@17 (%%h%d)\n", i+1, i)
		}
		body += `%m = ReduceMax@13 (%h20) {axes=[2]}
			%y = Concat@17 (%a, %x, %x, %x, %x, %x, %x, %x) {axis=1}
			output %y
			output %m
			%p0 = Exp@17 (%x)
			`
		for i := range wait - 1 {
			body += fmt.Sprintf("%%p%d = Neg@17 (%%p%d)\n", i+1, i)
		}
		body += fmt.Sprintf("%%z = Concat@17 (%%p0, %%p%d) {axis=1}\noutput %%z", wait-1)
		g := parse(t, body)
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		p := compileAs(t, g, unoptimised)
		joined := map[string]bool{}
		for i := range p.Steps {
			joined[p.Steps[i].Node.Out[0].Name] = true
		}
		if !joined["y"] || joined["z"] != copied {
			t.Errorf("%d steps: copied %v, want %v; what waits long: %v", wait, joined["z"], copied,
				joined["y"])
		}
	}
}
