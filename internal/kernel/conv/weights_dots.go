package conv

import (
	"slices"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// weightsOfDots is the gradient of weights by dot products of bfloat16 along places. Rows of both
// operands stay as they lie in memory but for zeros at their ends, so that neither is transposed,
// and what each tap sees of a channel is one row from another element on. Where windows have
// strides the image's columns and rows are sorted by their remainders, as in weightsOfPlanes, and
// the same holds of infinities at its edge.
type weightsOfDots struct {
	pitch   int // from one row of places to the next
	height  int // rows of places from one image of a block to the next
	reach   [2]int
	steps   int   // vectors of places of the longest block
	lda     int   // elements from one filter to the next
	filters int   // the most of a chunk
	phase   int   // elements of the rows and columns of one remainder
	phases  []int // where these begin for each remainder, -1 for those that no tap sees
	depth   int   // elements of all remainders of a channel
	taps    []int // where what each tap sees begins
	some    int   // channels that are packed together, whose taps fill tiles
	stage   int   // elements of a channel of a block before they are sorted
	blocks  []placeBlock
}

// placeBlock is some rows of places of an image, or all of several images.
type placeBlock struct{ image, images, row, rows int }

const (
	dotRows, dotCols, dotStep = 4, 6, 32 // of a tile, and places of a vector
	// dotPlaces is the wanted number of places of a block of several images: the rows of a tile
	// stay in the first cache, and adding up the lanes of its sums takes little beside them. An
	// image of leastImage places is one block, and one of more than bandPlaces is cut: what lies in
	// one piece comes faster from memory.
	dotPlaces, leastImage, bandPlaces = 1600, 1200, 3200
	// dotHalves and dotFilters bound what a chunk packs of the filters, which stays in the second
	// cache, as the lines of results do.
	dotHalves, dotFilters = 400 << 10, 256
	// leastDotPlaces is from how many places on dot products are faster than gemm's tiles.
	leastDotPlaces = 300
	// wantDots is how many chunks the work is cut into, as far as it is not for cutting it into
	// stretches of places, of which each packs others: sums of dotParts weights at most.
	wantDots, dotParts = 8, 1 << 20
)

// hasDots reports whether dot products of bfloat16 are the fastest that the processor has.
func hasDots() bool { return cpuinfo.HasAVX512BF16() && !cpuinfo.HasTiles() }

// planDots plans a gradient by dot products, and reports whether it is one of images of at most two
// axes.
func (o *Weights) planDots() bool {
	p := &o.p
	if p.In[0] != 1 || p.Kernel[0] != 1 || p.Out[0] != 1 || p.PadLo[0] != 0 {
		return false
	}
	d := &weightsOfDots{}
	var shared [2]int
	for i := range 2 {
		a := i + 1
		d.reach[i] = (p.Kernel[a] - 1) * p.Dilate[a] / p.Stride[a]
		if seen := p.Out[a] + d.reach[i]; p.Stride[a] == 1 {
			// zeros behind one row are those before the next
			shared[i] = max(0, min(p.PadLo[a], seen-p.PadLo[a]-p.In[a], d.reach[i]))
		}
	}
	d.pitch = p.Out[2] + d.reach[1] - shared[1]
	d.height = p.Out[1] + d.reach[0] - shared[0]
	d.cut(p)
	d.place(p)
	o.dots = d
	o.parts = min(wantParts, len(d.blocks), max(1, dotParts/(o.columns*p.M)))
	o.rowBlocks = (o.filters + d.filters - 1) / d.filters
	chunks := o.parts * p.Group * o.rowBlocks
	o.colBlocks = min((wantDots+chunks-1)/chunks, (p.C/p.Group+d.some-1)/d.some)
	return true
}

// cut cuts the places into blocks.
func (d *weightsOfDots) cut(p *WeightsParams) {
	whole, rows := p.Out[1]*d.pitch, 0
	if whole >= leastImage {
		n := max(1, (whole+bandPlaces/2)/bandPlaces)
		for i := range p.N * n {
			at := placeBlock{image: i / n, images: 1, row: p.Out[1] * (i % n) / n}
			at.rows = p.Out[1]*(i%n+1)/n - at.row
			d.blocks, rows = append(d.blocks, at), max(rows, at.rows)
		}
	} else {
		rows = p.Out[1]
		n := max(1, (p.N*d.height*d.pitch+dotPlaces/2)/dotPlaces)
		for i := range n {
			at := placeBlock{image: p.N * i / n, rows: rows}
			at.images = p.N*(i+1)/n - at.image
			d.blocks = append(d.blocks, at)
		}
	}
	for i := range d.blocks {
		d.steps = max(d.steps, d.stepsOf(&d.blocks[i]))
	}
	seen := min(p.In[1], (rows-1)*p.Stride[1]+(p.Kernel[1]-1)*p.Dilate[1]+1)
	d.stage = max(rows*p.Out[2], seen*p.In[2]) + 1
}

// stepsOf is the number of vectors of a block.
func (d *weightsOfDots) stepsOf(at *placeBlock) int {
	n := at.rows * d.pitch
	if at.images > 1 {
		n = at.images * d.height * d.pitch
	}
	return (n + dotStep - 1) / dotStep
}

// place lays out what is packed.
func (d *weightsOfDots) place(p *WeightsParams) {
	d.lda = d.steps * dotStep
	if d.steps%2 == 0 { // rows an odd number of lines apart do not meet in one set of a cache
		d.lda += dotStep
	}
	d.filters = min(max(1, dotHalves/d.lda/dotRows)*dotRows, dotFilters)
	d.phase = (d.steps*dotStep + d.reach[0]*d.pitch + d.reach[1] + dotStep - 1) &^ (dotStep - 1)
	d.phases = make([]int, p.Stride[1]*p.Stride[2])
	for i := range d.phases {
		d.phases[i] = -1
	}
	taps := volume(p.Kernel)
	for tap := range taps {
		y, x := tap/p.Kernel[2]*p.Dilate[1], tap%p.Kernel[2]*p.Dilate[2]
		of := &d.phases[y%p.Stride[1]*p.Stride[2]+x%p.Stride[2]]
		if *of < 0 {
			*of = d.depth
			d.depth += d.phase
		}
		d.taps = append(d.taps, *of+y/p.Stride[1]*d.pitch+x/p.Stride[2])
	}
	for d.some = 1; d.some*taps%dotCols != 0; {
		d.some++
	}
}

// scratch is the floats of what a chunk packs of its filters and of some channels, of a channel
// before it is sorted, and of results of tiles of fewer rows or columns.
func (d *weightsOfDots) scratch(o *Weights) (a, b, stage, edge int) {
	rows := (min(o.filters, d.filters) + dotRows - 1) / dotRows * dotRows
	if o.shared() == 0 {
		a = rows * d.lda / 2
	}
	return a, d.some * d.depth / 2, (d.stage + 1) / 2, rows * dotCols
}

func (d *weightsOfDots) floats(o *Weights) int {
	a, b, stage, edge := d.scratch(o)
	return a + b + stage + edge
}

// shared is the floats of all filters, where several chunks read the same: packed by a stage of its
// own, and behind them those that the last tile reads for nothing.
//
//go:noinline
func (o *Weights) shared() int {
	if o.dots == nil || o.colBlocks == 1 {
		return 0
	}
	return (len(o.dots.blocks)*o.p.M + dotRows - 1) * o.dots.lda / 2
}

// dotChunk is a chunk of weightsOfDots, with its scratch.
type dotChunk struct {
	*weightsChunk
	d           *weightsOfDots
	packed      []float32 // filters, two elements each
	b           []uint16  // channels
	stage, edge []float32
	dw          []float32 // from the first filter and the group's first channel on
	at          placeBlock
}

// pack packs filters first to end for all chunks.
func (d *weightsOfDots) pack(o *Weights, args *WeightsArgs, first, end int, scratch []float32) {
	c := dotChunk{weightsChunk: &weightsChunk{Weights: o, args: args}, d: d, stage: scratch}
	for i, at := range d.blocks {
		c.at = at
		for m := first; m < end; m++ {
			row := args.Packed[(i*o.p.M+m)*d.lda/2:][:d.lda/2]
			clear(row)
			c.packFilter(row, m)
		}
	}
}

// run computes a chunk, of block col of channels.
func (d *weightsOfDots) run(w *weightsChunk, col int, scratch []float32) {
	c := dotChunk{weightsChunk: w, d: d}
	a, b, stage, edge := d.scratch(w.Weights)
	own, scratch := cut(scratch, a)
	c.b, scratch = vec.AsHalves(scratch[:b]), scratch[b:]
	c.stage, c.edge = scratch[:stage], scratch[stage:][:edge]
	depth, rows, taps, first := w.p.C/w.p.Group, w.rows.to-w.rows.from, len(d.taps),
		w.group*w.filters+w.rows.from
	c.dw = w.to[first*w.columns:]
	somes := (depth + d.some - 1) / d.some
	from := somes * col / w.colBlocks * d.some
	to := min(somes*(col+1)/w.colBlocks*d.some, depth)
	for i := range rows {
		clear(c.dw[i*w.columns:][from*taps : to*taps])
	}
	for i := len(d.blocks) * w.part / w.parts; i < len(d.blocks)*(w.part+1)/w.parts; i++ {
		c.next(i, own)
		if c.packed = own; a == 0 {
			c.packed = w.args.Packed[(i*w.p.M+first)*d.lda/2:]
		}
		for r := 0; r < rows && a > 0; r++ {
			c.packFilter(own[r*d.lda/2:][:d.lda/2], first+r)
		}
		for ch := from; ch < to; ch += d.some {
			n := min(d.some, to-ch)
			for k := range n {
				c.packChannel(c.b[k*d.depth:][:d.depth], w.group*depth+ch+k)
			}
			c.multiply(ch*taps, n*taps, rows)
		}
	}
}

// next goes on to block i. What is packed then leaves the same zeros between as that of a block of
// the same form; for another all is cleared.
func (c *dotChunk) next(i int, own []float32) {
	last := c.at
	c.at = c.d.blocks[i]
	if last.image = c.at.image; last != c.at {
		clear(own)
		clear(c.b)
	}
}

// halves are n elements of a tensor, from one on, rounded where they are floats.
func (c *dotChunk) halves(x []float32, saved []uint16, at, n int) []uint16 {
	if saved != nil {
		return saved[at:][:n]
	}
	gemm.Halves(c.stage, x[at:][:n])
	return vec.AsHalves(c.stage)[:n]
}

// packFilter packs the gradients of output channel m in words that have zeros between.
func (c *dotChunk) packFilter(words []float32, m int) {
	p, d, dst := &c.p, c.d, vec.AsHalves(words)
	n, image := c.at.rows*p.Out[2], d.height*d.pitch
	whole := d.pitch == p.Out[2] && (c.at.images == 1 || image == n)
	for i := range c.at.images {
		at := ((c.at.image+i)*p.M+m)*volume(p.Out) + c.at.row*p.Out[2]
		if whole && i*n%2 == 0 {
			gemm.Halves(words[i*n/2:], c.args.DY[at:][:n])
			continue
		}
		from, to := c.halves(c.args.DY, nil, at, n), dst[i*image:]
		for y := range c.at.rows {
			copy(to[y*d.pitch:], from[y*p.Out[2]:][:p.Out[2]])
		}
	}
}

// packChannel packs what all taps see of a channel of the image, with zeros between.
func (c *dotChunk) packChannel(dst []uint16, ch int) {
	p, d := &c.p, c.d
	first := c.at.row*p.Stride[1] - p.PadLo[1]
	lo := max(0, first)
	hi := min(p.In[1], first+(c.at.rows-1)*p.Stride[1]+(p.Kernel[1]-1)*p.Dilate[1]+1)
	whole := d.pitch == p.In[2] && p.PadLo[2] == 0 && volume(p.Stride) == 1
	for i := 0; i < c.at.images && lo < hi; i++ {
		plane := ((c.at.image+i)*p.C + ch) * volume(p.In)
		to := dst[i*d.height*d.pitch:]
		if whole {
			copy(to[(lo-first)*d.pitch:],
				c.halves(c.args.X, c.args.Saved, plane+lo*p.In[2], (hi-lo)*p.In[2]))
			continue
		}
		for y := lo - first; y < hi-first; y++ {
			phases := d.phases[y%p.Stride[1]*p.Stride[2]:][:p.Stride[2]]
			if slices.Max(phases) < 0 {
				continue
			}
			row := c.halves(c.args.X, c.args.Saved, plane+(first+y)*p.In[2], p.In[2])
			for q, at := range phases {
				if at >= 0 {
					d.sort(p, to[at+y/p.Stride[1]*d.pitch:], row, q)
				}
			}
		}
	}
}

// sort writes what taps see of a row of the image in columns of a remainder.
func (d *weightsOfDots) sort(p *WeightsParams, dst, row []uint16, remainder int) {
	step, seen := p.Stride[2], p.Out[2]+d.reach[1]
	first := (remainder - p.PadLo[2]%step + step) % step
	at := (first + p.PadLo[2]) / step
	if at >= seen || first >= len(row) {
		return
	}
	dst, row = dst[at:seen], row[first:]
	switch step {
	case 1:
		copy(dst, row)
	case 2:
		evenHalves(dst[:min(len(dst), (len(row)+1)/2)], row)
	default:
		for i := 0; i < len(dst) && i*step < len(row); i++ {
			dst[i] = row[i*step]
		}
	}
}

// multiply adds the products of all filters by n columns, which begin with column col, to results.
func (c *dotChunk) multiply(col, n, rows int) {
	d, taps := c.d, len(c.d.taps)
	a := vec.AsHalves(c.packed)
	t := dotTile{lda: d.lda, b: c.b, steps: d.stepsOf(&c.at)}
	for j := 0; j < n; j += dotCols {
		cols := min(dotCols, n-j)
		for k := range t.offs {
			i := j + min(k, cols-1)
			t.offs[k] = i/taps*d.depth + d.taps[i%taps]
		}
		whole := 0
		if cols == dotCols {
			whole = rows / dotRows
		}
		to := c.dw[col+j:]
		if whole > 0 {
			t.a, t.c, t.ldc, t.tiles = a, to, c.columns, whole
			t.run()
		}
		if from := whole * dotRows; from < rows {
			t.a, t.tiles = a[from*d.lda:], (rows-from+dotRows-1)/dotRows
			t.c, t.ldc = c.edge[:t.tiles*dotRows*dotCols], dotCols
			clear(t.c)
			t.run()
			for i := from; i < rows; i++ {
				for k, v := range c.edge[(i-from)*dotCols:][:cols] {
					to[i*c.columns+k] += v
				}
			}
		}
	}
}

// dotTile is a call that adds the products of tiles of rows of a, below each other, by columns of
// b, each a row of memory, to results.
type dotTile struct {
	a, b     []uint16
	offs     [dotCols]int // where columns begin
	lda, ldc int
	c        []float32
	steps    int // vectors along each row
	tiles    int
}
