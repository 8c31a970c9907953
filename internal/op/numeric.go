package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// TypeSet is a set of element types, one bit each.
type TypeSet uint32

// SetOf returns the set of the given types.
//
//go:noinline
func SetOf(ds ...tensor.DType) TypeSet {
	var s TypeSet
	for _, d := range ds {
		s |= 1 << d
	}
	return s
}

// Has reports whether a type is in the set.
//
//go:noinline
func (s TypeSet) Has(d tensor.DType) bool { return s>>d&1 != 0 }

// The type constraints that the ONNX operator texts use. Where the text widened a constraint over
// time, the widest is used for every version: a valid model of any version evaluates the same.
var (
	floatTypes    = SetOf(tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16)
	signedTypes   = SetOf(tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64)
	unsignedTypes = SetOf(tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	integerTypes  = signedTypes | unsignedTypes
	numberTypes   = floatTypes | integerTypes
	boolTypes     = SetOf(tensor.Bool)
	stringTypes   = SetOf(tensor.String)
	float8Types   = SetOf(tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2,
		tensor.Float8E5M2FNUZ)
)

// number are the Go types of the element types that arithmetic is done on; half types are widened
// first.
type number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// wide are the types that arithmetic is done in. Rounding a float64 sum, difference, product,
// quotient or root of float32 operands to float32 gives the float32 result exactly (53 ≥ 2·24 + 2
// bits), and integers wrap alike.
type wide interface{ int64 | uint64 | float64 }

type float interface{ float32 | float64 }

// loops are the element loops of the operator families over tensors of one type of number. Each
// family has its method of [loopsOn] beside its operators.
type loops interface {
	fold(fs binaryFuncs, out *tensor.Tensor, in []*tensor.Tensor, w walk)
	apply(fs unaryFuncs, out, in *tensor.Tensor)
	compare(out, a, b *tensor.Tensor, w walk, holds func(order int) bool)
	reduce(r *reducer, out, in *tensor.Tensor, w walk, n int)
	run(r run, fs binaryFuncs, out, in *tensor.Tensor)
	multiply(out, a, b *tensor.Tensor, p matrices)
	gemm(c *Eval, out *tensor.Tensor, m, k, n int)
	contract(c *Eval, out *tensor.Tensor, w walk)
	combiner(how string) combiner
	addUp(out, in *tensor.Tensor, each func(add func(to, from int)))
	order(t *tensor.Tensor) func(i, j int) int
	extreme(t *tensor.Tensor, sign int) func(i, j int) int
	count(out *tensor.Tensor, start, delta *tensor.Tensor)
	widen(buf []int64, src *tensor.Tensor, at int)
	narrow(dst *tensor.Tensor, at int, buf []int64)
	truncate(dst *tensor.Tensor, at int, buf []float64)
}

// loopsOn are the loops over elements of type T that compute in W.
type loopsOn[T number, W wide] struct{}

var loopsOf = map[tensor.DType]loops{
	tensor.Float32: &loopsOn[float32, float64]{},
	tensor.Float64: &loopsOn[float64, float64]{},
	tensor.Int8:    &loopsOn[int8, int64]{},
	tensor.Int16:   &loopsOn[int16, int64]{},
	tensor.Int32:   &loopsOn[int32, int64]{},
	tensor.Int64:   &loopsOn[int64, int64]{},
	tensor.Uint8:   &loopsOn[uint8, uint64]{},
	tensor.Uint16:  &loopsOn[uint16, uint64]{},
	tensor.Uint32:  &loopsOn[uint32, uint64]{},
	tensor.Uint64:  &loopsOn[uint64, uint64]{},
}

// pick returns the function of type F.
func pick[F any](functions ...any) (f F) {
	for _, g := range functions {
		if h, ok := g.(F); ok {
			return h
		}
	}
	return f
}

// SameDType checks that all given operands have one element type, which is in the set, and returns
// it. Unknown types pass.
func (c *Call) SameDType(set TypeSet, ds ...tensor.DType) (tensor.DType, error) {
	d := tensor.Undefined
	for i, e := range ds {
		switch {
		case e == tensor.Undefined:
		case !set.Has(e):
			return d, c.Errorf(ErrInput, "operand %d is %v, which the operator does not take", i, e)
		case d != tensor.Undefined && d != e:
			return d, c.Errorf(ErrInput, "operand %d is %v, others are %v; insert a Cast", i, e, d)
		default:
			d = e
		}
	}
	return d, nil
}

// mayBeSame reports whether two element types are the same as far as they are known.
func mayBeSame(a, b tensor.DType) bool {
	return a == b || a == tensor.Undefined || b == tensor.Undefined
}

// DTypes returns the element types of all inputs, Undefined for absent ones.
func (c *Infer) DTypes() []tensor.DType {
	ds := make([]tensor.DType, len(c.In))
	for i, t := range c.In {
		ds[i] = t.DType
	}
	return ds
}

// DTypes returns the element types of all inputs, Undefined for absent ones.
//
//go:noinline
func (c *Eval) DTypes() []tensor.DType {
	ds := make([]tensor.DType, len(c.In))
	for i, t := range c.In {
		if t != nil {
			ds[i] = t.DType
		}
	}
	return ds
}

// InFloat32 extends an evaluation that knows float32 and wider types to float16 and bfloat16:
// operands are widened exactly, the evaluation runs in float32, and its results are rounded once to
// the type of the first operand. Outputs that are not float32 stay as they are.
//
//go:noinline
func InFloat32(eval func(*Eval) error) func(*Eval) error {
	return inFloat32Except(math.MaxInt, eval)
}

// inFloat32Except is inFloat32 for operators whose outputs from number keep on stay float32.
//
//go:noinline
func inFloat32Except(keep int, eval func(*Eval) error) func(*Eval) error {
	return func(c *Eval) error {
		return c.widening(eval, func(i int) tensor.DType {
			if i < keep && isHalf(c.In[0]) {
				return c.In[0].DType
			}
			return tensor.Float32
		})
	}
}

// widening runs an evaluation on operands of which the halves are widened. Outputs that are float32
// then are rounded to the type that round gives for them.
func (c *Eval) widening(eval func(*Eval) error, round func(output int) tensor.DType) error {
	if !slices.ContainsFunc(c.In, isHalf) {
		return eval(c)
	}
	in, err := widenedAll(c.In)
	if err != nil {
		return err
	}
	w := &Eval{Call: c.Call, Ctx: c.Ctx, In: in, Out: make([]*tensor.Tensor, len(c.Out))}
	if err := eval(w); err != nil {
		return err
	}
	for i, t := range w.Out {
		if err := c.putRounded(i, t, round(i)); err != nil {
			return err
		}
	}
	return nil
}

// OutputLike checks that input 0 is of a type in the set and makes output 0 of its type and shape.
func (c *Eval) OutputLike(set TypeSet) (x, out *tensor.Tensor, err error) {
	x = c.In[0]
	if _, err := c.SameDType(set, x.DType); err != nil {
		return nil, nil, err
	}
	out, err = c.Output(0, x.DType, x.Shape)
	return x, out, err
}

// round stores v in a tensor of a floating-point type.
func (c *Eval) round(out *tensor.Tensor, v []float64) error {
	if !narrowFloats(out, 0, v) {
		return c.Errorf(ErrUnsupported, "results of %v", out.DType)
	}
	return nil
}

// outputFloats makes output 0 and zeros for its values, which [Eval.round] stores.
func (c *Eval) outputFloats(d tensor.DType, shape []int) (out *tensor.Tensor, v []float64,
	err error) {
	if out, err = c.Output(0, d, shape); err == nil {
		v, err = zeros(shape...)
	}
	return out, v, err
}

func isHalf(t *tensor.Tensor) bool {
	return t != nil && (t.DType == tensor.Float16 || t.DType == tensor.BFloat16)
}

// putRounded makes output i from t, of type round, a half type or float32, if t is float32.
func (c *Eval) putRounded(i int, t *tensor.Tensor, round tensor.DType) error {
	if t == nil {
		return nil
	}
	d := t.DType
	if d == tensor.Float32 {
		d = round
	}
	out, err := c.Output(i, d, t.Shape)
	if err != nil {
		return err
	}
	if d == t.DType {
		copy(out.Data, t.Data)
		return nil
	}
	roundInto(out, tensor.As[float32](t))
	return nil
}

func roundInto(out *tensor.Tensor, f []float32) {
	if out.DType == tensor.Float16 {
		o := tensor.As[tensor.Half](out)
		for i := range o {
			o[i] = tensor.HalfOf(f[i])
		}
		return
	}
	o := tensor.As[tensor.BHalf](out)
	for i := range o {
		o[i] = tensor.BHalfOf(f[i])
	}
}

// widenedAll converts the half tensors among in.
func widenedAll(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := slices.Clone(in)
	for i, t := range in {
		if !isHalf(t) {
			continue
		}
		var err error
		if out[i], err = widened(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// widened converts a half tensor to float32, which holds its values exactly.
func widened(t *tensor.Tensor) (*tensor.Tensor, error) {
	w, err := tensor.New(tensor.Float32, t.Shape...)
	if err != nil {
		return nil, err
	}
	o := tensor.As[float32](w)
	if t.DType == tensor.Float16 {
		for i, h := range tensor.As[tensor.Half](t) {
			o[i] = h.Float32()
		}
		return w, nil
	}
	for i, h := range tensor.As[tensor.BHalf](t) {
		o[i] = h.Float32()
	}
	return w, nil
}
