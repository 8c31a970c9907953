package tensor

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Equal reports whether a and b have the same type, shape and bits, containers item by item. NaNs
// with the same bits are equal.
func Equal(a, b *Tensor) bool {
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && sameData(a, b) &&
		slices.Equal(a.Strings, b.Strings) && slices.EqualFunc(a.Items, b.Items, Equal)
}

// sameData compares the bytes of two tensors. In the last byte of packed elements it compares only
// the bits that hold elements.
func sameData(a, b *Tensor) bool {
	last := len(a.Data) - 1
	used := usedBits(a)
	if used == 8 || last < 0 || len(b.Data) != len(a.Data) {
		return bytes.Equal(a.Data, b.Data)
	}
	return bytes.Equal(a.Data[:last], b.Data[:last]) && (a.Data[last]^b.Data[last])<<(8-used) == 0
}

// usedBits is how many bits of the last byte of a tensor's data hold elements.
func usedBits(t *Tensor) int {
	if !t.DType.Packed() {
		return 8
	}
	if bits := t.Len() * t.DType.Bits() % 8; bits > 0 {
		return bits
	}
	return 8
}

// Close compares got with want as ONNX's own backend tests do (numpy.testing.assert_allclose): same
// type and shape; floats within atol + rtol·|want| element by element, NaN equal to NaN, infinities
// equal by sign; everything else exactly, and containers item by item. The error names the first
// element that differs and how many do.
func Close(got, want *Tensor, rtol, atol float64) error {
	if got.DType != want.DType {
		return fmt.Errorf("%w: got %v, want %v", ErrDType, got.DType, want.DType)
	}
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("%w: got %v, want %v", ErrShape, got.Shape, want.Shape)
	}
	if want.DType.IsContainer() {
		return sameItems(got, want, func(g, w *Tensor) error { return Close(g, w, rtol, atol) })
	}
	if !want.DType.IsFloat() {
		return sameElements(got, want)
	}
	g, w, err := floatsOfBoth(got, want)
	if err != nil {
		return err
	}
	bad, first := 0, -1
	for i := range w {
		if !closeEnough(g[i], w[i], rtol, atol) {
			if bad++; first < 0 {
				first = i
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d elements differ; first at %d: got %v, want %v", bad, len(w),
			first, g[first], w[first])
	}
	return nil
}

// floatsOfBoth are the elements of two tensors that must have one shape.
func floatsOfBoth(got, want *Tensor) (g, w []float64, err error) {
	if !slices.Equal(got.Shape, want.Shape) {
		return nil, nil, fmt.Errorf("%w: got %v, want %v", ErrShape, got.Shape, want.Shape)
	}
	if g, err = got.Floats(); err == nil {
		w, err = want.Floats()
	}
	return g, w, err
}

func closeEnough(g, w, rtol, atol float64) bool {
	if math.IsNaN(w) || math.IsNaN(g) {
		return math.IsNaN(w) && math.IsNaN(g)
	}
	if math.IsInf(w, 0) || math.IsInf(g, 0) {
		return g == w
	}
	return math.Abs(g-w) <= atol+rtol*math.Abs(w)
}

func sameElements(got, want *Tensor) error {
	if Equal(got, want) {
		return nil
	}
	for i := range want.Len() {
		if got.At(i) != want.At(i) {
			return fmt.Errorf("element %d: got %v, want %v", i, got.At(i), want.At(i))
		}
	}
	return nil
}

// RelL2 returns ‖got − want‖₂ / ‖want‖₂ over all elements (‖got‖₂ when want is all zero): one
// figure for "how far are two results apart". It is NaN-poisoned: a NaN on one side only gives
// +Inf.
func RelL2(got, want *Tensor) (float64, error) {
	g, w, err := floatsOfBoth(got, want)
	if err != nil {
		return 0, err
	}
	var num, den float64
	for i := range w {
		switch d := g[i] - w[i]; {
		case g[i] == w[i] || math.IsNaN(g[i]) && math.IsNaN(w[i]):
		case math.IsNaN(d):
			return math.Inf(1), nil
		default:
			num += d * d
		}
		if !math.IsNaN(w[i]) {
			den += w[i] * w[i]
		}
	}
	if den == 0 {
		return math.Sqrt(num), nil
	}
	return math.Sqrt(num / den), nil
}
