package plan

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/tensor"
)

// loops are bodies with what makes their plans hard; each is compared with the reference for
// several trip counts.
var loops = map[string]struct{ kernel, body string }{
	"values that change places": {"loop", `input %n: int64[]
		input %a: float32[2,3]
		input %b: float32[2,3]
		%p: float32[2,3], %q: float32[2,3] = Loop@17 (%n, _, %a, %b) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %u: float32[2,3]
			input %v: float32[2,3]
			output %c
			output %v
			output %u
		}}
		output %p
		output %q`},
	"three around, one in place": {"loop", `input %n: int64[]
		input %a: float32[70]
		input %b: float32[70]
		input %d: float32[70]
		%p: float32[70], %q: float32[70], %r: float32[70], %all = Loop@17 (%n, _, %a, %b,
			%d) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %u: float32[70]
			input %v: float32[70]
			input %w: float32[70]
			%e = Tanh@17 (%u)
			%f = Add@17 (%v, %e)
			output %c
			output %v
			output %w
			output %e
			output %f
		}}
		output %p
		output %q
		output %r
		output %all`},
	"captured values and a product": {"loop", `input %n: int64[]
		input %x: float32[4,8]
		input %h: float32[4,8]
		const %w: float32[8,8] = {` +
		strings.TrimSuffix(strings.Repeat("0.25, -0.125, ", 32), ", ") + `}
		%y: float32[4,8], %all = Loop@17 (%n, _, %h | %x, %w) {body=graph "body" captures 2 {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[4,8]
			input %x: float32[4,8]
			input %w: float32[8,8]
			%m = MatMul@17 (%v, %w)
			%s = Add@17 (%m, %x)
			%t = Tanh@17 (%s)
			%r = ReduceMax@17 (%t) {axes=[1], keepdims=0}
			output %c
			output %t
			output %r
		}}
		%z = Add@17 (%y, %x)
		output %z
		output %all`},
	"a condition that ends it": {"loop", `input %n: int64[]
		input %x: float32[3]
		const %true: bool[] = {true}
		%y: float32[3], %all = Loop@17 (%n, %true, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[3]
			const %two: int64[] = {2}
			%w = Mul@17 (%v, %v)
			%more = Less@17 (%i, %two)
			output %more
			output %w
			output %i
		}}
		%f = Shape@17 (%all)
		output %y
		output %all
		output %f`},
	"a loop in a branch in a loop": {"loop", `input %n: int64[]
		input %x: float32[3]
		%y: float32[3] = Loop@17 (%n, _, %x | %n) {body=graph "outer" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[3]
			input %n: int64[]
			const %one: int64[] = {1}
			%odd = Greater@17 (%i, %one)
			%w: float32[3] = If@17 (%odd | %v, %n, %i) {then_branch=graph "then" captures 3 {
				input %v: float32[3]
				input %n: int64[]
				input %i: int64[]
				%w: float32[3] = Loop@17 (%n, _, %v | %i) {body=graph "inner" captures 1 {
					input %j: int64[]
					input %c: bool[]
					input %u: float32[3]
					input %i: int64[]
					%k = Add@17 (%i, %j)
					%f = Cast@17 (%k) {to=1}
					%t = Add@17 (%u, %f)
					output %c
					output %t
				}}
				output %w
			}, else_branch=graph "else" captures 3 {
				input %v: float32[3]
				input %n: int64[]
				input %i: int64[]
				%w = Neg@17 (%v)
				output %w
			}}
			output %c
			output %w
		}}
		output %y`},
	"a capture whose shape depends on data": {"loop", `input %n: int64[]
		input %x: float32[2,3]
		%at = NonZero@17 (%x)
		%y: float32[2,3] = Loop@17 (%n, _, %x | %at) {body=graph "body" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[2,3]
			input %at: int64[2,?]
			%f = Cast@17 (%at) {to=1}
			%m = ReduceMax@17 (%f) {keepdims=0}
			%w = Add@17 (%v, %m)
			output %c
			output %w
		}}
		output %y`},
	"slices that share a byte": {"reference", `input %n: int64[]
		input %x: float32[3]
		%y: float32[3], %all = Loop@24 (%n, _, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[3]
			%w = Tanh@24 (%v)
			%q = Cast@24 (%w) {to=22}
			output %c
			output %w
			output %q
		}}
		%z = Cast@24 (%all) {to=6}
		output %y
		output %z`},
	"the same words every time": {"reference", `input %n: int64[]
		input %x: float32[3]
		%y: float32[3], %all = Loop@24 (%n, _, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[3]
			const %s: string[2] = {"a", "b"}
			%w = Neg@24 (%v)
			output %c
			output %w
			output %s
		}}
		output %y
		output %all`},
	"state whose shape changes": {"reference", `input %n: int64[]
		input %x: float32[2]
		%y: float32[?] = Loop@17 (%n, _, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[?]
			%w = Concat@17 (%v, %v) {axis=0}
			output %c
			output %w
		}}
		output %y`},
}

