package cpu

import (
	"github.com/weirgpu/weir/kernel/gemm"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// nBitsKernels are products of float32 by constant weights of four bits.
var nBitsKernels = map[opKey]builder{{op.FusedDomain, "MatMulNBits"}: matMulNBits}

// mostPacked bounds the floats that are packed first: more of them would not stay in the cache.
const mostPacked = 1 << 20

// nBitsKernel is a product of m x k floats by k x n numbers of four bits, which become floats a panel at a time, in the first cache
// level, where the product reads them. The floats, unless there are many, are packed first, for all columns, so that the product can take all rows at a time
// and each panel becomes floats once. Packed at load are, panel by panel of columns, the zero points and the scales of each block of K as
// floats, and then the rows of the panel as [vec.Nibbles] reads them.
type nBitsKernel struct {
	m, n, k       int
	block         int // elements along K that share a scale
	b, scales     *tensor.Tensor
	zeros         *tensor.Tensor // nil for 8 everywhere
	biased        bool
	first         bool // the rows are packed first
	width, blocks int  // columns of a panel, blocks along K
	op            *gemm.Op
}

func matMulNBits(r *Request) (Kernel, error) {
	a, d, _ := r.in(op.NBitsA)
	attrs := r.Call.Attrs
	k := &nBitsKernel{n: int(attrs.Int("N", 0)), k: int(attrs.Int("K", 0)), block: int(attrs.Int("block_size", 0)),
		b: r.constant(op.NBitsB), scales: r.constant(op.NBitsScales), zeros: r.constant(op.NBitsZeros), width: gemm.F32.PanelColumns()}
	_, _, zeroed := r.in(op.NBitsZeros)
	_, _, grouped := r.in(op.NBitsGroups)
	if d != tensor.Float32 || attrs.Int("bits", 4) != 4 || k.b == nil || k.scales == nil || zeroed && k.zeros == nil || grouped ||
		len(a) == 0 || k.k < 1 || k.n < 1 || k.block < 2 || k.block%2 != 0 {
		return nil, nil
	}
	k.blocks = (k.k + k.block - 1) / k.block
	if !k.sized() {
		return nil, nil
	}
	k.m = count(a[:len(a)-1])
	k.first = k.m*k.k <= mostPacked
	p := gemm.Params{M: k.m, N: k.n, K: k.k, Fill: k.fill, PackedA: k.first}
	if bias, bd, ok := r.in(op.NBitsBias); ok {
		if bd != tensor.Float32 || count(bias) != k.n {
			return nil, nil
		}
		p.Bias, k.biased = gemm.BiasPerCol, true
	}
	if !setActivation(r.Call, &p.Epilogue) {
		return nil, nil
	}
	var err error
	k.op, err = gemm.New(p)
	return k, err
}

// sized reports whether the constants have the elements that the attributes say, of types that Pack reads; the reference says what is
// wrong.
func (k *nBitsKernel) sized() bool {
	if k.b.DType != tensor.Uint8 || k.b.Len() != k.n*k.blocks*k.block/2 || k.scales.DType != tensor.Float32 ||
		k.scales.Len() != k.n*k.blocks {
		return false
	}
	switch {
	case k.zeros == nil:
		return true
	case k.zeros.DType == tensor.Uint8:
		return k.zeros.Len() == k.n*((k.blocks+1)/2)
	}
	return k.zeros.DType == tensor.Float32 && k.zeros.Len() == k.n*k.blocks
}

// zero is the zero point of a block of a column.
func (k *nBitsKernel) zero(col, block int) float32 {
	switch {
	case k.zeros == nil:
		return 8
	case k.zeros.DType == tensor.Float32:
		return tensor.As[float32](k.zeros)[col*k.blocks+block]
	}
	return float32(k.zeros.Data[col*((k.blocks+1)/2)+block/2] >> (block % 2 * 4) & 15)
}

// panelBytes is the size of a packed panel: of its zero points and scales, and with its rows, rounded up to a cache line.
func (k *nBitsKernel) panelBytes() (head, all int) {
	head = 8 * k.blocks * k.width
	return head, (head + k.k*k.width/2 + 63) &^ 63
}

// Name implements Kernel.
func (k *nBitsKernel) Name() string { return "gemm.4bit" }

// PackedBytes implements Kernel.
func (k *nBitsKernel) PackedBytes() int {
	_, panel := k.panelBytes()
	return (k.n + k.width - 1) / k.width * panel
}

// Packing implements [Packing].
func (k *nBitsKernel) Packing() any {
	type packing struct {
		b, scales, zeros *tensor.Tensor
		k, n, block      int
		panel            int // stands for the instruction level
	}
	return packing{k.b, k.scales, k.zeros, k.k, k.n, k.block, k.width}
}

// Pack implements Kernel.
func (k *nBitsKernel) Pack(dst []byte) {
	head, panel := k.panelBytes()
	for j := 0; j < k.n; j += k.width {
		at := dst[j/k.width*panel:][:panel]
		clear(at)
		numbers, rows := tensor.Cast[float32](at[:head]), at[head:]
		for c := range min(k.width, k.n-j) {
			for g := range k.blocks {
				numbers[2*g*k.width+c] = k.zero(j+c, g)
				numbers[(2*g+1)*k.width+c] = tensor.As[float32](k.scales)[(j+c)*k.blocks+g]
			}
			k.packColumn(rows, k.b.Data[(j+c)*k.blocks*k.block/2:], c)
		}
	}
}

// packColumn puts the numbers of a column, neighbours along K in the halves of bytes, into column c of a panel.
func (k *nBitsKernel) packColumn(rows, column []byte, c int) {
	half := k.width / 2
	shift := c / half * 4
	at := c % half
	for i := range k.k {
		rows[at] |= column[i/2] >> (i % 2 * 4) & 15 << shift
		at += half
	}
}

// fill implements [gemm.Params.Fill].
func (k *nBitsKernel) fill(dst, src []float32, k0, k1, j0, _ int) {
	head, panel := k.panelBytes()
	w := k.width
	at := tensor.Bytes(src)[j0/w*panel:][:panel]
	numbers, rows := tensor.Cast[float32](at[:head]), at[head:]
	for i := k0; i < k1; {
		g := i / k.block
		end := min(k1, (g+1)*k.block)
		block := numbers[2*g*w:][:2*w]
		vec.Nibbles(dst[(i-k0)*w:(end-k0)*w], rows[i*w/2:end*w/2], block[:w], block[w:])
		i = end
	}
}

// ScratchBytes implements Kernel: the packed rows and each worker's part.
func (k *nBitsKernel) ScratchBytes(workers int) int {
	return k.rowBytes() + workers*scratchBytes(k.op.ScratchLen())
}

// rowBytes is the size of the rows that are packed first.
func (k *nBitsKernel) rowBytes() int {
	if !k.first {
		return 0
	}
	return scratchBytes(gemm.F32.PackedALen(k.m, k.k))
}

// Bind implements Kernel.
func (k *nBitsKernel) Bind(b Binding) Task {
	worker := b
	worker.Scratch = b.Scratch[k.rowBytes():]
	t := &nBitsTask{k: k, a: tensor.As[float32](b.In[op.NBitsA])}
	t.product = gemmTask{op: k.op, scratch: perWorker(worker)}
	t.product.args.A, t.product.args.B, t.product.args.C = t.a, tensor.Cast[float32](b.Packed), tensor.As[float32](b.Out[0])
	if k.first {
		t.product.args.A = tensor.Cast[float32](b.Scratch[:k.rowBytes()])
	}
	if k.biased {
		t.product.args.Bias = tensor.As[float32](b.In[op.NBitsBias])
	}
	return t
}

type nBitsTask struct {
	k       *nBitsKernel
	a       []float32
	product gemmTask
}

// Run implements Task.
func (t *nBitsTask) Run(x *Exec) error {
	if rows := gemm.F32.PanelRows(); t.k.first {
		if err := x.For((t.k.m+rows-1)/rows, t); err != nil {
			return err
		}
	}
	return t.product.Run(x)
}

// Chunk implements Region: it packs one panel of rows.
func (t *nBitsTask) Chunk(i, _ int) {
	rows := gemm.F32.PanelRows()
	first := i * rows
	n := min(rows, t.k.m-first)
	gemm.F32.PackA(t.product.args.A[first*t.k.k:], t.a[first*t.k.k:], n, t.k.k, 0, false)
}
