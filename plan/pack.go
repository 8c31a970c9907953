package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/tensor"
)

// PackOptions say how weights are packed. The zero value packs them on the calling goroutine.
type PackOptions struct {
	// Context, when set, ends the packing when it is done, and its error is that of the packing.
	Context context.Context
	// Pool, when set, shares the work among its workers.
	Pool compute.Pool
	// Gate, when set beside Pool, is asked for the device before each part, and its error is that
	// of the packing. Without it nothing holds the workers back.
	Gate device.Gate
	// Progress, when set, is called with the number of steps done, one call after the other.
	Progress func(done, total int)
	// Packed, when set, is called by any worker with each constant whose copy is written, repacked
	// or as it is, which may be needed again: to pack again, or by another step.
	Packed func(c *tensor.Tensor)
	// Populate, when set, is called by any worker with a stretch of dst that is about to be
	// written. Stretches may meet, and together they are all of it.
	Populate func(from, to int64)
	// From and To, when To is above 0, are the stretch of the packed weights that is wanted: steps
	// and constants that have no byte of it are left out, as are those of Packed and Progress.
	// Bytes beside the stretch that belong to a step within it may be written too.
	From, To int64
}

// wants reports whether any byte of a part of the packed weights is to be written.
func (o *PackOptions) wants(s span) bool {
	return o.To <= 0 || s.n > 0 && s.off < o.To && s.off+s.n > o.From
}

// wantsConst does so for a constant; those of the arenas are not packed.
func (o *PackOptions) wantsConst(k constant) bool { return !k.arena && o.wants(k.at) }

// Pack writes the repacked weights of every step into dst, and, for a device whose memory the host
// cannot address, the constants that its kernels read. dst must hold PackedBytes and be aligned to
// [Align]. One call serves all sessions of the plan. The largest weights are packed first. Pack
// fails with [ErrBare], and with compute.ErrPanic when a kernel panics on a worker of a pool. The
// bytes written do not depend on the number of workers.
func (p *Plan) Pack(dst []byte, o PackOptions) error {
	if int64(len(dst)) < p.PackedBytes {
		return fmt.Errorf("graph %q: packed weights need %d bytes, given %d", p.Graph.Name,
			p.PackedBytes, len(dst))
	}
	if p.bare {
		return fmt.Errorf("graph %q: %w", p.Graph.Name, ErrBare)
	}
	err := p.packConsts(&o, func(off int64, src []byte) error {
		copy(dst[off:], src)
		return nil
	})
	if err != nil {
		return err
	}
	r := &packRegion{plan: p, opts: o, dst: dst}
	r.list(p.packOrder(&o))
	return r.run()
}

// StagingBytes is the most that one step has in the packed weights.
func (p *Plan) StagingBytes() int64 {
	var most int64
	for i := range p.Steps {
		most = max(most, p.Steps[i].packed.n)
	}
	return most
}

// PackTo is [Plan.Pack] for memory that the host cannot address. It hands the packed weights to
// copyIn stretch by stretch; copyIn returns when it has copied its stretch. staging is the memory,
// StagingBytes aligned to [Align], in which a stretch is packed before it is copied. PackTo also
// fails with the errors of copyIn.
func (p *Plan) PackTo(copyIn func(off int64, src []byte) error, staging []byte,
	o PackOptions) error {
	if n := p.StagingBytes(); int64(len(staging)) < n {
		return fmt.Errorf("graph %q: packing weights needs %d bytes on the host, given %d",
			p.Graph.Name, n, len(staging))
	}
	if p.bare {
		return fmt.Errorf("graph %q: %w", p.Graph.Name, ErrBare)
	}
	if err := p.packConsts(&o, copyIn); err != nil {
		return err
	}
	r := &packRegion{plan: p, opts: o, dst: staging}
	r.opts.Populate = nil
	for _, st := range p.packOrder(&o) {
		at := st.to
		st.to.off = 0
		mem := st.to.of(staging)
		clear(mem)
		r.list([]*packStep{st})
		if err := r.run(); err != nil {
			return err
		}
		if at.n == 0 {
			continue
		}
		if err := copyIn(at.off, mem); err != nil {
			return fmt.Errorf("graph %q: %v: packed weights: %w", p.Graph.Name, st.Node, err)
		}
	}
	return nil
}

// packConsts gives the constants that are wanted as they are to copyIn.
func (p *Plan) packConsts(o *PackOptions, copyIn func(off int64, src []byte) error) error {
	return p.copyConsts(o.wantsConst, func(c *tensor.Tensor, off int64) error {
		if o.Context != nil && o.Context.Err() != nil {
			return o.Context.Err()
		}
		if err := copyIn(off, c.Data); err != nil || o.Packed == nil {
			return err
		}
		o.Packed(c)
		return nil
	})
}

// packRegion is the work of one Pack. Its chunks are the parts.
type packRegion struct {
	plan    *Plan
	opts    PackOptions
	dst     []byte
	parts   []packPart
	scratch [][]float32 // by worker

	mu   sync.Mutex // guards done
	done int
}

