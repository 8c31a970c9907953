package plan

import (
	"bytes"
	"context"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// host is this machine's CPU, whose products of bfloat16 are taken to be fast on any.
var host compute.Target = halving{kernels.Target(device.Info{})}

type halving struct{ compute.Target }

func (h halving) Features() compute.Features {
	f := h.Target.Features()
	f.BF16, f.Costs.BF16Rate, f.Costs.BF16Short = true, nil, nil
	return f
}

// parse reads a graph of opset 17 without its first and last line.
func parse(t testing.TB, body string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse("graph \"test\" {\n opset \"\" 17\n opset \"weir\" 1\n" + body + "\n}")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return g
}

func compileAs(t testing.TB, g *graph.Graph, o Options) *Plan {
	t.Helper()
	p, err := Compile(context.Background(), g, o)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	checkPlan(t, p)
	return p
}

var threads = 2

func newPool(t testing.TB) *cpu.Pool {
	p := cpu.NewPool(cpu.PoolOptions{Threads: threads})
	t.Cleanup(p.Close)
	return p
}

// memory is n bytes of 0xff on whole pages, as an engine gives a plan.
func memory(t testing.TB, n int64) []byte {
	t.Helper()
	d, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Free)
	poison(device.HostView(b))
	return device.HostView(b)
}

// poisons are the bytes that poison begins with.
var poisons = bytes.Repeat([]byte{0xff}, 1<<12)

func poison(b []byte) {
	for at := copy(b, poisons); at < len(b); {
		at += copy(b[at:], b[:at])
	}
}

// bindTo packs a plan and binds it to memory of exactly the size that it asks for.
func bindTo(t testing.TB, p *Plan) (prog *Program, arena []byte) {
	t.Helper()
	arena, packed := memory(t, p.ArenaBytes), memory(t, p.PackedBytes)
	if err := p.Pack(packed, PackOptions{}); err != nil {
		t.Fatal(err)
	}
	prog, err := p.Bind(arena, packed)
	if err != nil {
		t.Fatal(err)
	}
	return prog, arena
}

func set(prog *Program, in []*tensor.Tensor) {
	for i, v := range in {
		if err := prog.Inputs[i].Set(v); err != nil {
			panic(err)
		}
	}
}

func exec(pool *cpu.Pool) *compute.Exec {
	return &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: pool}
}

// runPlan runs a plan several times on one arena: whole, and step by step with everything that is
// dead overwritten after each step. All must give the same bits.
func runPlan(t testing.TB, pool *cpu.Pool, p *Plan, in []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	prog, arena := bindTo(t, p)
	var first []*tensor.Tensor
	for round := range 2 {
		set(prog, in)
		if err := prog.Run(exec(pool)); err != nil {
			t.Fatal(err)
		}
		first = sameOutputs(t, round, first, prog)
	}
	poison(arena)
	set(prog, in)
	walk(t, prog, arena, pool)
	return sameOutputs(t, 2, first, prog)
}

// sameOutputs compares the outputs with those of an earlier run, and returns copies of them.
func sameOutputs(t testing.TB, round int, first []*tensor.Tensor, prog *Program) []*tensor.Tensor {
	t.Helper()
	var out []*tensor.Tensor
	for i, v := range prog.Outputs {
		if err := v.Check(); err != nil {
			t.Fatalf("output %d: %v", i, err)
		}
		out = append(out, v.Clone())
		if first != nil && !tensor.Equal(first[i], v) {
			t.Fatalf("output %d differs in run %d", i, round)
		}
	}
	return out
}

