package conv

// pairedFloats is how many floats of a half row runPaired holds at a time, twice.
const pairedFloats = 512

// pairs reports whether the largest elements are wanted of windows of 2 x 2 that tile small images,
// whose rows are shorter than a vector. Means, which add up rows first, are no such case.
func (p *PoolParams) pairs() bool {
	two := [3]int{1, 2, 2}
	return p.Kind == MaxPool && p.Kernel == two && p.Stride == two && p.PadLo == [3]int{} &&
		p.In == [3]int{1, 2 * p.Out[1], 2 * p.Out[2]} && p.Out[2] < 16 &&
		p.Out[0] == 1 && p.Dilate[1] == 1 && p.Dilate[2] == 1
}

// runPaired takes the largest elements under windows of 2 x 2 that tile images. All rows of all
// images follow each other then, so columns are paired over many rows at once, and rows after that.
func (o *Pool) runPaired(dst, src, scratch []float32) {
	cols := o.p.Out[2]
	step := pairedFloats / (2 * cols) * cols
	for at := 0; at < len(dst); at += step {
		n := min(step, len(dst)-at)
		even, odd := scratch[:2*n], scratch[pairedFloats:][:2*n]
		deinterleave(o.level, even, odd, src[4*at:][:4*n], 2*n)
		reduceRow(o.level, MaxPool, even, odd)
		for i := 0; i < n; i += cols {
			y := dst[at+i:][:cols]
			copy(y, even[2*i:])
			reduceGo(MaxPool, y, even[2*i+cols:][:cols])
		}
	}
}
