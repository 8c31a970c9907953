package graph

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// maxLiteral is the number of elements up to which the text form writes a tensor's elements one by
// one.
const maxLiteral = 16

// externalWord stands before the place of contents that are not in the text.
const externalWord = "at"

// elements writes the elements between braces.
func (p *printer) elements(t *tensor.Tensor) {
	p.text("{")
	for i := range t.Len() {
		if i > 0 {
			p.text(", ")
		}
		p.text("%s", elementText(t, i))
	}
	p.text("}")
}

// tensor writes type, separator and contents.
func (p *printer) tensor(t *tensor.Tensor, sep string) {
	if err := t.Check(); err != nil {
		p.fail("a constant: %v", err)
		return
	}
	p.text("%s%s", typeText(op.Concrete(t.DType, t.Shape...)), sep)
	if p.place != nil && len(t.Data) > 0 {
		if at, external := p.place(t); external {
			p.text("%s %d", externalWord, at)
			return
		}
	}
	n := t.Len()
	switch {
	case n <= maxLiteral && literal(t) || t.DType == tensor.String && !p.brief:
		p.elements(t)
	case p.brief:
		p.text("...")
	default:
		p.text("base64 \"")
		enc := base64.NewEncoder(base64.StdEncoding, p.w)
		_, _ = enc.Write(t.Data) // the buffered writer keeps the error for Flush
		_ = enc.Close()
		p.text("\"")
	}
}

// literal reports whether the elements of t are read back exactly from their text. The bits of a
// NaN are not.
func literal(t *tensor.Tensor) bool {
	if t.DType == tensor.Complex64 || t.DType == tensor.Complex128 {
		return false
	}
	if !t.DType.IsFloat() {
		return true
	}
	fs, err := t.Floats()
	for _, f := range fs {
		if math.IsNaN(f) {
			return false
		}
	}
	return err == nil
}

func elementText(t *tensor.Tensor, i int) string {
	switch v := t.At(i).(type) {
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case bool:
		return strconv.FormatBool(v)
	case string:
		return strconv.Quote(v)
	}
	return "?"
}

// floatText writes a float such that it is told from an integer; a NaN is written by its bits.
func floatText(f float64, bits int) string {
	if math.IsNaN(f) && bits == 32 {
		return "nan" + strconv.FormatUint(uint64(math.Float32bits(float32(f))), 16)
	}
	s := strconv.FormatFloat(f, 'g', -1, bits)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// setElement parses element i of t; false when the text does not fit the type.
func setElement(t *tensor.Tensor, i int, tok token) bool {
	if tok.kind == quotedToken {
		if t.DType == tensor.String {
			t.Strings[i] = tok.text
		}
		return t.DType == tensor.String
	}
	var err error
	var f float64
	switch s := tok.text; {
	case t.DType == tensor.Bool:
		t.Data[i] = map[bool]byte{true: 1}[s == "true"]
		return s == "true" || s == "false"
	case t.DType == tensor.Float64:
		tensor.As[float64](t)[i], err = strconv.ParseFloat(s, 64)
	case t.DType.IsFloat():
		f, err = strconv.ParseFloat(s, 32)
		setFloat(t, i, float32(f))
	default:
		return setInt(t, i, s)
	}
	return err == nil
}

func setFloat(t *tensor.Tensor, i int, f float32) {
	switch t.DType {
	case tensor.Float32:
		tensor.As[float32](t)[i] = f
	case tensor.Float16:
		tensor.As[tensor.Half](t)[i] = tensor.HalfOf(f)
	case tensor.BFloat16:
		tensor.As[tensor.BHalf](t)[i] = tensor.BHalfOf(f)
	case tensor.Float8E8M0:
		t.SetCode(i, tensor.E8M0Of(float64(f), tensor.RoundNearest, false))
	default:
		t.SetCode(i, tensor.MinifloatOf(t.DType, float64(f), false))
	}
}

// setInt writes the low bytes of an integer that fits the element type.
func setInt(t *tensor.Tensor, i int, s string) bool {
	if !t.DType.IsInteger() {
		return false
	}
	width := t.DType.Bits()
	var bits uint64
	var err error
	if t.DType.IsSigned() {
		var v int64
		v, err = strconv.ParseInt(s, 10, width)
		bits = uint64(v)
	} else {
		bits, err = strconv.ParseUint(s, 10, width)
	}
	if err != nil {
		return false
	}
	if t.DType.Packed() {
		t.SetCode(i, uint8(bits))
	}
	size := t.DType.Size()
	for k := range size {
		t.Data[i*size+k] = byte(bits >> (8 * k))
	}
	return true
}
