package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestEnds: a packed file whose checksum is wrong is refused, and one that goes on.
func TestEnds(t *testing.T) {
	samples := []byte{0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9}
	pack := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(b)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	wrong := pack(samples)
	wrong[len(wrong)-6] ^= 1
	for _, tc := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"whole", samples, true}, {"whole.gz", pack(samples), true},
		{"more", append(samples[:len(samples):len(samples)], 1), false},
		{"wrong.gz", wrong, false}, {"short.gz", wrong[:len(wrong)-9], false},
	} {
		path := filepath.Join(t.TempDir(), tc.name)
		if err := os.WriteFile(path, tc.b, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := Read(path)
		if ok := err == nil; ok != tc.ok || !ok && !errors.Is(err, ErrData) {
			t.Errorf("%s: %v, %v", tc.name, v, err)
		}
	}
}

// TestColumn: numbers that the type of an input does not have are refused, not changed.
func TestColumn(t *testing.T) {
	for _, tc := range []struct {
		t  *tensor.Tensor
		as tensor.DType
		ok bool
	}{
		{tensor.From([]float64{1, 1e300}, 2), tensor.Float32, false},
		{tensor.From([]float64{1, math.NaN()}, 2), tensor.Float32, false},
		{tensor.From([]float64{1, math.MaxFloat32}, 2), tensor.Float32, true},
		{tensor.From([]int64{1, 1<<32 + 5}, 2), tensor.Int32, false},
		{tensor.From([]int64{1, 1<<32 + 5}, 2), tensor.Int64, true},
		{tensor.From([]float64{1, 2.5}, 2), tensor.Int64, false},
	} {
		if _, err := NewColumn(tc.t, tc.as, 1, 1); (err == nil) != tc.ok {
			t.Errorf("%v as %v: %v", tc.t, tc.as, err)
		}
	}
	for _, v := range []*tensor.Tensor{tensor.From([]float32{0, 1.5}, 2),
		tensor.From([]uint8{1, 2}, 2), tensor.From([]float32{-0.5}, 1)} {
		c, err := NewColumn(v, tensor.Float32, 1, 1)
		if err != nil || c.Parts() == nil {
			t.Errorf("%v are taken for probabilities: %v", v, err)
		}
	}
	for _, v := range []*tensor.Tensor{tensor.From([]float32{0, 0.5, 1}, 3),
		tensor.From([]uint8{1, 0}, 2)} {
		c, err := NewColumn(v, tensor.Float32, 1, 1)
		if err != nil || c.Parts() != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// TestOrder: each epoch goes through all samples, in an order of its own that follows from the
// seed.
func TestOrder(t *testing.T) {
	rows := []int{3, 5, 8, 13, 21, 34, 55, 89, 144}
	first := Order(rows, 1, 0)
	for _, o := range [][]int{Order(rows, 1, 1), Order(rows, 2, 0)} {
		if slices.Equal(o, first) {
			t.Errorf("another epoch or seed has the order %v, too", o)
		}
		slices.Sort(o)
		if !slices.Equal(o, rows) {
			t.Errorf("an epoch goes through %v, want %v", o, rows)
		}
	}
	if again := Order(rows, 1, 0); !slices.Equal(again, first) {
		t.Errorf("orders of one epoch: %v, %v", first, again)
	}
}

// TestIDX reads numbers of several bytes, the highest first.
func TestIDX(t *testing.T) {
	v, err := idx(bytes.NewReader([]byte{0, 0, 0xc, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 2, 255, 255,
		255, 254}))
	if err != nil || !slices.Equal(tensor.As[int32](v), []int32{258, -2}) {
		t.Errorf("%v, %v", v, err)
	}
}
