package op

import (
	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// softmax holds the operators that normalise along an axis. Before version 13 they first flatten
// the input to two dimensions at the axis (default 1) and work on the rows; from 13 on they work
// along one axis (default -1).
var softmax = []Op{
	alongAxis("Softmax", refmath.Softmax).derived(gradSoftmax),
	alongAxis("LogSoftmax", refmath.LogSoftmax).derived(gradLogSoftmax),
	alongAxis("Hardmax", func(out, in []float64) {
		best := 0
		for i, x := range in {
			out[i] = 0
			if x > in[best] {
				best = i
			}
		}
		out[best] = 1
	}).constantAlmostEverywhere(),
}

// alongAxis is the row of an operator that maps each vector along the axis to one of the same
// length.
func alongAxis(name string, f func(out, in []float64)) Op {
	return Op{Name: name, Since: []int{1, 11, 13}, MinIn: 1, MaxIn: 1,
		Infer: func(c *Infer) error {
			if c.In[0].Ranked {
				if _, _, err := c.softmaxAxis(len(c.In[0].Shape)); err != nil {
					return err
				}
			}
			return SameAsInput(floatTypes)(c)
		},
		Eval: InFloat32(func(c *Eval) error { return c.evalAlongAxis(f) }),
		Flops: func(_ *Call, _, out []Type) int64 {
			return 4 * out[0].Elements()
		}}
}

// softmaxAxis returns the first and last dimension of the vectors that are normalised. Flattening
// may be at the rank itself, which makes vectors of one element.
func (c *Call) softmaxAxis(rank int) (first, end int, err error) {
	if c.Version >= 13 {
		first, err = c.Axis(c.Attrs.Int("axis", -1), max(rank, 1))
		return first, first + 1, err
	}
	if a := c.Attrs.Int("axis", 1); a == int64(rank) {
		return rank, rank, nil
	}
	first, err = c.Axis(c.Attrs.Int("axis", 1), rank)
	return first, rank, err
}

func (c *Eval) evalAlongAxis(f func(out, in []float64)) error {
	x, out, err := c.OutputLike(floatTypes)
	if err != nil {
		return err
	}
	first, end, err := c.softmaxAxis(x.Rank())
	if err != nil || x.Len() == 0 {
		return err
	}
	end = min(end, x.Rank()) // a scalar is a vector of one element
	n, inner := count(x.Shape[min(first, end):end]), count(x.Shape[end:])
	if x.DType == tensor.Float64 {
		mapVectors(tensor.As[float64](out), tensor.As[float64](x), n, inner, f)
	} else {
		mapVectors(tensor.As[float32](out), tensor.As[float32](x), n, inner, f)
	}
	return nil
}

// mapVectors applies f to each vector of n elements that lie inner apart.
func mapVectors[T float](out, in []T, n, inner int, f func(out, in []float64)) {
	v, r := make([]float64, n), make([]float64, n)
	for block := 0; block < len(in); block += n * inner {
		for at := block; at < block+inner; at++ {
			for i := range v {
				v[i] = float64(in[at+i*inner])
			}
			f(r, v)
			for i := range r {
				out[at+i*inner] = T(r[i])
			}
		}
	}
}
