package oip

import (
	"fmt"

	"github.com/weirgpu/weir/tensor"
)

// datatypes are the protocol's names (inference_rest.md, "Tensor Data Types", and BF16 of Triton's
// extension).
var datatypes = map[tensor.DType]string{
	tensor.Bool:     "BOOL",
	tensor.Uint8:    "UINT8",
	tensor.Uint16:   "UINT16",
	tensor.Uint32:   "UINT32",
	tensor.Uint64:   "UINT64",
	tensor.Int8:     "INT8",
	tensor.Int16:    "INT16",
	tensor.Int32:    "INT32",
	tensor.Int64:    "INT64",
	tensor.Float16:  "FP16",
	tensor.BFloat16: "BF16",
	tensor.Float32:  "FP32",
	tensor.Float64:  "FP64",
	tensor.String:   "BYTES",
}

// dtypes is datatypes the other way round.
var dtypes = func() map[string]tensor.DType {
	m := make(map[string]tensor.DType, len(datatypes))
	for d, name := range datatypes {
		m[name] = d
	}
	return m
}()

// Datatype returns the protocol's name of a type of elements; ok is false where it has none.
func Datatype(d tensor.DType) (name string, ok bool) {
	name, ok = datatypes[d]
	return name, ok
}

// ParseDatatype is the inverse of [Datatype]. The error is of kind [ErrRequest].
func ParseDatatype(name string) (tensor.DType, error) {
	if d, ok := dtypes[name]; ok {
		return d, nil
	}
	return 0, fmt.Errorf("%w: datatype %.40q is none of the protocol's: such as FP32, INT64 or "+
		"BYTES, in capitals", ErrRequest, name)
}