// packStep is a step whose weights are packed, of the plan or of a body.
type packStep struct {
	*Step
	plan  *Plan
	to    span // of dst
	outer *packStep
	left  atomic.Int32 // parts that are not done, or steps of the bodies
}

// packPart is a part of a step's packed weights, the whole of them for kernels that write them at
// once.
type packPart struct {
	step  *packStep
	i, of int
}

// packOrder lists the steps in the order in which their weights are packed, the largest first.
// While weights are packed they are in memory twice, which matters least for the largest while
// little else is packed yet; and workers that claim the largest first end at about the same time.
func (p *Plan) packOrder(o *PackOptions) []*packStep {
	steps := slices.DeleteFunc(packSteps(nil, p, 0, nil), func(st *packStep) bool {
		return !o.wants(st.to)
	})
	slices.SortStableFunc(steps, func(a, b *packStep) int {
		return cmp.Compare(b.packed.n, a.packed.n)
	})
	return steps
}

// list makes the list of parts, and memory for what the most demanding needs of scratch.
func (r *packRegion) list(steps []*packStep) {
	r.parts = r.parts[:0]
	var scratch int
	for _, st := range steps {
		n := 1
		if k, ok := st.Kernel.(compute.Parted); ok && st.packed.n > 0 {
			var need int
			n, need = k.PackParts()
			scratch = max(scratch, need)
		}
		st.left.Store(int32(n))
		for i := range n {
			r.parts = append(r.parts, packPart{st, i, n})
		}
	}
	workers := 1
	if r.opts.Pool != nil {
		workers = r.opts.Pool.Threads()
	}
	if r.scratch == nil {
		r.scratch = make([][]float32, workers)
	}
	for i, s := range r.scratch {
		if len(s) < scratch {
			r.scratch[i] = make([]float32, scratch)
		}
	}
}

// run packs the listed parts.
func (r *packRegion) run() error {
	ctx := r.opts.Context
	if ctx == nil {
		ctx = context.Background()
	}
	var err error
	if r.opts.Pool == nil {
		err = fault.Do(func() error {
			for i := range r.parts {
				if err := ctx.Err(); err != nil {
					return err
				}
				r.Chunk(i, 0)
			}
			return nil
		})
	} else {
		gate := r.opts.Gate
		if gate == nil {
			gate = device.Open
		}
		err = r.opts.Pool.Run(ctx, gate, len(r.parts), r)
	}
	if err != nil {
		return fmt.Errorf("graph %q: packing weights: %w", r.plan.Graph.Name, err)
	}
	return nil
}

// packSteps adds the steps of a plan whose packed weights begin at offset at. For a step with
// bodies it adds, in place of the step, the steps of the bodies that pack anything.
func packSteps(steps []*packStep, p *Plan, at int64, outer *packStep) []*packStep {
	for i := range p.Steps {
		st := &packStep{Step: &p.Steps[i], plan: p, to: p.Steps[i].packed, outer: outer}
		st.to.off += at
		if outer != nil {
			if st.to.n == 0 {
				continue
			}
			outer.left.Add(1)
		}
		k, ok := st.Kernel.(control)
		if !ok || st.to.n == 0 {
			steps = append(steps, st)
			continue
		}
		spans, _ := packedSpans(k.bodies())
		for b, body := range k.bodies() {
			steps = packSteps(steps, body, st.to.off+spans[b].off, st)
		}
	}
	return steps
}

// Chunk implements Region.
func (r *packRegion) Chunk(i, worker int) {
	part := &r.parts[i]
	st := part.step
	if st.to.n > 0 {
		if r.opts.Populate != nil { // parts lie about where they would if they were equal
			n, of := int64(part.i), int64(part.of)
			r.opts.Populate(st.to.off+st.to.n*n/of, st.to.off+st.to.n*(n+1)/of)
		}
		mem := st.to.of(r.dst)
		if k, ok := st.Kernel.(compute.Parted); ok {
			k.PackPart(mem, part.i, r.scratch[worker])
		} else {
			st.Kernel.Pack(mem)
		}
	}
	if st.left.Add(-1) == 0 {
		r.finish(st)
	}
}

// finish tells of a step whose parts are all written, and of those around it whose bodies are.
func (r *packRegion) finish(st *packStep) {
	if st.to.n > 0 && r.opts.Packed != nil {
		st.plan.eachConst(st.Step, r.opts.Packed)
	}
	for st.outer != nil {
		if st = st.outer; st.left.Add(-1) > 0 {
			return
		}
	}
	if r.opts.Progress != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done++
		r.opts.Progress(r.done, len(r.plan.Steps))
	}
}

// eachConst calls f with the constants that a step reads.
func (p *Plan) eachConst(st *Step, f func(c *tensor.Tensor)) {
	for _, s := range st.In {
		if s >= 0 && p.Slots[s].Place == Constant {
			f(p.Slots[s].Value.Const())
		}
	}
}
