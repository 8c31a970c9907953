package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// byteProductKernels are the matrix products of bytes by constant weights: MatMulInteger-10 and
// QLinearMatMul (ONNX 10, 21).
var byteProductKernels = map[opKey]builder{
	{"", "MatMulInteger"}: matMulInteger, {"", "QLinearMatMul"}: qLinearMatMul,
}

// byteProduct is a product of m x k bytes by k x n constant bytes.
//
// The kernel multiplies unsigned by signed bytes. Operands of the other kind have their top bit
// flipped, which moves them, and their zero point, by 128. With a and b as multiplied, za and zb
// their zero points and the sums over k,
//
//	sum (a-za)(b-zb) = sum ab - za*sum b - zb*sum a + k*za*zb
//
// of which the sums of b are constant, and those of a are needed only where zb is not zero.
type byteProduct struct {
	m, k, n      int
	op           *gemm.Product
	weight       *tensor.Tensor
	flipA, flipB bool
	sumA         bool          // whether zb may be other than zero
	in           productInputs // where the operands are
	out          tensor.DType
}

// productInputs are the numbers of a call's inputs; -1 for those that the operator does not have.
type productInputs struct{ aScale, aZero, b, bScale, bZero, yScale, yZero int }

// The inputs of the products of bytes: of QLinearMatMul and QLinearConv, and of MatMulInteger and
// ConvInteger, whose operands have zero points alone.
var (
	qLinearInputs = productInputs{aScale: op.QLinearAScale, aZero: op.QLinearAZero,
		b: op.QLinearB, bScale: op.QLinearBScale, bZero: op.QLinearBZero,
		yScale: op.QLinearYScale, yZero: op.QLinearYZero}
	integerInputs = productInputs{aScale: -1, aZero: 2, b: 1, bScale: -1, bZero: 3, yScale: -1,
		yZero: -1}
)

// serve reports whether kernels take the call's scales and zero points: one for a and for the
// result, one or as many as there are output channels for b, the constant operand.
func (in productInputs) serve(r *request, channels int) bool {
	for i, most := range map[int]int{in.aScale: 1, in.aZero: 1, in.bScale: channels,
		in.bZero: channels, in.yScale: 1, in.yZero: 1} {
		if shape, d, ok := r.in(i); ok &&
			(len(shape) > 1 || count(shape) != 1 && count(shape) != most ||
				!isByte(d) && d != tensor.Float32) {
			return false
		}
	}
	return r.Out[0].DType == tensor.Int32 || isByte(r.Out[0].DType)
}

// shifted reports whether b, as it is multiplied, may have a zero point other than 0.
func (in productInputs) shifted(r *request, flip bool) bool {
	if zero := r.constant(in.bZero); zero != nil {
		return slices.ContainsFunc(zero.Data, func(z byte) bool { return z != flippedZero(flip) })
	}
	_, _, given := r.in(in.bZero)
	return given || flip
}

// flippedZero is the byte that is 0 once its top bit is flipped, if it is.
func flippedZero(flip bool) byte {
	if flip {
		return 128
	}
	return 0
}

func matMulInteger(r *request) (compute.Kernel, error) {
	return newByteProduct(r, integerInputs)
}

func qLinearMatMul(r *request) (compute.Kernel, error) {
	return newByteProduct(r, qLinearInputs)
}

func newByteProduct(r *request, in productInputs) (compute.Kernel, error) {
	a, da, ok := r.in(0)
	b, db, _ := r.in(in.b)
	w := r.constant(in.b)
	if !ok || w == nil || len(a) < 2 || len(b) != 2 || count(a) == 0 || count(b) == 0 ||
		r.constant(0) != nil || !isByte(da) || !isByte(db) {
		return nil, nil
	}
	k := &byteProduct{
		m:      count(a[:len(a)-1]),
		k:      b[0],
		n:      b[1],
		weight: w,
		flipA:  da == tensor.Int8,
		flipB:  db == tensor.Uint8,
		in:     in,
		out:    r.Out[0].DType,
	}
	if !in.serve(r, k.n) {
		return nil, nil
	}
	k.sumA = in.shifted(r, k.flipB)
	var err error
	k.op, err = gemm.New(
		gemm.Params{
			M:       k.m,
			N:       k.n,
			K:       k.words(),
			Format:  gemm.U8S8,
			PackedB: true,
			ToStore: true,
		},
	)
	return k, err
}

func isByte(d tensor.DType) bool { return d == tensor.Uint8 || d == tensor.Int8 }

// words is how many words a row of A takes.
func (k *byteProduct) words() int { return (k.k + 3) / 4 }

// copies reports whether A is multiplied in a form of its own.
func (k *byteProduct) copies() bool { return k.flipA || k.k%4 != 0 }

