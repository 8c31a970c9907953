package gemm

// Reference computes the whole product in plain Go from unpacked operands, with sums in float64:
// the definition of what Product computes. It ignores PackedA and PackedB. Fill and FillA produce
// operands as they do for a Product with panels of width floats.
func Reference(p Params, args *Args, width int) {
	p.setDefaults()
	p.PackedA, p.PackedB = false, false
	for batch := range p.Batch {
		a := args.A[offset(p.OffA, p.StrideA, batch):]
		b := args.B[offset(p.OffB, p.StrideB, batch):]
		offC := offset(p.OffC, p.StrideC, batch)
		offBias := offset(p.OffBias, 0, batch)
		elementA, elementB := p.elementA(a), p.elementB(b, width)
		for i := range p.M {
			for j := range p.N {
				sum := 0.0
				for k := range p.K {
					sum += float64(p.Format.Round(elementA(i, k))) * float64(
						p.Format.Round(elementB(k, j)))
				}
				at := offC + i*p.LdC + j
				if p.TransC {
					at = offC + j*p.LdC + i
				}
				p.referenceStore(args, at, offBias, i, j, float32(sum))
			}
		}
	}
	if p.Map != nil {
		p.referenceMap(args)
	}
}

// elementA returns the function that reads element (i, k) of A.
func (p *Params) elementA(a []float32) func(i, k int) float32 {
	switch {
	case p.FillA != nil:
		var one [1]float32
		return func(i, k int) float32 {
			p.FillA(one[:], a, k, k+1, i, i+1)
			return one[0]
		}
	case p.TransA:
		return func(i, k int) float32 { return a[k*p.LdA+i] }
	}
	return func(i, k int) float32 { return a[i*p.LdA+k] }
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
	rows, cols := p.M, p.N
	if p.TransC {
		rows, cols = cols, rows
	}
	for batch := range p.Batch {
		for i := range rows {
			row := args.C[offset(p.OffC, p.StrideC, batch)+i*p.LdC:][:cols]
			p.Map(row, row)
		}
	}
}