// walk runs a program step by step. After each step, every byte of the arena that no live value
// holds is overwritten, and no live value but the step's own outputs may have changed.
func walk(t testing.TB, prog *Program, arena []byte, pool *cpu.Pool) {
	t.Helper()
	p := prog.plan
	seed := maphash.MakeSeed()
	for i := range p.Steps {
		before := map[int]uint64{}
		over := map[int]bool{}
		for _, s := range p.Slots {
			if s.Over >= 0 && s.First == i {
				over[s.Over] = true
			}
		}
		for k, s := range p.Slots {
			if at, ok := p.inArena(k); ok && s.First < i && s.Last >= i && !over[p.root(k)] {
				before[k] = maphash.Bytes(seed, at.of(arena))
			}
		}
		if err := prog.RunStep(exec(pool), i); err != nil {
			t.Fatal(err)
		}
		dead := bytes.Repeat([]byte{1}, len(arena))
		for k, s := range p.Slots {
			at, ok := p.inArena(k)
			if !ok {
				continue
			}
			if h, ok := before[k]; ok && h != maphash.Bytes(seed, at.of(arena)) {
				t.Fatalf("step %d (%v) wrote over %q, which is live until step %d", i,
					p.Steps[i].Node, s.Value.Name, s.Last)
			}
			if s.First <= i && s.Last > i {
				clear(at.of(dead))
			}
		}
		for k, d := range dead {
			if d != 0 {
				arena[k] = 0xff
			}
		}
	}
	prog.copyConstants()
}

// inArena returns where in the arena a slot lies, under its own name or another.
func (p *Plan) inArena(slot int) (at span, ok bool) {
	root := p.Slots[p.root(slot)]
	return span{root.Offset + p.begin(slot), p.Slots[slot].Bytes}, root.Place == InArena
}

// life is from the first step that writes bytes of a slot to the last that reads any, under
// whatever name.
func (p *Plan) life(slot int) (first, last int) {
	first, last = p.Slots[slot].First, p.Slots[slot].Last
	for k, s := range p.Slots {
		if p.root(k) == slot {
			first, last = min(first, s.First), max(last, s.Last)
		}
	}
	return first, last
}

// checkPlan holds a plan against its own numbers: every piece of the arena inside it and aligned,
// and no two pieces that are needed at the same time overlapping.
func checkPlan(t testing.TB, p *Plan) {
	t.Helper()
	type piece struct {
		name        string
		off, n      int64
		first, last int
		slot, over  int
	}
	var pieces []piece
	for i, s := range p.Slots {
		if s.Place == InArena {
			first, last := p.life(i)
			pieces = append(pieces, piece{s.Value.Name, s.Offset, s.Bytes, first, last, i, s.Over})
		}
		if s.Over >= 0 {
			checkOver(t, p, i)
		}
		if of := &p.Slots[max(s.Of, 0)]; s.Place == Alias && (s.At%Align != 0 || s.At < 0 ||
			s.At+s.Bytes > of.Bytes) {
			t.Errorf("%q is %d bytes from %d on of %d", s.Value.Name, s.Bytes, s.At, of.Bytes)
		}
	}
	var packed int64
	consts := p.consts
	for i := range p.Steps {
		st := &p.Steps[i]
		if n := int64(st.Kernel.ScratchBytes(p.Threads)); n != st.scratch.n {
			t.Errorf("step %d (%v) has %d bytes of scratch, wants %d", i, st.Node, st.scratch.n, n)
		}
		pieces = append(pieces,
			piece{st.Node.String() + " scratch", st.scratch.off, st.scratch.n, i, i, -2, -1})
		if n := int64(st.Kernel.PackedBytes()); n != st.packed.n || st.packed.off != packed {
			t.Errorf("step %d (%v): packed weights at %d+%d, want %d+%d", i, st.Node, st.packed.off,
				st.packed.n, packed, n)
		}
		packed += alignUp(st.packed.n)
		for len(consts) > 0 && slices.Contains(p.addressed(st), consts[0].slot) {
			k := consts[0]
			consts = consts[1:]
			if name := p.Slots[k.slot].Value.Name; k.arena {
				pieces = append(pieces, piece{name, k.at.off, k.at.n, -1, len(p.Steps), -2, -1})
			} else {
				if k.at.off != packed {
					t.Errorf("constant %q at %d, want %d", name, k.at.off, packed)
				}
				packed += alignUp(k.at.n)
			}
		}
		if st.needs != packed {
			t.Errorf("step %d (%v) needs %d bytes, want %d", i, st.Node, st.needs, packed)
		}
		if k, ok := st.Kernel.(control); ok {
			for _, b := range k.bodies() {
				checkPlan(t, b)
			}
		}
	}
	if len(consts) > 0 {
		t.Errorf("constant %q has its place after one that is read later, or is not read",
			p.Slots[consts[0].slot].Value.Name)
	}
	if packed != p.PackedBytes {
		t.Errorf("packed weights take %d bytes, plan says %d", packed, p.PackedBytes)
	}
	var end int64
	for i, a := range pieces {
		if a.off%Align != 0 || a.off < 0 || a.off+a.n > p.ArenaBytes {
			t.Errorf("%s at %d+%d in an arena of %d", a.name, a.off, a.n, p.ArenaBytes)
		}
		end = max(end, a.off+alignUp(a.n))
		for _, b := range pieces[:i] {
			if a.first <= b.last && b.first <= a.last && a.off < b.off+b.n && b.off < a.off+a.n &&
				a.over != b.slot && b.over != a.slot {
				t.Errorf("%s (steps %d to %d) and %s (%d to %d) overlap", a.name, a.first, a.last,
					b.name, b.first, b.last)
			}
		}
	}
	if end != p.ArenaBytes {
		t.Errorf("arena of %d bytes, %d used", p.ArenaBytes, end)
	}
}

