package strided

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func iota32(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

func TestCopy(t *testing.T) {
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
			dst, src := tensor.From([]int32{-1, -1, -1, -1, -1, -1}, 6), tensor.From(iota32(6), 6)
			if err := Copy(dst, tt.to, src, tt.from, tt.shape); err != nil {
				t.Fatal(err)
			}
			if got := tensor.As[int32](dst); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestCopyRefuses(t *testing.T) {
	six := func() *tensor.Tensor { return tensor.From(iota32(6), 6) }
	tests := []struct {
		name     string
		dst      *tensor.Tensor
		to, from Steps
		shape    []int
		kind     error
	}{
		{"types", tensor.From([]int64{0}, 1), Steps{0, []int{1}}, Steps{0, []int{1}}, []int{1},
			tensor.ErrDType},
		{"past the end", six(), Steps{0, []int{1}}, Steps{1, []int{1}}, []int{6}, tensor.ErrShape},
		{"before the start", six(), Steps{0, []int{1}}, Steps{4, []int{-1}}, []int{6},
			tensor.ErrShape},
		{"target", six(), Steps{-1, []int{1}}, Steps{0, []int{1}}, []int{6}, tensor.ErrShape},
		{"rank", six(), Steps{0, nil}, Steps{0, []int{1}}, []int{6}, tensor.ErrShape},
		{"negative", six(), Steps{0, []int{1}}, Steps{0, []int{1}}, []int{-6}, tensor.ErrShape},
	}
	for _, tt := range tests {
		if err := Copy(tt.dst, tt.to, six(), tt.from, tt.shape); !errors.Is(err, tt.kind) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.kind)
		}
	}
}

// Random walks over every element width agree with a loop that computes each index anew.
func TestCopyAgreesWithIndexing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range []tensor.DType{tensor.Int2, tensor.Uint4, tensor.Uint8, tensor.Float16,
		tensor.Int32, tensor.Float64, tensor.Complex128, tensor.String} {
		for range 200 {
			rank := rng.IntN(10)
			shape, perm := make([]int, rank), rng.Perm(rank)
			for k := range shape {
				shape[k] = 1 + rng.IntN(3)
			}
			n, _ := tensor.Count(shape)
			src, dst := mustNew(t, d, n), mustNew(t, d, n)
			for i := range n {
				switch {
				case d == tensor.String:
					src.Strings[i] = string(rune('a' + i%26))
				case d.Packed():
					src.SetCode(i, uint8(rng.Uint32()))
				default:
					src.Data[i*d.Size()] = byte(i)
				}
			}
			from := permuted(shape, perm, rng)
			if err := Copy(dst, RowMajor(shape), src, from, shape); err != nil {
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

func mustNew(t *testing.T, d tensor.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCopyAllocatesNothing(t *testing.T) {
	shape := []int{2, 3, 4, 5}
	src, dst := mustNew(t, tensor.Float32, 120), mustNew(t, tensor.Float32, 120)
	to, from := RowMajor(shape), Steps{0, []int{1, 2, 6, 24}}
	if n := testing.AllocsPerRun(10, func() {
		if err := Copy(dst, to, src, from, shape); err != nil {
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

func TestCopyElems(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Int2, tensor.Uint4, tensor.Uint8, tensor.Float16,
		tensor.Int64, tensor.String} {
		for _, tt := range [][3]int{{0, 0, 9}, {1, 0, 7}, {3, 2, 5}, {4, 4, 4}, {2, 2, 0}} {
			dst, src := mustNew(t, d, 9), mustNew(t, d, 9)
			for i := range 9 {
				switch {
				case d == tensor.String:
					src.Strings[i] = string(rune('a' + i))
				case d.Packed():
					src.SetCode(i, uint8(i+1))
				default:
					src.Data[i*d.Size()] = byte(i + 1)
				}
			}
			zero := dst.Clone()
			CopyElems(dst, tt[0], src, tt[1], tt[2])
			for i := range 9 {
				want := zero.At(i)
				if i >= tt[0] && i < tt[0]+tt[2] {
					want = src.At(i - tt[0] + tt[1])
				}
				if dst.At(i) != want {
					t.Errorf("%v %v: element %d is %v, want %v", d, tt, i, dst.At(i), want)
				}
			}
		}
	}
}
