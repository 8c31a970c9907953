package conv

import "github.com/weirgpu/weir/internal/kernel/vec"

// weightsOfPlanes is the gradient of a depthwise convolution's weights. Both planes are copied into
// rows of one pitch, with zeros between them, and the image's columns and rows sorted by their
// remainders modulo the strides: what a tap sees of all places then lies in one piece, so that its
// gradient is one product of vectors. The zeros multiply what a tap does not see, too: an infinity
// or what is no number, at the image's edge, makes gradients of taps that do not see it no numbers.
type weightsOfPlanes struct {
	pitch, rows int   // of what a tap sees
	phase       int   // floats of the rows and columns of one remainder
	offsets     []int // of what each tap sees
	floats      int
}

func planWeightsOfPlanes(p *WeightsParams) *weightsOfPlanes {
	d := &weightsOfPlanes{}
	reach := func(axis int) int { return (p.Kernel[axis] - 1) * p.Dilate[axis] / p.Stride[axis] }
	d.pitch, d.rows = p.Out[2]+reach(2), p.Out[1]
	d.phase = (p.Out[1]+reach(1))*d.pitch + reach(2)
	for tap := range volume(p.Kernel) {
		y, x := tap/p.Kernel[2]*p.Dilate[1], tap%p.Kernel[2]*p.Dilate[2]
		phase := y%p.Stride[1]*p.Stride[2] + x%p.Stride[2]
		d.offsets = append(d.offsets,
			phase*d.phase+y/p.Stride[1]*d.pitch+x/p.Stride[2])
	}
	d.floats = p.Stride[1]*p.Stride[2]*d.phase + d.rows*d.pitch
	return d
}

// run computes the weights of one filter.
func (d *weightsOfPlanes) run(p *WeightsParams, m int, args *WeightsArgs, scratch []float32) {
	dy, x := cut(scratch, d.rows*d.pitch)
	x = x[:p.Stride[1]*p.Stride[2]*d.phase]
	clear(dy)
	clear(x)
	plane, places, taps := volume(p.In), volume(p.Out), len(d.offsets)
	dw := args.DW[m*taps:][:taps]
	clear(dw)
	c := m / (p.M / p.Group)
	for n := range p.N {
		from := args.DY[(n*p.M+m)*places:][:places]
		for y := range d.rows {
			copy(dy[y*d.pitch:], from[y*p.Out[2]:][:p.Out[2]])
		}
		d.sort(p, x, args.X[(n*p.C+c)*plane:][:plane])
		for tap, at := range d.offsets {
			dw[tap] += vec.Dot(dy, x[at:][:len(dy)])
		}
	}
}

// sort copies a plane of the image.
func (d *weightsOfPlanes) sort(p *WeightsParams, dst, plane []float32) {
	high := d.phase / d.pitch
	for y := range p.In[1] {
		row := y + p.PadLo[1]
		to := row / p.Stride[1]
		if to >= high {
			break
		}
		from := plane[y*p.In[2]:][:p.In[2]]
		for q := range p.Stride[2] {
			line := dst[(row%p.Stride[1]*p.Stride[2]+q)*d.phase+to*d.pitch:][:d.pitch]
			first := (q - p.PadLo[2]%p.Stride[2] + p.Stride[2]) % p.Stride[2] // of the remainder
			at := (first + p.PadLo[2]) / p.Stride[2]
			for i := first; i < p.In[2] && at < d.pitch; i += p.Stride[2] {
				line[at] = from[i]
				at++
			}
		}
	}
}
