package conv

// Parts of the epilogue of rows.
const (
	flagResidual = 1 << iota
	flagClamp
)

// rows is one call of the depthwise kernel: n rows of cols outputs, where output (r, x) is the sum
// over the taps t of w[t] * src[r*srcStride + offsets[t] + x], plus the epilogue. Rows of dst and
// res are stride apart. A kernel may read slack floats of src past what the last output sees. The
// assembly reads this struct.
type rows struct {
	src, dst, res []float32
	w             []float32
	offsets       []int
	n, cols       int
	stride        int // of dst and res
	srcStride     int
	reach         int // largest offset
	bias, lo, hi  float32
	flags         uint32
	// the stride of both axes, 1 or 2, when the taps are 3x3 without dilation; otherwise 0
	threes int
}
