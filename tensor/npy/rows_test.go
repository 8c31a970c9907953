package npy_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// TestRows: rows that are read one part after another, or passed over, are those of the array.
func TestRows(t *testing.T) {
	for _, x := range []*tensor.Tensor{
		tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2), tensor.From([]int64{1, 2, 3, 4}, 4),
		tensor.FromStrings([]string{"a", "bc", "", "def"}, 4),
		tensor.From([]tensor.BHalf{0x3f80, 0x4000, 0x4040, 0x4080}, 4, 1),
	} {
		r, err := npy.NewRows(bytes.NewReader(write(t, x)))
		if err != nil {
			t.Fatal(err)
		}
		if !r.Is(x.DType) || !slices.Equal(r.Shape, x.Shape) || r.Left() != 4 {
			t.Errorf("%v%v: %v%v, %d left", x.DType, x.Shape, r.DType, r.Shape, r.Left())
		}
		first, err := r.Next(1, x.DType)
		if err != nil || first.At(0) != x.At(0) || first.DType != x.DType {
			t.Errorf("the first row of %v is %v, %v", x, first, err)
		}
		err = r.Skip(1)
		rest, late := r.Next(2, x.DType)
		if err = errors.Join(err, late); err != nil || rest.Shape[0] != 2 ||
			rest.At(rest.Len()-1) != x.At(x.Len()-1) {
			t.Errorf("the last rows of %v are %v, %v", x, rest, err)
		}
		if _, err := r.Next(1, x.DType); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("after the end: %v", err)
		}
		if err := r.Skip(1); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("passing over the end: %v", err)
		}
	}
}

// TestRowsRefused: arrays without rows, and such as are shorter than they say.
func TestRowsRefused(t *testing.T) {
	for _, c := range [][2]string{
		{"'descr': '<f4', 'fortran_order': False, 'shape': ()", "no rows"},
		{"'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)", "ascontiguousarray"},
		{"'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)", "too large"},
		{"'descr': '>f4', 'fortran_order': False, 'shape': (2,)", ">f4"},
		{"'descr': '<f4', 'shape': (2,)", "order"},
	} {
		_, err := npy.NewRows(strings.NewReader(file(1, "{"+c[0]+", }", strings.Repeat("x", 99))))
		if !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
	short := file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "12345678")
	r, err := npy.NewRows(strings.NewReader(short))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(3, tensor.Float32); !errors.Is(err, npy.ErrFormat) {
		t.Errorf("three rows of two: %v", err)
	}
	if r, err = npy.NewRows(strings.NewReader(short)); err != nil {
		t.Fatal(err)
	}
	if err := r.Skip(3); !errors.Is(err, io.EOF) {
		t.Errorf("passing over three rows of two: %v", err)
	}
}

// TestWriteHeader: a header and the data of rows make what Write makes of the array.
func TestWriteHeader(t *testing.T) {
	x := tensor.From([]int16{1, 2, 3, 4, 5, 6}, 3, 2)
	var b bytes.Buffer
	if err := npy.WriteHeader(&b, x.DType, x.Shape); err != nil {
		t.Fatal(err)
	}
	b.Write(x.Data)
	if !bytes.Equal(b.Bytes(), write(t, x)) {
		t.Errorf("got %q", b.Bytes())
	}
	for _, d := range []tensor.DType{tensor.String, tensor.BFloat16} {
		if err := npy.WriteHeader(&b, d, x.Shape); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("%v: %v", d, err)
		}
	}
	if wide, err := npy.Widened(tensor.From([]tensor.BHalf{0x3f80}, 1)); err != nil ||
		wide.DType != npy.WiderType(tensor.BFloat16) || wide.At(0) != float32(1) {
		t.Errorf("widened: %v, %v", wide, err)
	}
}
