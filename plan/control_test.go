package plan

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

const branches = `input %x: float32[2,8]
	input %c: bool[]
	const %w: float32[8,8] = tensor
	%h: float32[2,8] = Relu@17 (%x)
	%y: float32[2,8], %n: float32[2] = If@17 (%c | %h, %x) {then_branch=graph "then" captures 2 {
		input %h
		input %x
		const %two: float32[] = {2}
		const %a: int64[1] = {1}
		%m = Mul@17 (%h, %two)
		%e = Exp@17 (%m)
		%y = Add@17 (%e, %x)
		%n = ReduceMean@17 (%y) {axes=[1], keepdims=0}
		output %y
		output %n
	}, else_branch=graph "else" captures 2 {
		input %h
		input %x
		%n = ReduceMax@17 (%x) {axes=[1], keepdims=0}
		output %h
		output %n
	}}
	%z: float32[2,8] = Neg@17 (%y)
	%s: float32[2,8] = Add@17 (%z, %h)
	output %s
	output %n`

// TestIfRunsTheBranchThatHolds changes the condition from run to run on one arena.
func TestIfRunsTheBranchThatHolds(t *testing.T) {
	g := parse(t, strings.Replace(branches, "\tconst %w: float32[8,8] = tensor\n", "", 1))
	pool := newPool(t)
	in := fill(rand.New(rand.NewPCG(3, 4)), g)
	p := compileAs(t, g, Options{Target: host, Threads: threads})
	if name := stepOf(t, p, "If").Kernel.Name(); name != "if" {
		t.Fatalf("If runs as %s", name)
	}
	prog, _ := bindTo(t, p)
	for _, c := range []byte{1, 0, 0, 1, 0, 1, 1} {
		in[1].Data[0] = c
		want, err := g.Eval(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		set(prog, in)
		if err := prog.Run(exec(pool)); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if err := close(prog.Outputs[i], want[i]); err != nil {
				t.Errorf("condition %d, output %d: %v", c, i, err)
			}
		}
	}
	set(prog, in)
	if n := testing.AllocsPerRun(20, func() { _ = prog.Run(exec(pool)) }); n > 1 { // the Exec
		t.Errorf("%v allocations a run", n)
	}
}

func stepOf(t *testing.T, p *Plan, typ string) *Step {
	t.Helper()
	for i := range p.Steps {
		if p.Steps[i].Node.Type == typ {
			return &p.Steps[i]
		}
	}
	t.Fatalf("no %s among the steps of\n%v", typ, p.Graph)
	return nil
}

// TestIfWithABranchThatCannotBePlanned holds that such a branch is an error when it is taken and
// not before, and that the other tells the shape.
func TestIfWithABranchThatCannotBePlanned(t *testing.T) {
	g := parse(t, `input %x: float32[2,8]
		input %c: bool[]
		%y: float32[...] = If@17 (%c | %x) {then_branch=graph "then" captures 1 {
			input %x
			%y = Exp@17 (%x)
			output %y
		}, else_branch=graph "else" captures 1 {
			input %x
			const %s: int64[2] = {3, 5}
			%y = Reshape@17 (%x, %s)
			output %y
		}}
		output %y`)
	pool := newPool(t)
	p := compileAs(t, g, Options{Target: host, Threads: threads})
	if s := p.Slots[p.Outputs[0]]; s.Place != InArena {
		t.Errorf("the output is %v, place %d; want it planned", s.Type, s.Place)
	}
	prog, _ := bindTo(t, p)
	in := fill(rand.New(rand.NewPCG(3, 4)), g)
	for _, c := range []byte{1, 0, 1} {
		in[1].Data[0] = c
		set(prog, in)
		err := prog.Run(exec(pool))
		if c == 0 {
			if !errors.Is(err, op.ErrInput) || !strings.Contains(err.Error(), "Reshape") {
				t.Errorf("error %v, want one of kind %v that names the Reshape", err, op.ErrInput)
			}
			continue
		}
		want, _ := g.Eval(context.Background(), in)
		if err != nil || close(prog.Outputs[0], want[0]) != nil {
			t.Errorf("error %v, output %v", err, prog.Outputs[0])
		}
	}
	impossible := parse(t, `input %x: float32[2,8]
		input %c: bool[]
		%y: float32[...] = If@17 (%c | %x) {then_branch=graph "then" captures 1 {
			input %x
			const %s: int64[2] = {7, 5}
			%y = Reshape@17 (%x, %s)
			output %y
		}, else_branch=graph "else" captures 1 {
			input %x
			const %s: int64[2] = {3, 5}
			%y = Reshape@17 (%x, %s)
			output %y
		}}
		output %y`)
	if _, err := Compile(context.Background(), impossible, Options{Target: host}); err == nil ||
		!strings.Contains(err.Error(), "Reshape") {
		t.Errorf("two impossible branches compile: %v", err)
	}
}

