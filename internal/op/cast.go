package op

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// castOps change element types: Cast and CastLike convert values, BitCast reads the same bits anew.
var castOps = []Op{
	{Name: "Cast", Since: []int{6, 9, 13, 19, 21, 23, 24, 25, 28}, MinIn: 1, MaxIn: 1,
		Traits: Elementwise,
		Infer:  inferCast, Eval: evalCast, grad: gradCast},
	{Name: "CastLike", Since: []int{15, 19, 21, 23, 24, 25}, MinIn: 2, MaxIn: 2,
		Infer: inferCastLike, Eval: evalCastLike, grad: gradCastLike},
	{Name: "BitCast", Since: []int{26}, MinIn: 1, MaxIn: 1, Infer: inferBitCast, Eval: evalBitCast},
}

// elemTypeAttr reads an attribute that is a TensorProto.DataType.
func elemTypeAttr(c *Call, name string) (tensor.DType, error) {
	n := c.Attrs.Int(name, 0)
	if n <= 0 || n > math.MaxUint8 || !tensor.DType(n).Valid() {
		return 0, c.Errorf(ErrAttr, "%s is %d, no element type", name, n)
	}
	return tensor.DType(n), nil
}

// castTarget is the attribute to.
func castTarget(c *Call) (tensor.DType, error) {
	d, err := elemTypeAttr(c, "to")
	if err == nil && isComplex(d) {
		return 0, c.Errorf(ErrUnsupported, "conversion to %v", d)
	}
	return d, err
}

func isComplex(d tensor.DType) bool { return d == tensor.Complex64 || d == tensor.Complex128 }

func inferCast(c *Infer) error {
	d, err := castTarget(c.Call)
	if err != nil {
		return err
	}
	c.Out[0] = castType(c.In[0], d)
	_, err = narrowingOf(c.Call)
	return err
}

func inferCastLike(c *Infer) error {
	c.Out[0] = castType(c.In[0], c.In[1].DType)
	_, err := narrowingOf(c.Call)
	return err
}

// castType returns the type in with element type d. Elements, which are shape arithmetic, are kept
// when d is an integer type that holds sizes. When d is Bool, as in conditions, only elements with
// a known value are kept. Symbols are assumed to fit into d.
func castType(in Type, d tensor.DType) Type {
	t := Type{DType: d, Ranked: in.Ranked, Shape: in.Shape}
	if in.Elems == nil || !elemTypes.Has(d) {
		return t
	}
	elems := make([]Dim, len(in.Elems))
	for i, e := range in.Elems {
		elems[i] = castDim(e, d)
	}
	t.Elems = elems
	return t
}

// castDim is an element under another type, unknown where its truth is.
func castDim(e Dim, d tensor.DType) Dim {
	n, known := e.Int()
	switch {
	case !known && d == tensor.Bool:
		return Unknown()
	case known && d == tensor.Bool:
		return truthDim(n != 0)
	case known && d == tensor.Int32:
		return Known(int(int32(n)))
	}
	return e
}

func evalCast(c *Eval) error {
	d, err := castTarget(c.Call)
	if err != nil {
		return err
	}
	return c.cast(d)
}

func evalCastLike(c *Eval) error { return c.cast(c.In[1].DType) }

func (c *Eval) cast(d tensor.DType) error {
	out, err := c.Output(0, d, c.In[0].Shape)
	if err != nil {
		return err
	}
	if d == tensor.String && c.In[0].DType != d {
		if err := c.text(out.Len() * maxDigits); err != nil {
			return err
		}
	}
	return castInto(c.Call, out, c.In[0])
}

