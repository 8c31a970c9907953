package op

import (
	"math"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// arithmetic holds the element-wise operators on numbers. Binary and variadic ones broadcast as
// numpy does.
var arithmetic = []Op{
	binaryOp("Add", binaryFuncs{
		i: func(a, b int64) int64 { return a + b },
		u: func(a, b uint64) uint64 { return a + b },
		f: func(a, b float64) float64 { return a + b },
	}, Dim.Add, Commutative, 7, 13, 14).derived(gradAdd),
	binaryOp("Sub", binaryFuncs{
		i: func(a, b int64) int64 { return a - b },
		u: func(a, b uint64) uint64 { return a - b },
		f: func(a, b float64) float64 { return a - b },
	}, Dim.Sub, 0, 7, 13, 14).derived(gradSub),
	binaryOp("Mul", binaryFuncs{
		i: func(a, b int64) int64 { return a * b },
		u: func(a, b uint64) uint64 { return a * b },
		f: func(a, b float64) float64 { return a * b },
	}, Dim.Mul, Commutative, 7, 13, 14).derived(gradMul),
	nonZeroDivisor(binaryOp("Div", binaryFuncs{
		i: func(a, b int64) int64 { return a / b },
		u: func(a, b uint64) uint64 { return a / b },
		f: func(a, b float64) float64 { return a / b },
	}, divDims, 0, 7, 13, 14)).derived(gradDiv),
	{Name: "Mod", Since: []int{10, 13, 28}, MinIn: 2, MaxIn: 2, Traits: Elementwise,
		Infer: inferBroadcast(numberTypes, tensor.Undefined),
		Eval:  refuseZeroDivisor(InFloat32(evalMod)), grad: gradMod},
	{Name: "Pow", Since: []int{7, 12, 13, 15}, MinIn: 2, MaxIn: 2, Traits: Elementwise,
		Infer: inferPow,
		Eval:  InFloat32(evalPow), grad: gradPow},

	variadic("Max", binaryFuncs{i: maxInt[int64], u: maxInt[uint64], f: maxOf}, maxDims, 1, 6, 8,
		12, 13).derived(gradExtreme),
	variadic("Min", binaryFuncs{i: minInt[int64], u: minInt[uint64], f: minOf}, minDims, 1, 6, 8,
		12, 13).derived(gradExtreme),
	variadic("Sum", binaryFuncs{f: func(a, b float64) float64 { return a + b }}, nil, 1, 6, 8,
		13).derived(gradSum),
	{Name: "Mean", Since: []int{1, 6, 8, 13}, MinIn: 1, MaxIn: -1, Traits: Elementwise,
		Infer: inferBroadcast(floatTypes, tensor.Undefined), Eval: InFloat32(evalMean),
		grad: gradMean},

	onElems(unaryOp("Neg", unaryFuncs{i: func(a int64) int64 {
		return -a
	}, f: func(a float64) float64 { return -a }}, 1, 6, 13),
		func(d Dim) Dim { return d.MulInt(-1) }).derived(gradNeg),
	unaryOp("Abs", unaryFuncs{i: func(a int64) int64 {
		return max(a, -a)
	}, u: func(a uint64) uint64 { return a }, f: math.Abs}, 1, 6,
		13).derived(slope(slopeAbs)),
	unaryOp("Sign", unaryFuncs{i: signInt, u: func(a uint64) uint64 {
		return min(a, 1)
	}, f: sign}, 9, 13).constantAlmostEverywhere(),
	floatMap("Ceil", math.Ceil, 1, 6, 13).constantAlmostEverywhere(),
	floatMap("Floor", math.Floor, 1, 6, 13).constantAlmostEverywhere(),
	floatMap("Round", math.RoundToEven, 11, 22).constantAlmostEverywhere(),
	floatMap("Sqrt", math.Sqrt, 1, 6, 13).derived(slope(slopeSqrt)),
	floatMap("Reciprocal", func(x float64) float64 { return 1 / x }, 1, 6,
		13).derived(slope(slopeReciprocal)),
	floatMap("Exp", math.Exp, 1, 6, 13).derived(slope(slopeExp)),
	floatMap("Log", math.Log, 1, 6, 13).derived(slope(slopeLog)),
	floatMap("Erf", math.Erf, 9, 13).derived(slope(slopeErf)),
	floatMap("Sin", math.Sin, 7, 22).derived(slope(slopeSin)),
	floatMap("Cos", math.Cos, 7, 22).derived(slope(slopeCos)),
	floatMap("Tan", math.Tan, 7, 22).derived(slope(slopeTan)),
	floatMap("Asin", math.Asin, 7, 22).derived(slope(slopeAsin)),
	floatMap("Acos", math.Acos, 7, 22).derived(slope(slopeAcos)),
	floatMap("Atan", math.Atan, 7, 22).derived(slope(slopeAtan)),
	floatMap("Sinh", math.Sinh, 9, 22).derived(slope(slopeSinh)),
	floatMap("Cosh", math.Cosh, 9, 22).derived(slope(slopeCosh)),
	floatMap("Asinh", math.Asinh, 9, 22).derived(slope(slopeAsinh)),
	floatMap("Acosh", math.Acosh, 9, 22).derived(slope(slopeAcosh)),
	floatMap("Atanh", math.Atanh, 9, 22).derived(slope(slopeAtanh)),
	{Name: "IsNaN", Since: []int{9, 13, 20}, MinIn: 1, MaxIn: 1, Traits: Elementwise,
		Infer: inferTest,
		Eval:  InFloat32(func(c *Eval) error { return c.evalTest(math.IsNaN) }), flat: true},
	{Name: "IsInf", Since: []int{10, 20}, MinIn: 1, MaxIn: 1, Traits: Elementwise, Infer: inferTest,
		Eval: InFloat32(evalIsInf), flat: true},
}

// binaryOp is the row of a broadcasting operator on two inputs of one type; dims is the same
// operation on the elements of shapes, so that shape arithmetic resolves.
func binaryOp(name string, fs binaryFuncs, dims func(a, b Dim) Dim, traits Traits,
	since ...int) Op {
	o := variadic(name, fs, dims, since...)
	o.MinIn, o.MaxIn, o.Traits = 2, 2, traits|Elementwise
	return o
}

// variadic is the row of a broadcasting operator on any number of inputs of one type, folded from
// the left.
func variadic(name string, fs binaryFuncs, dims func(a, b Dim) Dim, since ...int) Op {
	infer := inferBroadcast(fs.types(), tensor.Undefined)
	if dims != nil {
		infer = withElems(infer, dims)
	}
	return Op{Name: name, Since: since, MinIn: 1, MaxIn: -1, Traits: Elementwise, Infer: infer,
		Eval: InFloat32(func(c *Eval) error { return c.evalFold(fs) })}
}

// evalFold computes a variadic operation.
func (c *Eval) evalFold(fs binaryFuncs) error {
	d, err := c.SameDType(fs.types(), c.DTypes()...)
	if err != nil {
		return err
	}
	out, w, err := c.broadcastOutput(d)
	if err != nil {
		return err
	}
	fs.fold(out, c.In, w)
	return nil
}

// nonZeroDivisor wraps a row's evaluation with refuseZeroDivisor.
func nonZeroDivisor(o Op) Op {
	o.Eval = refuseZeroDivisor(o.Eval)
	return o
}

// refuseZeroDivisor makes an error of an integer divisor of zero, for which ONNX defines no result.
func refuseZeroDivisor(eval func(*Eval) error) func(*Eval) error {
	return func(c *Eval) error {
		if d := c.In[1].DType; d.IsInteger() {
			ints, err := c.In[1].Ints()
			if err != nil {
				return err
			}
			for i, v := range ints {
				if v == 0 {
					return c.Errorf(ErrInput,
						"integer division by zero (element %d of the divisor)", i)
				}
			}
		}
		return eval(c)
	}
}

// divDims divides shape elements as integer Div does, which truncates toward zero.
func divDims(a, b Dim) Dim {
	n, ok := b.Int()
	if !ok {
		return a.Quotient(b)
	}
	if m, known := a.Int(); known && n != 0 {
		return Known(m / n)
	}
	if n > 0 && a.nonNegative() {
		return a.FloorDiv(n)
	}
	return Unknown()
}

// nonNegative reports whether d is seen to be at least 0, given that symbols are sizes.
func (d Dim) nonNegative() bool {
	if d.unknown || d.c < 0 {
		return false
	}
	for _, t := range d.terms {
		if t.coef < 0 || mayBeNegative(t.atoms) {
			return false
		}
	}
	return true
}

// positive reports whether d is seen to be more than 0.
func (d Dim) positive() bool { return d.nonNegative() && d.c > 0 }

// mayBeNegative reports whether a product holds an opaque expression that subtracts something, but
// for bounds that are sizes ([Dim.orZero], [Dim.least]).
func mayBeNegative(atoms string) bool {
	for _, a := range strings.Split(atoms, atomSep) {
		size := strings.HasPrefix(a, "min(") ||
			strings.HasPrefix(a, "max(") && strings.HasSuffix(a, ", 0)")
		if !size && strings.Contains(a, "-") {
			return true
		}
	}
	return false
}

func maxDims(a, b Dim) Dim { return pickDim(a, b, func(m, n int) bool { return m >= n }) }
func minDims(a, b Dim) Dim { return pickDim(a, b, func(m, n int) bool { return m <= n }) }

func pickDim(a, b Dim, first func(m, n int) bool) Dim {
	m, ok := a.Int()
	n, ok2 := b.Int()
	switch {
	case a.Equal(b):
		return a
	case !ok || !ok2:
		return Unknown()
	case first(m, n):
		return a
	}
	return b
}

func maxInt[W int64 | uint64](a, b W) W { return max(a, b) }
func minInt[W int64 | uint64](a, b W) W { return min(a, b) }

func signInt(a int64) int64 { return min(max(a, -1), 1) }

// sign is numpy.sign: NaN stays NaN.
func sign(a float64) float64 {
	switch {
	case a > 0:
		return 1
	case a < 0:
		return -1
	}
	return a
}

// evalMean averages in the type of the operands, as numpy does.
func evalMean(c *Eval) error {
	if err := c.evalFold(binaryFuncs{f: func(a, b float64) float64 { return a + b }}); err != nil {
		return err
	}
	n := float64(len(c.In))
	unaryFuncs{f: func(x float64) float64 { return x / n }}.apply(c.Out[0], c.Out[0])
	return nil
}

// evalMod computes the remainder with the sign of the divisor (Python's %), or of the dividend (C's
// fmod) when fmod is 1.
func evalMod(c *Eval) error {
	fs := binaryFuncs{
		i: func(a, b int64) int64 { return a % b },
		u: func(a, b uint64) uint64 { return a % b },
		f: math.Mod,
	}
	if !c.Attrs.Bool("fmod", false) {
		if c.In[0].DType.IsFloat() && c.Version < 28 {
			return c.Errorf(ErrAttr, "fmod must be 1 for %v before version 28", c.In[0].DType)
		}
		fs.f = floorMod
		fs.i = func(a, b int64) int64 {
			if m := a % b; m != 0 && m^b < 0 {
				return m + b
			} else {
				return m
			}
		}
	}
	return c.evalFold(fs)
}

// floorMod is the remainder with the sign of the divisor, which a zero has, too (Mod-28).
func floorMod(a, b float64) float64 {
	m := math.Mod(a, b)
	switch {
	case m == 0:
		return math.Copysign(0, b)
	case m < 0 != (b < 0):
		return m + b
	}
	return m
}

// inferPow allows the exponent a type of its own, which version 12 does; the result has the base's.
func inferPow(c *Infer) error {
	for _, t := range c.In {
		if _, err := c.SameDType(numberTypes, t.DType); err != nil {
			return err
		}
	}
	return c.broadcastOut(c.In[0].DType)
}

func evalPow(c *Eval) error {
	base, exp := c.In[0], c.In[1]
	for _, t := range c.In {
		if _, err := c.SameDType(numberTypes, t.DType); err != nil {
			return err
		}
	}
	if base.DType.IsInteger() && exp.DType.IsInteger() {
		return c.evalIntPow()
	}
	out, w, err := c.broadcastOutput(base.DType)
	if err != nil {
		return err
	}
	b, err := c.Floats(0)
	if err != nil {
		return err
	}
	e, err := c.Floats(1)
	if err != nil {
		return err
	}
	pairs(w, b, e, func(i int, x, y float64) { setFloat(out, i, math.Pow(x, y)) })
	return nil
}

// evalIntPow raises integers to integer powers, wrapping; a negative power of an integer is its
// truncated quotient.
func (c *Eval) evalIntPow() error {
	out, w, err := c.broadcastOutput(c.In[0].DType)
	if err != nil {
		return err
	}
	b, err := c.Ints(0)
	if err != nil {
		return err
	}
	e, err := c.Ints(1)
	if err != nil {
		return err
	}
	pairs(w, b, e, func(i int, x, y int64) { setInt(out, i, powInt(x, y)) })
	return nil
}

func powInt(b, e int64) int64 {
	if e < 0 {
		switch b {
		case 1:
			return 1
		case -1:
			return 1 - 2*(e&1)
		}
		return 0
	}
	p := int64(1)
	for ; e > 0; e >>= 1 {
		if e&1 != 0 {
			p *= b
		}
		b *= b
	}
	return p
}

// setFloat stores v in element i of a number tensor; integers truncate toward zero.
func setFloat(t *tensor.Tensor, i int, v float64) {
	switch t.DType {
	case tensor.Float32:
		tensor.As[float32](t)[i] = float32(v)
	case tensor.Float64:
		tensor.As[float64](t)[i] = v
	case tensor.Uint64:
		if v >= 1<<63 && v < 1<<64 {
			tensor.As[uint64](t)[i] = uint64(v)
			return
		}
		fallthrough
	default:
		setInt(t, i, truncated(v))
	}
}

// truncated drops a fraction. The least integer stands for what 64 bits do not hold and for NaN, as
// amd64's instruction has it: Go leaves that to the processor, and arm64 clamps.
func truncated(v float64) int64 {
	if v >= -1<<63 && v < 1<<63 {
		return int64(v)
	}
	return math.MinInt64
}

// SetFloats stores v in the elements of a number tensor of that length, as setFloat does.
func SetFloats(t *tensor.Tensor, v []float64) {
	switch t.DType {
	case tensor.Float32:
		out := tensor.As[float32](t)
		for i, x := range v {
			out[i] = float32(x)
		}
	case tensor.Float64:
		copy(tensor.As[float64](t), v)
	default:
		for i, x := range v {
			setFloat(t, i, x)
		}
	}
}

// setInt stores v in element i of an integer tensor, wrapping.
func setInt(t *tensor.Tensor, i int, v int64) {
	switch t.DType {
	case tensor.Int8:
		tensor.As[int8](t)[i] = int8(v)
	case tensor.Int16:
		tensor.As[int16](t)[i] = int16(v)
	case tensor.Int32:
		tensor.As[int32](t)[i] = int32(v)
	case tensor.Int64:
		tensor.As[int64](t)[i] = v
	case tensor.Uint8:
		t.Data[i] = uint8(v)
	case tensor.Uint16:
		tensor.As[uint16](t)[i] = uint16(v)
	case tensor.Uint32:
		tensor.As[uint32](t)[i] = uint32(v)
	case tensor.Uint64:
		tensor.As[uint64](t)[i] = uint64(v)
	}
}

// inferTest is the shape rule of operators that ask something of each float.
func inferTest(c *Infer) error {
	if _, err := c.SameDType(floatTypes|float8Types, c.In[0].DType); err != nil {
		return err
	}
	c.Out[0] = Type{DType: tensor.Bool, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return nil
}

func (c *Eval) evalTest(test func(float64) bool) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes|float8Types, x.DType); err != nil {
		return err
	}
	out, err := c.Output(0, tensor.Bool, x.Shape)
	if err != nil {
		return err
	}
	v, err := x.Floats()
	if err != nil {
		return err
	}
	o := tensor.As[bool](out)
	for i := range o {
		o[i] = test(v[i])
	}
	return nil
}

func evalIsInf(c *Eval) error {
	pos, neg := c.Attrs.Bool("detect_positive", true), c.Attrs.Bool("detect_negative", true)
	return c.evalTest(func(x float64) bool {
		return pos && math.IsInf(x, 1) || neg && math.IsInf(x, -1)
	})
}
