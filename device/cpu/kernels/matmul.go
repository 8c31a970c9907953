package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/tensor"
)

// matmulKernels are the float32 products: MatMul (ONNX 1, 9, 13), Gemm (7 to 13), and weir's fused
// forms.
var matmulKernels = map[opKey]builder{
	{"", "MatMul"}: matMul, {"weir", "MatMul"}: matMul,
	{"", "Gemm"}: gemmCall, {"weir", "Gemm"}: gemmCall,
}

// gemmKernel is a product that internal/kernel/gemm computes, its right operand packed at load when
// that is constant.
type gemmKernel struct {
	params gemm.Params
	op     *gemm.Product
	weight *tensor.Tensor // the constant right operand, nil when it is computed
	bias   int            // input that is the bias, -1 for none
	resid  int            // input that is the residual, -1 for none
	rows   *gemm.Params   // how the left operand lies that is packed once a run, nil for none
}

// matMul is numpy.matmul. A stack of rows times one matrix is one product; other stacks are a batch
// with broadcasting.
func matMul(r *request) (compute.Kernel, error) {
	a, _, _ := r.in(0)
	b, _, _ := r.in(1)
	if !r.allFloat32(-1) || len(a) == 0 || len(b) == 0 {
		return nil, nil
	}
	k := &gemmKernel{bias: -1, resid: -1}
	p := &k.params
	if p.TransB = r.Call.Domain != "" && r.Call.Attrs.Bool("transB", false); p.TransB {
		b = []int{b[1], b[0]}
	}
	batch := r.outShape()
	// a vector on the left is a row, one on the right a column; the result has no such axis
	if len(a) == 1 {
		a = []int{1, a[0]}
	} else {
		batch = batch[:len(batch)-1]
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	} else {
		batch = batch[:len(batch)-1]
	}
	p.M, p.K, p.N = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	switch {
	case count(b[:len(b)-2]) == 1:
		p.M *= count(a[:len(a)-2])
	default:
		p.OffA = batchOffsets(batch, a[:len(a)-2], p.M*p.K)
		p.OffB = batchOffsets(batch, b[:len(b)-2], p.K*p.N)
		p.Batch = len(p.OffA)
	}
	if len(r.In) > 2 {
		p.Bias, k.bias = gemm.BiasPerCol, 2
		if shape, _, _ := r.in(2); count(shape) != p.N {
			return nil, nil
		}
	}
	return k.finish(r)
}

// gemmCall is Gemm: alpha·A'·B' + beta·C.
func gemmCall(r *request) (compute.Kernel, error) {
	a, _, _ := r.in(0)
	b, _, _ := r.in(1)
	if !r.allFloat32(-1) || len(a) != 2 || len(b) != 2 {
		return nil, nil
	}
	k := &gemmKernel{bias: -1, resid: -1}
	p, attrs := &k.params, r.Call.Attrs
	p.TransA, p.TransB = attrs.Bool("transA", false), attrs.Bool("transB", false)
	p.M, p.K, p.N = a[0], a[1], b[1]
	if p.TransA {
		p.M, p.K = a[1], a[0]
	}
	if p.TransB {
		p.N = b[0]
	}
	p.Alpha, p.Beta = attrs.Float("alpha", 1), attrs.Float("beta", 1)
	if p.Alpha == 0 || p.Beta == 0 {
		return nil, nil
	}
	if c, _, ok := r.in(2); ok && !k.setC(c) {
		return nil, nil
	}
	return k.finish(r)
}

// setC chooses how C of the given shape is added; false for shapes that the reference serves.
func (k *gemmKernel) setC(c []int) bool {
	p := &k.params
	rows, cols := dimFromEnd(c, 2), dimFromEnd(c, 1)
	switch {
	case len(c) > 2:
		return false
	case rows == 1 && cols == p.N && p.Beta == 1:
		p.Bias, k.bias = gemm.BiasPerCol, 2
	case rows == 1 && cols == p.N:
		p.Residual, k.resid = gemm.ResidualOneRow, 2
	case rows == p.M && cols == 1 && p.Beta == 1:
		p.Bias, k.bias = gemm.BiasPerRow, 2
	case rows == p.M && cols == p.N:
		p.Residual, k.resid = gemm.ResidualFull, 2
	default:
		return false
	}
	return true
}

func (k *gemmKernel) finish(r *request) (compute.Kernel, error) {
	if !setActivation(r.Call, &k.params.Epilogue) {
		return nil, nil
	}
	k.params.Format = formatOf(r.Call)
	if w := r.constant(1); w != nil && k.params.Batch <= 1 && k.params.N > 0 && k.params.K > 0 {
		k.weight, k.params.PackedB = w, true
	}
	k.params.Near = k.weight == nil
	if k.params.K == 0 {
		return nil, nil
	}
	if k.params.Format == gemm.BF16 {
		return k.mixed(r.Choices)
	}
	return k, k.plan()
}

// plan plans the product once its format is known.
func (k *gemmKernel) plan() (err error) {
	if k.params.PacksOnce() {
		rows := k.params
		k.rows, k.params.PackedA = &rows, true
	}
	k.op, err = gemm.New(k.params)
	return err
}

// InPlace implements [compute.InPlace]: each element of the residual is read where the result goes.
func (k *gemmKernel) InPlace() []int {
	if k.params.Residual == gemm.ResidualFull {
		return []int{k.resid}
	}
	return nil
}

// Name implements Kernel.
func (k *gemmKernel) Name() string {
	name := "gemm"
	if k.params.Format == gemm.BF16 {
		name += ".bf16"
	}
	if k.weight != nil {
		name += ".packed"
	}
	return name
}

