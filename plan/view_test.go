package plan

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/pass"
)

// unoptimised keeps the passes from removing what a test is about.
var unoptimised = Options{Target: host, Passes: pass.Options{Off: pass.Names()}}

// TestPlansEqualGraphs runs graphs in which one value's bytes have several names, with and without
// the passes.
func TestPlansEqualGraphs(t *testing.T) {
	pool := newPool(t)
	for name, body := range map[string]string{
		"reshape of an input": `input %x: float32[2,3]
			const %s: int64[2] = {3, 2}
			%y: float32[3,2] = Reshape@17 (%x, %s)
			output %y`,
		"reshape of an input that is read later": `input %x: float32[2,3]
			const %s: int64[2] = {3, 2}
			%y: float32[3,2] = Reshape@17 (%x, %s)
			%a: float32[2,3] = Relu@17 (%x)
			%b: float32[2,3] = Neg@17 (%a)
			%c: float32[2,3] = Add@17 (%b, %x)
			output %c
			output %y`,
		"reshape of a constant": `input %x: float32[3,2]
			const %k: float32[6] = {1, 2, 3, 4, 5, 6}
			const %s: int64[2] = {3, 2}
			%r: float32[3,2] = Reshape@17 (%k, %s)
			%y: float32[3,2] = Add@17 (%x, %r)
			output %y
			output %r`,
		"reshape of an output": `input %x: float32[2,3]
			const %s: int64[1] = {-1}
			%y: float32[2,3] = Exp@17 (%x)
			%z: float32[6] = Reshape@17 (%y, %s)
			output %y
			output %z`,
		"chain of views": `input %x: float32[2,3]
			const %s: int64[3] = {1, 2, 3}
			const %a: int64[1] = {0}
			%e: float32[2,3] = Exp@17 (%x)
			%r: float32[1,2,3] = Reshape@17 (%e, %s)
			%q: float32[2,3] = Squeeze@17 (%r, %a)
			%i: float32[2,3] = Identity@17 (%q)
			%f: float32[1,6] = Flatten@17 (%i) {axis=0}
			%n: float32[2,3] = Neg@17 (%x)
			%o: float32[1,6] = Relu@17 (%f)
			output %o
			output %n`,
		"output that is an input": `input %x: float32[4]
			%y: float32[4] = Relu@17 (%x)
			%z: float32[4] = Neg@17 (%y)
			output %z
			output %x`,
		"output that is a constant": `input %x: float32[2]
			const %k: float32[2] = {7, 8}
			%y: float32[2] = Add@17 (%x, %k)
			output %k
			output %y`,
		"one value, two outputs by identity": `input %x: float32[4]
			%y: float32[4] = Exp@17 (%x)
			%a: float32[4] = Identity@17 (%y)
			%b: float32[4] = Identity@17 (%y)
			output %a
			output %b`,
		"value used twice by one node": `input %x: float32[4]
			%y: float32[4] = Exp@17 (%x)
			%z: float32[4] = Mul@17 (%y, %y)
			output %z`,
		"unused input and unused result": `input %x: float32[4]
			input %unused: float32[100]
			%a, %b = Split@17 (%x) {axis=0}
			output %b`,
		"nothing but inputs": `input %x: float32[4]
			output %x`,
		"no elements": `input %x: float32[0,4]
			const %k: float32[4] = {1, 2, 3, 4}
			%y: float32[0,4] = Add@17 (%x, %k)
			%z = Concat@17 (%y, %x) {axis=0}
			%s = ReduceSum@17 (%z)
			output %z
			output %s`,
		"strings": `input %x: string[3]
			input %c: bool[3]
			const %k: string[1] = {"k"}
			%i: string[3] = Identity@17 (%x)
			%w = Where@17 (%c, %i, %k)
			%n: bool[3] = Not@17 (%c)
			output %w
			output %n
			output %x`,
	} {
		t.Run(name, func(t *testing.T) {
			g := parse(t, body)
			in := fill(rand.New(rand.NewPCG(1, 2)), g)
			equal(t, pool, g, Options{Target: host}, in)
			equal(t, pool, g, unoptimised, in)
		})
	}
}

// TestViewsAreNoSteps holds that a view costs neither a step nor memory.
func TestViewsAreNoSteps(t *testing.T) {
	g := parse(t, `input %x: float32[32,32]
		const %s: int64[2] = {16, 64}
		const %a: int64[1] = {0}
		%e: float32[32,32] = Exp@17 (%x)
		%r: float32[16,64] = Reshape@17 (%e, %s)
		%u: float32[1,16,64] = Unsqueeze@17 (%r, %a)
		output %u`)
	p := compileAs(t, g, unoptimised)
	if len(p.Steps) != 1 || p.ArenaBytes != 32*32*4 {
		t.Errorf("%d steps and %d bytes, want 1 and %d", len(p.Steps), p.ArenaBytes, 32*32*4)
	}
}

// TestOverwriting holds which results take the place of an operand: the size of an arena is counted
// in values of x's size.
func TestOverwriting(t *testing.T) {
	pool := newPool(t)
	for _, e := range []struct {
		name, body string
		values     int64
	}{
		{"chain", `%a = Exp@17 (%x)
			%b = Neg@17 (%a)
			%c = Relu@17 (%b)
			output %c`, 1},
		{"operand read later", `%a = Exp@17 (%x)
			%b = Neg@17 (%a)
			%c = Add@17 (%b, %a)
			output %c`, 2},
		{"operand read later under another name", `const %s: int64[1] = {-1}
			%a = Exp@17 (%x)
			%r = Reshape@17 (%a, %s)
			%b = Neg@17 (%a)
			%n = Neg@17 (%r)
			output %b
			output %n`, 2},
		{"operand that is an output", `%a = Exp@17 (%x)
			%b = Neg@17 (%a)
			output %a
			output %b`, 2},
		{"operand twice", `%a = Exp@17 (%x)
			%b = Mul@17 (%a, %a)
			output %b`, 2},
		{"operand twice, once transposed in shape", `const %s: int64[2] = {1, 1024}
			const %q: int64[2] = {32, 32}
			%a = Exp@17 (%x)
			%r = Reshape@17 (%a, %s)
			%u = Reshape@17 (%r, %q)
			%b = Mul@17 (%a, %u)
			output %b`, 2},
		{"second operand of a difference", `%a = Exp@17 (%x)
			%b = Sub@17 (%x, %a)
			%c = Sub@17 (%x, %b)
			output %c`, 2},
		{"rows over themselves",
			`const %g: float32[32] = {` + strings.TrimSuffix(strings.Repeat("2, ", 32), ", ") + `}
			%a = Softmax@17 (%x)
			%b = LayerNormalization@17 (%a, %g)
			%c = Softmax@17 (%b)
			output %c`, 1},
		{"constant", `const %k: float32[32,32] = {` +
			strings.TrimSuffix(strings.Repeat("1.5, ", 1024), ", ") + `}
			%a = Exp@17 (%k)
			%b = Add@17 (%a, %x)
			output %b
			output %k`, 2},
	} {
		t.Run(e.name, func(t *testing.T) {
			g := parse(t, "input %x: float32[32,32]\n"+e.body)
			if err := g.InferTypes(); err != nil {
				t.Fatal(err)
			}
			p := compileAs(t, g, unoptimised)
			if got := (p.ArenaBytes + 4095) / 4096; got != e.values {
				t.Errorf("arena of %d values, want %d", got, e.values)
			}
			equal(t, pool, g, unoptimised, fill(rand.New(rand.NewPCG(1, 2)), g))
		})
	}
}
