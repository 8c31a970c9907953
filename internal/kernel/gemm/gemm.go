package gemm

import (
	"errors"
	"fmt"
	"math"
)

// ErrParams is the kind of every error of New.
var ErrParams = errors.New("gemm: bad parameters")

// maxDim bounds each dimension, so that products of two stay far inside an int.
const maxDim = math.MaxInt32 / 2

// Bias says what [Args.Bias] is.
type Bias uint8

const (
	// NoBias adds nothing.
	NoBias Bias = iota
	// BiasPerRow adds Bias[i] to every element of row i.
	BiasPerRow
	// BiasPerCol adds Bias[j] to every element of column j.
	BiasPerCol
)

// Residual says what [Args.Residual] is.
type Residual uint8

const (
	// NoResidual adds nothing.
	NoResidual Residual = iota
	// ResidualFull adds a matrix laid out as C is: the same leading dimension and the same batch
	// offsets.
	ResidualFull
	// ResidualOneRow adds one row of N floats to every row of every matrix of the batch.
	ResidualOneRow
)

// Epilogue is what happens to the product before it is stored, in this order: alpha*AB, + bias, +
// beta*residual, clamp, map.
type Epilogue struct {
	Bias     Bias
	Residual Residual
	// Clamp limits the result to [Lo, Hi], as ONNX Clip-13 does: max(lo) first, then min(hi); a NaN
	// stays. Relu is Lo 0 and Hi +Inf.
	Clamp  bool
	Lo, Hi float32
	// Map, if set, replaces the finished elements x by f(x), element by element, into dst, which is
	// the same slice as x. It is called from every goroutine that calls Run and must not keep the
	// slices.
	Map func(dst, x []float32)
}

// any reports whether the epilogue does anything.
func (e *Epilogue) any() bool {
	return e.Bias != NoBias || e.Residual != NoResidual || e.Clamp || e.Map != nil
}

// Params describes a product of M x K by K x N, or a batch of them.
//
// Matrices are row-major. A leading dimension (LdA, ...) is the distance in floats from one stored
// row to the next; 0 means dense rows.
type Params struct {
	M, N, K int
	// Format is that of the multiplications. Packed operands must have been packed for it.
	Format Format
	// TransA says that A is stored as K x M, TransB that B is stored as N x K, TransC that C (and a
	// full residual) is stored as N x M. TransC suits a product with few rows and columns that are
	// a multiple of a panel.
	TransA, TransB, TransC bool
	// Part says that the rows, or columns, are some of a larger product, which others compute: the
	// sums of elements are then taken in one order, however many of them there are.
	Part bool
	// Near says that sums in F32 are taken in parts of at most 384 products, which are then added
	// up: they come nearer to the exact ones than those of blocks, for a hundredth more time.
	Near bool
	// PackedA and PackedB say that the operand comes from PackA or PackB, which have dealt with its
	// Trans and Ld.
	PackedA, PackedB bool
	// PanelRows is how many rows of A have been packed at a time; 0 stands for Format.PanelRows,
	// as PackA packs more rows than those.
	PanelRows     int
	LdA, LdB, LdC int
	// Alpha scales the product and Beta the residual. 0 stands for 1: a caller that wants to
	// multiply by 0 leaves the product, or the residual, out instead.
	Alpha, Beta float32
	// Batch is the number of products; 0 stands for 1. Product b takes A from offset OffA[b], B
	// from OffB[b], C (and a full residual) from OffC[b] and the bias from OffBias[b]. A nil table
	// stands for b*Stride, where a stride of 0 shares the operand among all products, except for C,
	// where it stands for dense matrices one after another; a nil OffBias shares the bias. The
	// Product keeps the tables: they must not change afterwards.
	Batch                     int
	StrideA, StrideB, StrideC int
	OffA, OffB, OffC, OffBias []int
	// Fill, if set, produces B in place of reading it: it writes element (k, j) of B to
	// dst[(k-k0)*w + j-j0] for k0 <= k < k1 and j0 <= j < j1, where w is PanelWidth and j1-j0 <= w;
	// it sets the rest of each row of w floats to zero. src is Args.B from the offset of the
	// product. It is called from every goroutine that calls Run.
	Fill func(dst, src []float32, k0, k1, j0, j1 int)
	// FillA, if set, produces A in the same way: element (i, k) goes to dst[(k-k0)*(i1-i0) + i-i0]
	// for i0 <= i < i1, where i1-i0 is at most the rows of a tile, and src is Args.A from the
	// offset of the product.
	FillA func(dst, src []float32, k0, k1, i0, i1 int)
	// ToStore says that finished results go to [Args.Store] and not to C. Formats of bytes need
	// it, and it does not go with a full residual or Map.
	ToStore bool
	Epilogue
}

