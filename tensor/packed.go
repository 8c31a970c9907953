package tensor

import "fmt"

// FromCodes makes a tensor of a type whose elements are at most 8 bits wide from their bits, one
// element a byte in the lowest bits; the other bits are dropped. It packs what is packed. It panics
// like [From] on a wrong count, and for wider types.
func FromCodes(d DType, codes []uint8, shape ...int) *Tensor {
	n, err := Count(shape)
	if err != nil || n != len(codes) || d.Bits() == 0 || d.Bits() > 8 {
		panic(fmt.Sprintf("tensor.FromCodes: %d elements of %v for shape %v", len(codes), d, shape))
	}
	size, _ := ByteCount(d, shape)
	t := &Tensor{DType: d, Shape: append([]int{}, shape...), Data: alignedBytes(size)}
	for i, c := range codes {
		t.SetCode(i, c)
	}
	return t
}

// Code returns the bits of element i, which are at most 8, in the lowest bits. It panics for wider
// types and beyond the data.
func (t *Tensor) Code(i int) uint8 { return codeAt(t.Data, t.DType.Bits(), i) }

// SetCode sets the bits of element i to the lowest of code. Elements that share a byte must not be
// set at the same time.
func (t *Tensor) SetCode(i int, code uint8) { setCode(t.Data, t.DType.Bits(), i, code) }

func codeAt(data []byte, bits, i int) uint8 {
	switch bits {
	case 8:
		return data[i]
	case 4:
		return data[i>>1] >> (i & 1 * 4) & 0xf
	case 2:
		return data[i>>2] >> (i & 3 * 2) & 3
	}
	panic("tensor: an element is not of 2, 4 or 8 bits")
}

func setCode(data []byte, bits, i int, code uint8) {
	switch bits {
	case 8:
		data[i] = code
	case 4:
		shift := i & 1 * 4
		data[i>>1] = data[i>>1]&^(0xf<<shift) | code&0xf<<shift
	case 2:
		shift := i & 3 * 2
		data[i>>2] = data[i>>2]&^(3<<shift) | code&3<<shift
	default:
		panic("tensor: an element is not of 2, 4 or 8 bits")
	}
}