// Name implements Kernel.
func (k *byteProduct) Name() string { return "gemm.int8" }

// Absorbed implements [compute.Absorbing].
func (k *byteProduct) Absorbed() []int { return []int{k.in.b} }

// packedWeights is the size of the packed weights, after which their sums over k follow.
func (k *byteProduct) packedWeights() int {
	return scratchBytes(gemm.U8S8.PackedBLen(k.words(), k.n))
}

// PackedBytes implements Kernel.
func (k *byteProduct) PackedBytes() int { return k.packedWeights() + 4*k.n }

// Packing implements [compute.Packing].
func (k *byteProduct) Packing() any {
	type packing struct {
		weight *tensor.Tensor
		flip   bool
		panel  int // stands for the instruction level
	}
	return packing{k.weight, k.flipB, k.op.PanelWidth()}
}

// Pack implements Kernel.
func (k *byteProduct) Pack(dst []byte) { packParts(k, dst) }

// columnsOfPart are those of part i of n: whole panels, but for the last.
func (k *byteProduct) columnsOfPart(i, n int) (from, to int) {
	width := k.op.PanelWidth()
	panels := (k.n + width - 1) / width
	return panels * i / n * width, min(panels*(i+1)/n*width, k.n)
}

// partCount is the number of parts of the packed copy.
func (k *byteProduct) partCount() int { return partsOf(k.packedWeights(), k.n/k.op.PanelWidth()) }

// PackParts implements [compute.Parted].
func (k *byteProduct) PackParts() (n, scratch int) {
	n = k.partCount()
	for i := range n {
		from, to := k.columnsOfPart(i, n)
		scratch = max(scratch, k.words()*(to-from))
	}
	return n, scratch
}

// PackPart implements [compute.Parted]: some columns, as words of four neighbours along k, and
// their sums.
func (k *byteProduct) PackPart(dst []byte, part int, scratch []float32) {
	from, to := k.columnsOfPart(part, k.partCount())
	sums := tensor.Cast[int32](dst[k.packedWeights():][:4*k.n])[from:to]
	clear(sums)
	cols := to - from
	words := scratch[:k.words()*cols]
	for q := range k.words() {
		row := words[q*cols:][:cols]
		if 4*q+4 <= k.k {
			vec.Interleave(row, k.weight.Data[4*q*k.n+from:], k.n, k.flipB)
		} else {
			k.packEnd(row, from)
		}
		for i, w := range row {
			w := math.Float32bits(w)
			sums[i] += int32(int8(w)) + int32(int8(w>>8)) + int32(int8(w>>16)) + int32(int8(w>>24))
		}
	}
	at := gemm.U8S8.PackedBLen(k.words(), from)
	gemm.U8S8.PackB(tensor.Cast[float32](dst[:k.packedWeights()])[at:], words, k.words(), cols, 0,
		false)
}

// packEnd makes words of the last rows, which are less than four, with zeros after them.
func (k *byteProduct) packEnd(words []float32, from int) {
	flip := flippedZero(k.flipB)
	for i := range words {
		var w uint32
		for row := k.k &^ 3; row < k.k; row++ {
			w |= uint32(k.weight.Data[row*k.n+from+i]^flip) << (8 * (row % 4))
		}
		words[i] = math.Float32frombits(w)
	}
}

// parts are the sizes of the parts of the scratch after the workers': the form of A that is
// multiplied, its sums, and by column the correction, the zero point of B and the factor of the
// result.
func (k *byteProduct) parts() (a, sums, columns int) {
	if k.copies() {
		a = scratchBytes(k.m * k.words())
	}
	if k.sumA {
		sums = scratchBytes(k.m)
	}
	return a, sums, scratchBytes(k.n)
}

// ScratchBytes implements Kernel.
func (k *byteProduct) ScratchBytes(workers int) int {
	a, sums, columns := k.parts()
	return workers*scratchBytes(k.op.ScratchLen()) + a + sums + 3*columns
}

// Bind implements Kernel.
func (k *byteProduct) Bind(b compute.Binding) compute.Task {
	t := &byteProductTask{of: k, in: b.In, y: b.Out[0], a: b.In[0].Data}
	each := scratchBytes(k.op.ScratchLen())
	take := taker(b.Scratch)
	for range b.Workers {
		t.scratch = append(t.scratch, tensor.Cast[float32](take(each)))
	}
	a, sums, columns := k.parts()
	if k.copies() {
		t.a = take(a)[:4*k.m*k.words()]
	}
	t.sums = tensor.Cast[int32](take(sums))
	t.correction = tensor.Cast[int32](take(columns))[:k.n]
	t.zeroB = tensor.Cast[int32](take(columns))[:k.n]
	t.factor = tensor.Cast[float32](take(columns))[:k.n]
	t.sumsB = tensor.Cast[int32](b.Packed[k.packedWeights():][:4*k.n])
	t.args = gemm.Args{
		A:     tensor.Cast[float32](t.a),
		B:     tensor.Cast[float32](b.Packed[:k.packedWeights()]),
		Store: t.store,
	}
	t.rows.t = t
	return t
}

