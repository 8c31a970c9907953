package data

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// images are samples by their numbers, each of ascending pixels.
func images(rows ...int) *tensor.Tensor {
	const channels, height, width = 2, 3, 4
	var v []float32
	for _, r := range rows {
		for i := range channels * height * width {
			v = append(v, float32(100*(r+1)+i))
		}
	}
	return tensor.From(v, len(rows), channels, height, width)
}

// TestChange: what becomes of an image follows from the seed, the epoch and the sample alone, and
// each of the three matters.
func TestChange(t *testing.T) {
	changed := func(seed uint64, epoch int, rows ...int) map[int]string {
		v := images(rows...)
		Change(v, rows, []Image{Flip, Crop(2)}, seed, epoch)
		out := map[int]string{}
		per := v.Len() * 4 / len(rows)
		for i, r := range rows {
			out[r] = string(v.Data[i*per : (i+1)*per])
		}
		return out
	}
	rows := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	want := changed(1, 2, rows...)
	backward := slices.Clone(rows)
	slices.Reverse(backward)
	for r, v := range changed(1, 2, backward...) {
		if v != want[r] || changed(1, 2, r)[r] != v {
			t.Errorf("sample %d depends on the batch that it is in", r)
		}
	}
	for name, other := range map[string]map[int]string{"seed": changed(2, 2, rows...),
		"epoch": changed(1, 3, rows...)} {
		same := 0
		for r, v := range other {
			if v == want[r] {
				same++
			}
		}
		if same == len(rows) {
			t.Errorf("no image depends on the %s", name)
		}
	}
	moves := map[string]bool{}
	for _, r := range rows {
		v := images(0)
		Change(v, []int{r}, []Image{Flip, Crop(2)}, 1, 2)
		moves[string(v.Data)] = true
	}
	if len(moves) < 5 {
		t.Errorf("%d samples are changed in %d ways", len(rows), len(moves))
	}
}

// TestFlipCrop: an image is mirrored or not, and is moved by all distances, zeros moving in, within
// channels.
func TestFlipCrop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	flips, moves := map[string]int{}, map[string]int{}
	for range 500 {
		v := images(0)
		Flip(r, tensor.As[float32](v), 2, 3, 4)
		flips[string(v.Data)]++
		v = images(0)
		Crop(1)(r, tensor.As[float32](v), 2, 3, 4)
		moves[string(v.Data)]++
	}
	mirrored := images(0)
	for i, x := range tensor.As[float32](images(0)) {
		tensor.As[float32](mirrored)[i/4*4+3-i%4] = x
	}
	if a, b := flips[string(mirrored.Data)], flips[string(images(0).Data)]; a+b != 500 || a < 200 ||
		b < 200 {
		t.Errorf("%d mirrored and %d as they were, of 500", a, b)
	}
	seen := 0
	for down := -1; down <= 1; down++ {
		for right := -1; right <= 1; right++ {
			want := images(0)
			at, from := tensor.As[float32](want), tensor.As[float32](images(0))
			for i := range at {
				y, x := i/4%3+down, i%4+right
				at[i] = 0
				if y >= 0 && y < 3 && x >= 0 && x < 4 {
					at[i] = from[i/12*12+y*4+x]
				}
			}
			seen += moves[string(want.Data)]
			if moves[string(want.Data)] < 20 {
				t.Errorf("moved by %d, %d: %d of 500", down, right, moves[string(want.Data)])
			}
		}
	}
	if seen != 500 {
		t.Errorf("%d of 500 images are not moved by 1 at most", 500-seen)
	}
	for range 100 { // all moves that leave nothing of an image
		Crop(9)(r, tensor.As[float32](images(0)), 2, 3, 4)
	}
}

// TestPart: a part is drawn from the seed, and with the rest is all.
func TestPart(t *testing.T) {
	drawn, rest := Part(100, 0.25, 1)
	all := slices.Concat(drawn, rest)
	if slices.Sort(all); len(drawn) != 25 || len(slices.Compact(all)) != 100 ||
		!slices.IsSorted(drawn) || !slices.IsSorted(rest) {
		t.Errorf("%v, %v", drawn, rest)
	}
	again, _ := Part(100, 0.25, 1)
	if other, _ := Part(100, 0.25, 2); !slices.Equal(drawn, again) || slices.Equal(drawn, other) {
		t.Errorf("%v, %v, of another seed %v", drawn, again, other)
	}
}
