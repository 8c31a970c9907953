package op

import (
	"github.com/weirgpu/weir/tensor"
)

// binaryFuncs is a binary operation on each kind of number that it exists for; nil where it does
// not. Unsigned operands use u, or i when u is nil, which wraps to the same bits for sums,
// differences and products.
type binaryFuncs struct {
	i func(a, b int64) int64
	u func(a, b uint64) uint64
	f func(a, b float64) float64
}

// types returns the element types that the operation exists for.
func (fs binaryFuncs) types() TypeSet {
	var s TypeSet
	if fs.i != nil {
		s |= signedTypes
	}
	if fs.u != nil {
		s |= unsignedTypes
	}
	if fs.f != nil {
		s |= floatTypes
	}
	return s
}

// fold sets each element of out to the operation applied from left to right to the operands'
// elements there. All tensors have the same type, and the operands' strides are in w.
func (fs binaryFuncs) fold(out *tensor.Tensor, in []*tensor.Tensor, w walk) {
	loopsOf[out.DType].fold(fs, out, in, w)
}

func (*loopsOn[T, W]) fold(fs binaryFuncs, out *tensor.Tensor, in []*tensor.Tensor, w walk) {
	f := binaryOn[W](fs)
	o := tensor.As[T](out)
	v := make([][]T, len(in))
	for k, t := range in {
		v[k] = tensor.As[T](t)
	}
	w.runs(func(at, n int, off, step []int) {
		if len(v) == 2 {
			zip(o[at:at+n], v[0][off[0]:], v[1][off[1]:], step[0], step[1], f)
			return
		}
		for i := range n {
			acc := W(v[0][off[0]+i*step[0]])
			for k := 1; k < len(v); k++ {
				acc = f(acc, W(v[k][off[k]+i*step[k]]))
			}
			o[at+i] = T(acc)
		}
	})
}

// binaryOn returns the operation on W.
func binaryOn[W wide](fs binaryFuncs) func(a, b W) W {
	return pick[func(a, b W) W](fs.i, fs.u, fs.f)
}

func zip[T number, W wide](out, a, b []T, sa, sb int, f func(a, b W) W) {
	ia, ib := 0, 0
	for i := range out {
		out[i] = T(f(W(a[ia]), W(b[ib])))
		ia, ib = ia+sa, ib+sb
	}
}

// unaryFuncs is an operation on one number, for each kind that it exists for.
type unaryFuncs struct {
	i func(a int64) int64
	u func(a uint64) uint64
	f func(a float64) float64
}

func (fs unaryFuncs) types() TypeSet {
	return binaryFuncs{
		i: lift(fs.i), u: lift(fs.u), f: lift(fs.f),
	}.types()
}

// lift makes a binary function of the second operand, nil when f is.
func lift[W wide](f func(a W) W) func(a, b W) W {
	if f == nil {
		return nil
	}
	return func(_, b W) W { return f(b) }
}

// apply sets each element of out to the operation applied to the element of in there; both have the
// same type and count.
func (fs unaryFuncs) apply(out, in *tensor.Tensor) { loopsOf[out.DType].apply(fs, out, in) }

func (*loopsOn[T, W]) apply(fs unaryFuncs, out, in *tensor.Tensor) {
	f := pick[func(W) W](fs.i, fs.u, fs.f)
	o, v := tensor.As[T](out), tensor.As[T](in)
	for i := range o {
		o[i] = T(f(W(v[i])))
	}
}

// PropagateDType checks the type of input 0, x, and gives output 0 that type and no shape: the rule
// has yet to say one when ranked, the rank of x being known.
func (c *Infer) PropagateDType(set TypeSet) (x Type, ranked bool, err error) {
	x = c.In[0]
	if _, err := c.SameDType(set, x.DType); err != nil {
		return x, false, err
	}
	c.Out[0] = Unranked(x.DType)
	return x, x.Ranked, nil
}

// SameAsInput is the shape rule of operators whose output 0 has the type and shape of input 0.
//
//go:noinline
func SameAsInput(set TypeSet) func(*Infer) error {
	return func(c *Infer) error {
		if _, err := c.SameDType(set, c.In[0].DType); err != nil {
			return err
		}
		c.Out[0] = Type{DType: c.In[0].DType, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
		return nil
	}
}

// evalMap is the evaluation of an operation on each element of input 0; of gives the operation of a
// call.
func evalMap(of func(*Call) (unaryFuncs, error)) func(*Eval) error {
	return InFloat32(func(c *Eval) error {
		fs, err := of(c.Call)
		if err != nil {
			return err
		}
		x, out, err := c.OutputLike(fs.types())
		if err != nil {
			return err
		}
		fs.apply(out, x)
		return nil
	})
}

// unaryOp is the row of an operator that maps each element of its input, whatever the attributes.
func unaryOp(name string, fs unaryFuncs, since ...int) Op {
	return Op{Name: name, Since: since, MinIn: 1, MaxIn: 1, Traits: Elementwise,
		Infer: SameAsInput(fs.types()),
		Eval:  evalMap(func(*Call) (unaryFuncs, error) { return fs, nil })}
}

// onElems extends the shape rule of a unary row by what it does to the elements of shapes.
func onElems(o Op, f func(Dim) Dim) Op {
	infer := o.Infer
	o.Infer = func(c *Infer) error {
		if err := infer(c); err != nil {
			return err
		}
		for _, d := range c.Elems(0) {
			c.Out[0].Elems = append(c.Out[0].Elems, f(d))
		}
		return nil
	}
	return o
}

// floatMap is unaryOp for operators on floats only.
func floatMap(name string, f func(float64) float64, since ...int) Op {
	return unaryOp(name, unaryFuncs{f: f}, since...)
}

// attrMap is the row of an operator on floats whose function depends on the call's attributes.
func attrMap(name string, of func(*Call) (func(float64) float64, error), since ...int) Op {
	same := SameAsInput(floatTypes)
	infer := func(c *Infer) error {
		if _, err := of(c.Call); err != nil {
			return err
		}
		return same(c)
	}
	return Op{Name: name, Since: since, MinIn: 1, MaxIn: 1, Traits: Elementwise, Infer: infer,
		Eval: evalMap(func(c *Call) (unaryFuncs, error) {
			f, err := of(c)
			return unaryFuncs{f: f}, err
		})}
}

// maxOf and minOf are numpy.maximum and numpy.minimum: NaN when either operand is. math.Max and
// math.Min are not, which let an infinity win over NaN.
func maxOf(a, b float64) float64 { return max(a, b) }
func minOf(a, b float64) float64 { return min(a, b) }
