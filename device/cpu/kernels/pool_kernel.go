package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/tensor"
)

// poolKernels are MaxPool (ONNX 1 to 22, without Indices) and AveragePool (7 to 22) over one to
// three spatial axes. Windows of whole planes are those of GlobalMaxPool and GlobalAveragePool,
// which split large planes; of others, rows of outputs are split.
var poolKernels = map[opKey]builder{
	{"", "MaxPool"}:     pooling(conv.MaxPool, reduceMax),
	{"", "AveragePool"}: pooling(conv.AveragePool, reduceMean),
}

type poolKernel struct {
	plain
	op *conv.Pool
}

//go:noinline
func pooling(kind conv.PoolKind, whole reduction) builder {
	return func(r *request) (compute.Kernel, error) {
		x, _, _ := r.in(0)
		if !r.allFloat32(-1) || wants(r, 1) || len(x) < 3 || len(x) > 5 || count(x) == 0 {
			return nil, nil
		}
		win, ok := poolWindow(r.Call, x[2:])
		if !ok {
			return nil, nil
		}
		if wholePlane(&win) {
			return newReduce(whole, x[0]*x[1], count(x[2:]), 1), nil
		}
		p := conv.PoolParams{Window: win, Kind: kind, Planes: x[0] * x[1], Out: [3]int{1, 1, 1},
			CountPad: r.Call.Attrs.Bool("count_include_pad", false)}
		copy(p.Out[5-len(x):], r.outShape()[2:])
		op, err := conv.NewPool(p)
		if err != nil {
			return nil, nil // windows that lie wholly in the padding are the reference's
		}
		return &poolKernel{op: op}, nil
	}
}

// wholePlane reports whether a window is the whole image, without padding.
func wholePlane(w *conv.Window) bool {
	none := [3]int{}
	return w.Kernel == w.In && w.PadLo == none && w.PadHi == none
}

// Name implements Kernel.
func (k *poolKernel) Name() string { return "pool" }

// ScratchBytes implements Kernel.
func (k *poolKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *poolKernel) Bind(b compute.Binding) compute.Task {
	return &poolTask{
		op:      k.op,
		x:       tensor.As[float32](b.In[0]),
		y:       tensor.As[float32](b.Out[0]),
		scratch: perWorker(b),
	}
}

type poolTask struct {
	op      *conv.Pool
	x, y    []float32
	scratch [][]float32
}

// Run implements Task.
func (t *poolTask) Run(x *compute.Exec) error { return x.For(t.op.Chunks(), t) }

// Chunk implements Region.
func (t *poolTask) Chunk(i, worker int) { t.op.Run(i, t.x, t.y, t.scratch[worker]) }
