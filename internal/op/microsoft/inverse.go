package microsoft

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/refmath"
)

// inverseOps hold Inverse, of each square matrix in a stack.
var inverseOps = []op.Op{
	{Domain: Domain, Name: "Inverse", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferInverse, Eval: op.InFloat32(evalInverse),
		Flops: func(_ *op.Call, in, _ []op.Type) int64 {
			if len(in[0].Shape) == 0 {
				return 0
			}
			n, _ := in[0].Shape[len(in[0].Shape)-1].Int()
			return 2 * int64(n) * in[0].Elements()
		}},
}

func inferInverse(c *op.Infer) error {
	if x := c.In[0]; x.Ranked {
		last := len(x.Shape) - 1
		if last < 1 || !x.Shape[last].MayEqual(x.Shape[last-1]) {
			return c.Errorf(op.ErrInput, "X is %v, must end in square matrices", x)
		}
	}
	return op.SameAsInput(floatTypes)(c)
}

// evalInverse solves for the unit matrix by Gauss-Jordan elimination with row pivots. A singular
// matrix, which the operator forbids, is an error.
func evalInverse(c *op.Eval) error {
	_, out, err := c.OutputLike(floatTypes)
	if err != nil {
		return err
	}
	rank := out.Rank()
	if rank < 2 || out.Shape[rank-1] != out.Shape[rank-2] {
		return c.Errorf(op.ErrInput, "X is %v, must end in square matrices", out.Shape)
	}
	x, err := c.Floats(0)
	if err != nil {
		return err
	}
	n := out.Shape[rank-1]
	for at := 0; at < len(x); at += n * n {
		inv, ok := inverted(x[at:at+n*n], n)
		if !ok {
			return c.Errorf(op.ErrInput, "matrix %d of %v is singular", at/(n*n), out.Shape)
		}
		copy(x[at:], inv)
	}
	op.SetFloats(out, x)
	return nil
}

// inverted returns the inverse of an n×n matrix, which it overwrites; false when there is none.
func inverted(a []float64, n int) ([]float64, bool) {
	inv := make([]float64, n*n)
	for i := range n {
		inv[i*n+i] = 1
	}
	for col := range n {
		top := refmath.Pivot(a, n, col)
		pivot := a[top*n+col]
		if pivot == 0 || math.IsNaN(pivot) {
			return nil, false
		}
		for _, m := range [][]float64{a, inv} {
			refmath.ExchangeRows(m, n, col, top)
			for k := range n {
				m[col*n+k] /= pivot
			}
		}
		for r := range n {
			if f := a[r*n+col]; r != col && f != 0 {
				addRowTimes(a[r*n:][:n], a[col*n:], -f)
				addRowTimes(inv[r*n:][:n], inv[col*n:], -f)
			}
		}
	}
	return inv, true
}

func addRowTimes(to, from []float64, f float64) {
	for k := range to {
		to[k] += f * from[k]
	}
}
