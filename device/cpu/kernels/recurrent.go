package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// recurrentWeights are W, R and B of a recurrent layer: packed at load where all that are given are
// constant, else at each run.
type recurrentWeights struct {
	w, r, b          *tensor.Tensor // nil where weights are computed, b where there is none, too
	computed, biased bool
}

func recurrentWeightsOf(r *request) recurrentWeights {
	k := recurrentWeights{w: r.constant(op.RNNW), r: r.constant(op.RNNR), b: r.constant(op.RNNB)}
	_, _, k.biased = r.in(op.RNNB)
	if k.w == nil || k.r == nil || k.biased && k.b == nil {
		k = recurrentWeights{computed: true, biased: k.biased}
	}
	return k
}

// Absorbed implements [compute.Absorbing].
func (k *recurrentWeights) Absorbed() []int {
	switch {
	case k.computed:
		return nil
	case k.b == nil:
		return []int{op.RNNW, op.RNNR}
	}
	return []int{op.RNNW, op.RNNR, op.RNNB}
}

// unlessComputed is the bytes of the packed copy that is made at load.
func (k *recurrentWeights) unlessComputed(bytes int) int {
	if k.computed {
		return 0
	}
	return bytes
}

// constants are W, R and B, nil for none.
func (k *recurrentWeights) constants() [3][]float32 {
	return [3][]float32{tensor.As[float32](k.w), tensor.As[float32](k.r), k.constantBias()}
}

// constantBias is B, nil for none.
func (k *recurrentWeights) constantBias() []float32 {
	return optional([]*tensor.Tensor{k.b}, 0)
}

// bind returns where so many bytes of packed weights lie and, for those that are computed, what
// packs them at each run, into the beginning of the scratch, which it takes off.
func (k *recurrentWeights) bind(b *compute.Binding, bytes int,
	packer func(dst []byte, from [3][]float32) *weightPacker) ([]byte, *weightPacker) {
	if !k.computed {
		return b.Packed, nil
	}
	packed := b.Scratch[:bytes]
	b.Scratch = b.Scratch[bytes:]
	return packed, packer(packed, [3][]float32{tensor.As[float32](b.In[op.RNNW]),
		tensor.As[float32](b.In[op.RNNR]), optional(b.In, op.RNNB)})
}

// weightPacker packs the right operands of products that a task multiplies by: a region whose
// chunks are some panels of one.
type weightPacker struct {
	panels []panels
	biases func() // what else is to be done, which takes no time to speak of
}

// panels are those of n columns of k weights each, which may be rows as they are given; ld apart is
// where rows begin.
type panels struct {
	to, from []float32
	k, n, ld int
	rows     bool
}

// operand adds n rows of k weights, which become columns.
func (p *weightPacker) operand(to, from []float32, k, n int) {
	each := panelColumns(k)
	for at := 0; at < n; at += each {
		p.panels = append(p.panels, panels{to[gemm.F32.PackedBLen(k, at):], from[at*k:], k,
			min(each, n-at), k, true})
	}
}

// columns adds n columns of k weights.
func (p *weightPacker) columns(to, from []float32, k, n int) {
	each := panelColumns(k)
	for at := 0; at < n; at += each {
		p.panels = append(p.panels, panels{to[gemm.F32.PackedBLen(k, at):], from[at:], k,
			min(each, n-at), n, false})
	}
}

// panelColumns is how many columns of k weights a chunk packs: whole panels.
func panelColumns(k int) int {
	width := gemm.F32.PanelColumns()
	return max(1, partBytes/4/max(1, k)/width) * width
}

// Chunk implements Region.
func (p *weightPacker) Chunk(i, _ int) {
	o := &p.panels[i]
	gemm.F32.PackB(o.to, o.from, o.k, o.n, o.ld, o.rows)
}

// all packs everything at once.
func (p *weightPacker) all() {
	for i := range p.panels {
		p.Chunk(i, 0)
	}
	p.biases()
}

// run packs everything on the pool; there is nothing to do for nil.
func (p *weightPacker) run(x *compute.Exec) error {
	if p == nil {
		return nil
	}
	if p.biases != nil {
		p.biases()
	}
	return x.For(len(p.panels), p)
}

// cellElements is about how many elements of the state a chunk advances, which takes it some 10 us.
const cellElements = 2048

// cellRows is how many batch entries make a chunk of a step.
func cellRows(hidden int) int { return max(1, cellElements/max(1, hidden)) }
