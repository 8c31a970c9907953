package plan

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

// constant is where the steps of a remote device find a constant: in the packed weights, or in
// each arena.
type constant struct {
	slot  int
	at    span
	arena bool
}

// ownBytes is the size up to which constants lie in each arena rather than in the packed weights.
// Small constants are often sizes and positions that follow from the shapes of one plan; plans for
// other shapes have different ones, and could not share packed weights that hold them. A larger
// constant that follows from the shapes does end the sharing: nothing tells it from one that passes
// folded of weights alone, and a copy of those in each arena would take more memory.
const ownBytes = 4 << 10

// mirror is where a program keeps bytes of a value of a remote device within its HostBytes: the
// span at of slot root, at offset off.
type mirror struct {
	root int
	at   span
	off  int64
}

// Remote reports whether the plan is for a device whose memory the host cannot address.
func (p *Plan) Remote() bool { return p.remote }

// Copies returns the bytes of inputs and outputs of an iteration, which are copied where the plan
// is [Plan.Remote].
func (p *Plan) Copies() (bytes int64) {
	for _, slots := range [][]int{p.Inputs, p.Outputs} {
		for _, i := range slots {
			bytes += p.Slots[i].Bytes
		}
	}
	return bytes
}

// remote reports whether the host cannot address the memory of the device that is compiled for.
func (c *compiler) remote() bool {
	return c.opts.Target != nil && c.opts.Target.Features().Remote
}

// onHost reports whether a node has operands that only the host can hold.
func onHost(n *graph.Node) bool {
	return slices.ContainsFunc(slices.Concat(n.In, n.Out), func(v *graph.Value) bool {
		return v != nil && (v.Type.DType == tensor.String || v.Type.DType.IsContainer())
	})
}

// keepOnHost leaves values out of the arena that no step of a remote device reads or writes.
func (c *compiler) keepOnHost() {
	p := c.plan
	if !p.remote {
		return
	}
	used := make([]bool, len(p.Slots))
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.host {
			continue
		}
		for _, s := range slices.Concat(st.In, st.Out) {
			if s >= 0 {
				used[p.root(s)] = true
			}
		}
	}
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Place == InArena && !used[i] {
			s.Place = OnHost
		}
	}
}

// constants gives the constants that steps of a remote device read a place: among the packed
// weights, at the first step that reads them, so that what a step needs lies before what later
// steps need; or, where they are small, in the arena.
type constants struct {
	plan         *Plan
	host, placed []bool // by slot: read by the host, has its place
}

func (c *compiler) newConstants() *constants {
	p := c.plan
	if !p.remote {
		return &constants{plan: p}
	}
	return &constants{p, p.readByHost(), make([]bool, len(p.Slots))}
}

// place does so for the constants that a step is the first to read. It returns blocks of the whole
// run for those in the arena.
func (c *constants) place(st *Step) (blocks []*block) {
	p := c.plan
	if !p.remote {
		return nil
	}
	for _, s := range p.addressed(st) {
		if c.placed[s] || p.Slots[s].Place != Constant {
			continue
		}
		c.placed[s] = true
		n := p.Slots[s].Bytes
		if !c.host[s] {
			p.ConstBytes -= n
		}
		if n <= ownBytes {
			p.consts = append(p.consts, constant{slot: s, at: span{0, n}, arena: true})
			blocks = append(blocks, &block{bytes: n, first: -1, last: len(p.Steps)})
			continue
		}
		p.consts = append(p.consts, constant{slot: s, at: span{p.PackedBytes, n}})
		p.PackedBytes += alignUp(n)
	}
	return blocks
}

// addressed lists the roots of the operands that a step reads at an address of its device.
// Constants that the step's packed copy replaces are not among them.
func (p *Plan) addressed(st *Step) (roots []int) {
	if st.host {
		return nil
	}
	var absorbed []int
	if k, ok := st.Kernel.(compute.Absorbing); ok {
		absorbed = k.Absorbed()
	}
	for i, s := range st.In {
		if s < 0 {
			continue
		}
		if of := p.root(s); p.Slots[of].Place != Constant || !slices.Contains(absorbed, i) {
			roots = append(roots, of)
		}
	}
	return roots
}