func inferBitCast(c *Infer) error {
	d, err := elemTypeAttr(c.Call, "to")
	if err != nil {
		return err
	}
	if from := c.In[0].DType; from.Valid() && !sameWidth(from, d) {
		return c.Errorf(ErrInput, "%v and %v differ in width", from, d)
	}
	c.Out[0] = Type{DType: d, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return nil
}

func evalBitCast(c *Eval) error {
	in := c.In[0]
	d, err := elemTypeAttr(c.Call, "to")
	if err != nil {
		return err
	}
	if !sameWidth(in.DType, d) {
		return c.Errorf(ErrInput, "%v and %v differ in width", in.DType, d)
	}
	out, err := c.Output(0, d, in.Shape)
	if err != nil {
		return err
	}
	copy(out.Data, in.Data)
	return nil
}

// sameWidth reports whether elements have as many bits, which those of strings have not.
func sameWidth(a, b tensor.DType) bool { return a.Bits() == b.Bits() && a.Bits() > 0 }

// castChunk is how many elements are converted at a time through the widest type of their kind.
const castChunk = 256

// castInto converts every element of src to the type of dst, which has as many.
//
// Floating point to integer drops the fraction; NaN becomes 0 and values out of range the nearest
// end of it, which ONNX leaves open; integers of 2 and 4 bits keep the low bits instead, as ONNX's
// own cases have it. Integer to narrower integer keeps the low bits. Anything but zero is true.
// Attributes saturate and round_mode of the call, which few operators have, say what becomes of
// numbers that an 8-bit float does not hold. Numbers print in decimal as NumPy prints them, and
// strings parse as the decimal or exponent form, "INF" and "NaN" in any case.
func castInto(c *Call, dst, src *tensor.Tensor) error {
	by, err := narrowingOf(c)
	switch {
	case err != nil:
		return err
	case dst.DType == src.DType:
		copyElems(dst, 0, src, 0, src.Len())
		return nil
	case src.DType == tensor.String:
		return parseStrings(c, dst, src.Strings)
	case dst.DType == tensor.String:
		return printStrings(c, dst.Strings, src)
	case src.DType.IsFloat():
		return castFloats(c, dst, src, by)
	case src.DType == tensor.Uint64 && dst.DType.IsFloat():
		return castUint64s(c, dst, src, by)
	}
	return castInts(c, dst, src, by)
}

func castFloats(c *Call, dst, src *tensor.Tensor, by narrowing) error {
	var buf [castChunk]float64
	for at, n := 0, src.Len(); at < n; at += castChunk {
		chunk := buf[:min(castChunk, n-at)]
		if !widenFloats(chunk, src, at) || !by.floats(dst, at, chunk) {
			return c.Errorf(ErrUnsupported, "conversion from %v to %v", src.DType, dst.DType)
		}
	}
	return nil
}

func castUint64s(c *Call, dst, src *tensor.Tensor, by narrowing) error {
	var buf [castChunk]float64
	all := tensor.As[uint64](src)
	for at := 0; at < len(all); at += castChunk {
		chunk := buf[:min(castChunk, len(all)-at)]
		for i := range chunk {
			chunk[i] = float64(all[at+i])
		}
		if !by.floats(dst, at, chunk) {
			return c.Errorf(ErrUnsupported, "conversion from %v to %v", src.DType, dst.DType)
		}
	}
	return nil
}

func castInts(c *Call, dst, src *tensor.Tensor, by narrowing) error {
	var buf [castChunk]int64
	for at, n := 0, src.Len(); at < n; at += castChunk {
		chunk := buf[:min(castChunk, n-at)]
		if !widenInts(chunk, src, at) || !by.ints(dst, at, chunk) {
			return c.Errorf(ErrUnsupported, "conversion from %v to %v", src.DType, dst.DType)
		}
	}
	return nil
}

func widenFloats(buf []float64, src *tensor.Tensor, at int) bool {
	switch src.DType {
	case tensor.Float32:
		for i, v := range tensor.As[float32](src)[at : at+len(buf)] {
			buf[i] = float64(v)
		}
	case tensor.Float64:
		copy(buf, tensor.As[float64](src)[at:])
	case tensor.Float16:
		for i, v := range tensor.As[tensor.Half](src)[at : at+len(buf)] {
			buf[i] = float64(v.Float32())
		}
	case tensor.BFloat16:
		for i, v := range tensor.As[tensor.BHalf](src)[at : at+len(buf)] {
			buf[i] = float64(v.Float32())
		}
	default:
		return widenMinifloats(buf, src, at)
	}
	return true
}

// narrowFloats converts numbers to elements of dst, from element at on, with saturation.
func narrowFloats(dst *tensor.Tensor, at int, buf []float64) bool {
	return saturating.floats(dst, at, buf)
}

// floats converts numbers to elements of dst, from element at on; false when its type is none of
// numbers.
func (by narrowing) floats(dst *tensor.Tensor, at int, buf []float64) bool {
	switch dst.DType {
	case tensor.Float32:
		out := tensor.As[float32](dst)[at:]
		for i, v := range buf {
			out[i] = float32(v)
		}
	case tensor.Float64:
		copy(tensor.As[float64](dst)[at:], buf)
	case tensor.Float16:
		out := tensor.As[tensor.Half](dst)[at:]
		for i, v := range buf {
			out[i] = tensor.HalfOf(roundToOdd(v))
		}
	case tensor.BFloat16:
		out := tensor.As[tensor.BHalf](dst)[at:]
		for i, v := range buf {
			out[i] = tensor.BHalfOf(roundToOdd(v))
		}
	case tensor.Bool:
		for i, v := range buf {
			tensor.As[bool](dst)[at+i] = v != 0
		}
	default:
		if !integerTypes.Has(dst.DType) {
			return by.codes(dst, at, buf)
		}
		loopsOf[dst.DType].truncate(dst, at, buf)
	}
	return true
}

// roundToOdd narrows v to float32 with its lowest bit set when anything was lost, so that rounding
// the result once more to a 16-bit type is rounding v itself (Boldo and Melquiond, "When double
// rounding is odd", 2005).
func roundToOdd(v float64) float32 {
	f := float32(v)
	if float64(f) == v || v != v || math.IsInf(float64(f), 0) {
		return f
	}
	if math.Abs(float64(f)) > math.Abs(v) {
		f = math.Nextafter32(f, 0)
	}
	return math.Float32frombits(math.Float32bits(f) | 1)
}

// truncate drops fractions and clamps to the integers of the type.
func (*loopsOn[T, W]) truncate(dst *tensor.Tensor, at int, buf []float64) {
	out, bits := tensor.As[T](dst)[at:at+len(buf)], 8*dst.DType.Size()
	least, most := 0.0, ^uint64(0)>>(64-bits)
	if dst.DType.IsSigned() {
		least, most = -math.Ldexp(1, bits-1), most>>1
	}
	for i, v := range buf {
		switch {
		case v != v:
			out[i] = 0
		case v <= least:
			out[i] = T(least)
		case v >= float64(most): // which may round up to the float just above
			out[i] = T(most)
		default:
			out[i] = T(v)
		}
	}
}

func widenInts(buf []int64, src *tensor.Tensor, at int) bool {
	switch {
	case src.DType == tensor.Bool:
		for i, v := range src.Data[at : at+len(buf)] {
			buf[i] = int64(v)
		}
	case integerTypes.Has(src.DType):
		loopsOf[src.DType].widen(buf, src, at)
	default:
		return widenPacked(buf, src, at)
	}
	return true
}

func (*loopsOn[T, W]) widen(buf []int64, src *tensor.Tensor, at int) {
	for i, v := range tensor.As[T](src)[at : at+len(buf)] {
		buf[i] = int64(v)
	}
}

// ints is floats for integers.
func (by narrowing) ints(dst *tensor.Tensor, at int, buf []int64) bool {
	switch dst.DType {
	case tensor.Bool:
		for i, v := range buf {
			tensor.As[bool](dst)[at+i] = v != 0
		}
	case tensor.Float16:
		for i, v := range buf {
			tensor.As[tensor.Half](dst)[at+i] = tensor.HalfOf(intToOdd(v))
		}
	case tensor.BFloat16:
		for i, v := range buf {
			tensor.As[tensor.BHalf](dst)[at+i] = tensor.BHalfOf(intToOdd(v))
		}
	default:
		l := loopsOf[dst.DType]
		if l == nil {
			return by.intCodes(dst, at, buf)
		}
		l.narrow(dst, at, buf)
	}
	return true
}

// intToOdd is roundToOdd for an integer.
func intToOdd(v int64) float32 { return roundToOdd(oddFloat(v)) }

// oddFloat is an integer with what float64 cannot hold of it as one bit, for conversions to far
// narrower types.
func oddFloat(v int64) float64 {
	if low := v & 0x7ff; low != 0 && (v > 1<<53 || v < -1<<53) {
		v = v&^0x7ff | 0x400
	}
	return float64(v)
}

func (*loopsOn[T, W]) narrow(dst *tensor.Tensor, at int, buf []int64) {
	out := tensor.As[T](dst)[at : at+len(buf)]
	for i, v := range buf {
		out[i] = T(v)
	}
}

// maxDigits is the longest text of a number: float64 in exponent form.
const maxDigits = 24

func printStrings(c *Call, dst []string, src *tensor.Tensor) error {
	for i := range dst {
		switch v := src.At(i).(type) {
		case int64:
			dst[i] = strconv.FormatInt(v, 10)
		case uint64:
			dst[i] = strconv.FormatUint(v, 10)
		case bool:
			dst[i] = map[bool]string{false: "0", true: "1"}[v]
		case float32:
			dst[i] = printFloat(float64(v), 32)
		case float64:
			dst[i] = printFloat(v, 64)
		default:
			return c.Errorf(ErrUnsupported, "conversion from %v to string", src.DType)
		}
	}
	return nil
}

func printFloat(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "INF"
	case math.IsInf(v, -1):
		return "-INF"
	}
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if a := math.Abs(v); a == 0 || a >= 1e-4 && a < 1e16 {
		s = strconv.FormatFloat(v, 'f', -1, bits)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
	}
	return s
}

func parseStrings(c *Call, dst *tensor.Tensor, src []string) error {
	for i, s := range src {
		var one *tensor.Tensor
		if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil &&
			dst.DType.IsInteger() {
			one = tensor.Scalar(n)
		} else if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
			one = tensor.Scalar(f)
		} else {
			return c.Errorf(ErrInput, "element %d, %q, is no number", i, s)
		}
		v, err := tensor.New(dst.DType)
		if err != nil {
			return err
		}
		if err := castInto(c, v, one); err != nil {
			return err
		}
		copyElems(dst, i, v, 0, 1)
	}
	return nil
}
