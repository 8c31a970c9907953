package conv

// poolBand is one call of a pooling kernel: rows of outputs of consecutive planes, each vector of
// outputs from what its windows see of the image. The assembly reads this struct.
type poolBand struct {
	src, dst []float32
	rows     []poolRow // of each plane
	taps     []poolTap // of each vector of columns, width of them
	// what each column contributes to the divisor of a mean, whole vectors of them
	columns []float32
	width   int // taps along a row: of the kernel, or pairs of them with a stride of 2
	cols    int // outputs of a row
	planes  int
	plane   int     // bytes from one plane of the image to the next
	step    int     // bytes from one row under a window to the next
	three   int     // not 0 when windows are three columns wide
	neutral float32 // what reducing with changes nothing
}

// poolRow is where the windows of an output row lie.
type poolRow struct {
	// bytes from the plane to the first row inside the image, at the first column of the first
	// window
	at      int
	n       int     // rows inside the image
	divisor float32 // what they contribute to the divisor of a mean
}

// poolTap is what a vector of outputs sees under one tap, or, with a stride of 2, under an even tap
// and the odd one after it.
type poolTap struct {
	load      [2]uint16 // which of 16, or 32, columns lie in the image
	even, odd uint16    // the outputs for which the tap does; with a stride of 1 load says it
}

// Costs in cycles by which the ways to pool are compared: of taking a vector under one tap, and of
// adding a row to another, a vector of it and each time.
const (
	tapCycles    = 1.5
	vectorCycles = 3
	rowCycles    = 30
	// fewOutputs are too few in a row for a vector of their own where rows can be joined (see
	// runPaired).
	fewOutputs = 2
	// bandWork is about the vectors that are taken in a chunk, and at most those of a call: the
	// runtime cannot stop a goroutine inside assembly.
	bandWork = 1 << 14
)

// banded reports whether vectors of outputs are reduced straight from the image, whose windows may
// overlap much.
func (p *PoolParams) banded() bool {
	if !p.trivial(0) || p.Out[0] != 1 || p.Stride[2] > 2 || p.Dilate[2] != 1 ||
		p.pairs() && p.Out[2] <= fewOutputs || p.longMeans() {
		return false
	}
	vectors, kh, kw := float64(p.vectors()), float64(p.Kernel[1]), float64(p.Kernel[2])
	return tapCycles*kh*kw*vectors <= (kh+kw)*(vectorCycles*vectors+rowCycles)
}

// vectors is the number of vectors of a row of outputs.
func (p *PoolParams) vectors() int { return (p.Out[2] + 15) / 16 }

// planBand plans the calls.
func (o *Pool) planBand() {
	p := &o.p
	b := &poolBand{width: (p.Kernel[2] + p.Stride[2] - 1) / p.Stride[2], cols: p.Out[2],
		plane: 4 * volume(p.In),
		step:  4 * p.Dilate[1] * p.In[2], neutral: p.neutral(),
		rows: p.rows(), columns: p.columnDivisors(16 * p.vectors())}
	if p.Kernel[2] == 3 {
		b.three = 1
	}
	for v := range p.vectors() {
		for k := range b.width {
			b.taps = append(b.taps, p.tapMasks(16*v, k*p.Stride[2]))
		}
	}
	o.band = b
	o.splitPlanes(o.bandCost(len(b.rows)))
}

// splitPlanes sets how many planes a chunk has where each takes so many vectors.
func (o *Pool) splitPlanes(cost int) {
	planes := o.p.Planes
	if chunks := (planes*cost + bandWork - 1) / bandWork; chunks <= 1 {
		o.planes = max(1, planes)
	} else {
		chunks = (chunks + chunkStep - 1) / chunkStep * chunkStep
		o.planes = (planes + chunks - 1) / chunks
	}
}

// rows lists where the windows of each output row of a plane lie.
func (p *PoolParams) rows() (rows []poolRow) {
	for y := range p.Out[1] {
		k0, k1 := p.tapsInside(1, y)
		top := y*p.Stride[1] - p.PadLo[1] + k0*p.Dilate[1]
		rows = append(rows,
			poolRow{4 * (top*p.In[2] - p.PadLo[2]), k1 - k0, float32(p.divisor(1, y))})
	}
	return rows
}

// columnDivisors returns the divisor of each of n columns, 1 after the last output.
func (p *PoolParams) columnDivisors(n int) []float32 {
	columns := make([]float32, n)
	for x := range columns {
		columns[x] = 1
		if x < p.Out[2] {
			columns[x] = float32(p.divisor(2, x))
		}
	}
	return columns
}

// bandCost is the number of vectors taken for n rows of a plane.
func (o *Pool) bandCost(n int) int { return n * len(o.band.taps) * o.p.Kernel[1] }

// tapMasks returns what the vector of outputs from x on sees under tap k.
func (p *PoolParams) tapMasks(x, k int) (t poolTap) {
	at := x*p.Stride[2] - p.PadLo[2] + k
	seen := bitRange(-at, p.In[2]-at)
	t.load = [2]uint16{uint16(seen), uint16(seen >> 16)}
	if p.Stride[2] == 1 {
		return t
	}
	for i := range 16 {
		t.even |= uint16(seen >> (2 * i) & 1 << i)
		if k+1 < p.Kernel[2] {
			t.odd |= uint16(seen >> (2*i + 1) & 1 << i)
		}
	}
	return t
}

// runBands pools the output rows lo to hi of planes, in calls that are short enough.
func (o *Pool) runBands(dst, src []float32, lo, hi int) {
	b := *o.band
	in, out := volume(o.p.In), volume(o.p.Out)
	if o.planes > 1 || hi-lo == len(b.rows) && o.bandCost(len(b.rows)) <= bandWork {
		b.src, b.dst, b.planes = src, dst, len(src)/in
		runPoolBand(&b, o.p.Kind, o.p.Stride[2])
		return
	}
	b.planes = 1
	step := max(1, bandWork/o.bandCost(1))
	for ; len(src) > 0; src, dst = src[in:], dst[out:] {
		for y := lo; y < hi; y += step {
			b.rows = o.band.rows[y:min(y+step, hi)]
			b.src, b.dst = src, dst[y*b.cols:]
			runPoolBand(&b, o.p.Kind, o.p.Stride[2])
		}
	}
}
