package plan

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// patchy is a target that has kernels for some calls only, the same for the same seed.
type patchy struct {
	compute.Target
	r *rand.Rand
}

func newPatchy(t compute.Target, seed uint64) compute.Target {
	return patchy{t, rand.New(rand.NewPCG(seed, 7))}
}

func (p patchy) Prepare(r *compute.Request) (compute.Kernel, error) {
	if p.r.IntN(3) == 0 {
		return nil, nil
	}
	return p.Target.Prepare(r)
}

// bindAway ties a plan for a device out of sight to memory that stands in for the device's, where
// its kernels, which are the host's, compute.
func bindAway(t *testing.T, p *Plan) *Program {
	t.Helper()
	arena, packed := memory(t, p.ArenaBytes), memory(t, p.PackedBytes)
	poison(arena)
	if err := p.Pack(packed, PackOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Preset(func(off int64, src []byte) error {
		copy(arena[off:], src)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r, err := p.BindRemote(compute.Block{N: p.ArenaBytes, Host: arena},
		compute.Block{N: p.PackedBytes, Host: packed})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.host {
			continue
		}
		b := compute.Binding{In: bare(r.pick(st.In)), Out: bare(r.pick(st.Out)), Workers: p.Threads,
			Packed: st.packed.of(packed), Scratch: st.scratch.of(arena)}
		for k, at := range r.blocks(st.In) {
			if b.In[k] != nil {
				b.In[k].Data = at.Host
			}
		}
		for k, at := range r.blocks(st.Out) {
			if b.Out[k] != nil {
				b.Out[k].Data = at.Host
			}
		}
		r.tasks[i] = &namedTask{st.Kernel.Bind(b), r, i}
	}
	return r
}

// runAway runs a graph of which any step may be on the device or on the host, as the seed has it,
// and holds its bits against those of the same kernels on the host alone. It returns the plan and
// the number of values that went from one side to the other.
func runAway(t *testing.T, pool *cpu.Pool, g *graph.Graph, seed uint64,
	in []*tensor.Tensor) (p *Plan, crossing int) {
	t.Helper()
	o := Options{Placement: seed % 3, Threads: threads}
	o.Target = newPatchy(compute.WithFeatures(host, compute.Features{}), seed)
	want := runPlan(t, pool, compileAs(t, g, o), in)
	o.Target = newPatchy(distant, seed)
	p = compileAs(t, g, o)
	prog := bindAway(t, p)
	for i := range p.Steps {
		crossing += len(prog.remote.in[i]) + len(prog.remote.out[i])
	}
	for round := range 2 {
		set(prog, in)
		if err := prog.Run(exec(pool)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for k, got := range prog.Outputs {
			w := want[k]
			if !bytes.Equal(got.Data, w.Data) || !slices.Equal(got.Shape, w.Shape) {
				t.Errorf("seed %d, run %d: output %d differs", seed, round, k)
			}
		}
	}
	return p, crossing
}

// TestRandomGraphsAway runs random graphs on both sides: every value is where it is read, those
// that lie over others, too.
func TestRandomGraphsAway(t *testing.T) {
	pool, crossing := newPool(t), 0
	for seed := range uint64(150) {
		g, r := grown(seed)
		_, n := runAway(t, pool, g, seed, fill(r, g))
		crossing += n
	}
	if crossing < 150 {
		t.Errorf("%d values went from one side to the other", crossing)
	}
}

// TestPartsAway has either side read and write parts of values, which lie where the whole does.
func TestPartsAway(t *testing.T) {
	g := parse(t, `
		input %x: float32[4,16]
		%y: float32[4,16] = Tanh@17 (%x)
		%a: float32[2,16], %b: float32[2,16] = Split@17 (%y) {axis=0}
		%c: float32[2,16] = Relu@17 (%b)
		%d: float32[2,16] = Sigmoid@17 (%a)
		%e: float32[4,16] = Concat@17 (%c, %d) {axis=0}
		%f: float32[4,16] = Mul@17 (%e, %y)
		output %f
		output %b
		output %d`)
	pool, parts := newPool(t), 0
	for seed := range uint64(60) {
		p, _ := runAway(t, pool, g, seed, fill(rand.New(rand.NewPCG(seed, 8)), g))
		for i := range p.mirrors {
			if p.mirrors[i].at.off > 0 {
				parts++
			}
		}
	}
	if parts < 60 {
		t.Errorf("%d parts of values were on both sides", parts)
	}
}
