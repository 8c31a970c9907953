package jobs

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// FuzzInput: whatever is handed in as a file is refused as no input, or has the rows that it says.
func FuzzInput(f *testing.F) {
	takes := []oip.TensorFields{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 2}},
		{Name: "n", Datatype: "INT64", Shape: []int64{}}}
	f.Add(packed(f, map[string]*tensor.Tensor{"x": tensor.From(make([]float32, 6), 3, 2),
		"n": tensor.From([]int64{1, 2, 3}, 3)}))
	f.Add(packed(f, map[string]*tensor.Tensor{"x": tensor.From(make([]float32, 4), 1, 2, 2),
		"n": tensor.From([]int64{1}, 1)}))
	f.Add([]byte("PK\x05\x06" + string(make([]byte, 18))))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := openInput(bytes.NewReader(b), int64(len(b)), takes)
		if err != nil {
			if !errors.Is(err, ErrInput) {
				t.Fatalf("%v is of no kind", err)
			}
			return
		}
		defer in.close()
		if in.rows < 1 || in.bytes() < in.rows || in.bytes() > 1<<20 {
			return
		}
		for range in.rows {
			row, err := in.next(1)
			if errors.Is(err, ErrInput) {
				return
			}
			if err != nil || len(row) != len(takes) || row["n"].Len() != 1 {
				t.Fatalf("a row is %v, %v", row, err)
			}
		}
		if err := in.check(t.Context()); err != nil && !errors.Is(err, ErrInput) {
			t.Fatal(err)
		}
	})
}
