package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// WeightsParams describes the gradient of a convolution's weights: element (m, c, tap) is the sum,
// over all images and places, of the gradient of output channel m times what the tap sees of input
// channel c of its group.
type WeightsParams struct {
	Window
	Out     [3]int      // places along each axis, at most those that the window has
	N, C, M int         // images, channels of the image, channels of the gradient
	Group   int         // 0 stands for 1
	Format  gemm.Format // F32 or BF16, which depthwise convolutions do not take
}

// WeightsArgs holds the data of one run. DW must not overlap the others.
type WeightsArgs struct {
	X []float32 // N x C x In
	// Saved is X in bfloat16, which takes its place where Weights.TakesSaved.
	Saved []uint16
	DY    []float32 // N x M x Out
	DW    []float32 // M x C/Group x Kernel
	// Parts holds PartsLen floats, and Packed PackedLen, to be the same for all chunks of a run.
	Parts, Packed []float32
}

// Weights is the planned gradient of a convolution's weights. It is immutable and may be used by
// many goroutines at once. Its work has up to three stages: all packs, which
// leave in Packed what several chunks read, all chunks, and all sums, which add up what chunks of
// several stretches of places left in Parts.
type Weights struct {
	p      WeightsParams
	planes *weightsOfPlanes // of depthwise convolutions
	dots   *weightsOfDots   // in bfloat16 where the processor has dot products
	// of others: the matrix of the gradients of the output, filters x places, by that of patches,
	// places x columns, a stretch of places at a time; channels come fastest in columns
	patches              patches
	filters, columns     int // of a group
	rowBlocks, colBlocks int // of filters, and of panels of columns
	parts                int // stretches of places whose sums are added up at last
	places               int // of a block
	blocks               []span
}

// span is a block of places of the images one after another.
type span struct{ from, to int }

const (
	// blockPlaces is the number of places of a block: its panel of columns stays in the first
	// cache, and the rows of blockRows filters in the second.
	blockPlaces = 256
	blockRows   = 512
	// wantParts is how many chunks the work is cut into, as far as partsFloats allow, where each
	// stretch of places leaves all weights, and as far as minPanels of columns share rows. A chunk
	// has at most chunkFloats of weights, where these wait in scratch for their order.
	wantParts   = 16
	partsFloats = 1 << 18
	minPanels   = 4
	chunkFloats = 1 << 18
)

// NewWeights plans the gradient of weights. Errors are of kind ErrParams.
func NewWeights(p WeightsParams) (*Weights, error) {
	out, err := p.Window.setDefaults()
	if err != nil {
		return nil, err
	}
	if p.Group == 0 {
		p.Group = 1
	}
	if err := checkChannels(p.N, p.C, p.M, p.Group); err != nil {
		return nil, err
	}
	for i, n := range p.Out {
		if n < 1 || n > out[i] {
			return nil, fmt.Errorf("%w: axis %d of the gradient has %d places, want 1 to %d",
				ErrParams, i, n, out[i])
		}
	}
	if err := checkSizes([3]int{p.N, p.C, volume(p.In)}, [3]int{p.N, p.M, volume(p.Out)},
		[3]int{p.M, p.C / p.Group, volume(p.Kernel)}); err != nil {
		return nil, err
	}
	places := p.Window.rotateAxes()
	p.Out = rotated(p.Out, places)
	o := &Weights{p: p, filters: p.M / p.Group, columns: p.C / p.Group * volume(p.Kernel)}
	if p.Group == p.C && p.Format == gemm.F32 && p.trivial(0) {
		o.planes = planWeightsOfPlanes(&o.p)
		return o, nil
	}
	if p.Format == gemm.BF16 && hasDots() && p.N*volume(p.Out) >= leastDotPlaces &&
		o.planDots() {
		return o, nil
	}
	o.cut()
	return o, nil
}

// cut plans the chunks.
func (o *Weights) cut() {
	p := &o.p
	total := p.N * volume(p.Out)
	n := max(1, (total+blockPlaces-1)/blockPlaces)
	for i := range n {
		o.blocks = append(o.blocks, span{total * i / n, total * (i + 1) / n})
		o.places = max(o.places, o.blocks[i].to-o.blocks[i].from)
	}
	o.rowBlocks = (o.filters + blockRows - 1) / blockRows
	width := p.Format.PanelColumns()
	panels := (o.columns + width - 1) / width
	o.parts = min(wantParts, n, max(1, partsFloats/(o.columns*p.M)))
	chunks := o.parts * p.Group * o.rowBlocks
	o.colBlocks = max(1, min((wantParts+chunks-1)/chunks, panels/minPanels))
	o.patches = newPatches(p.Window, p.Out, p.C/p.Group)
	if o.mixed() {
		most := max(1, chunkFloats/(min(o.filters, blockRows)*width))
		o.colBlocks = max(o.colBlocks, (panels+most-1)/most)
	}
}

// mixed reports whether columns are in another order than weights, in which taps come fastest.
func (o *Weights) mixed() bool { return volume(o.p.Kernel) > 1 && o.p.C > o.p.Group }