// checkOver holds that a value which takes another's place is written when that dies, by a step
// that reads it once.
func checkOver(t testing.TB, p *Plan, slot int) {
	t.Helper()
	s := p.Slots[slot]
	old := p.Slots[s.Over]
	if s.Place != InArena || old.Place != InArena || old.Last != s.First || old.Bytes != s.Bytes ||
		old.Offset != s.Offset {
		t.Errorf("%q %+v takes the place of %q %+v", s.Value.Name, s, old.Value.Name, old)
	}
	if n := p.readers(&p.Steps[s.First], s.Over); n != 1 {
		t.Errorf("%q takes the place of %q, of which its step has %d", s.Value.Name, old.Value.Name,
			n)
	}
}

// equal compares the plans of g, optimised or not, by fast kernels or by the reference, with the
// graph's own evaluation.
func equal(t testing.TB, pool *cpu.Pool, g *graph.Graph, o Options, in []*tensor.Tensor) {
	t.Helper()
	equalWithin(t, pool, g, o, in, 1e-6)
}

// equalWithin is equal with what sums may cancel to.
func equalWithin(t testing.TB, pool *cpu.Pool, g *graph.Graph, o Options, in []*tensor.Tensor,
	cancelled float64) {
	t.Helper()
	want, err := g.Eval(context.Background(), in)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	for _, reference := range []bool{false, true} {
		if o.Target, o.Threads = host, threads; reference {
			o.Target = nil
		}
		p := compileAs(t, g, o)
		got := runPlan(t, pool, p, in)
		for i := range want {
			if err := within(got[i], want[i], cancelled); err != nil {
				t.Fatalf("output %d %q (reference %v): %v\n%v", i, g.Outputs[i].Name, reference,
					err, p.Graph)
			}
		}
	}
}

// close compares floats in proportion to the largest of them, as sums of both signs cancel, with
// what some dozens of roundings one after another come to; everything else exactly. Sums of terms
// of about 1 may cancel to nothing else than their roundings.
func close(got, want *tensor.Tensor) error { return within(got, want, 1e-6) }

// within is close with what sums may cancel to.
func within(got, want *tensor.Tensor, cancelled float64) error {
	most := 0.0
	if fs, err := want.Floats(); err == nil {
		for _, f := range fs {
			if a := math.Abs(f); a > most && !math.IsInf(a, 0) {
				most = a
			}
		}
	}
	return tensor.Close(got, want, 0x1p-19, 0x1p-17*most+cancelled)
}

// fill makes random inputs for a graph of static types.
func fill(r *rand.Rand, g *graph.Graph) []*tensor.Tensor {
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		shape, _ := v.Type.Ints()
		x, err := tensor.New(v.Type.DType, shape...)
		if err != nil {
			panic(err)
		}
		for i := range x.Len() {
			switch x.DType {
			case tensor.Float32:
				tensor.As[float32](x)[i] = float32(r.NormFloat64())
			case tensor.Int64:
				tensor.As[int64](x)[i] = r.Int64N(4)
			case tensor.Bool:
				x.Data[i] = byte(r.IntN(2))
			case tensor.String:
				x.Strings[i] = string(rune('a' + r.IntN(26)))
			}
		}
		in = append(in, x)
	}
	return in
}