// TestLoopsAgainstTheReference compares each for trip counts around the edges, on one arena.
func TestLoopsAgainstTheReference(t *testing.T) {
	pool := newPool(t)
	for name, l := range loops {
		t.Run(name, func(t *testing.T) {
			g := parse(t, l.body)
			p := compileAs(t, g, Options{Target: host, Threads: threads})
			if got := stepOf(t, p, "Loop").Kernel.Name(); got != l.kernel {
				t.Errorf("runs as %s, want %s", got, l.kernel)
			}
			prog, _ := bindTo(t, p)
			for _, trips := range []int64{3, 0, 1, 5, -2, 2} {
				in := fill(rand.New(rand.NewPCG(3, uint64(trips+9))), g)
				tensor.As[int64](in[0])[0] = trips
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
						t.Errorf("%d trips, output %d: %v", trips, i, err)
					}
				}
				equal(t, pool, g, Options{Target: host}, in)
			}
		})
	}
}

// TestLoopOfKnownLength plans everything of a loop as exporters write one, with a condition that
// ends nothing.
func TestLoopOfKnownLength(t *testing.T) {
	g := parse(t, `input %x: float32[3]
		const %n: int64[] = {5}
		const %true: bool[] = {true}
		%y: float32[3], %all: float32[?,3] = Loop@17 (%n, %true, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[3]
			const %half: float32[] = {0.5}
			%same = Identity@17 (%c)
			%w = Mul@17 (%v, %half)
			output %same
			output %w
			output %v
		}}
		%z = Exp@17 (%all)
		output %y
		output %z`)
	pool := newPool(t)
	p := compileAs(t, g, Options{Target: host, Threads: threads})
	if p.Dynamic() {
		t.Errorf("some values have no place:\n%v", p.Graph)
	}
	in := fill(rand.New(rand.NewPCG(3, 4)), g)
	equal(t, pool, g, Options{Target: host}, in)
	prog, _ := bindTo(t, p)
	set(prog, in)
	x := exec(pool)
	if n := testing.AllocsPerRun(20, func() { _ = prog.Run(x) }); n > 0 || x.Dynamic != 0 {
		t.Errorf("%v allocations and %d bytes beside the arena a run", n, x.Dynamic)
	}
}

// TestLoopAsksForMemory counts the slices of a loop of unknown length, and gives back what only the
// way to the result took.
func TestLoopAsksForMemory(t *testing.T) {
	g := parse(t, `input %n: int64[]
		input %x: float32[16]
		%y: float32[16], %all = Loop@17 (%n, _, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[16]
			%w = Neg@17 (%v)
			output %c
			output %w
			output %v
		}}
		output %all`)
	prog, _ := bindTo(t, compileAs(t, g, Options{Target: host, Threads: threads}))
	in := fill(rand.New(rand.NewPCG(3, 4)), g)
	tensor.As[int64](in[0])[0] = 200
	const slice, result = 64, 64 * 200
	for _, c := range []struct {
		cap  int64
		fits bool
	}{{2*result + 64*slice, true}, {2*result - 1, false}, {result, false}} {
		set(prog, in)
		q := &quota{cap: c.cap}
		x := exec(newPool(t))
		x.Memory = q
		if err := prog.Run(x); (err == nil) != c.fits {
			t.Errorf("cap %d: %v", c.cap, err)
		}
		if q.held != x.Dynamic || c.fits && q.held != result {
			t.Errorf("cap %d: %d held, %d counted, want %d", c.cap, q.held, x.Dynamic, result)
		}
	}
}

