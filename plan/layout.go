package plan

import (
	"github.com/weirgpu/weir/device/compute"
)

// layout gives every arena value, every step's scratch and every step's packed weights a place.
func (c *compiler) layout() {
	p := c.plan
	c.keepOnHost()
	of := p.valueBlocks()
	for i := range p.Steps {
		c.overwrite(i, of)
	}
	var blocks []*block
	for i, b := range of {
		if b != nil && p.Slots[i].Over < 0 {
			blocks = append(blocks, b)
		}
	}
	scratch := make([]*block, len(p.Steps))
	var own []*block
	consts := c.newConstants()
	for i := range p.Steps {
		st := &p.Steps[i]
		st.packed = span{p.PackedBytes, int64(st.Kernel.PackedBytes())}
		p.PackedBytes += alignUp(st.packed.n)
		own = append(own, consts.place(st)...)
		st.needs = p.PackedBytes
		if n := int64(st.Kernel.ScratchBytes(p.Threads)); n > 0 {
			scratch[i] = &block{bytes: n, first: i, last: i}
			blocks = append(blocks, scratch[i])
		}
	}
	p.ArenaBytes = c.place(append(blocks, own...))
	c.mirrorValues()
	p.setOffsets(of, scratch, own)
}

// valueBlocks returns the block of the arena that each slot has, those that share memory the same.
func (p *Plan) valueBlocks() []*block {
	of := make([]*block, len(p.Slots))
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Place == InArena {
			of[i] = &block{bytes: s.Bytes, first: s.First, last: s.Last}
		}
	}
	// parts are written before their whole is there, and may be read after it
	for i := range p.Slots {
		if s := &p.Slots[i]; s.Place == Alias {
			if b := of[p.root(i)]; b != nil {
				b.first, b.last = min(b.first, s.First), max(b.last, s.Last)
			}
		}
	}
	return of
}

// setOffsets notes the offsets of blocks in the arena: of slots, of each step's scratch, and of the
// constants that lie there, in their order.
func (p *Plan) setOffsets(of, scratch, own []*block) {
	for i, b := range of {
		if b != nil {
			p.Slots[i].Offset = b.offset
		}
	}
	for i, b := range scratch {
		if b != nil {
			p.Steps[i].scratch = span{b.offset, b.bytes}
		}
	}
	for i := range p.consts {
		if k := &p.consts[i]; k.arena {
			k.at.off, own = own[0].offset, own[1:]
		}
	}
}

func (c *compiler) place(blocks []*block) int64 {
	if c.opts.Placement != 0 {
		return scatter(blocks, c.opts.Placement)
	}
	return place(blocks)
}

// overwrite lets output 0 of step i take the memory of an input that the kernel may write over and
// that nobody reads afterwards, under any name.
func (c *compiler) overwrite(i int, of []*block) {
	p := c.plan
	st := &p.Steps[i]
	c.replace(i, of)
	k, ok := st.Kernel.(compute.InPlace)
	if !ok || len(st.Out) == 0 || st.Out[0] < 0 || p.Slots[st.Out[0]].Place != InArena {
		return
	}
	out := st.Out[0]
	for _, n := range k.InPlace() {
		in := p.root(st.In[n])
		s := &p.Slots[in]
		if s.Place != InArena || s.Last != i || of[in].last != i || s.Bytes != p.Slots[out].Bytes ||
			p.readers(st, in) > 1 {
			continue
		}
		p.Slots[out].Over = in
		of[in].last = max(of[in].last, of[out].last)
		of[out] = of[in]
		return
	}
}

// root is the slot whose bytes a slot is.
func (p *Plan) root(slot int) int {
	for p.Slots[slot].Place == Alias {
		slot = p.Slots[slot].Of
	}
	return slot
}

// begin is where in the bytes of its root a slot begins.
func (p *Plan) begin(slot int) (at int64) {
	for p.Slots[slot].Place == Alias {
		at += p.Slots[slot].At
		slot = p.Slots[slot].Of
	}
	return at
}

// readers counts the operands of a step that are the bytes of a slot.
func (p *Plan) readers(st *Step, slot int) int {
	n := 0
	for _, s := range st.In {
		if s >= 0 && p.root(s) == slot {
			n++
		}
	}
	return n
}
