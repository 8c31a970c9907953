package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// reduce holds the operators that reduce over axes. The axes are an attribute before version 18 (13
// for ReduceSum) and input 1 from then on. With noop_with_empty_axes and no axes, each element is
// reduced alone.
var reduce = []Op{
	reduction("ReduceSum", reducer{add: sums, dims: Dim.Add}, 13, 1, 11, 13).derived(gradReduceSum),
	reduction("ReduceMean", reducer{add: sums, mean: true}, 18, 1, 11, 13,
		18).derived(gradReduceMean),
	reduction("ReduceProd", reducer{start: one, dims: Dim.Mul, add: binaryFuncs{
		i: func(acc, x int64) int64 { return acc * x },
		u: func(acc, x uint64) uint64 { return acc * x },
		f: func(acc, x float64) float64 { return acc * x },
	}}, 18, 1, 11, 13, 18).derived(gradReduceProd),
	reduction("ReduceMax", reducer{start: lowest, dims: maxDims,
		add: binaryFuncs{i: maxInt[int64], u: maxInt[uint64], f: maxOf}}, 18, 1, 11, 12, 13, 18,
		20).derived(gradReduceExtreme),
	reduction("ReduceMin", reducer{start: highest, dims: minDims,
		add: binaryFuncs{i: minInt[int64], u: minInt[uint64], f: minOf}}, 18, 1, 11, 12, 13, 18,
		20).derived(gradReduceExtreme),
	reduction("ReduceL1", reducer{add: binaryFuncs{
		i: func(acc, x int64) int64 { return acc + max(x, -x) },
		u: func(acc, x uint64) uint64 { return acc + x },
		f: func(acc, x float64) float64 { return acc + math.Abs(x) },
	}}, 18, 1, 11, 13, 18).derived(gradReduceL1),
	reduction("ReduceSumSquare", reducer{add: binaryFuncs{
		i: func(acc, x int64) int64 { return acc + x*x },
		u: func(acc, x uint64) uint64 { return acc + x*x },
		f: addSquare,
	}}, 18, 1, 11, 13, 18).derived(gradReduceSumSquare),
	reduction("ReduceL2", reducer{add: binaryFuncs{f: addSquare}, finish: math.Sqrt}, 18, 1, 11, 13,
		18).derived(gradReduceL2),
	reduction("ReduceLogSum", reducer{add: binaryFuncs{f: sums.f}, finish: math.Log}, 18, 1, 11, 13,
		18, 28).derived(gradReduceLogSum),
	reduction("ReduceLogSumExp", reducer{shifted: true}, 18, 1, 11, 13, 18,
		28).derived(gradReduceLogSumExp),
}

var sums = binaryFuncs{
	i: func(acc, x int64) int64 { return acc + x },
	u: func(acc, x uint64) uint64 { return acc + x },
	f: func(acc, x float64) float64 { return acc + x },
}

func addSquare(acc, x float64) float64 { return acc + x*x }

// reducer folds elements into one. Where add has no integer functions, integers are reduced as
// float64 and truncated.
type reducer struct {
	start  func(tensor.DType) (int64, float64) // the result for no elements; nil means 0
	add    binaryFuncs                         // of the accumulator and an element
	finish func(float64) float64               // of the accumulator; nil means as it is
	mean   bool                                // divide by the number of elements
	// log-sum-exp: exponents are taken relative to the largest
	shifted bool
	dims    func(acc, x Dim) Dim // add on the elements of shapes
}

func one(tensor.DType) (int64, float64) { return 1, 1 }

func lowest(d tensor.DType) (int64, float64) {
	if d.IsInteger() && d.IsSigned() {
		return math.MinInt64 >> (64 - 8*d.Size()), 0
	}
	return 0, math.Inf(-1)
}

func highest(d tensor.DType) (int64, float64) {
	switch {
	case d == tensor.Bool:
		return 1, 0
	case d.IsInteger() && d.IsSigned():
		return math.MaxInt64 >> (64 - 8*d.Size()), 0
	}
	return -1, math.Inf(1) // -1 wraps to the largest unsigned number
}

// reduction is the row of a reduction whose axes become an input at version axesInput.
func reduction(name string, r reducer, axesInput int, since ...int) Op {
	types := numberTypes
	if name == "ReduceMax" || name == "ReduceMin" {
		types |= boolTypes
	}
	return Op{Name: name, Since: since, MinIn: 1, MaxIn: 2,
		Infer: func(c *Infer) error { return r.infer(c, types, axesInput) },
		Eval:  InFloat32(func(c *Eval) error { return r.eval(c, types, axesInput) }),
		Flops: func(_ *Call, in, _ []Type) int64 { return in[0].Elements() }}
}

// reducedAxes tells for each axis whether it is reduced.
func (c *Call) reducedAxes(given []int64, rank int) ([]bool, error) {
	out := make([]bool, rank)
	if len(given) == 0 {
		if !c.Attrs.Bool("noop_with_empty_axes", false) {
			for i := range out {
				out[i] = true
			}
		}
		return out, nil
	}
	return c.marked(given, rank)
}

// marked tells for each of rank axes whether it is given.
func (c *Call) marked(given []int64, rank int) ([]bool, error) {
	out := make([]bool, rank)
	axes, err := c.axes(given, rank)
	for _, a := range axes {
		out[a] = true
	}
	return out, err
}

