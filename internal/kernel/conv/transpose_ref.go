package conv

// ReferenceTranspose computes a transposed convolution in plain Go from weights as ONNX lays them
// out, C x M/group x kernel: the definition of what Transpose computes. It wants TransposeParams
// that NewTranspose accepts.
func ReferenceTranspose(p TransposeParams, args *Args) {
	o, err := NewTranspose(p)
	if err != nil {
		panic(err)
	}
	p = o.p
	sums := make([]float64, p.N*p.M*volume(o.out))
	c, m, taps := p.C/p.Group, p.M/p.Group, volume(p.Kernel)
	for n := range p.N {
		for ch := range p.C {
			for i := range volume(p.In) {
				x := float64(p.Format.Round(args.X[(n*p.C+ch)*volume(p.In)+i]))
				for k := range m * taps {
					at, ok := o.referenceAt(i, k%taps)
					if ok {
						plane := n*p.M + ch/c*m + k/taps
						w := p.Format.Round(args.W[ch*m*taps+k])
						sums[plane*volume(o.out)+at] += x * float64(w)
					}
				}
			}
		}
	}
	for i, s := range sums {
		v := float32(s)
		if p.Bias {
			v += args.Bias[i/volume(o.out)%p.M]
		}
		if p.Clamp {
			v = clamp(v, p.Lo, p.Hi)
		}
		args.Y[i] = v
	}
	if p.Map != nil {
		p.Map(args.Y[:len(sums)], args.Y[:len(sums)])
	}
}

// referenceAt returns the offset in a plane of the output that element i of a channel reaches
// through a tap.
func (o *Transpose) referenceAt(i, tap int) (at int, ok bool) {
	p := &o.p
	pos := [3]int{i / p.In[2] / p.In[1], i / p.In[2] % p.In[1], i % p.In[2]}
	t := [3]int{tap / p.Kernel[2] / p.Kernel[1], tap / p.Kernel[2] % p.Kernel[1], tap % p.Kernel[2]}
	for a := range 3 {
		q := pos[a]*p.Stride[a] + t[a]*p.Dilate[a] - p.PadLo[a]
		if q < 0 || q >= o.out[a] {
			return 0, false
		}
		at = at*o.out[a] + q
	}
	return at, true
}
