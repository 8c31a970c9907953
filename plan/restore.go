package plan

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

// ErrBare is the kind of error about a plan whose weights cannot be packed, or whose steps cannot
// run, because constants lack their contents.
var ErrBare = errors.New("constants without contents")

// Restore makes a plan again, without running the passes. g is the Graph of a Plan that [Compile]
// made with these options. Constants that Absorbed lists for that plan may lack their contents,
// which are then only in its packed weights; the restored plan cannot Pack. Restore fails with
// [ErrBare] when another constant lacks its contents, with [ErrArena] where the graph, as it is,
// takes more than the bound of the options, with the errors of Compile, and early with the
// context's error. Whether the two plans are the same, [Plan.Fingerprint] tells.
func Restore(ctx context.Context, g *graph.Graph, o Options) (*Plan, error) {
	return fault.Value(func() (*Plan, error) { return restore(ctx, g, o) })
}

// restore is Restore that may panic.
func restore(ctx context.Context, g *graph.Graph, o Options) (*Plan, error) {
	if o.Target != nil {
		o.Passes.Features = o.Target.Features()
	}
	if err := static(g); err != nil {
		return nil, err
	}
	p, err := compile(ctx, g, o, false)
	if err != nil {
		return nil, err
	}
	if most := o.MostArena; most > 0 && p.ArenaBytes > most {
		return nil, fmt.Errorf("graph %q: %w: %d bytes of %d", g.Name, ErrArena, p.ArenaBytes, most)
	}
	absorbed := p.Absorbed()
	for _, v := range g.Constants() {
		t := v.Const()
		if t.Data != nil || slices.Contains(t.Shape, 0) || t.DType == tensor.String ||
			t.DType.IsContainer() {
			continue
		}
		if !absorbed[t] {
			return nil, fmt.Errorf("graph %q: constant %q: %w", g.Name, v.Name, ErrBare)
		}
		p.bare = true
	}
	return p, nil
}

// Absorbed returns the constants that the packed weights hold in a form of their own and that
// nothing else reads. Whoever has the packed weights can do without the contents of these
// constants.
func (p *Plan) Absorbed() map[*tensor.Tensor]bool {
	read, absorbed := p.readByBodies(), map[*tensor.Tensor]bool{}
	for i := range p.Steps {
		st := &p.Steps[i]
		packed := map[int]bool{}
		if k, ok := st.Kernel.(compute.Absorbing); ok {
			for _, in := range k.Absorbed() {
				packed[in] = true
			}
		}
		for in, s := range st.In {
			if s < 0 {
				continue
			}
			s = p.root(s)
			if p.Slots[s].Place != Constant {
				continue
			}
			if t := p.Slots[s].Value.Const(); packed[in] {
				absorbed[t] = true
			} else {
				read[t] = true
			}
		}
	}
	for _, c := range p.copies {
		read[p.Slots[p.root(c.from)].Value.Const()] = true
	}
	for t := range read {
		delete(absorbed, t)
	}
	return absorbed
}

// readByBodies returns the constants of bodies, which passes look at each time when a plan is made.
func (p *Plan) readByBodies() map[*tensor.Tensor]bool {
	read := map[*tensor.Tensor]bool{}
	p.Graph.Walk(func(g *graph.Graph) {
		if g == p.Graph {
			return
		}
		for _, v := range g.Constants() {
			read[v.Const()] = true
		}
	})
	return read
}

// Fingerprint identifies, among the plans of one graph, how packed weights are laid out and used:
// by the kernels of the steps that have packed weights, by the place of each step's weights, and by
// the constants behind them. Other steps do not count. They may differ with the number of threads,
// because scratch depends on it, and it decides which copies save memory.
func (p *Plan) Fingerprint() [sha256.Size]byte {
	h := sha256.New()
	p.describe(h)
	return [sha256.Size]byte(h.Sum(nil))
}

func (p *Plan) describe(w io.Writer) {
	fmt.Fprintf(w, "plan with %d bytes packed, %d constant\n", p.PackedBytes, p.ConstBytes)
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.packed.n > 0 {
			fmt.Fprintf(w, "%q %s %q %d+%d\n", st.Node.Name, st.Node.Type, st.Kernel.Name(),
				st.packed.off, st.packed.n)
		}
		if k, ok := st.Kernel.(control); ok {
			for _, b := range k.bodies() {
				b.describe(w)
			}
		}
	}
	for _, k := range p.consts {
		if !k.arena {
			s := &p.Slots[k.slot]
			fmt.Fprintf(w, "%q %v at %d+%d\n", s.Value.Name, s.Type, k.at.off, k.at.n)
		}
	}
}