// TestIfOfDifferentShapes keeps a result on the heap whose shape depends on the branch, as
// everything computed from it.
func TestIfOfDifferentShapes(t *testing.T) {
	g := parse(t, `input %x: float32[2,8]
		input %c: bool[]
		%y: float32[...] = If@17 (%c | %x) {then_branch=graph "then" captures 1 {
			input %x
			%y = Transpose@17 (%x)
			output %y
		}, else_branch=graph "else" captures 1 {
			input %x
			%y = ReduceMax@17 (%x) {axes=[0], keepdims=0}
			output %y
		}}
		const %one: float32[] = {1}
		%z = Add@17 (%y, %one)
		%f = Shape@17 (%z)
		output %z
		output %f`)
	pool := newPool(t)
	for _, c := range []byte{0, 1} {
		in := fill(rand.New(rand.NewPCG(3, 4)), g)
		in[1].Data[0] = c
		equal(t, pool, g, Options{Target: host}, in)
	}
}

// TestLoops runs the operators that have no plan of their own by the reference.
func TestLoops(t *testing.T) {
	g := parse(t, `input %x: float32[3]
		const %n: int64[] = {5}
		const %c: bool[] = {true}
		%y: float32[3], %all: float32[5,3] = Loop@17 (%n, %c, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[3]
			const %half: float32[] = {0.5}
			%w: float32[3] = Mul@17 (%v, %half)
			output %c
			output %w
			output %v
		}}
		%z = Exp@17 (%y)
		output %z
		output %all`)
	equal(t, newPool(t), g, Options{Target: host}, fill(rand.New(rand.NewPCG(3, 4)), g))
}

// quota grants bytes up to a cap and notes what is held.
type quota struct{ cap, held int64 }

func (q *quota) Reserve(n int64) error {
	if q.held+n > q.cap {
		return errors.New("too much")
	}
	q.held += n
	return nil
}

func (q *quota) Release(n int64) { q.held -= n }

// TestDataDependentShapes runs operators whose results have a shape that only the data tells, and
// counts their bytes anew in each run.
func TestDataDependentShapes(t *testing.T) {
	g := parse(t, `input %x: float32[4,6]
		%i = NonZero@17 (%x)
		const %axes: int64[1] = {0}
		%t = Transpose@17 (%i) {perm=[1, 0]}
		%v = GatherND@17 (%x, %t)
		%e = Exp@17 (%v)
		%s = ReduceSum@17 (%e, %axes) {keepdims=0}
		%y: float32[4,6] = Mul@17 (%x, %s)
		output %y
		output %v`)
	pool := newPool(t)
	r := rand.New(rand.NewPCG(3, 4))
	in := fill(r, g)
	equal(t, pool, g, Options{Target: host}, in)

	p := compileAs(t, g, Options{Target: host, Threads: threads})
	prog, _ := bindTo(t, p)
	for _, zeros := range []int{0, 10, 10, 24, 3} {
		for i := range zeros {
			tensor.As[float32](in[0])[i] = 0
		}
		for i := range tensor.As[float32](in[0])[zeros:] {
			tensor.As[float32](in[0])[zeros+i] = 1 + r.Float32()
		}
		n := int64(24 - zeros)
		bytes := 2*8*n + 2*8*n + 4*n + 4*n // i, t, v and e
		set(prog, in)
		q := &quota{cap: bytes}
		x := exec(pool)
		x.Memory = q
		if err := prog.Run(x); err != nil || q.held != bytes || x.Dynamic != bytes {
			t.Errorf("%d zeros: error %v, reserved %d and counted %d bytes, want %d", zeros, err,
				q.held, x.Dynamic, bytes)
		}
		if n == 0 {
			continue
		}
		x = exec(pool)
		x.Memory = &quota{cap: bytes - 1}
		if err := prog.Run(x); err == nil || !strings.Contains(err.Error(), "too much") {
			t.Errorf("%d zeros in a byte less: error %v", zeros, err)
		}
	}
	var _ device.Quota = &quota{}
}
