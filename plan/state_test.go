package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// stateOf makes the inputs of a graph, but for the first, variables of a state. Each becomes the
// newest value of its type that the graph computes, where there is one.
func stateOf(t *testing.T, g *graph.Graph, values []*graph.Value) (*State, []Update) {
	t.Helper()
	var vars []Variable
	var updates []Update
	for _, v := range g.Inputs[1:] {
		shape, _ := v.Type.Ints()
		vars = append(vars, Variable{Name: v.Name, DType: v.Type.DType, Shape: shape})
		for _, y := range slices.Backward(values) {
			is, _ := y.Type.Ints()
			if y.Type.DType == v.Type.DType && slices.Equal(is, shape) &&
				!slices.Contains(g.Outputs, y) {
				updates = append(updates, Update{Output: len(g.Outputs), Variable: v.Name})
				g.Outputs = append(g.Outputs, y)
				break
			}
		}
	}
	s, err := NewState(vars)
	if err != nil {
		t.Fatal(err)
	}
	return s, updates
}

// iterate runs a graph with a state several times by its plan and by its evaluation.
func iterate(t *testing.T, pool *cpu.Pool, g *graph.Graph, o Options, in []*tensor.Tensor) *Plan {
	t.Helper()
	p, err := Compile(t.Context(), g, o)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	arena, packed, state := memory(t, p.ArenaBytes), memory(t, p.PackedBytes),
		memory(t, p.State.Bytes())
	if err := p.Pack(packed, PackOptions{}); err != nil {
		t.Fatal(err)
	}
	prog, err := p.BindState(arena, packed, state)
	if err != nil {
		t.Fatal(err)
	}
	set(prog, in)
	index := func(name string) int {
		return slices.IndexFunc(g.Inputs, func(v *graph.Value) bool { return v.Name == name })
	}
	in = slices.Clone(in)
	for round := range 3 {
		want, err := g.Eval(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		poison(arena)
		if err := prog.Inputs[0].Set(in[0]); err != nil {
			t.Fatal(err)
		}
		if err := prog.Run(exec(pool)); err != nil {
			t.Fatal(err)
		}
		for _, u := range o.Updates {
			in[index(u.Variable)] = want[u.Output].Clone()
		}
		for i, v := range p.State.Views(state) {
			name := p.State.Variables()[i].Name
			if err := close(v, in[index(name)]); err != nil {
				t.Fatalf("round %d: variable %q: %v\n%v", round, name, err, p.Graph)
			}
			in[index(name)] = v.Clone() // so that rounding does not add up
		}
	}
	return p
}

// TestStateOfRandomGraphs: what iterations leave for those after them is what evaluations of the
// graph hand on, wherever the values lie.
func TestStateOfRandomGraphs(t *testing.T) {
	pool := newPool(t)
	inPlace, copied := 0, 0
	for seed := range uint64(150) {
		g, r := grown(seed)
		var values []*graph.Value
		for _, n := range g.Nodes {
			values = append(values, n.Out...)
		}
		s, updates := stateOf(t, g, values)
		in := fill(r, g)
		for _, o := range []Options{{Target: host, Threads: threads}, unoptimised} {
			o.State, o.Updates, o.Placement, o.Threads = s, updates, seed%3, threads
			p := iterate(t, pool, g, o, in)
			copied += len(p.updates)
			inPlace += len(updates) - len(p.updates)
		}
	}
	if inPlace < 10 || copied < 10 {
		t.Errorf("%d values were replaced in place, %d copied", inPlace, copied)
	}
}

// descent is a step of gradient descent: a weight that dies where it is replaced.
const descent = `input %x: float32[4]
	input %w: float32[4]
	input %m: float32[4]
	const %rate: float32[] = {0.5}
	const %keep: float32[] = {0.25}
	%y = Mul@14 (%x, %w)
	%kept = Mul@14 (%m, %keep)
	%moved = Add@14 (%kept, %y)
	%step = Mul@14 (%moved, %rate)
	%next = Sub@14 (%w, %step)
	output %y
	output %next
	output %moved`

func variables(names ...string) []Variable {
	var vs []Variable
	for _, n := range names {
		vs = append(vs, Variable{Name: n, DType: tensor.Float32, Shape: []int{4}})
	}
	return vs
}

// TestStateInPlace: a weight is replaced where it lies, and what has a reader left is copied; the
// bytes of the state are those of its variables, and no byte of the arena is for them.
func TestStateInPlace(t *testing.T) {
	g := parse(t, descent)
	s, err := NewState(variables("w", "m"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Target: host, State: s, Updates: []Update{{1, "w"}, {2, "m"}}}
	in := []*tensor.Tensor{tensor.From([]float32{1, 2, 3, 4}, 4),
		tensor.From([]float32{5, 6, 7, 8}, 4), tensor.From([]float32{1, 0, 0, 1}, 4)}
	p := iterate(t, newPool(t), g, o, in)
	if len(p.updates) != 1 || p.Slots[p.updates[0].to].Value.Name != "m" {
		t.Errorf("%d variables are copied, want m alone", len(p.updates))
	}
	if s.Bytes() != 2*Align {
		t.Errorf("state of %d bytes, want %d", s.Bytes(), 2*Align)
	}
	for i := range p.Slots {
		name := p.Slots[i].Value.Name
		if p.Slots[i].Place == InArena && (name == "w" || name == "next") {
			t.Errorf("%q is in the arena", name)
		}
	}
	if _, err := p.Bind(nil, nil); err == nil {
		t.Error("a plan with a state is bound without")
	}
	if _, err := p.BindState(memory(t, p.ArenaBytes), nil, nil); err == nil {
		t.Error("a plan with a state is bound to too small a one")
	}
}

// TestStateRefuses: graphs that do not fit their state are errors that say what does not.
func TestStateRefuses(t *testing.T) {
	g := parse(t, descent+"\n\toutput %x\n\toutput %w")
	for name, c := range map[string]struct {
		vars    []Variable
		updates []Update
		says    string
	}{
		"twice":   {variables("w", "w"), nil, "two have that name"},
		"shape":   {[]Variable{{Name: "w", DType: tensor.Float32}}, nil, "float32[]"},
		"type":    {[]Variable{{Name: "w", DType: tensor.Int64}}, nil, "int64[]"},
		"text":    {[]Variable{{Name: "w", DType: tensor.String}}, nil, "no place"},
		"unknown": {variables("w"), []Update{{1, "v"}}, `no variable "v"`},
		"both":    {variables("w"), []Update{{1, "w"}, {2, "w"}}, "no output of its own"},
		"beyond":  {variables("w"), []Update{{9, "w"}}, "no output of its own"},
		"swapped": {variables("w", "m"), []Update{{1, "w"}, {4, "m"}}, `what "w" was`},
	} {
		s, err := NewState(c.vars)
		if err == nil {
			_, err = Compile(t.Context(), g, Options{Target: host, State: s, Updates: c.updates})
		}
		if err == nil || !errors.Is(err, ErrState) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	// a value may become two variables, and a variable may stay what it is
	s, err := NewState(variables("w", "m", "v"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Target: host, State: s, Updates: []Update{{4, "w"}, {2, "m"}, {3, "v"}}}
	if _, err := Compile(t.Context(), g, o); err != nil {
		t.Error(err)
	}
}

// TestStateWritten: a value that becomes a variable which nothing reads is computed where that
// lies, is in no byte of the arena, and is there after the step that Replaced names; one that is a
// part of another value is copied at the end.
func TestStateWritten(t *testing.T) {
	g := parse(t, `input %x: float32[4]
	input %w: float32[4]
	%y = Mul@14 (%x, %w)
	%z = Add@14 (%y, %w)
	%u = Sub@14 (%z, %y)
	output %y
	output %z
	output %u`)
	s, err := NewState(variables("w", "y", "z", "same"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(t.Context(), g, Options{Target: host, State: s, Threads: 1, Updates: []Update{
		{0, "y"}, {1, "z"}, {1, "same"}}})
	if err != nil {
		t.Fatal(err)
	}
	last := len(p.Steps)
	if y, z := p.Replaced("y"), p.Replaced("z"); y < 0 || z <= y || z >= last {
		t.Errorf("y is there after step %d, z after %d of %d", y, z, last)
	}
	if p.Replaced("same") != last || p.Replaced("w") != -1 || len(p.updates) != 1 {
		t.Errorf("same after %d, w after %d, %d copied", p.Replaced("same"), p.Replaced("w"),
			len(p.updates))
	}
	from, to, ok := s.Range("z")
	if _, _, none := s.Range("nobody"); from != 2*Align || to != from+16 || !ok || none {
		t.Errorf("z lies from %d to %d", from, to)
	}
	arena, state := memory(t, p.ArenaBytes), memory(t, s.Bytes())
	prog, err := p.BindState(arena, memory(t, p.PackedBytes), state)
	if err != nil {
		t.Fatal(err)
	}
	views := s.Views(state)
	set(prog, []*tensor.Tensor{tensor.From([]float32{1, 2, 3, 4}, 4),
		tensor.From([]float32{10, 20, 30, 40}, 4)})
	var at [][2]float32 // of y and z after each step
	prog.Follow(func(step int) {
		if step != len(at) {
			t.Errorf("step %d is told of as number %d", step, len(at))
		}
		at = append(at, [2]float32{tensor.As[float32](views[1])[3],
			tensor.As[float32](views[2])[3]})
	})
	if err := prog.Run(exec(newPool(t))); err != nil {
		t.Fatal(err)
	}
	if len(at) != last || at[p.Replaced("y")][0] != 160 || at[p.Replaced("z")][1] != 200 {
		t.Errorf("y and z after each step: %v", at)
	}
	if same := tensor.As[float32](views[3]); same[0] != 20 {
		t.Errorf("same is %v", same)
	}
}
