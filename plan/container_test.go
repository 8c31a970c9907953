package plan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/tensor"
)

// containerGraphs compute with sequences and optionals of values that lie in the arena, which later
// steps write over.
var containerGraphs = map[string]string{
	"kept in an arena": `input %x: float32[4,3]
		const %two: int64[] = {2}
		const %last: int64[] = {-1}
		%a: float32[4,3] = Exp@17 (%x)
		%b: float32[4,3] = Tanh@17 (%a)
		%s = SequenceConstruct@11 (%a, %b, %x)
		%c: float32[4,3] = Neg@17 (%b)
		%t = SequenceInsert@11 (%s, %c, %last)
		%d = SequenceAt@11 (%t, %two)
		%e = Sqrt@17 (%d)
		%u = SequenceErase@11 (%t)
		%n: int64[] = SequenceLength@11 (%u)
		%y = ConcatFromSequence@11 (%u) {axis=1}
		%z = ConcatFromSequence@11 (%t) {axis=-1, new_axis=1}
		output %y
		output %z
		output %n
		output %e
		output %t
		output %s`,
	"parts": `input %x: float32[5,3]
		const %two: int64[] = {2}
		const %one: int64[] = {1}
		%e: float32[5,3] = Exp@17 (%x)
		%s = SplitToSequence@11 (%e, %two)
		%rows = SplitToSequence@11 (%e) {keepdims=0}
		%p = SequenceAt@11 (%s, %one)
		%q = SequenceAt@11 (%rows, %two)
		%y: float32[2,3] = Add@17 (%p, %q)
		%z = ConcatFromSequence@11 (%s) {axis=0}
		output %y
		output %z
		output %rows`,
	"branches": `input %x: float32[3]
		input %c: bool[]
		%a: float32[3] = Exp@17 (%x)
		%s, %o = If@17 (%c | %a, %x) {then_branch=graph "then" captures 2 {
			input %a: float32[3]
			input %x: float32[3]
			%s = SequenceConstruct@11 (%x, %a)
			%o = Optional@15 (%s)
			output %s
			output %o
		}, else_branch=graph "else" captures 2 {
			input %a: float32[3]
			input %x: float32[3]
			%n: float32[3] = Neg@17 (%a)
			%s = SequenceConstruct@11 (%n)
			%o = Optional@15 () {type=type sequence(float32[...])}
			output %s
			output %o
		}}
		%h: bool[] = OptionalHasElement@15 (%o)
		%t = If@17 (%h | %o, %s) {then_branch=graph "then" captures 2 {
			input %o: optional(sequence(float32[...]))
			input %s: sequence(float32[...])
			%v = OptionalGetElement@15 (%o)
			output %v
		}, else_branch=graph "else" captures 2 {
			input %o: optional(sequence(float32[...]))
			input %s: sequence(float32[...])
			output %s
		}}
		output %s
		output %o
		output %h
		output %t`,
	"grown in a loop": `input %x: float32[3]
		const %n: int64[] = {5}
		const %c: bool[] = {true}
		%a: float32[3] = Exp@17 (%x)
		%none = SequenceEmpty@11 ()
		%maybe = Optional@15 () {type=type float32[3]}
		%s, %v, %o, %all: float32[5,3] = Loop@17 (%n, %c, %none, %a,
			%maybe | %a) {body=graph "body" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %s: sequence(float32[...])
			input %v: float32[3]
			input %o: optional(float32[3])
			input %a: float32[3]
			const %half: float32[] = {0.5}
			%w: float32[3] = Mul@17 (%v, %half)
			%t = SequenceInsert@11 (%s, %v)
			%u = SequenceInsert@11 (%t, %a)
			%at: float32[3] = SequenceAt@11 (%u, %i)
			%h: bool[] = OptionalHasElement@15 (%o)
			%sum = If@17 (%h | %o, %w) {then_branch=graph "then" captures 2 {
				input %o: optional(float32[3])
				input %w: float32[3]
				%g: float32[3] = OptionalGetElement@15 (%o)
				%y: float32[3] = Add@17 (%g, %w)
				output %y
			}, else_branch=graph "else" captures 2 {
				input %o: optional(float32[3])
				input %w: float32[3]
				output %w
			}}
			output %c
			output %u
			output %w
			output %sum
			output %at
		}}
		%y: float32[3] = Add@17 (%v, %o)
		%z = ConcatFromSequence@11 (%s) {axis=0}
		output %s
		output %y
		output %z
		output %all`,
	"exchanged in a loop": `input %x: float32[3]
		input %c: bool[]
		const %n: int64[] = {5}
		%e: float32[3] = Exp@17 (%x)
		%a = SequenceConstruct@11 (%e)
		%none = SequenceEmpty@11 ()
		%s, %t, %v: float32[3], %p, %q, %all: float32[?,3] = Loop@17 (%n, %c, %a, %none, %x, %a,
			%none | %e) {body=graph "body" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %s: sequence(float32[...])
			input %t: sequence(float32[...])
			input %v: float32[3]
			input %p: sequence(float32[...])
			input %q: sequence(float32[...])
			input %e: float32[3]
			const %two: int64[] = {2}
			%w: float32[3] = Add@17 (%v, %e)
			%u = SequenceInsert@11 (%s, %w)
			%inner = Loop@17 (%two, _, %u | %w) {body=graph "inner" captures 1 {
				input %i: int64[]
				input %c: bool[]
				input %u: sequence(float32[...])
				input %w: float32[3]
				%m: float32[3] = Neg@17 (%w)
				%q = SequenceInsert@11 (%u, %m, %i)
				output %c
				output %q
			}}
			output %c
			output %t
			output %inner
			output %w
			output %q
			output %p
			output %v
		}}
		%z: float32[3] = Sqrt@17 (%v)
		output %s
		output %t
		output %p
		output %q
		output %z
		output %all`,
	"mapped": `input %x: float32[4,3]
		%s = SplitToSequence@11 (%x)
		%e: float32[4,3] = Exp@17 (%x)
		%y, %same = SequenceMap@17 (%s, %e | %x) {body=graph "body" captures 1 {
			input %v: float32[...]
			input %e: float32[4,3]
			input %x: float32[4,3]
			%a = Add@17 (%v, %e)
			%b = Mul@17 (%a, %x)
			output %b
			output %v
		}}
		%t = Identity@16 (%y)
		output %t
		output %same`,
}