// chunkCols is the most columns of a chunk.
func (o *Weights) chunkCols() int {
	width := o.p.Format.PanelColumns()
	panels := (o.columns + width - 1) / width
	return (panels + o.colBlocks - 1) / o.colBlocks * width
}

// packFilters is how many filters a piece of the first stage packs.
const packFilters = 8

// Packs returns the number of independent pieces of work of the first stage, 0 for none.
func (o *Weights) Packs() int {
	if o.shared() == 0 {
		return 0
	}
	return (o.p.M + packFilters - 1) / packFilters
}

// PackedLen returns how many floats [WeightsArgs.Packed] holds.
func (o *Weights) PackedLen() int { return o.shared() }

// Pack computes piece c of 0 <= c < Packs, with scratch as Run has it.
func (o *Weights) Pack(c int, args *WeightsArgs, scratch []float32) {
	o.dots.pack(o, args, c*packFilters, min((c+1)*packFilters, o.p.M), scratch)
}

// Chunks returns the number of independent pieces of work of the second stage.
func (o *Weights) Chunks() int {
	if o.planes != nil {
		return o.p.M
	}
	return o.parts * o.p.Group * o.rowBlocks * o.colBlocks
}

// sumFloats is how many weights a piece of the last stage adds up.
const sumFloats = 1 << 14

// Sums returns the number of independent pieces of work of the last stage, 0 for none.
func (o *Weights) Sums() int {
	if o.planes != nil || o.parts == 1 {
		return 0
	}
	return (o.p.M*o.columns + sumFloats - 1) / sumFloats
}

// PartsLen returns how many floats [WeightsArgs.Parts] holds.
func (o *Weights) PartsLen() int {
	if o.Sums() == 0 {
		return 0
	}
	return o.parts * o.p.M * o.columns
}

// ScratchLen returns how many floats of scratch Run needs.
func (o *Weights) ScratchLen() int {
	switch {
	case o.planes != nil:
		return o.planes.floats
	case o.dots != nil:
		return o.dots.floats(o)
	}
	f, rows, width := o.p.Format, min(o.filters, blockRows), o.p.Format.PanelColumns()
	n := f.PackedALen(rows, o.places) + f.PackedBLen(o.places, width) +
		max(width, f.PanelRows())*(o.places+panelWidth())
	if o.mixed() {
		n += rows * o.chunkCols()
	}
	return n
}

// TakesSaved reports whether the image may be in bfloat16.
func (o *Weights) TakesSaved() bool { return o.dots != nil }

// FLOP returns the floating-point operations, two per multiply-add, zeros of the padding included.
func (o *Weights) FLOP() int64 {
	return 2 * int64(o.p.N) * int64(volume(o.p.Out)) * int64(o.p.M) * int64(o.columns)
}

// Run computes chunk c of 0 <= c < Chunks, after all of the first stage. Scratch holds at least
// ScratchLen floats that no other call uses meanwhile; what it holds before does not matter. Run
// panics when a slice is shorter than the Params say.
func (o *Weights) Run(c int, args *WeightsArgs, scratch []float32) {
	p := &o.p
	if max(len(args.X), len(args.Saved)) < p.N*p.C*volume(p.In) ||
		len(args.DY) < p.N*p.M*volume(p.Out) ||
		len(args.DW) < p.M*o.columns || len(args.Parts) < o.PartsLen() ||
		len(args.Packed) < o.PackedLen() ||
		len(scratch) < o.ScratchLen() || uint(c) >= uint(o.Chunks()) {
		panic(fmt.Sprintf("conv: gradient of weights: chunk %d of %d with X %d, DY %d, DW %d, "+
			"parts %d, scratch %d floats for %d images of %d x %v and %d x %v", c, o.Chunks(),
			len(args.X), len(args.DY), len(args.DW), len(args.Parts), len(scratch), p.N, p.C, p.In,
			p.M, p.Out))
	}
	if o.planes != nil {
		o.planes.run(p, c, args, scratch)
		return
	}
	w := weightsChunk{Weights: o, args: args, to: args.DW}
	col, c := c%o.colBlocks, c/o.colBlocks
	row, c := c%o.rowBlocks, c/o.rowBlocks
	w.group, w.part = c%p.Group, c/p.Group
	w.rows = span{o.filters * row / o.rowBlocks, o.filters * (row + 1) / o.rowBlocks}
	if o.parts > 1 {
		w.to = args.Parts[w.part*p.M*o.columns:]
	}
	if o.dots != nil {
		o.dots.run(&w, col, scratch)
		return
	}
	width := p.Format.PanelColumns()
	panels := (o.columns + width - 1) / width
	w.cols = span{panels * col / o.colBlocks * width,
		min(panels*(col+1)/o.colBlocks*width, o.columns)}
	w.run(scratch)
}

// Sum computes piece c of 0 <= c < Sums, after all chunks.
func (o *Weights) Sum(c int, args *WeightsArgs) {
	n := o.p.M * o.columns
	lo, hi := c*sumFloats, min((c+1)*sumFloats, n)
	dst := args.DW[lo:hi]
	copy(dst, args.Parts[lo:hi])
	for i := 1; i < o.parts; i++ {
		vec.Add(dst, dst, args.Parts[i*n+lo:i*n+hi])
	}
}

