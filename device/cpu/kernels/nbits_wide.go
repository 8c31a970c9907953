package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// mostPacked bounds the floats that are packed first, 32 MiB, as they take memory.
const mostPacked = 8 << 20

// nBitsWide is a product by weights of four bits that become floats a panel at a time, in the first
// cache level, where the product reads them. The rows, unless there are many, are packed first, for
// all columns, so that the product can take all of them at a time and each panel becomes floats
// once.
type nBitsWide struct {
	nBits
	first bool // the rows are packed first
	op    *gemm.Product
}

func newNBitsWide(n nBits) (compute.Kernel, error) {
	k := &nBitsWide{nBits: n}
	k.first = k.m*k.weights.K <= mostPacked
	p := gemm.Params{M: k.m, N: k.weights.N, K: k.weights.K, PackedA: k.first, Epilogue: k.after,
		PanelRows: gemm.F32.EvenRows(k.m)}
	if k.biased {
		p.Bias = gemm.BiasPerCol
	}
	width, columns := gemm.F32.PanelColumns(), k.weights.Columns()
	p.Fill = func(dst, src []float32, k0, k1, j0, _ int) {
		for j := 0; j < width; j += columns {
			panel := (j0 + j) / columns
			if panel >= k.weights.Panels() {
				for i := range k1 - k0 {
					clear(dst[i*width+j:][:columns])
				}
				continue
			}
			k.weights.Widen(dst[j:], width, tensor.Bytes(src), panel, k0, k1)
		}
	}
	var err error
	k.op, err = gemm.New(p)
	return k, err
}

// Name implements Kernel.
func (k *nBitsWide) Name() string { return "gemm.4bit" }

// ScratchBytes implements Kernel: the packed rows and each worker's part.
func (k *nBitsWide) ScratchBytes(workers int) int {
	return k.rowBytes() + workers*scratchBytes(k.op.ScratchLen())
}

// rowBytes is the size of the rows that are packed first.
func (k *nBitsWide) rowBytes() int {
	if !k.first {
		return 0
	}
	return scratchBytes(gemm.F32.PackedALen(k.m, k.weights.K))
}

// Bind implements Kernel.
func (k *nBitsWide) Bind(b compute.Binding) compute.Task {
	worker := b
	worker.Scratch = b.Scratch[k.rowBytes():]
	t := &nBitsWideTask{k: k, a: tensor.As[float32](b.In[microsoft.NBitsA])}
	t.product = gemmTask{op: k.op, scratch: perWorker(worker)}
	t.product.args = gemm.Args{
		A: t.a,
		B: tensor.Cast[float32](b.Packed),
		C: tensor.As[float32](b.Out[0]),
	}
	if k.first {
		t.product.args.A = tensor.Cast[float32](b.Scratch[:k.rowBytes()])
	}
	if k.biased {
		t.product.args.Bias = tensor.As[float32](b.In[microsoft.NBitsBias])
	}
	return t
}

type nBitsWideTask struct {
	k       *nBitsWide
	a       []float32
	product gemmTask
}

// Run implements Task.
func (t *nBitsWideTask) Run(x *compute.Exec) error {
	if rows := gemm.F32.EvenRows(t.k.m); t.k.first {
		if err := x.For((t.k.m+rows-1)/rows, t); err != nil {
			return err
		}
	}
	return t.product.Run(x)
}

// Chunk implements Region: it packs one panel of rows.
func (t *nBitsWideTask) Chunk(i, _ int) {
	rows, along := gemm.F32.EvenRows(t.k.m), t.k.weights.K
	first := i * rows
	n := min(rows, t.k.m-first)
	gemm.F32.PackA(t.product.args.A[first*along:], t.a[first*along:], n, along, 0, false)
}