// readByHost tells the constants that are read where they are.
func (p *Plan) readByHost() []bool {
	read := make([]bool, len(p.Slots))
	for i := range p.Steps {
		if st := &p.Steps[i]; st.host {
			for _, s := range st.In {
				if s >= 0 {
					read[p.root(s)] = true
				}
			}
		}
	}
	for _, k := range p.copies {
		read[p.root(k.from)] = true
	}
	return read
}

// mirrorValues gives each value that a program of a remote plan has on the host a place there:
// values that only the host has, and copies of the device's values that are inputs or outputs, or
// that steps on the host read or write.
func (c *compiler) mirrorValues() {
	p := c.plan
	if !p.remote {
		return
	}
	p.HostBytes, p.mirrors = 0, nil
	add := func(m mirror) {
		m.off = p.HostBytes
		if p.HostBytes += alignUp(m.at.n); p.HostBytes < 0 { // more than any host has
			p.HostBytes = math.MaxInt64
		}
		p.mirrors = append(p.mirrors, m)
	}
	seen := map[mirror]bool{}
	note := func(slots []int) {
		for _, s := range slots {
			if s < 0 || p.Slots[p.root(s)].Place != InArena {
				continue
			}
			if m := p.mirrorOf(s); !seen[m] {
				seen[m] = true
				add(m)
			}
		}
	}
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Place == OnHost {
			add(mirror{root: i, at: span{0, s.Bytes}})
		}
	}
	note(p.Inputs)
	for i := range p.Steps {
		if st := &p.Steps[i]; st.host {
			note(st.In)
			note(st.Out)
		}
	}
	note(p.Outputs)
}

// mirrorOf is the mirror of a slot, without its place on the host.
func (p *Plan) mirrorOf(s int) mirror {
	return mirror{root: p.root(s), at: span{p.begin(s), p.Slots[s].Bytes}}
}

// Preset writes, by copyIn, what each arena of the plan holds from the beginning: the small
// constants that the kernels of a device read whose memory the host cannot address. It fails with
// the errors of copyIn, and with fault.ErrFile when a mapped file cannot be read.
func (p *Plan) Preset(copyIn func(off int64, src []byte) error) error {
	return p.copyConsts(func(k constant) bool { return k.arena },
		func(c *tensor.Tensor, off int64) error { return copyIn(off, c.Data) })
}

// copyConsts calls write with the constants that are wanted, and where they are to lie.
func (p *Plan) copyConsts(wanted func(k constant) bool,
	write func(c *tensor.Tensor, off int64) error) error {
	for _, k := range p.consts {
		if !wanted(k) {
			continue
		}
		v := p.Slots[k.slot].Value
		err := fault.Do(func() error { return write(v.Const(), k.at.off) })
		if err != nil {
			return fmt.Errorf("graph %q: constant %q: %w", p.Graph.Name, v.Name, err)
		}
	}
	return nil
}

// sameConstants reports whether the constants among the packed weights of two plans are the same
// bytes in the same places.
func sameConstants(p, q *Plan) bool {
	inArena := func(k constant) bool { return k.arena }
	a := slices.DeleteFunc(slices.Clone(p.consts), inArena)
	b := slices.DeleteFunc(slices.Clone(q.consts), inArena)
	return slices.EqualFunc(a, b, func(x, y constant) bool {
		c, d := p.Slots[x.slot].Value.Const(), q.Slots[y.slot].Value.Const()
		if x.at != y.at || c == d {
			return x.at == y.at
		}
		same := false
		err := fault.Do(func() error {
			same = c.Data != nil && bytes.Equal(c.Data, d.Data)
			return nil
		})
		return err == nil && same
	})
}