// Args holds the data of one run. C must not overlap the others, except that a full residual may be
// C itself.
type Args struct {
	A, B, C        []float32
	Bias, Residual []float32
	// Store, with [Params.ToStore], is called with finished results: rows i0 to i1 and columns j0
	// to j1 of product batch. x holds them in rows of ld words; it is scratch, whose contents are
	// lost after the call. With TransC the rows are those of the transposed product, N of them.
	// Store is called from every goroutine that calls Run.
	Store func(x []float32, ld, batch, i0, i1, j0, j1 int)
}

// A Product is a planned matrix product. It is immutable and may be used by many goroutines at
// once.
type Product struct {
	p     Params
	level level
	// packed is the level that packed operands are for: that of all products of the format
	packed level
	blocking
	need struct{ a, b, c, bias, res int } // shortest slices that Args may hold
	last uint32                           // what the last block of K does to elements
}

// New plans a product. Errors are of kind ErrParams.
func New(p Params) (*Product, error) {
	for _, d := range []int{p.M, p.N, p.K, p.LdA, p.LdB, p.LdC, p.Batch, p.StrideA, p.StrideB,
		p.StrideC} {
		if d < 0 || d > maxDim {
			return nil, fmt.Errorf("%w: a dimension, stride or batch is %d, want 0 to %d",
				ErrParams, d, maxDim)
		}
	}
	p.setDefaults()
	if err := p.check(); err != nil {
		return nil, err
	}
	o := &Product{p: p, level: p.level(), packed: currentLevel(p.Format)}
	o.blocking, o.last = plan(&o.p, o.level), o.p.lastFlags()
	o.need.a, o.need.b, o.need.c = p.extents()
	o.need.bias = p.biasLen()
	switch p.Residual {
	case ResidualFull:
		o.need.res = o.need.c
	case ResidualOneRow:
		o.need.res = p.N
	}
	return o, nil
}

func (p *Params) setDefaults() {
	if p.Batch == 0 {
		p.Batch = 1
	}
	if p.Alpha == 0 {
		p.Alpha = 1
	}
	if p.Beta == 0 {
		p.Beta = 1
	}
	if p.LdA == 0 {
		p.LdA = stored(p.M, p.K, p.TransA)
	}
	if p.LdB == 0 {
		p.LdB = stored(p.K, p.N, p.TransB)
	}
	if p.LdC == 0 {
		p.LdC = stored(p.M, p.N, p.TransC)
	}
	if p.StrideC == 0 {
		p.StrideC = p.M * p.N / max(1, stored(p.M, p.N, p.TransC)) * p.LdC
	}
}

// stored is the number of columns of a rows x cols matrix as it lies in memory.
func stored(rows, cols int, trans bool) int {
	if trans {
		return rows
	}
	return cols
}

func (p *Params) check() error {
	if a := stored(p.M, p.K, p.TransA); !p.PackedA && p.FillA == nil && p.LdA < a {
		return fmt.Errorf("%w: LdA is %d, shorter than a row of A, %d", ErrParams, p.LdA, a)
	}
	if b := stored(p.K, p.N, p.TransB); !p.PackedB && p.Fill == nil && p.LdB < b {
		return fmt.Errorf("%w: LdB is %d, shorter than a row of B, %d", ErrParams, p.LdB, b)
	}
	if c := stored(p.M, p.N, p.TransC); p.LdC < c {
		return fmt.Errorf("%w: LdC is %d, shorter than a row of C, %d", ErrParams, p.LdC, c)
	}
	switch {
	case p.ToStore && (p.Residual == ResidualFull || p.Map != nil):
		return fmt.Errorf("%w: ToStore does not go with a full residual or Map", ErrParams)
	case p.Format.bytes() && (!p.ToStore || p.Epilogue.any() || p.Alpha != 1):
		return fmt.Errorf("%w: sums of bytes want ToStore, and no epilogue", ErrParams)
	}
	if p.PanelRows < 0 || p.PanelRows > p.Format.PanelRows() {
		return fmt.Errorf("%w: panels of %d rows, want 0 to %d", ErrParams, p.PanelRows,
			p.Format.PanelRows())
	}
	if p.PackedA && p.FillA != nil || p.PackedB && p.Fill != nil {
		return fmt.Errorf("%w: an operand is both packed and filled: choose one", ErrParams)
	}
	for _, off := range [][]int{p.OffA, p.OffB, p.OffC, p.OffBias} {
		if off != nil && len(off) != p.Batch {
			return fmt.Errorf("%w: an offset table has %d entries for a batch of %d", ErrParams,
				len(off), p.Batch)
		}
		for _, v := range off {
			if v < 0 {
				return fmt.Errorf("%w: an offset is %d, want 0 or more", ErrParams, v)
			}
		}
	}
	return nil
}

