package plan

import (
	"fmt"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestRandomPlans holds what plans of the random graphs come to. Other tests hold that a plan is
// right; one that copies what it need not, or takes more memory than before, they cannot tell.
func TestRandomPlans(t *testing.T) {
	defer cpuinfo.Limit(cpuinfo.PathPlain)() // that every machine has
	got := map[string]int64{}
	for seed := range uint64(400) {
		g, _ := grown(seed)
		for name, o := range map[string]Options{"": {}, "as they are: ": unoptimised} {
			o.Target = nil // kernels ask for memory that differs from machine to machine
			p := compileAs(t, g.Clone(), o)
			got[name+"steps"] += int64(len(p.Steps))
			got[name+"bytes of arenas"] += p.ArenaBytes
			got[name+"bytes of constants"] += p.ConstBytes
			got[name+"operations"] += p.Flops
			for i := range p.Slots {
				got[name+fmt.Sprint("place ", p.Slots[i].Place)]++
			}
			for i := range p.Steps {
				got[name+"bytes moved"] += p.Steps[i].Bytes
			}
			o.Target = host
			p = compileAs(t, g.Clone(), o)
			got[name+"steps of a device"] += int64(len(p.Steps))
			for i := range p.Slots {
				s := &p.Slots[i]
				got[name+fmt.Sprint("place of a device ", s.Place)]++
				if s.Over >= 0 {
					got[name+"over another"]++
				}
			}
		}
	}
	for name := range got {
		if got[name] != randomPlans[name] {
			t.Errorf("%s: got %d, was %d", name, got[name], randomPlans[name])
		}
	}
}

// threeBodies are a scan, a loop and a branch around the same product.
const threeBodies = `input %x: float32[4,8]
	const %n: int64[] = {3}
	const %yes: bool[] = {true}
	input %c: bool[]
	%s: float32[4,8] = Scan@17 (%x) {body=graph "scan" {
		input %r: float32[8]
		%e = Exp@17 (%r)
		output %e
	}, num_scan_inputs=1}
	%l: float32[4,8] = Loop@17 (%n, %yes, %s) {body=graph "loop" {
		input %i: int64[]
		input %k: bool[]
		input %v: float32[4,8]
		%k2 = Identity@17 (%k)
		%v2 = Tanh@17 (%v)
		output %k2
		output %v2
	}}
	%y: float32[4,8] = If@17 (%c | %l) {then_branch=graph "then" captures 1 {
		input %p: float32[4,8]
		%q = Neg@17 (%p)
		output %q
	}, else_branch=graph "else" captures 1 {
		input %p: float32[4,8]
		%q = Abs@17 (%p)
		output %q
	}}
	output %y`

// TestBodiesCount holds that the operations of bodies are those of all their iterations, and that
// only a plan for a device has plans of bodies.
func TestBodiesCount(t *testing.T) {
	g := parse(t, threeBodies)
	with := compileAs(t, g.Clone(), Options{Target: host})
	flops := map[string]int64{}
	for i := range with.Steps {
		st := &with.Steps[i]
		flops[st.Node.Type] = st.Flops
		if _, ok := st.Kernel.(control); !ok {
			t.Errorf("%s: no plan of its body", st.Node.Type)
		}
	}
	if flops["Scan"] != 32 {
		t.Errorf("a scan of four times eight elements counts %d operations", flops["Scan"])
	}
	without := compileAs(t, g.Clone(), Options{})
	for i := range without.Steps {
		if _, ok := without.Steps[i].Kernel.(control); ok {
			t.Errorf("%s: a body is planned for no device", without.Steps[i].Node.Type)
		}
	}
}

// TestAbsentFirstResult runs operators of which only a later result is asked for.
func TestAbsentFirstResult(t *testing.T) {
	g := parse(t, `input %x: float32[3,8]
		const %k: int64[1] = {2}
		_, %i: int64[3,2] = TopK@17 (%x, %k)
		%m: float32[3,8] = Tanh@17 (%x)
		_, %j: int64[3,2] = TopK@17 (%m, %k) {largest=0}
		%y: int64[3,2] = Sub@17 (%i, %j)
		output %y
		output %i`)
	pool := newPool(t)
	_, r := grown(1)
	in := fill(r, g)
	equal(t, pool, g, Options{Target: host}, in)
	equal(t, pool, g, Options{}, in)
}

// TestAbsorbedButRead: a constant in the packed weights that a step also reads where it is, through
// a view, is not left out.
func TestAbsorbedButRead(t *testing.T) {
	body := `input %x: float32[8,32]
		const %s: int64[1] = {1024}
		const %w: float32[32,32] = {` + manyFloats(1024) + `}
		%y: float32[8,32] = MatMul@17 (%x, %w)
		%v: float32[1024] = Reshape@17 (%w, %s)
		input %z: float32[1024]
		%u: float32[1024] = Mul@17 (%v, %z)
		output %y
		output %u`
	o := Options{Target: host}
	o.Passes.Off = []string{"fold"}
	p := compileAs(t, parse(t, body), o)
	if got := p.Absorbed(); len(got) > 0 {
		t.Errorf("%d constants may be left out, but a step reads the only large one", len(got))
	}
}

// TestChainOverItsInput: element-wise steps write over what they read, the program's input too.
func TestChainOverItsInput(t *testing.T) {
	p := compileAs(t, parse(t, `input %x: float32[64]
		%a: float32[64] = Exp@17 (%x)
		%y: float32[64] = Tanh@17 (%a)
		output %y`), Options{Target: host})
	if p.ArenaBytes != 4*64 {
		t.Errorf("an arena of %d bytes, want those of one vector", p.ArenaBytes)
	}
}

func manyFloats(n int) string {
	text := "0.5"
	for i := range n - 1 {
		text += fmt.Sprint(", ", i%7)
	}
	return text
}

var randomPlans = map[string]int64{
	"as they are: bytes moved":         2942972,
	"as they are: bytes of arenas":     790720,
	"as they are: bytes of constants":  165952,
	"as they are: operations":          1989154,
	"as they are: over another":        1631,
	"as they are: place 0":             8740,
	"as they are: place 1":             3632,
	"as they are: place 2":             768,
	"as they are: place 4":             3,
	"as they are: place of a device 0": 8174,
	"as they are: place of a device 1": 3632,
	"as they are: place of a device 2": 1334,
	"as they are: place of a device 4": 3,
	"as they are: steps":               7114,
	"as they are: steps of a device":   6737,
	"bytes moved":                      1526568,
	"bytes of arenas":                  607872,
	"bytes of constants":               77472,
	"operations":                       952145,
	"over another":                     1095,
	"place 0":                          5190,
	"place 1":                          1472,
	"place 2":                          232,
	"place 4":                          2,
	"place of a device 0":              5049,
	"place of a device 1":              1472,
	"place of a device 2":              373,
	"place of a device 4":              2,
	"steps":                            3662,
	"steps of a device":                3633,
}
