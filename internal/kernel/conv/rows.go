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
	window        rowsWindow // which windows they are
}

// rowsWindow names the windows that have a kernel of their own: of so many rows and columns,
// without dilation, the first number of rows and the second of columns apart.
type rowsWindow uint8

const (
	anyWindow rowsWindow = iota
	three1x1
	three2x2
	three2x1
	three1x2
	five1x1
	five2x1
)

// rowsWindow returns the name of the windows.
func (p *Params) rowsWindow() rowsWindow {
	if p.Dilate[1] != 1 || p.Dilate[2] != 1 {
		return anyWindow
	}
	type window struct{ rows, columns, down, along int }
	return map[window]rowsWindow{
		{3, 3, 1, 1}: three1x1, {3, 3, 2, 2}: three2x2, {3, 3, 2, 1}: three2x1,
		{3, 3, 1, 2}: three1x2, {5, 5, 1, 1}: five1x1, {5, 5, 2, 1}: five2x1,
	}[window{p.Kernel[1], p.Kernel[2], p.Stride[1], p.Stride[2]}]
}
