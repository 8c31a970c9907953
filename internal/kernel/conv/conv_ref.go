package conv

// Reference computes a convolution in plain Go from weights as ONNX lays them out, with sums in
// float64: the definition of what Convolution computes. It wants Params that New accepts.
func Reference(p Params, args *Args) {
	out, err := p.Window.setDefaults()
	if err != nil {
		panic(err)
	}
	p.Group = max(p.Group, 1)
	at := 0
	for n := range p.N {
		for m := range p.M {
			for z := range out[0] {
				for y := range out[1] {
					for x := range out[2] {
						v := float32(p.referenceSum(args, n, m, [3]int{z, y, x}))
						p.referenceStore(args, at, m, v)
						at++
					}
				}
			}
		}
	}
	if p.Map != nil {
		p.Map(args.Y[:at], args.Y[:at])
	}
}

// referenceSum is the sum over the window of output channel m at position pos.
func (p *Params) referenceSum(args *Args, n, m int, pos [3]int) float64 {
	c := p.C / p.Group
	first := m / (p.M / p.Group) * c
	sum := 0.0
	taps := volume(p.Kernel)
	for tap := range taps {
		at, ok := p.Window.tapAt(tap, pos)
		if !ok {
			continue
		}
		for ch := range c {
			x := p.Format.Round(args.X[(n*p.C+first+ch)*volume(p.In)+at])
			sum += float64(x) * float64(p.Format.Round(args.W[(m*c+ch)*taps+tap]))
		}
	}
	return sum
}

// tapAt returns the offset in a channel of the element that one tap of the kernel sees at an output
// position, and whether it lies inside the image.
func (w *Window) tapAt(tap int, pos [3]int) (offset int, ok bool) {
	t := [3]int{tap / w.Kernel[2] / w.Kernel[1], tap / w.Kernel[2] % w.Kernel[1], tap % w.Kernel[2]}
	for i := range 3 {
		at := pos[i]*w.Stride[i] - w.PadLo[i] + t[i]*w.Dilate[i]
		if at < 0 || at >= w.In[i] {
			return 0, false
		}
		offset = offset*w.In[i] + at
	}
	return offset, true
}

func (p *Params) referenceStore(args *Args, at, m int, v float32) {
	if p.Bias {
		v += args.Bias[m]
	}
	if p.Residual {
		v += args.Residual[at]
	}
	if p.Clamp {
		v = clamp(v, p.Lo, p.Hi)
	}
	args.Y[at] = v
}

// clamp limits x to [lo, hi] and lets a NaN through.
func clamp(x, lo, hi float32) float32 {
	if x < lo {
		x = lo
	}
	if x > hi {
		x = hi
	}
	return x
}
