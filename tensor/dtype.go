package tensor

import "fmt"

// DType is an element type. The values are those of TensorProto.DataType in the ONNX format (onnx.proto3). The containers
// (sequence, optional, map) are told apart by further values.
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
)

type dtypeInfo struct {
	name string
	size int
}

var dtypes = [...]dtypeInfo{
	Undefined:  {"undefined", 0},
	Float32:    {"float32", 4},
	Uint8:      {"uint8", 1},
	Int8:       {"int8", 1},
	Uint16:     {"uint16", 2},
	Int16:      {"int16", 2},
	Int32:      {"int32", 4},
	Int64:      {"int64", 8},
	String:     {"string", 0},
	Bool:       {"bool", 1},
	Float16:    {"float16", 2},
	Float64:    {"float64", 8},
	Uint32:     {"uint32", 4},
	Uint64:     {"uint64", 8},
	Complex64:  {"complex64", 8},
	Complex128: {"complex128", 16},
	BFloat16:   {"bfloat16", 2},
}

// Valid reports whether d is an element type that weir can hold. Undefined is not, nor are containers, which have no
// elements.
func (d DType) Valid() bool { return d != Undefined && int(d) < len(dtypes) }

// Size returns the bytes of one element; 0 for String, whose elements live outside Data, and for invalid types.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

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
func (d DType) IsFloat() bool {
	return d == Float32 || d == Float64 || d == Float16 || d == BFloat16
}

// IsInteger reports whether d is a signed or unsigned integer; Bool is neither.
func (d DType) IsInteger() bool {
	switch d {
	case Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64:
		return true
	}
	return false
}

// IsSigned reports whether d can hold negative numbers.
func (d DType) IsSigned() bool {
	switch d {
	case Int8, Int16, Int32, Int64:
		return true
	}
	return d.IsFloat()
}
