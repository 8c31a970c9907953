package op

// Cofactors is the operator that gives the gradient of Det:
//
//	y = weir:Cofactors(x)
//
// Element i, j of each square matrix of y is the determinant of that of x without row i and column
// j, less than 0 as it is where i+j is odd: the derivative of the determinant by element i, j, also
// of matrices that have no inverse.
const Cofactors = "Cofactors"

var cofactorOps = []Op{{Domain: FusedDomain, Name: Cofactors, Since: []int{1}, MinIn: 1, MaxIn: 1,
	Infer: inferCofactors, Eval: InFloat32(evalCofactors)}}

func inferCofactors(c *Infer) error {
	if err := inferDet(c); err != nil {
		return err
	}
	c.Out[0] = c.In[0].withoutContents()
	return nil
}

func evalCofactors(c *Eval) error {
	x, out, err := c.OutputLike(floatTypes)
	if err != nil {
		return err
	}
	r := x.Rank()
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		return c.Errorf(ErrInput, "X %v must be square matrices", x.Shape)
	}
	v, err := c.Floats(0)
	if err != nil {
		return err
	}
	n := x.Shape[r-1]
	y, minor := make([]float64, len(v)), make([]float64, 0, n*n)
	for at := range v {
		m, i, j := v[at/(n*n)*n*n:][:n*n], at/n%n, at%n
		minor = minor[:0]
		for k := range n * n {
			if k/n != i && k%n != j {
				minor = append(minor, m[k])
			}
		}
		y[at] = determinant(minor, n-1)
		if (i+j)%2 == 1 {
			y[at] = -y[at]
		}
	}
	return c.round(out, y)
}

// gradDet: the derivative by each element is its cofactor.
func gradDet(x *gradient) {
	if x.needs(0) {
		g := x.Unsqueeze(x.d(0), -2, -1)
		x.set(0, x.mul(g, x.Ops(FusedDomain, Cofactors, 1, 1, nil, x.Input(0))[0]))
	}
}