// reducedShape drops the reduced axes, or keeps them with size one when keepdims is set.
func reducedShape[D any](shape []D, reduced []bool, keep bool, one D) []D {
	out := []D{}
	for i, d := range shape {
		switch {
		case !reduced[i]:
			out = append(out, d)
		case keep:
			out = append(out, one)
		}
	}
	return out
}

func (r *reducer) infer(c *Infer, types TypeSet, axesInput int) error {
	x, ranked, err := c.PropagateDType(types)
	if !ranked {
		return err
	}
	keep := c.Attrs.Bool("keepdims", true)
	axes, _, known := c.intsArg("axes", 1, axesInput)
	if !known {
		if keep {
			c.Out[0] = Ranked(x.DType, unknownDims(len(x.Shape))...)
		}
		return nil
	}
	reduced, err := c.reducedAxes(axes, len(x.Shape))
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(x.DType, reducedShape(x.Shape, reduced, keep, Known(1))...)
	if len(reduced) == 1 && reduced[0] {
		c.Out[0].Elems = r.elems(x.Elems)
	}
	return nil
}

// elems reduces the elements of a shape to one, nil when that is not known.
func (r *reducer) elems(in []Dim) []Dim {
	if r.dims == nil || len(in) == 0 {
		return nil
	}
	acc := in[0]
	for _, e := range in[1:] {
		acc = r.dims(acc, e)
	}
	return []Dim{acc}
}

func (r *reducer) eval(c *Eval, types TypeSet, axesInput int) error {
	x := c.In[0]
	if _, err := c.SameDType(types, x.DType); err != nil {
		return err
	}
	axes, _, err := c.intsArg("axes", 1, axesInput)
	if err != nil {
		return err
	}
	reduced, err := c.reducedAxes(axes, x.Rank())
	if err != nil {
		return err
	}
	kept := reducedShape(x.Shape, reduced, true, 1)
	out, err := c.Output(0, x.DType,
		reducedShape(x.Shape, reduced, c.Attrs.Bool("keepdims", true), 1))
	if err != nil || out.Len() == 0 {
		return err
	}
	w := newWalk(x.Shape, broadcastStrides(kept, x.Shape))
	r.into(out, x, w, x.Len()/out.Len())
	return nil
}

// into reduces in along w, which walks over in and gives the offset of each element's accumulator;
// n elements share one.
func (r *reducer) into(out, in *tensor.Tensor, w walk, n int) {
	if r.shifted {
		logSumExp(out, in, w)
		return
	}
	if r.add.i == nil && !in.DType.IsFloat() {
		r.intoFloats(out, in, w, n)
		return
	}
	d := in.DType
	if d == tensor.Bool {
		d = tensor.Uint8
	}
	loopsOf[d].reduce(r, out, in, w, n)
}

// intoFloats reduces integers as float64.
func (r *reducer) intoFloats(out, in *tensor.Tensor, w walk, n int) {
	v, _ := in.Floats()
	wide := tensor.From(make([]float64, out.Len()), out.Shape...)
	loopsOf[tensor.Float64].reduce(r, wide, tensor.From(v, in.Shape...), w, n)
	for i, x := range tensor.As[float64](wide) {
		setFloat(out, i, x)
	}
}

func (*loopsOn[T, W]) reduce(r *reducer, out, in *tensor.Tensor, w walk, n int) {
	acc := slices.Repeat([]W{startOf[W](r, in.DType)}, out.Len())
	accumulate(tensor.Cast[T](in.Data), w, acc, binaryOn[W](r.add))
	o := tensor.Cast[T](out.Data)
	for i, a := range acc {
		if r.mean && (n > 0 || in.DType.IsFloat()) {
			a /= W(n)
		}
		if r.finish != nil {
			a = W(r.finish(float64(a)))
		}
		o[i] = T(a)
	}
}

func startOf[W wide](r *reducer, d tensor.DType) W {
	if r.start == nil {
		return 0
	}
	i, f := r.start(d)
	if d.IsFloat() {
		return W(f)
	}
	return W(i)
}

// accumulate adds each element, in row-major order, to its accumulator.
func accumulate[T number, W wide](in []T, w walk, acc []W, add func(acc, x W) W) []W {
	w.runs(func(at, n int, off, step []int) {
		if step[0] == 0 {
			a := acc[off[0]]
			for _, x := range in[at : at+n] {
				a = add(a, W(x))
			}
			acc[off[0]] = a
			return
		}
		for i, x := range in[at : at+n] {
			k := off[0] + i*step[0]
			acc[k] = add(acc[k], W(x))
		}
	})
	return acc
}

// logSumExp is log Σ exp(x), the largest element taken out of the sum so that exp does not
// overflow.
func logSumExp(out, in *tensor.Tensor, w walk) {
	v, _ := in.Floats()
	top := accumulate(v, w, slices.Repeat([]float64{math.Inf(-1)}, out.Len()), maxOf)
	for i, t := range top {
		if math.IsInf(t, 0) {
			top[i] = 0 // exp of an infinity is right as it is
		}
	}
	sum := make([]float64, len(top))
	w.runs(func(at, n int, off, step []int) {
		for i, x := range v[at : at+n] {
			k := off[0] + i*step[0]
			sum[k] += math.Exp(x - top[k])
		}
	})
	for i, s := range sum {
		setFloat(out, i, top[i]+math.Log(s))
	}
}
