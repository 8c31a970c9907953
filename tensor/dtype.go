package tensor

import "fmt"

// DType is an element type. The values are those of TensorProto.DataType in the ONNX format
// (onnx.proto3). The containers (sequence, optional, map) are told apart by further values.
type DType uint8

// The element types of the ONNX format that weir can hold.
const (
	Undefined  DType = 0
	Float32    DType = 1
	Uint8      DType = 2
	Int8       DType = 3
	Uint16     DType = 4
	Int16      DType = 5
	Int32      DType = 6
	Int64      DType = 7
	String     DType = 8
	Bool       DType = 9
	Float16    DType = 10
	Float64    DType = 11
	Uint32     DType = 12
	Uint64     DType = 13
	Complex64  DType = 14
	Complex128 DType = 15
	BFloat16   DType = 16

	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20
	Uint4          DType = 21
	Int4           DType = 22
	Float4E2M1     DType = 23
	Float8E8M0     DType = 24
	Uint2          DType = 25
	Int2           DType = 26
)

type dtypeInfo struct {
	name string
	bits int
}

var dtypes = [...]dtypeInfo{
	Undefined:      {"undefined", 0},
	Float32:        {"float32", 32},
	Uint8:          {"uint8", 8},
	Int8:           {"int8", 8},
	Uint16:         {"uint16", 16},
	Int16:          {"int16", 16},
	Int32:          {"int32", 32},
	Int64:          {"int64", 64},
	String:         {"string", 0},
	Bool:           {"bool", 8},
	Float16:        {"float16", 16},
	Float64:        {"float64", 64},
	Uint32:         {"uint32", 32},
	Uint64:         {"uint64", 64},
	Complex64:      {"complex64", 64},
	Complex128:     {"complex128", 128},
	BFloat16:       {"bfloat16", 16},
	Float8E4M3FN:   {"float8e4m3fn", 8},
	Float8E4M3FNUZ: {"float8e4m3fnuz", 8},
	Float8E5M2:     {"float8e5m2", 8},
	Float8E5M2FNUZ: {"float8e5m2fnuz", 8},
	Uint4:          {"uint4", 4},
	Int4:           {"int4", 4},
	Float4E2M1:     {"float4e2m1", 4},
	Float8E8M0:     {"float8e8m0", 8},
	Uint2:          {"uint2", 2},
	Int2:           {"int2", 2},
}

// Valid reports whether d is an element type that weir can hold. Undefined is not, nor are
// containers, which have no elements.
func (d DType) Valid() bool { return d != Undefined && int(d) < len(dtypes) }

// Bits returns the width of one element in bits: 2, 4, or a multiple of 8; 0 for String, whose
// elements live outside Data, and for invalid types.
//
//go:noinline
func (d DType) Bits() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].bits
}

// Size returns the whole bytes of one element: 0 for String, for types of which several elements
// share a byte ([DType.Packed]), and for invalid types.
func (d DType) Size() int { return d.Bits() / 8 }

// Packed reports whether several elements share a byte, the first in the lowest bits (onnx.proto3,
// TensorProto.raw_data).
func (d DType) Packed() bool { return d.Bits() == 2 || d.Bits() == 4 }

// String returns the lower-case name that commands, dumps and errors use, such as "float32".
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		if name := containerNames[d]; name != "" {
			return name
		}
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// ParseDType is the inverse of [DType.String] for valid types.
func ParseDType(s string) (DType, error) {
	for d, info := range dtypes {
		if info.name == s && DType(d).Valid() {
			return DType(d), nil
		}
	}
	return Undefined, fmt.Errorf("%w: %q is not an element type", ErrDType, s)
}

// IsFloat reports whether d is a binary floating-point type of any width.
//
//go:noinline
func (d DType) IsFloat() bool {
	switch d {
	case Float32, Float64, Float16, BFloat16:
		return true
	}
	return d.IsMinifloat()
}

// IsMinifloat reports whether d is a floating-point type of at most 8 bits, which is stored and
// converted and that ONNX has no arithmetic on.
//
//go:noinline
func (d DType) IsMinifloat() bool {
	switch d {
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0, Float4E2M1:
		return true
	}
	return false
}

// IsInteger reports whether d is a signed or unsigned integer; Bool is neither.
func (d DType) IsInteger() bool {
	switch d {
	case Int2, Int4, Int8, Int16, Int32, Int64, Uint2, Uint4, Uint8, Uint16, Uint32, Uint64:
		return true
	}
	return false
}

// IsSigned reports whether d can hold negative numbers.
func (d DType) IsSigned() bool {
	switch d {
	case Int2, Int4, Int8, Int16, Int32, Int64:
		return true
	}
	return d.IsFloat() && d != Float8E8M0
}
