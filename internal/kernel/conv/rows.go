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

// rowsWindow names windows of so many rows and as many columns, without dilation, the second number
// of rows and the third of columns apart, in decimal digits; those that have a kernel of their own
// are what the generator lists.
type rowsWindow uint16

// anyWindow is all windows that have no name.
const anyWindow rowsWindow = 0

// rowsWindow returns the name of the windows.
func (p *Params) rowsWindow() rowsWindow {
	size, down, along := p.Kernel[1], p.Stride[1], p.Stride[2]
	if p.Dilate[1] != 1 || p.Dilate[2] != 1 || p.Kernel[2] != size || max(size, down, along) > 9 {
		return anyWindow
	}
	return rowsWindow(100*size + 10*down + along)
}