type byteProductTask struct {
	of      *byteProduct
	in      []*tensor.Tensor
	y       *tensor.Tensor
	scratch [][]float32
	args    gemm.Args
	rows    rowsOfBytes

	a          []byte  // A as it is multiplied, in rows of words
	sums       []int32 // of the rows of A
	sumsB      []int32 // of the columns of B
	correction []int32 // what belongs to a column whatever the row
	zeroB      []int32
	factor     []float32
	zeroY      float32
}

// Run implements Task.
func (t *byteProductTask) Run(x *compute.Exec) error {
	t.columns()
	if t.of.copies() || t.of.sumA {
		per := rowsPerChunk(t.of.k)
		if err := x.For((t.of.m+per-1)/per, &t.rows); err != nil {
			return err
		}
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *byteProductTask) Chunk(i, worker int) { t.of.op.Run(i, &t.args, t.scratch[worker]) }

// input returns input i, nil when the call has none.
func (t *byteProductTask) input(i int) *tensor.Tensor {
	if i < 0 || i >= len(t.in) {
		return nil
	}
	return t.in[i]
}

// columns finds what belongs to each column.
func (t *byteProductTask) columns() {
	zeroA := int32(zeroAt(t.input(t.of.in.aZero), 0))
	if t.of.flipA {
		zeroA += 128
	}
	bZero := t.input(t.of.in.bZero)
	for j := range t.of.n {
		z := int32(0)
		if bZero != nil {
			z = int32(zeroAt(bZero, j%bZero.Len()))
		}
		z -= int32(flippedZero(t.of.flipB))
		t.zeroB[j] = z
		t.correction[j] = zeroA * (int32(t.of.k)*z - t.sumsB[j])
	}
	if t.of.out != tensor.Int32 {
		t.factors()
	}
}

// factors finds what the sums of each column are multiplied by, and the zero point of the result.
func (t *byteProductTask) factors() {
	bScale := tensor.As[float32](t.input(t.of.in.bScale))
	common := float64(tensor.As[float32](t.input(t.of.in.aScale))[0]) / float64(
		tensor.As[float32](t.input(t.of.in.yScale))[0])
	for j := range t.of.n {
		t.factor[j] = float32(common * float64(bScale[j%len(bScale)]))
	}
	t.zeroY = zeroAt(t.input(t.of.in.yZero), 0)
}

// rowsOfBytes is the region that brings rows of A into the form that is multiplied, and adds them
// up.
type rowsOfBytes struct{ t *byteProductTask }

// Chunk implements Region.
func (r *rowsOfBytes) Chunk(i, _ int) {
	t := r.t
	per := rowsPerChunk(t.of.k)
	for row := i * per; row < min((i+1)*per, t.of.m); row++ {
		from := t.in[0].Data[row*t.of.k:][:t.of.k]
		if t.of.copies() {
			to := t.a[4*row*t.of.words():][:4*t.of.words()]
			clear(to[t.of.k:])
			if t.of.flipA {
				vec.FlipBytes(to, from)
			} else {
				copy(to, from)
			}
			from = to[:t.of.k]
		}
		if t.of.sumA {
			t.sums[row] = vec.SumBytes(from)
		}
	}
}

// store corrects finished sums and writes them as they are or, scaled and rounded, as bytes.
func (t *byteProductTask) store(x []float32, ld, _, i0, i1, j0, j1 int) {
	var sums [piece]int32
	var buf [piece]float32
	for i := i0; i < i1; i++ {
		for j := j0; j < j1; j += piece {
			n := min(piece, j1-j)
			to := sums[:n]
			if t.of.out == tensor.Int32 {
				to = tensor.As[int32](t.y)[i*t.of.n+j:][:n]
			}
			vec.AddInt32(to, int32s(x[(i-i0)*ld+j-j0:][:n]), t.correction[j:][:n])
			if t.of.sumA {
				vec.AxpyInt32(to, -t.sums[i], t.zeroB[j:][:n], to)
			}
			if t.of.out != tensor.Int32 {
				v := buf[:n]
				vec.Int32ToFloat32(v, to)
				vec.Mul(v, v, t.factor[j:][:n])
				toBytes(t.y, i*t.of.n+j, v, t.zeroY)
			}
		}
	}
}