func TestContainers(t *testing.T) {
	pool := newPool(t)
	for name, text := range containerGraphs {
		t.Run(name, func(t *testing.T) {
			g := parse(t, text)
			for seed := range uint64(2) {
				in := fill(rand.New(rand.NewPCG(seed, 1)), g)
				for i, v := range in {
					if v.DType == tensor.Bool {
						in[i].Data[0] = byte(seed)
					}
				}
				equal(t, pool, g, Options{Target: host}, in)
			}
		})
	}
	p := compileAs(t, parse(t, containerGraphs["exchanged in a loop"]), Options{Target: host,
		Threads: threads})
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Kernel.Name() == "loop" }) {
		t.Error("a loop that carries sequences has no plan")
	}
}

// TestContainerInputs runs graphs on values that are no tensors, whose number and shapes change
// from run to run.
func TestContainerInputs(t *testing.T) {
	g := parse(t, `input %s: sequence(float32[2,3])
		input %o: optional(sequence(float32[2]))
		input %m: sequence(map(int64, float32[]))
		input %x: float32[2]
		%t = SequenceInsert@11 (%s, %x)
		%n: int64[] = SequenceLength@11 (%t)
		%h: bool[] = OptionalHasElement@15 (%o)
		output %t
		output %n
		output %h
		output %o
		output %m
		output %s`)
	pool := newPool(t)
	x := tensor.From([]float32{1, 2}, 2)
	m, err := tensor.NewMap(tensor.From([]int64{1, 2}, 2), x)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*tensor.Tensor{tensor.NewSequence(), tensor.NewSequence(x, x),
		tensor.NewSequence(tensor.From([]float32{3}, 1, 1))} {
		for _, o := range []*tensor.Tensor{tensor.NewOptional(nil), tensor.NewOptional(s)} {
			equal(t, pool, g, Options{Target: host}, []*tensor.Tensor{s, o, tensor.NewSequence(m),
				x})
		}
	}
	p := compileAs(t, g, Options{Target: host, Threads: threads})
	if !p.Dynamic() {
		t.Error("a plan with sequences says that it makes nothing beside the arena")
	}
	prog, _ := bindTo(t, p)
	s := tensor.NewSequence(tensor.From(make([]float32, 1000), 1000))
	set(prog, []*tensor.Tensor{s, tensor.NewOptional(nil), tensor.NewSequence(), x})
	e := exec(pool)
	e.Memory = &quota{cap: 3999}
	if err := prog.Run(e); err == nil || !strings.Contains(err.Error(), `input "s"`) {
		t.Errorf("a sequence larger than the memory: %v", err)
	}
}

// peak grants everything and notes the most that was held.
type peak struct{ held, most int64 }

func (p *peak) Reserve(n int64) error {
	p.held += n
	p.most = max(p.most, p.held)
	return nil
}

func (p *peak) Release(n int64) { p.held -= n }

