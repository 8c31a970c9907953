package conv

import (
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
	pitch  int // from one row of places to the next
	height int // rows of places from one image of a block to the next
	reach  [2]int
	steps  int   // vectors of places of the longest block
	lda    int   // elements from one filter to the next
	phase  int   // elements of the rows and columns of one remainder
	phases []int // where these begin for each remainder, -1 for those that no tap sees
	depth  int   // elements of all remainders of a channel
	taps   []int // where what each tap sees begins
	some   int   // channels that are packed together, whose taps fill tiles
	stage  int   // elements of a channel of a block before they are sorted
	blocks []placeBlock
}

// placeBlock is some rows of places of an image, or all of several images.
type placeBlock struct{ image, images, row, rows int }

const (
	dotRows, dotCols, dotStep = 4, 6, 32 // of a tile, and places of a vector
	// dotPlaces is the wanted number of places of a block: the rows of a tile stay in the first
	// cache, and adding up the lanes of its sums takes little beside them.
	dotPlaces = 1600
	// dotFilters bounds the filters of a chunk, which stay in the second cache.
	dotFilters = 256
	// leastDotPlaces is from how many places on dot products are faster than gemm's tiles.
	leastDotPlaces = 300
	// wantDots is how many chunks the work is cut into where each packs all places.
	wantDots = 8
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
	o.parts = min(wantParts, len(d.blocks), max(1, partsFloats/(o.columns*p.M)))
	o.rowBlocks = (o.filters + dotFilters - 1) / dotFilters
	chunks := o.parts * p.Group * o.rowBlocks
	o.colBlocks = min((wantDots+chunks-1)/chunks, (p.C/p.Group+d.some-1)/d.some)
	return true
}

// cut cuts the places into blocks.
func (d *weightsOfDots) cut(p *WeightsParams) {
	whole, rows := p.Out[1]*d.pitch, 0
	if n := (whole + dotPlaces/2) / dotPlaces; n > 0 {
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
	rows := (min(o.filters, dotFilters) + dotRows - 1) / dotRows * dotRows
	return rows * d.lda / 2, d.some * d.depth / 2, (d.stage + 1) / 2, rows * dotCols
}

func (d *weightsOfDots) floats(o *Weights) int {
	a, b, stage, edge := d.scratch(o)
	return a + b + stage + edge
}

// dotChunk is a chunk of weightsOfDots, with its scratch.
type dotChunk struct {
	*weightsChunk
	d           *weightsOfDots
	a, b        []uint16
	stage, edge []float32
	dw          []float32 // from the first filter and the group's first channel on
	at          placeBlock
}

// run computes a chunk, of block col of channels.
func (d *weightsOfDots) run(w *weightsChunk, col int, scratch []float32) {
	c := dotChunk{weightsChunk: w, d: d}
	a, b, stage, edge := d.scratch(w.Weights)
	var x []float32
	x, scratch = cut(scratch, a)
	c.a = vec.AsHalves(x)
	x, scratch = cut(scratch, b)
	c.b = vec.AsHalves(x)
	c.stage, c.edge = scratch[:stage], scratch[stage:][:edge]
	c.dw = w.to[(w.group*w.filters+w.rows.from)*w.columns:]
	depth, rows, taps := w.p.C/w.p.Group, w.rows.to-w.rows.from, len(d.taps)
	somes := (depth + d.some - 1) / d.some
	from := somes * col / w.colBlocks * d.some
	to := min(somes*(col+1)/w.colBlocks*d.some, depth)
	for i := range rows {
		clear(c.dw[i*w.columns:][from*taps : to*taps])
	}
	for _, c.at = range d.blocks[len(d.blocks)*w.part/w.parts : len(d.blocks)*(w.part+1)/w.parts] {
		for i := range rows {
			c.packFilter(c.a[i*d.lda:][:d.lda], w.group*w.filters+w.rows.from+i)
		}
		clear(c.a[rows*d.lda:])
		for ch := from; ch < to; ch += d.some {
			n := min(d.some, to-ch)
			for i := range n {
				c.packChannel(c.b[i*d.depth:][:d.depth], w.group*depth+ch+i)
			}
			c.multiply(ch*taps, n*taps, rows)
		}
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

// packFilter packs the gradients of output channel m.
func (c *dotChunk) packFilter(dst []uint16, m int) {
	clear(dst)
	p, d := &c.p, c.d
	n := c.at.rows * p.Out[2]
	for i := range c.at.images {
		at := ((c.at.image+i)*p.M+m)*volume(p.Out) + c.at.row*p.Out[2]
		from, to := c.halves(c.args.DY, nil, at, n), dst[i*d.height*d.pitch:]
		if d.pitch == p.Out[2] {
			copy(to, from)
			continue
		}
		for y := range c.at.rows {
			copy(to[y*d.pitch:], from[y*p.Out[2]:][:p.Out[2]])
		}
	}
}

// packChannel packs what all taps see of a channel of the image.
func (c *dotChunk) packChannel(dst []uint16, ch int) {
	clear(dst)
	p, d := &c.p, c.d
	first := c.at.row*p.Stride[1] - p.PadLo[1]
	lo := max(0, first)
	hi := min(p.In[1], first+(c.at.rows-1)*p.Stride[1]+(p.Kernel[1]-1)*p.Dilate[1]+1)
	for i := 0; i < c.at.images && lo < hi; i++ {
		plane := ((c.at.image+i)*p.C + ch) * volume(p.In)
		from := c.halves(c.args.X, c.args.Saved, plane+lo*p.In[2], (hi-lo)*p.In[2])
		to := dst[i*d.height*d.pitch:]
		if d.pitch == p.In[2] && p.PadLo[2] == 0 && volume(p.Stride) == 1 {
			copy(to[(lo-first)*d.pitch:], from)
			continue
		}
		for y := lo - first; len(from) > 0; y, from = y+1, from[p.In[2]:] {
			for q := range p.Stride[2] {
				if at := d.phases[y%p.Stride[1]*p.Stride[2]+q]; at >= 0 {
					d.sort(p, to[at+y/p.Stride[1]*d.pitch:], from[:p.In[2]], q)
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
	if step == 1 {
		copy(dst[min(at, seen):seen], row)
		return
	}
	for i := first; i < len(row) && at < seen; i += step {
		dst[at] = row[i]
		at++
	}
}

// multiply adds the products of all filters by n columns, which begin with column col, to results.
func (c *dotChunk) multiply(col, n, rows int) {
	d, taps := c.d, len(c.d.taps)
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
			t.a, t.c, t.ldc, t.tiles = c.a, to, c.columns, whole
			t.run()
		}
		if from := whole * dotRows; from < rows {
			t.a, t.tiles = c.a[from*d.lda:], (rows-from+dotRows-1)/dotRows
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

