package tensor

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func iota32(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

func TestCopyStrided(t *testing.T) {
	tests := []struct {
		name     string
		to, from Steps
		shape    []int
		want     []int32
	}{
		{"all", RowMajor([]int{2, 3}), RowMajor([]int{2, 3}), []int{2, 3},
			[]int32{0, 1, 2, 3, 4, 5}},
		{"transpose", RowMajor([]int{3, 2}), Steps{0, []int{1, 3}}, []int{3, 2},
			[]int32{0, 3, 1, 4, 2, 5}},
		{"backwards", Steps{0, []int{1}}, Steps{5, []int{-1}}, []int{6}, []int32{5, 4, 3, 2, 1, 0}},
		{"repeat an element", Steps{0, []int{1}}, Steps{4, []int{0}}, []int{6},
			[]int32{4, 4, 4, 4, 4, 4}},
		{"repeat a row", RowMajor([]int{2, 3}), Steps{3, []int{0, 1}}, []int{2, 3},
			[]int32{3, 4, 5, 3, 4, 5}},
		{"into a column", Steps{1, []int{3}}, Steps{0, []int{1}}, []int{2},
			[]int32{-1, 0, -1, -1, 1, -1}},
		{"one element", Steps{2, nil}, Steps{3, nil}, nil, []int32{-1, -1, 3, -1, -1, -1}},
		{"nothing", Steps{99, []int{1, 1}}, Steps{99, []int{1, 1}}, []int{0, 1 << 62},
			[]int32{-1, -1, -1, -1, -1, -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dst, src := From([]int32{-1, -1, -1, -1, -1, -1}, 6), From(iota32(6), 6)
			if err := CopyStrided(dst, tt.to, src, tt.from, tt.shape); err != nil {
				t.Fatal(err)
			}
			if got := As[int32](dst); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCopyStridedRefuses(t *testing.T) {
	six := func() *Tensor { return From(iota32(6), 6) }
	tests := []struct {
		name     string
		dst      *Tensor
		to, from Steps
		shape    []int
		kind     error
	}{
		{"types", From([]int64{0}, 1), Steps{0, []int{1}}, Steps{0, []int{1}}, []int{1}, ErrDType},
		{"past the end", six(), Steps{0, []int{1}}, Steps{1, []int{1}}, []int{6}, ErrShape},
		{"before the start", six(), Steps{0, []int{1}}, Steps{4, []int{-1}}, []int{6}, ErrShape},
		{"target", six(), Steps{-1, []int{1}}, Steps{0, []int{1}}, []int{6}, ErrShape},
		{"rank", six(), Steps{0, nil}, Steps{0, []int{1}}, []int{6}, ErrShape},
		{"negative", six(), Steps{0, []int{1}}, Steps{0, []int{1}}, []int{-6}, ErrShape},
	}
	for _, tt := range tests {
		if err := CopyStrided(tt.dst, tt.to, six(), tt.from, tt.shape); !errors.Is(err, tt.kind) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.kind)
		}
	}
}

// Random walks over every element width agree with a loop that computes each index anew.
func TestCopyStridedAgreesWithIndexing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range []DType{Int2, Uint4, Uint8, Float16, Int32, Float64, Complex128, String} {
		for range 200 {
			rank := rng.IntN(10)
			shape, perm := make([]int, rank), rng.Perm(rank)
			for k := range shape {
				shape[k] = 1 + rng.IntN(3)
			}
			n, _ := Count(shape)
			src, dst := mustNew(t, d, n), mustNew(t, d, n)
			for i := range n {
				switch {
				case d == String:
					src.Strings[i] = string(rune('a' + i%26))
				case d.Packed():
					src.SetCode(i, uint8(rng.Uint32()))
				default:
					src.Data[i*d.Size()] = byte(i)
				}
			}
			from := permuted(shape, perm, rng)
			if err := CopyStrided(dst, RowMajor(shape), src, from, shape); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				j, rest := from.Offset, i
				for k := rank - 1; k >= 0; k-- {
					j += rest % shape[k] * from.Strides[k]
					rest /= shape[k]
				}
				if dst.At(i) != src.At(j) {
					t.Fatalf("%v %v %v: element %d", d, shape, from, i)
				}
			}
		}
	}
}

// permuted walks a tensor of n elements in permuted order, some axes backwards.
func permuted(shape, perm []int, rng *rand.Rand) Steps {
	s := Steps{Strides: make([]int, len(shape))}
	n := 1
	for _, k := range perm {
		s.Strides[k] = n
		n *= shape[k]
		if rng.IntN(3) == 0 {
			s.Offset += s.Strides[k] * (shape[k] - 1)
			s.Strides[k] *= -1
		}
	}
	return s
}

func mustNew(t *testing.T, d DType, shape ...int) *Tensor {
	t.Helper()
	v, err := New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCopyStridedAllocatesNothing(t *testing.T) {
	shape := []int{2, 3, 4, 5}
	src, dst := mustNew(t, Float32, 120), mustNew(t, Float32, 120)
	to, from := RowMajor(shape), Steps{0, []int{1, 2, 6, 24}}
	if n := testing.AllocsPerRun(10, func() {
		if err := CopyStrided(dst, to, src, from, shape); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDense(t *testing.T) {
	for _, e := range []struct {
		steps Steps
		shape []int
		want  bool
	}{
		{RowMajor([]int{2, 3, 4}), []int{2, 3, 4}, true},
		{Steps{Offset: 7, Strides: []int{12, 4, 1}}, []int{2, 3, 4}, true},
		{RowMajor([]int{2, 3, 4}), []int{1, 2, 4}, true},
		{RowMajor([]int{2, 3, 4}), []int{2, 2, 4}, false},
		{RowMajor([]int{2, 3, 4}), []int{2, 3, 3}, false},
		{Steps{Strides: []int{99, 4, 1}}, []int{1, 3, 4}, true},
		{Steps{Strides: []int{1, 2}}, []int{2, 2}, false},
		{Steps{Strides: []int{-1}}, []int{2}, false},
		{Steps{}, nil, true},
	} {
		if got := e.steps.Dense(e.shape); got != e.want {
			t.Errorf("%+v over %v: %v, want %v", e.steps, e.shape, got, e.want)
		}
	}
}