// weightsChunk is a chunk: rows of filters of a group by columns of weights, over the blocks of a
// part.
type weightsChunk struct {
	*Weights
	args        *WeightsArgs
	to          []float32
	group, part int
	rows, cols  span
}

func (w *weightsChunk) run(scratch []float32) {
	f, width := w.p.Format, w.p.Format.PanelColumns()
	rows, cols := w.rows.to-w.rows.from, w.cols.to-w.cols.from
	x := gemm.BlockPanel{LdC: w.columns, Rows: rows, Part: true, Alpha: 1}
	dw := w.to[(w.group*w.filters+w.rows.from)*w.columns:]
	c := dw[w.cols.from:]
	if w.mixed() {
		c, scratch = cut(scratch, rows*cols)
		x.LdC = cols
	}
	x.A, scratch = cut(scratch, f.PackedALen(rows, w.places))
	x.B, scratch = cut(scratch, f.PackedBLen(w.places, width))
	lo, hi := len(w.blocks)*w.part/w.parts, len(w.blocks)*(w.part+1)/w.parts
	for i, at := range w.blocks[lo:hi] {
		x.K, x.Add = at.to-at.from, i > 0
		w.packRows(x.A, scratch, at)
		for j := 0; j < cols; j += width {
			x.Cols = min(width, cols-j)
			w.packColumns(x.B, scratch, w.cols.from+j, x.Cols, at)
			x.C = c[j:]
			f.Multiply(&x)
		}
	}
	if w.mixed() {
		w.order(dw, c, cols)
	}
}

// order writes the columns of each row where their weights belong.
func (w *weightsChunk) order(dw, c []float32, cols int) {
	taps, depth := volume(w.p.Kernel), w.p.C/w.p.Group
	for len(c) > 0 {
		for j := w.cols.from; j < w.cols.to; {
			tap, ch := j/depth, j%depth
			n := min(depth-ch, w.cols.to-j)
			for i, v := range c[j-w.cols.from:][:n] {
				dw[(ch+i)*taps+tap] = v
			}
			j += n
		}
		if c = c[cols:]; len(c) > 0 {
			dw = dw[w.columns:]
		}
	}
}

// packRows packs the gradients of the chunk's filters at some places.
func (w *weightsChunk) packRows(dst, stage []float32, at span) {
	f, places := w.p.Format, volume(w.p.Out)
	k := at.to - at.from
	words := f.PackedALen(1, k)
	for i := w.rows.from; i < w.rows.to; i += f.PanelRows() {
		n := min(f.PanelRows(), w.rows.to-i)
		panel := dst[(i-w.rows.from)*words:][:n*words]
		image := at.from / places
		from := w.args.DY[(image*w.p.M+w.group*w.filters+i)*places+at.from%places:]
		if at.from%places+k <= places {
			f.PackA(panel, from, n, k, places, false)
			continue
		}
		for r := range n {
			row := stage[r*k:][:k]
			w.eachImage(at, func(image, place, done, many int) {
				copy(row[done:][:many],
					w.args.DY[(image*w.p.M+w.group*w.filters+i+r)*places+place:])
			})
		}
		f.PackA(panel, stage, n, k, k, false)
	}
}

// eachImage calls f with the stretches of places that lie in one image: where they begin in it, how
// many come before them and how many they are.
func (w *weightsChunk) eachImage(at span, f func(image, place, done, n int)) {
	places := volume(w.p.Out)
	for from := at.from; from < at.to; {
		n := min(places-from%places, at.to-from)
		f(from/places, from%places, from-at.from, n)
		from += n
	}
}

// packColumns packs what n weights from column j see at some places.
func (w *weightsChunk) packColumns(dst, stage []float32, j, n int, at span) {
	p, k := &w.p, at.to-at.from
	plane, places := volume(p.In), volume(p.Out)
	depth := p.C / p.Group
	if p.pointwise() && p.Out == p.In && at.from%places+k <= places {
		x := w.args.X[(at.from/places*p.C+w.group*depth+j)*plane+at.from%places:]
		p.Format.PackB(dst, x, k, n, plane, true)
		return
	}
	width, parts, most := p.Format.PanelColumns(), stage[n*k:], panelWidth()
	w.eachImage(at, func(image, place, done, many int) {
		x := w.args.X[(image*p.C+w.group*depth)*plane:]
		for end := place + many; place < end; {
			m := min(most, end-place)
			w.patches.fill(parts[:n*m], x, j, j+n, place, place+m)
			if p.Format == gemm.F32 {
				p.Format.PackB(dst[done*width:], parts, m, n, m, true)
			} else {
				for i := range n {
					copy(stage[i*k+done:][:m], parts[i*m:])
				}
			}
			place += m
			done += m
		}
	})
	if p.Format != gemm.F32 {
		p.Format.PackB(dst, stage, k, n, k, true)
	}
}
