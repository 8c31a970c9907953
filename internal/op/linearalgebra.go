package op

import "github.com/weirgpu/weir/internal/refmath"

// linearAlgebra holds the operators on square matrices: Det.
var linearAlgebra = []Op{
	{Name: "Det", Since: []int{11, 22}, MinIn: 1, MaxIn: 1, Infer: inferDet,
		Eval: InFloat32(evalDet), grad: gradDet},
}

func inferDet(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes)
	if !ranked {
		return err
	}
	r := len(x.Shape)
	if r < 2 || !x.Shape[r-1].MayEqual(x.Shape[r-2]) {
		return c.Errorf(ErrInput, "X %v must be square matrices", x)
	}
	c.Out[0] = Ranked(x.DType, x.Shape[:r-2]...)
	return nil
}

func evalDet(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	r := x.Rank()
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		return c.Errorf(ErrInput, "X %v must be square matrices", x.Shape)
	}
	out, err := c.Output(0, x.DType, x.Shape[:r-2])
	if err != nil {
		return err
	}
	v, err := c.Floats(0)
	if err != nil {
		return err
	}
	n := x.Shape[r-1]
	for i := range out.Len() {
		setFloat(out, i, determinant(v[i*n*n:][:n*n], n))
	}
	return nil
}

// determinant is the product of the pivots of Gauss's elimination with row exchanges, which
// overwrites a, n×n.
func determinant(a []float64, n int) float64 {
	det := 1.0
	for k := range n {
		pivot := refmath.Pivot(a, n, k)
		if a[pivot*n+k] == 0 {
			return 0
		}
		if pivot != k {
			det = -det
			refmath.ExchangeRows(a, n, k, pivot)
		}
		det *= a[k*n+k]
		for i := k + 1; i < n; i++ {
			f := a[i*n+k] / a[k*n+k]
			for j := k; j < n; j++ {
				a[i*n+j] -= f * a[k*n+j]
			}
		}
	}
	return det
}
