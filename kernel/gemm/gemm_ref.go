package gemm

// Reference computes the whole product in plain Go from unpacked operands, with sums in float64: the definition of what
// Op computes. It ignores PackedA and PackedB. Fill produces B as it does for an Op with panels of width floats.
func Reference(p Params, args *Args, width int) {
	p.setDefaults()
	p.PackedA, p.PackedB = false, false
	for batch := range p.Batch {
		a := args.A[offset(p.OffA, p.StrideA, batch):]
		b := args.B[offset(p.OffB, p.StrideB, batch):]
		offC := offset(p.OffC, p.StrideC, batch)
		offBias := offset(p.OffBias, 0, batch)
		at := p.elementB(b, width)
		for i := range p.M {
			for j := range p.N {
				sum := 0.0
				for k := range p.K {
					x := i*p.LdA + k
					if p.TransA {
						x = k*p.LdA + i
					}
					sum += float64(a[x]) * float64(at(k, j))
				}
				p.referenceStore(args, offC+i*p.LdC+j, offBias, i, j, float32(sum))
			}
		}
	}
	if p.Map != nil {
		p.referenceMap(args)
	}
}

// elementB returns the function that reads element (k, j) of B.
func (p *Params) elementB(b []float32, width int) func(k, j int) float32 {
	switch {
	case p.Fill != nil:
		row := make([]float32, width)
		return func(k, j int) float32 {
			p.Fill(row, b, k, k+1, j, j+1)
			return row[0]
		}
	case p.TransB:
		return func(k, j int) float32 { return b[j*p.LdB+k] }
	}
	return func(k, j int) float32 { return b[k*p.LdB+j] }
}

func (p *Params) referenceStore(args *Args, at, offBias, i, j int, x float32) {
	x *= p.Alpha
	switch p.Bias {
	case BiasPerRow:
		x += args.Bias[offBias+i]
	case BiasPerCol:
		x += args.Bias[offBias+j]
	}
	switch p.Residual {
	case ResidualFull:
		x += p.Beta * args.Residual[at]
	case ResidualOneRow:
		x += p.Beta * args.Residual[j]
	}
	if p.Clamp {
		x = clamp(x, p.Lo, p.Hi)
	}
	args.C[at] = x
}

func (p *Params) referenceMap(args *Args) {
	for batch := range p.Batch {
		for i := range p.M {
			row := args.C[offset(p.OffC, p.StrideC, batch)+i*p.LdC:][:p.N]
			p.Map(row, row)
		}
	}
}
