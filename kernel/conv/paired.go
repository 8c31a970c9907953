package conv

// pairedFloats is how many floats of a half row runPaired holds at a time, twice.
const pairedFloats = 512

// pairs reports whether windows of 2 x 2 tile small images, whose rows are shorter than a vector.
func (p *PoolParams) pairs() bool {
	two := [3]int{1, 2, 2}
	return p.Kernel == two && p.Stride == two && p.PadLo == [3]int{} &&
		p.In == [3]int{1, 2 * p.Out[1], 2 * p.Out[2]} && p.Out[2] < 16 &&
		p.Out[0] == 1 && p.Dilate[1] == 1 && p.Dilate[2] == 1
}

// runPaired pools images that windows of 2 x 2 tile. All rows of all images follow each other then,
// so columns are paired over many rows at once, and rows after that.
func (o *Pool) runPaired(dst, src, scratch []float32) {
	cols := o.p.Out[2]
	step := pairedFloats / (2 * cols) * cols
	for at := 0; at < len(dst); at += step {
		n := min(step, len(dst)-at)
		even, odd := scratch[:2*n], scratch[pairedFloats:][:2*n]
		deinterleave(o.level, even, odd, src[4*at:][:4*n], 2*n)
		reduceRow(o.level, o.p.Kind, even, odd)
		for i := 0; i < n; i += cols {
			y := dst[at+i:][:cols]
			copy(y, even[2*i:])
			reduceGo(o.p.Kind, y, even[2*i+cols:][:cols])
		}
		if o.p.Kind == AveragePool {
			for i, v := range dst[at:][:n] {
				dst[at+i] = v / 4
			}
		}
	}
}