// Absorbed implements [compute.Absorbing].
func (k *gemmKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// PackedBytes implements Kernel.
func (k *gemmKernel) PackedBytes() int {
	if k.weight == nil {
		return 0
	}
	return 4 * k.params.Format.PackedBLen(k.params.K, k.params.N)
}

// Packing implements [compute.Packing].
func (k *gemmKernel) Packing() any {
	type packing struct {
		weight *tensor.Tensor
		k, n   int
		trans  bool
		format gemm.Format
		panel  int // stands for the instruction level
	}
	p := &k.params
	return packing{k.weight, p.K, p.N, p.TransB, p.Format, k.op.PanelWidth()}
}

// ScratchBytes implements Kernel.
func (k *gemmKernel) ScratchBytes(workers int) int {
	return workers*scratchBytes(k.op.ScratchLen()) + k.rowsBytes()
}

// rowsBytes is the scratch, beside the workers', of the packed left operand.
func (k *gemmKernel) rowsBytes() int {
	if k.rows == nil {
		return 0
	}
	return scratchBytes(k.params.Format.PackedALen(k.params.M, k.params.K))
}

// scratchBytes rounds a worker's scratch up to whole cache lines, so that workers share none.
//
//go:noinline
func scratchBytes(floats int) int { return (4*floats + 63) &^ 63 }

// Bind implements Kernel.
func (k *gemmKernel) Bind(b compute.Binding) compute.Task {
	t := &gemmTask{op: k.op}
	t.args.A, t.args.C = tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	if n := k.rowsBytes(); n > 0 {
		t.rows = &packedRows{of: k.rows, from: t.args.A, to: tensor.Cast[float32](b.Scratch[:n])}
		t.args.A, b.Scratch = t.rows.to, b.Scratch[n:]
	}
	t.scratch = perWorker(b)
	if k.weight != nil {
		t.args.B = tensor.Cast[float32](b.Packed)
	} else {
		t.args.B = tensor.As[float32](b.In[1])
	}
	if k.bias >= 0 {
		t.args.Bias = tensor.As[float32](b.In[k.bias])
	}
	if k.resid >= 0 {
		t.args.Residual = tensor.As[float32](b.In[k.resid])
	}
	return t
}

type gemmTask struct {
	op      *gemm.Product
	args    gemm.Args
	scratch [][]float32 // by worker
	rows    *packedRows // nil where the product reads its left operand as it is given
}

// packedRows is a left operand, and where it is packed each run; a chunk is a panel of rows.
type packedRows struct {
	of       *gemm.Params
	from, to []float32
}

// chunks is the number of panels.
func (r *packedRows) chunks() int {
	n := r.of.Format.PanelRows()
	return (r.of.M + n - 1) / n
}

// Chunk implements Region.
func (r *packedRows) Chunk(i, _ int) {
	p := r.of
	first := i * p.Format.PanelRows()
	rows, at, ld := min(p.Format.PanelRows(), p.M-first), first*p.K, p.K
	if p.TransA {
		at, ld = first, p.M
	}
	p.Format.PackA(r.to[p.Format.PackedALen(first, p.K):], r.from[at:], rows, p.K, ld, p.TransA)
}

// perWorker cuts a binding's scratch into one part a worker.
//
//go:noinline
func perWorker(b compute.Binding) [][]float32 {
	parts := make([][]float32, b.Workers)
	n := len(b.Scratch) / max(1, b.Workers) &^ 63
	for i := range parts {
		parts[i] = tensor.Cast[float32](b.Scratch[i*n : (i+1)*n])
	}
	return parts
}

// Run implements Task.
func (t *gemmTask) Run(x *compute.Exec) error {
	if t.rows != nil {
		if err := x.For(t.rows.chunks(), t.rows); err != nil {
			return err
		}
	}
	return x.For(t.op.Chunks(), t)
}

// Chunk implements Region.
func (t *gemmTask) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }

// count is the number of elements of a shape.
//
//go:noinline
func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// batchOffsets returns, for each index of the batch shape, where its matrix starts in an operand
// whose own batch shape broadcasts to it.
func batchOffsets(batch, own []int, matrix int) []int {
	out := make([]int, count(batch))
	for i := range out {
		rest, stride := i, matrix
		for d := 1; d <= len(batch); d++ {
			n := dimFromEnd(batch, d)
			k := rest % n
			rest /= n
			if m := dimFromEnd(own, d); m > 1 {
				out[i] += k * stride
				stride *= m
			}
		}
	}
	return out
}

// Pack implements Kernel.
func (k *gemmKernel) Pack(dst []byte) { packParts(k, dst) }

// panels is the number of panels of the packed right operand.
func (k *gemmKernel) panels() int {
	w := k.op.PanelWidth()
	return (k.params.N + w - 1) / w
}

// PackParts implements [compute.Parted].
func (k *gemmKernel) PackParts() (n, scratch int) {
	if k.weight == nil {
		return 0, 0
	}
	return partsOf(k.PackedBytes(), k.panels()), 0
}

// PackPart implements [compute.Parted]: some panels of columns.
func (k *gemmKernel) PackPart(dst []byte, part int, _ []float32) {
	p, width := &k.params, k.op.PanelWidth()
	n, _ := k.PackParts()
	from, to := k.panels()*part/n*width, min(k.panels()*(part+1)/n*width, p.N)
	at, ld := from, p.N
	if p.TransB {
		at, ld = from*p.K, p.K
	}
	words := p.Format.PackedBLen(p.K, from)
	p.Format.PackB(tensor.Cast[float32](dst)[words:], tensor.As[float32](k.weight)[at:], p.K,
		to-from, ld, p.TransB)
}
