package conv

// halvedPlanes is one call of the kernel whose strides are 2, with the border above and on the
// left. The assembly reads this struct; masks are for AVX-512.
type halvedPlanes struct {
	planeRun
	masks []halvedMask
	in    int // columns of the image
	// of the rows of output, those that see a row of the image below the one that they are in the
	// middle of
	below    int
	srcPitch int // bytes of a row of the image
}

// halvedMask says which of 32 columns of the input there are, and which of 16 of the output.
type halvedMask struct{ low, high, store uint16 }

// halvedFactor is about how many times faster than with copies of their rows these planes are
// computed.
const halvedFactor = 2

// halves reports whether halvedPlanes computes the convolution.
func (p *Params) halves(v level, out [3]int) bool {
	return hasHalvedPlanes(v) && p.withResidual(v) && p.Kernel == [3]int{1, 3, 3} &&
		p.Stride[1] == 2 && p.Stride[2] == 2 && p.Dilate[1] == 1 && p.Dilate[2] == 1 &&
		p.PadLo == [3]int{0, 1, 1} && p.PadHi[1] <= 1 && p.PadHi[2] <= 1 && p.fitBand(out) &&
		v.wideEnough(out[2], 2)
}

// halvedMasks returns the masks of rows of so many columns of the input and the output.
func halvedMasks(cols, out int) (masks []halvedMask) {
	for x := 0; x < out; x += 16 {
		there := bitRange(0, min(32, cols-2*x))
		masks = append(masks, halvedMask{uint16(there), uint16(there >> 16),
			uint16(bitRange(0, min(16, out-x)))})
	}
	return masks
}

// runHalved computes planes first to last.
func (o *Convolution) runHalved(args *Args, first, last int) {
	in := o.p.In
	t := halvedPlanes{masks: o.depthwise.halved, in: in[2], below: min(in[1]/2, o.out[1]),
		srcPitch: 4 * in[2]}
	o.eachRun(&t.planeRun, args, first, last, func() { runHalvedPlanes(o.depthwise.level, &t) })
}