// measured runs a graph once and returns the most memory that it asked for, after checking that a
// byte less is refused and that each run leaves nothing behind but what it says.
func measured(t *testing.T, pool *cpu.Pool, text string, in ...*tensor.Tensor) int64 {
	t.Helper()
	prog, _ := bindTo(t, compileAs(t, parse(t, text), Options{Target: host, Threads: threads}))
	var most int64
	for range 2 {
		set(prog, in)
		e, m := exec(pool), &peak{}
		e.Memory = m
		if err := prog.Run(e); err != nil {
			t.Fatal(err)
		}
		if m.held != e.Dynamic || most != 0 && m.most != most {
			t.Errorf("after the run %d bytes are held, %d are counted; at most %d, before %d",
				m.held, e.Dynamic, m.most, most)
		}
		most = m.most
	}
	set(prog, in)
	e, q := exec(pool), &quota{cap: most - 1}
	e.Memory = q
	if err := prog.Run(e); err == nil || !strings.Contains(err.Error(), "too much") ||
		q.held != e.Dynamic {
		t.Errorf("in a byte less: %v; %d bytes held, %d counted", err, q.held, e.Dynamic)
	}
	return most
}

// TestCarriedMemory holds that what a loop carries is the job's memory between iterations and
// during them.
func TestCarriedMemory(t *testing.T) {
	pool := newPool(t)
	x := tensor.From(make([]float32, 1000), 1000)
	loop := func(carried, next string) string {
		return fmt.Sprintf(`input %%x: float32[1000]
		input %%n: int64[]
		const %%c: bool[] = {true}
		%%none = SequenceEmpty@11 ()
		%%y = Loop@17 (%%n, %%c, %%%s | %%x) {body=graph "body" captures 1 {
			input %%i: int64[]
			input %%c: bool[]
			input %%v
			input %%x: float32[1000]
			%s
			output %%c
			output %%w
		}}
		output %%y`, carried, next)
	}
	for name, c := range map[string]struct {
		text string
		most func(n int64) (low, high int64) // in bytes, for n iterations
	}{
		// The last iteration reads what the one before gave, and makes the result, which is then
		// copied.
		"doubled": {loop("x", `%w = Concat@17 (%v, %v) {axis=0}`), func(n int64) (int64, int64) {
			return 4000 << n * 3 / 2, 4000<<n*2 + 100
		}},
		"grown": {loop("x", `%w = Concat@17 (%v, %x) {axis=0}`), func(n int64) (int64, int64) {
			return 4000 * 2 * n, 4000*2*(n+2) + 100
		}},
		"listed": {loop("none", `%e = Exp@17 (%x)
			%w = SequenceInsert@11 (%v, %e)`), func(n int64) (int64, int64) {
			return 4000 * n, 4000*(n+2) + 400*(n+2)
		}},
	} {
		for n := int64(1); n < 8; n += 3 {
			low, high := c.most(n)
			if got := measured(t, pool, c.text, x, tensor.Scalar(n)); got < low || got > high {
				t.Errorf("%s %d times asks for %d bytes, want %d to %d", name, n, got, low, high)
			}
		}
	}
}

// revoked is a gate that asks its lease back at once, and gives a number of new ones.
type revoked struct {
	renewals, left int
	err            error
}

func (g *revoked) Revoked() bool { return true }

func (g *revoked) Renew(context.Context) error {
	if g.renewals++; g.renewals > g.left {
		return g.err
	}
	return nil
}

// TestLoopsYield holds that every iteration of a body passes the gate, and that one which is
// refused ends the run.
func TestLoopsYield(t *testing.T) {
	pool := newPool(t)
	x := tensor.From(make([]float32, 100), 100)
	for name, text := range map[string]string{
		"Loop": `input %x: float32[100]
			const %n: int64[] = {100}
			%y: float32[100] = Loop@17 (%n, _, %x) {body=graph "body" {
				input %i: int64[]
				input %c: bool[]
				input %v: float32[100]
				output %c
				output %v
			}}
			output %y`,
		"Scan": `input %x: float32[100]
			%y: float32[100] = Scan@17 (%x) {num_scan_inputs=1, body=graph "body" {
				input %v: float32[]
				output %v
			}}
			output %y`,
		"SequenceMap": `input %x: float32[100]
			%s = SplitToSequence@11 (%x)
			%y = SequenceMap@17 (%s) {body=graph "body" {
				input %v: float32[1]
				output %v
			}}
			output %y`,
	} {
		prog, _ := bindTo(t, compileAs(t, parse(t, text), Options{Target: host, Threads: threads}))
		set(prog, []*tensor.Tensor{x})
		e, g := exec(pool), &revoked{left: 1 << 30}
		e.Gate = g
		if err := prog.Run(e); err != nil || g.renewals < 100 {
			t.Errorf("%s of 100 iterations passed the gate %d times: %v", name, g.renewals, err)
		}
		e, g = exec(pool), &revoked{left: 50, err: errors.New("no more")}
		e.Gate = g
		set(prog, []*tensor.Tensor{x})
		if err := prog.Run(e); !errors.Is(err, g.err) || g.renewals != 51 {
			t.Errorf("%s went on for %d leases: %v", name, g.renewals, err)
		}
	}
}
