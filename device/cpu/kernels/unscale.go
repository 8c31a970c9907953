package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// unscaleKernels take the scale of a loss out of gradients.
var unscaleKernels = map[opKey]builder{{op.FusedDomain, op.Unscale}: unscale}

func unscale(r *request) (compute.Kernel, error) {
	if !r.allFloat32(-1) {
		return nil, nil
	}
	return &unscaleKernel{n: count(r.outShape())}, nil
}

// unscaleKernel divides n elements and finds the greatest magnitude among them: of each block
// first, which lie in its scratch, and then of those.
type unscaleKernel struct {
	plain
	first
	n int
}

// Name implements Kernel.
func (k *unscaleKernel) Name() string { return "unscale" }

// ScratchBytes implements Kernel.
func (k *unscaleKernel) ScratchBytes(int) int { return scratchBytes(blocks(k.n)) }

// Bind implements Kernel.
func (k *unscaleKernel) Bind(b compute.Binding) compute.Task {
	t := &unscaleTask{g: tensor.As[float32](b.In[0]), scale: tensor.As[float32](b.In[1]),
		y: tensor.As[float32](b.Out[0]), most: tensor.Cast[float32](b.Scratch)[:blocks(k.n)]}
	if len(b.Out) > 1 && b.Out[1] != nil {
		t.largest = tensor.As[float32](b.Out[1])
	}
	return t
}

type unscaleTask struct {
	g, scale, y []float32
	most        []float32 // of each block
	largest     []float32 // nil where nobody asks for it
}

// Run implements Task.
func (t *unscaleTask) Run(x *compute.Exec) error {
	if t.marks() {
		return nil
	}
	if err := x.For(blocks(len(t.y)), t); err != nil || t.largest == nil {
		return err
	}
	if t.largest[0] = max(0, vec.MaxReduce(t.most)); t.largest[0] != t.largest[0] {
		t.largest[0] = float32(math.NaN()) // whichever of several it was
	}
	return nil
}

// marks reports whether there is nothing to compute: gradients of a loss that is not scaled, where
// they are.
func (t *unscaleTask) marks() bool {
	return t.largest == nil && t.scale[0] == 1 && len(t.y) > 0 && &t.y[0] == &t.g[0]
}

// Chunk implements Region.
func (t *unscaleTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.y))
	g := t.g[lo:hi]
	if t.largest != nil {
		t.most[i] = max(vec.MaxReduce(g), -vec.MinReduce(g))
	}
	vec.DivScalar(t.y[lo:hi], g, t.scale[0])
}
