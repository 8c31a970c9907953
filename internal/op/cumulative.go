package op

import "github.com/weirgpu/weir/tensor"

// cumulative holds the running sums and products along an axis, which input 1 gives. Those of
// floats are computed in float64 and rounded as they are stored: a sum of float32 is within 2^-23
// of the exact one, relative to the sum of magnitudes so far, for axes of up to 2^29 elements.
var cumulative = []Op{
	running("CumSum", sums, 0, 11, 14).derived(gradCumSum),
	running("CumProd", binaryFuncs{
		i: func(acc, x int64) int64 { return acc * x },
		u: func(acc, x uint64) uint64 { return acc * x },
		f: func(acc, x float64) float64 { return acc * x },
	}, 1, 26),
}

func running(name string, fs binaryFuncs, neutral int64, since ...int) Op {
	return Op{Name: name, Since: since, MinIn: 2, MaxIn: 2, Infer: SameAsInput(numberTypes),
		Eval: InFloat32(func(c *Eval) error { return c.evalRunning(fs, neutral) })}
}

// evalRunning sets each element to the fold of all elements up to it along the axis: from the other
// end with reverse, and without itself with exclusive.
func (c *Eval) evalRunning(fs binaryFuncs, neutral int64) error {
	x, out, err := c.OutputLike(numberTypes)
	if err != nil {
		return err
	}
	a, err := c.Int(1)
	if err != nil {
		return err
	}
	axis, err := c.Axis(a, x.Rank())
	if err != nil || out.Len() == 0 {
		return err
	}
	r := run{n: x.Shape[axis], inner: count(x.Shape[axis+1:]), neutral: neutral,
		reverse: c.Attrs.Bool("reverse", false), exclusive: c.Attrs.Bool("exclusive", false)}
	loopsOf[x.DType].run(r, fs, out, x)
	return nil
}

// run says how vectors of n elements, inner apart, are folded.
type run struct {
	n, inner           int
	neutral            int64
	reverse, exclusive bool
}

func (*loopsOn[T, W]) run(r run, fs binaryFuncs, out, in *tensor.Tensor) {
	f := binaryOn[W](fs)
	o, v := tensor.As[T](out), tensor.As[T](in)
	for i := range len(v) / r.n {
		at, step := i/r.inner*r.n*r.inner+i%r.inner, r.inner
		if r.reverse {
			at, step = at+(r.n-1)*r.inner, -r.inner
		}
		acc := W(r.neutral)
		for range r.n {
			before := acc
			acc = f(acc, W(v[at]))
			o[at] = T(acc)
			if r.exclusive {
				o[at] = T(before)
			}
			at += step
		}
	}
}