// extents returns how many floats the products reach in A, B and C. Operands that are filled count
// for nothing.
func (p *Params) extents() (a, b, c int) {
	la := span(p.M, p.K, p.LdA, p.TransA)
	if p.PackedA {
		la = p.Format.PackedALen(p.M, p.K)
	}
	lb := span(p.K, p.N, p.LdB, p.TransB)
	if p.PackedB {
		lb = p.Format.PackedBLen(p.K, p.N)
	}
	lc := span(p.M, p.N, p.LdC, p.TransC)
	for i := range p.Batch {
		a = max(a, offset(p.OffA, p.StrideA, i)+la)
		b = max(b, offset(p.OffB, p.StrideB, i)+lb)
		c = max(c, offset(p.OffC, p.StrideC, i)+lc)
	}
	if p.FillA != nil {
		a = 0
	}
	if p.Fill != nil {
		b = 0
	}
	if p.ToStore {
		c = 0
	}
	return a, b, c
}

// span is how many floats a rows x cols matrix reaches in memory.
func span(rows, cols, ld int, trans bool) int {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return 0
	}
	return (rows-1)*ld + cols
}

func (p *Params) biasLen() int {
	n := 0
	switch p.Bias {
	case BiasPerRow:
		n = p.M
	case BiasPerCol:
		n = p.N
	default:
		return 0
	}
	last := 0
	for _, o := range p.OffBias {
		last = max(last, o)
	}
	return last + n
}

func offset(table []int, stride, i int) int {
	if table != nil {
		return table[i]
	}
	return i * stride
}

// Chunks returns the number of independent pieces of work, 0 when C is empty.
func (o *Product) Chunks() int { return o.chunks }

// ScratchLen returns how many floats of scratch Run needs.
func (o *Product) ScratchLen() int { return o.lenA + o.lenB + o.lenStage + o.lenBlock + o.lenC }

// PanelWidth returns the number of columns of a panel of B, the w of [Params.Fill].
func (o *Product) PanelWidth() int { return o.level.nr() }

// FLOP returns the operations of the whole product, two per multiply-add.
func (o *Product) FLOP() int64 {
	perWord := int64(2)
	if o.level.bytes() {
		perWord = 8
	}
	return perWord * int64(o.p.Batch) * int64(o.p.M) * int64(o.p.N) * int64(o.p.K)
}

// Run computes chunk c of 0 <= c < Chunks. Scratch holds at least ScratchLen floats that no other
// call uses meanwhile; what it holds before does not matter. Run panics when a slice is shorter
// than the Params it was planned with reach.
func (o *Product) Run(c int, args *Args, scratch []float32) {
	if c < 0 || c >= o.chunks {
		panic(fmt.Sprintf("gemm: chunk %d of %d", c, o.chunks))
	}
	if len(args.A) < o.need.a || len(args.B) < o.need.b || len(args.C) < o.need.c ||
		len(args.Bias) < o.need.bias || len(args.Residual) < o.need.res ||
		len(scratch) < o.ScratchLen() {
		panic(fmt.Sprintf("gemm: slices of A %d, B %d, C %d, bias %d, residual %d, scratch %d "+
			"floats; want %d, %d, %d, %d, %d, %d",
			len(args.A), len(args.B), len(args.C), len(args.Bias), len(args.Residual), len(scratch),
			o.need.a, o.need.b, o.need.c, o.need.bias, o.need.res, o.ScratchLen()))
	}
	mi, c := c%o.mBlocks, c/o.mBlocks
	ni, group := c%o.nBlocks, c/o.nBlocks
	var w window
	var out target
	t := o.tile()
	w.i0, w.i1 = part(o.p.M, o.mBlocks, o.mr, mi)
	w.j0, w.j1 = part(o.p.N, o.nBlocks, o.level.nr(), ni)
	last := min((group+1)*o.perChunk, o.p.Batch)
	for b := group * o.perChunk; b < last; b += o.repeats {
		w.batch, w.count = b, min(o.repeats, last-b)
		o.window(&t, &out, w, args, scratch)
	}
}
