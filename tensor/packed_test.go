package tensor

import (
	"bytes"
	"slices"
	"testing"
)

// The packing that the comments of onnx.proto3 give: the first element in the lowest bits.
func TestFromCodes(t *testing.T) {
	for _, tt := range []struct {
		d     DType
		codes []uint8
		data  []byte
		want  []int64
	}{
		{Uint4, []uint8{1, 0xf, 3}, []byte{0xf1, 0x03}, []int64{1, 15, 3}},
		{Int4, []uint8{7, 8, 0xff}, []byte{0x87, 0x0f}, []int64{7, -8, -1}},
		{Uint2, []uint8{0, 1, 2, 3, 2}, []byte{0b11100100, 0b10}, []int64{0, 1, 2, 3, 2}},
		{Int2, []uint8{0, 1, 2, 3}, []byte{0b11100100}, []int64{0, 1, -2, -1}},
		{Uint8, []uint8{0, 255}, []byte{0, 255}, []int64{0, 255}},
		{Int4, nil, []byte{}, []int64{}},
	} {
		x := FromCodes(tt.d, tt.codes, len(tt.codes))
		if err := x.Check(); err != nil || !bytes.Equal(x.Data, tt.data) {
			t.Errorf("%v%v: data %x (%v), want %x", tt.d, tt.codes, x.Data, err, tt.data)
		}
		if got, err := x.Ints(); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%v%v: got %v (%v), want %v", tt.d, tt.codes, got, err, tt.want)
		}
		for i, c := range tt.codes {
			if got := x.Code(i); got != c&(1<<tt.d.Bits()-1) {
				t.Errorf("%v%v: code %d is %#x", tt.d, tt.codes, i, got)
			}
			if x.At(i) != tt.want[i] {
				t.Errorf("%v%v: element %d is %v", tt.d, tt.codes, i, x.At(i))
			}
		}
	}
	f := FromCodes(Float4E2M1, []uint8{0, 1, 2, 3, 4, 5, 6, 7, 9, 15}, 2, 5)
	if got, err := f.Floats(); err != nil ||
		!slices.Equal(got, []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -6}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestByteCountOfPackedElements(t *testing.T) {
	for n, want := range []int{0, 1, 1, 2, 2, 3} {
		if got, err := ByteCount(Uint4, []int{n}); got != want || err != nil {
			t.Errorf("%d elements of 4 bits: %d bytes, %v; want %d", n, got, err, want)
		}
	}
	for n, want := range []int{0, 1, 1, 1, 1, 2, 2, 2, 2, 3} {
		if got, err := ByteCount(Int2, []int{n}); got != want || err != nil {
			t.Errorf("%d elements of 2 bits: %d bytes, %v; want %d", n, got, err, want)
		}
	}
	if got, err := ByteCount(Int4, []int{1 << 62}); got != 1<<61 || err != nil {
		t.Errorf("2^62 elements of 4 bits: %d bytes, %v", got, err)
	}
	if got, err := ByteCount(Int4, []int{1<<63 - 1}); got != 1<<62 || err != nil {
		t.Errorf("2^63-1 elements of 4 bits: %d bytes, %v", got, err)
	}
}

// What the last byte has left over belongs to no element.
func TestEqualIgnoresPadding(t *testing.T) {
	a := &Tensor{DType: Int4, Shape: []int{3}, Data: []byte{0x21, 0x03}}
	b := &Tensor{DType: Int4, Shape: []int{3}, Data: []byte{0x21, 0xf3}}
	if !Equal(a, b) || Close(a, b, 0, 0) != nil {
		t.Error("tensors that differ in padding only are not equal")
	}
	b.Data[1] = 0x04
	if Equal(a, b) || Close(a, b, 0, 0) == nil {
		t.Error("tensors that differ in an element are equal")
	}
	b.Data = []byte{0x31, 0x03}
	if Equal(a, b) {
		t.Error("tensors that differ in a full byte are equal")
	}
}

func TestNamesOfAllTypes(t *testing.T) {
	for d := Float32; d <= Int2; d++ {
		if got, err := ParseDType(d.String()); got != d || err != nil || !d.Valid() {
			t.Errorf("%d: %v became %v, %v", d, d, got, err)
		}
		if d != String && d.Bits() == 0 || d.Packed() && d.Size() != 0 {
			t.Errorf("%v has %d bits, %d bytes", d, d.Bits(), d.Size())
		}
	}
	if DType(27).Valid() || DType(27).Bits() != 0 {
		t.Error("element type 27 exists")
	}
}
