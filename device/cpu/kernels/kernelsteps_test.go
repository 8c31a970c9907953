package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// steps counts how far bytes that a kernel rounds lie from the reference's. The kernel multiplies
// in float32 what the reference multiplies in float64, a relative difference of some 2^-23 in a
// value of at most a few hundred steps, so the two lie on different sides of a tie only where the
// value is within some 2^-15 of one: seldom, by one step, and as often up as down.
type steps struct {
	elements int
	up, down int // by one
}

// The share of elements that may differ by one, twice what lies so near to a tie on either side,
// and how many more: of few elements, one is a large share.
const (
	stepShare = 0x1p-13
	stepExtra = 2
)

// add counts the elements of one result; one that differs by two is an error.
func (d *steps) add(got, want *tensor.Tensor) error {
	d.elements += want.Len()
	for i := range want.Len() {
		switch g, w := zeroAt(got, i), zeroAt(want, i); g - w {
		case 0:
		case 1:
			d.up++
		case -1:
			d.down++
		default:
			return fmt.Errorf("element %d is %g, want %g", i, g, w)
		}
	}
	return nil
}

// join adds the counts of another.
func (d *steps) join(o *steps) {
	if o != nil {
		d.elements, d.up, d.down = d.elements+o.elements, d.up+o.up, d.down+o.down
	}
}

// check holds the counts of many results against what rounding explains: few differ, and their
// directions balance as those of coins do, within four standard deviations.
func (d *steps) check() error {
	n := d.up + d.down
	if limit := stepShare*float64(d.elements) + stepExtra; float64(n) > limit {
		return fmt.Errorf("%d of %d elements differ by one, which rounding explains for %.0f",
			n, d.elements, limit)
	}
	if bias := d.up - d.down; math.Abs(float64(bias)) > 4*math.Sqrt(float64(n))+stepExtra {
		return fmt.Errorf("of %d elements, %d are one step too high and %d too low", d.elements,
			d.up, d.down)
	}
	return nil
}

// TestStepsRefuse holds that the check of bytes sees a result that is one too high everywhere, half
// a step too high, or wrong in one element.
func TestStepsRefuse(t *testing.T) {
	want := newSource(1, 2).bytes(tensor.Int8, 1000)
	for i, v := range want.Data {
		want.Data[i] = byte(max(-120, min(120, int8(v))))
	}
	for name, change := range map[string]func(i int) byte{
		"all":    func(int) byte { return 1 },
		"half":   func(i int) byte { return byte(i & 1) },
		"by two": func(i int) byte { return byte(2 * (i / 999)) },
		"few up": func(i int) byte { return byte(max(i, 980)-980) & 1 },
	} {
		got := want.Clone()
		for i := range got.Data {
			got.Data[i] += change(i)
		}
		d := &steps{}
		if err := d.add(got, want); err == nil {
			err = d.check()
			if err == nil {
				t.Errorf("%s: not noticed", name)
			}
		}
	}
	d := &steps{}
	if err := d.add(want, want); err != nil || d.check() != nil {
		t.Errorf("equal: %v, %v", err, d.check())
	}
}
