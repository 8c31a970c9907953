package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// byteLSTMKernels are DynamicQuantizeLSTM (com.microsoft 1) of the kind that [lstmKernels] are
// LSTM.
var byteLSTMKernels = map[opKey]builder{{microsoft.Domain, "DynamicQuantizeLSTM"}: byteLSTM}

// byteLSTMKernel is an LSTM whose products are of bytes. X has one scale; the state of each batch
// entry has a scale of its own at each step; weights have constant scales. What the comment of
// [byteProduct] says of flipped bytes and zero points holds here, too.
type byteLSTMKernel struct {
	lstmKernel
	operands [2]byteWeights // W and R
	products [2]*gemm.Product
}

// byteWeights is W or R: directions x rows x gates.
type byteWeights struct {
	w, scale, zero *tensor.Tensor
	rows, gates    int
	// whether bytes are flipped, and whether any zero point is other than 0 then
	flip, shifted bool
}

func byteLSTM(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(op.RNNX)
	w, _, _ := r.in(op.RNNW)
	weights := recurrentWeightsOf(r)
	if !lstmPlain(r) || len(x) != 3 || len(w) != 3 || count(x) == 0 || count(w) == 0 ||
		weights.computed {
		return nil, nil
	}
	k := &byteLSTMKernel{
		lstmKernel: lstmKernel{recurrentWeights: weights, seq: x[0], batch: x[1], in: x[2],
			hidden: w[2] / 4, dirs: w[0]},
	}
	k.options(r)
	rows := []int{k.seq * k.batch, k.batch}
	for i, at := range []int{op.RNNW, op.RNNR} {
		o, ok := newByteWeights(r, at, microsoft.LSTMWScale+2*i)
		if !ok {
			return nil, nil
		}
		k.operands[i] = o
		var err error
		if k.products[i], err = gemm.New(
			gemm.Params{M: rows[i], N: o.gates, K: o.words(), Format: gemm.U8S8, PackedB: true,
				ToStore: true},
		); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// newByteWeights takes the weights of input i; false where they, their scales or zero points are
// not constant.
func newByteWeights(r *request, i, scale int) (byteWeights, bool) {
	o := byteWeights{w: r.constant(i), scale: r.constant(scale), zero: r.constant(scale + 1)}
	if o.w == nil || o.scale == nil || o.zero == nil || !isByte(o.w.DType) ||
		o.zero.DType != o.w.DType || o.scale.DType != tensor.Float32 {
		return o, false
	}
	o.rows, o.gates, o.flip = o.w.Shape[1], o.w.Shape[2], o.w.DType == tensor.Uint8
	o.shifted = slices.ContainsFunc(o.zero.Data,
		func(z byte) bool { return z != flippedZero(o.flip) })
	one := func(t *tensor.Tensor) bool {
		return t.Len() == o.w.Shape[0] || t.Len() == o.w.Shape[0]*o.gates
	}
	return o, one(o.scale) && one(o.zero)
}

// words is how many words a row of the left operand takes.
func (o *byteWeights) words() int { return (o.rows + 3) / 4 }

// lens are the words that one direction takes: packed weights and, for each gate, its sum, its
// scale and its zero point.
func (o *byteWeights) lens() (weights, gates int) {
	round := func(n int) int { return (n + 15) &^ 15 }
	return round(gemm.U8S8.PackedBLen(o.words(), o.gates)), round(o.gates)
}

// size is the number of words of one direction.
func (o *byteWeights) size() int {
	weights, gates := o.lens()
	return weights + 3*gates
}

// packedGates is one direction of packed weights.
type packedGates struct {
	weights           []float32
	sums, scale, zero []float32
}

// cut finds the parts of one direction.
func (o *byteWeights) cut(packed []float32) packedGates {
	weights, gates := o.lens()
	part := func(i int) []float32 { return packed[weights+i*gates:][:o.gates] }
	return packedGates{packed[:weights], part(0), part(1), part(2)}
}

// pack packs direction d.
func (o *byteWeights) pack(p packedGates, d int) {
	words := make([]byte, 4*o.words()*o.gates)
	clear(p.sums)
	for row := range o.rows {
		for g, b := range o.w.Data[(d*o.rows+row)*o.gates:][:o.gates] {
			b ^= flippedZero(o.flip)
			p.sums[g] += float32(int8(b))
			words[(row/4*o.gates+g)*4+row%4] = b
		}
	}
	gemm.U8S8.PackB(p.weights, tensor.Cast[float32](words), o.words(), o.gates, 0, false)
	scale, zero := tensor.As[float32](o.scale), o.zero
	perDirection := func(t *tensor.Tensor, g int) int {
		return (d*o.gates + g) * t.Len() / o.w.Shape[0] / o.gates
	}
	for g := range o.gates {
		p.scale[g] = scale[perDirection(o.scale, g)]
		p.zero[g] = zeroAt(zero, perDirection(zero, g)) - float32(flippedZero(o.flip))
	}
}

// Name implements Kernel.
func (k *byteLSTMKernel) Name() string { return "lstm.int8" }

// Absorbed implements [compute.Absorbing].
func (k *byteLSTMKernel) Absorbed() []int { return []int{op.RNNW, op.RNNR} }

// biasLen is the number of words of one direction's summed bias.
func (k *byteLSTMKernel) biasLen() int { return (4*k.hidden + 15) &^ 15 }

// directionLen is the number of words of one direction.
func (k *byteLSTMKernel) directionLen() int {
	return k.operands[0].size() + k.operands[1].size() + k.biasLen()
}

// PackedBytes implements Kernel.
func (k *byteLSTMKernel) PackedBytes() int { return 4 * k.dirs * k.directionLen() }

// parts cuts one direction's packed weights.
func (k *byteLSTMKernel) parts(packed []byte, d int) (p [2]packedGates, bias []float32) {
	f := tensor.Cast[float32](packed)[d*k.directionLen():]
	for i := range p {
		p[i] = k.operands[i].cut(f)
		f = f[k.operands[i].size():]
	}
	return p, f[:4*k.hidden]
}

// Pack implements Kernel.
func (k *byteLSTMKernel) Pack(dst []byte) {
	for d := range k.dirs {
		p, bias := k.parts(dst, d)
		for i := range p {
			k.operands[i].pack(p[i], d)
		}
		k.packBias(bias, k.constantBias(), d)
	}
}

// ScratchBytes implements Kernel: the gates of all steps, the running h and c, the bytes of X and
// of h, and each worker's part.
func (k *byteLSTMKernel) ScratchBytes(workers int) int {
	gates, state := k.scratchLens()
	x, h := k.byteLens()
	return gates + 2*state + x + h + workers*k.workerBytes()
}

// byteLens are the sizes of the bytes of X and of h.
func (k *byteLSTMKernel) byteLens() (x, h int) {
	return scratchBytes(k.seq * k.batch * k.operands[0].words()), scratchBytes(
		k.batch * k.operands[1].words())
}

func (k *byteLSTMKernel) workerBytes() int {
	return scratchBytes(max(k.products[0].ScratchLen(), k.products[1].ScratchLen()))
}

// Bind implements Kernel.
func (k *byteLSTMKernel) Bind(b compute.Binding) compute.Task {
	t := &byteLSTMTask{lstmState: newLSTMState(&k.lstmKernel, b)}
	gates, state := k.scratchLens()
	take := taker(b.Scratch[gates+2*state:])
	x, h := k.byteLens()
	for i, part := range [][]byte{take(x), take(h)} {
		o := &t.rows[i]
		o.byteWeights, o.bytes = &k.operands[i], part
		o.rows = make([]byteRow, []int{k.seq * k.batch, k.batch}[i])
		o.product.op = k.products[i]
		o.product.args = gemm.Args{A: tensor.Cast[float32](part), Store: o.store}
	}
	for range b.Workers {
		s := tensor.Cast[float32](take(k.workerBytes()))
		for i := range t.rows {
			t.rows[i].product.scratch = append(t.rows[i].product.scratch, s)
		}
	}
	for d := range k.dirs {
		t.packed[d], t.bias[d] = k.parts(b.Packed, d)
	}
	return t
}

type byteLSTMTask struct {
	lstmState
	rows   [2]byteRows // of X and of h
	packed [2][2]packedGates
	bias   [2][]float32
}

// byteRows is the left operand of a product, whose result is added to the gates in to.
type byteRows struct {
	*byteWeights
	bytes   []byte // in rows of words
	rows    []byteRow
	limits  [2]float32
	grid    vec.Requantization // of the row that is made bytes
	packed  packedGates
	to      []float32
	product gemmTask
}

// byteRow is what belongs to a row: its scale and zero point, and the sum of its bytes less the
// zero points.
type byteRow struct{ scale, zero, sum float32 }

// Run implements Task.
func (t *byteLSTMTask) Run(x *compute.Exec) error {
	t.rows[0].quantize(t.x, true)
	for d := range t.dirs {
		if err := t.direction(x, d); err != nil {
			return err
		}
	}
	return nil
}

// direction computes X·W + b of all steps and then step by step, with h as bytes. Both products are
// added to the gates.
func (t *byteLSTMTask) direction(x *compute.Exec, d int) error {
	t.begin(d)
	for row := range t.seq * t.batch {
		copy(t.gates[row*4*t.hidden:], t.bias[d])
	}
	in, state := &t.rows[0], &t.rows[1]
	in.packed, in.to, state.packed = t.packed[d][0], t.gates, t.packed[d][1]
	if err := in.multiply(x); err != nil {
		return err
	}
	for i := range t.seq {
		at, gates := t.position(d, i)
		state.to = gates
		state.quantize(t.h, false)
		if err := state.multiply(x); err != nil {
			return err
		}
		if err := t.advance(x, d, at, gates); err != nil {
			return err
		}
	}
	t.end(d)
	return nil
}

// multiply adds the product of the rows by the weights to the gates.
func (o *byteRows) multiply(x *compute.Exec) error {
	o.product.args.B = o.packed.weights
	return o.product.Run(x)
}

// quantize makes bytes of rows of floats, together on one scale or each on its own, as
// DynamicQuantizeLinear-11 does.
func (o *byteRows) quantize(x []float32, together bool) {
	width, n := 4*o.words(), o.byteWeights.rows
	for i := range o.rows {
		row := x[i*n:][:n]
		switch {
		case !together:
			o.fit(i, row)
		case i == 0:
			o.fit(i, x)
		default:
			o.rows[i] = o.rows[0]
		}
		to := o.bytes[i*width:][:width]
		clear(to[n:])
		vec.Quantize(to[:n], row, &o.grid)
		if o.shifted {
			o.rows[i].sum = float32(vec.SumBytes(to[:n])) - float32(n)*o.rows[i].zero
		}
	}
}

// fit finds the scale of row i on which x just fits.
func (o *byteRows) fit(i int, x []float32) {
	o.limits = [2]float32{vec.MinReduce(x), vec.MaxReduce(x)}
	scale, zero := op.DynamicGrid(o.limits[:])
	o.rows[i] = byteRow{scale: scale, zero: float32(zero)}
	o.grid.Numbers(scale, vec.Bytes{Zero: int32(zero)})
}

// store adds finished sums, scaled, to the gates. With a and w as multiplied and za and zw their
// zero points it is sum aw - za*sum w - zw*(sum a - rows*za) that is scaled.
func (o *byteRows) store(sums []float32, ld, _, i0, i1, j0, j1 int) {
	var buf [piece]float32
	for i := i0; i < i1; i++ {
		g := o.rows[i]
		for j := j0; j < j1; j += piece {
			end := min(j+piece, j1)
			v := buf[:end-j]
			vec.Int32ToFloat32(v, int32s(sums[(i-i0)*ld+j-j0:][:len(v)]))
			vec.Axpy(v, -g.zero, o.packed.sums[j:end], v)
			if o.shifted {
				vec.Axpy(v, -g.sum, o.packed.zero[j:end], v)
			}
			vec.Mul(v, v, o.packed.scale[j:end])
			to := o.to[i*o.gates+j:][:len(v)]
			vec.Axpy(to, g.scale, v, to)
		}
	}
}