// TestLoopRefusesData holds that conditions and trip counts of the wrong size fail, and that a
// context ends a long loop.
func TestLoopEnds(t *testing.T) {
	g := parse(t, `input %n: int64[]
		input %x: float32[4]
		%y: float32[4] = Loop@17 (%n, _, %x) {body=graph "body" {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[4]
			%w = Neg@17 (%v)
			output %c
			output %w
		}}
		output %y`)
	prog, _ := bindTo(t, compileAs(t, g, Options{Target: host, Threads: threads}))
	in := fill(rand.New(rand.NewPCG(3, 4)), g)
	tensor.As[int64](in[0])[0] = 1 << 62
	set(prog, in)
	x := exec(newPool(t))
	ctx, cancel := context.WithCancel(context.Background())
	gate := &countingGate{after: 1000, then: cancel}
	x.Ctx, x.Gate = ctx, gate
	if err := prog.Run(x); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "iteration") {
		t.Errorf("a loop without end gives %v", err)
	}
	if gate.asked < 1000 {
		t.Errorf("the gate was asked %d times", gate.asked)
	}
}

// countingGate calls then once it has been asked often enough.
type countingGate struct {
	device.Gate
	asked, after int
	then         func()
}

func (g *countingGate) Revoked() bool {
	if g.asked++; g.asked == g.after {
		g.then()
	}
	return false
}

// TestScans walks along axes in both directions, with states that change places.
func TestScans(t *testing.T) {
	pool := newPool(t)
	for name, attrs := range map[string]string{
		"forward": "num_scan_inputs=2",
		"axes":    "num_scan_inputs=2, scan_input_axes=[1, -1], scan_output_axes=[-1, 1]",
		"backward": "num_scan_inputs=2, scan_input_axes=[1, 1], scan_input_directions=[1, 0], " +
			"scan_output_axes=[0, 1], scan_output_directions=[0, 1]",
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, `input %a: float32[5]
				input %b: float32[5]
				input %x: float32[5,5]
				input %y: float32[5,5]
				input %k: float32[1]
				%p: float32[5], %q: float32[5], %s, %d = Scan@17 (%a, %b, %x,
					%y | %k) {body=graph "body" captures 1 {
					input %u: float32[5]
					input %v: float32[5]
					input %x: float32[5]
					input %y: float32[5]
					input %k: float32[1]
					%s = Add@17 (%u, %x)
					%m = Mul@17 (%y, %k)
					%d = Sub@17 (%m, %v)
					output %v
					output %s
					output %s
					output %d
				}, `+attrs+`}
				%e = Exp@17 (%s)
				output %p
				output %q
				output %e
				output %d`)
			p := compileAs(t, g, Options{Target: host, Threads: threads})
			if got := stepOf(t, p, "Scan").Kernel.Name(); got != "scan" || p.Dynamic() {
				t.Errorf("runs as %s, dynamic %v", got, p.Dynamic())
			}
			in := fill(rand.New(rand.NewPCG(3, 4)), g)
			equal(t, pool, g, Options{Target: host}, in)
			prog, _ := bindTo(t, p)
			set(prog, in)
			x := exec(pool)
			if n := testing.AllocsPerRun(20, func() { _ = prog.Run(x) }); n > 0 {
				t.Errorf("%v allocations a run", n)
			}
		})
	}
}

// TestCapturesAreReadInPlace holds that neither a branch nor a loop copies what it captures, nor
// writes there.
func TestCapturesAreReadInPlace(t *testing.T) {
	g := parse(t, `input %x: float32[1000]
		input %c: bool[]
		input %n: int64[]
		%y: float32[1000] = If@17 (%c | %x) {then_branch=graph "then" captures 1 {
			input %x: float32[1000]
			%y = Exp@17 (%x)
			output %y
		}, else_branch=graph "else" captures 1 {
			input %x: float32[1000]
			output %x
		}}
		%s: float32[1000] = Loop@17 (%n, _, %y | %x) {body=graph "body" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %v: float32[1000]
			input %x: float32[1000]
			%e = Neg@17 (%x)
			%w = Add@17 (%v, %e)
			output %c
			output %w
		}}
		%z = Add@17 (%s, %x)
		output %z`)
	p := compileAs(t, g, Options{Target: host, Threads: threads})
	for _, typ := range []string{"If", "Loop"} {
		for _, b := range stepOf(t, p, typ).Kernel.(control).bodies() {
			for _, s := range b.Slots {
				if s.Value.Name == "x" && s.Place != Outer {
					t.Errorf("%s: the captured value has place %d, want %d", typ, s.Place, Outer)
				}
			}
		}
	}
	in := fill(rand.New(rand.NewPCG(3, 4)), g)
	tensor.As[int64](in[2])[0] = 3
	equal(t, newPool(t), g, Options{Target: host}, in)
}
