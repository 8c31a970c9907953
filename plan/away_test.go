package plan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/device/compute"
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

// TestRandomGraphsAway runs random graphs of which any step may be on the device or on the host,
// and holds their bits against those of the same kernels on the host alone: every value is where it
// is read, parts of others and those that lie over others, too.
func TestRandomGraphsAway(t *testing.T) {
	pool := newPool(t)
	near := compute.WithFeatures(host, compute.Features{})
	crossing := 0
	for seed := range uint64(150) {
		g, r := grown(seed)
		in := fill(r, g)
		o := Options{Placement: seed % 3, Threads: threads}
		o.Target = newPatchy(near, seed)
		want := runPlan(t, pool, compileAs(t, g, o), in)
		o.Target = newPatchy(distant, seed)
		p := compileAs(t, g, o)
		prog := bindAway(t, p)
		for i := range p.Steps {
			crossing += len(prog.away.in[i]) + len(prog.away.out[i])
		}
		for round := range 2 {
			set(prog, in)
			if err := prog.Run(exec(pool)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for k, got := range prog.Outputs {
				if !bytes.Equal(got.Data, want[k].Data) ||
					fmt.Sprint(got.Shape) != fmt.Sprint(want[k].Shape) {
					t.Errorf("seed %d, run %d: output %d differs", seed, round, k)
				}
			}
		}
	}
	if crossing < 150 {
		t.Errorf("%d values went from one side to the other", crossing)
	}
}
