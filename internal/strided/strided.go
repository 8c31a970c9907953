package strided

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Steps places an index space in the elements of a tensor: index (i₀, i₁, …) is element Offset + Σ
// iₖ·Strides[k], in row-major element numbers. Strides may be zero (an axis that repeats) or
// negative (an axis walked backwards).
type Steps struct {
	Offset  int
	Strides []int
}

// RowMajor returns the steps that walk a contiguous tensor of the given shape in order.
func RowMajor(shape []int) Steps {
	s := make([]int, len(shape))
	n := 1
	for k := len(shape) - 1; k >= 0; k-- {
		s[k] = n
		n *= shape[k]
	}
	return Steps{Strides: s}
}

// Dense reports whether the steps visit the elements of an index space of the given shape one after
// another in memory, from the offset on.
func (s Steps) Dense(shape []int) bool {
	n := 1
	for k := len(shape) - 1; k >= 0; k-- {
		if shape[k] != 1 && s.Strides[k] != n {
			return false
		}
		n *= shape[k]
	}
	return true
}

// maxWalk is the number of axes that Copy walks without a stack of its own: every rank that
// models use.
const maxWalk = 8

// walk is an index space and the steps by which source and destination place it in memory.
// Neighbouring axes are joined into one where the steps of both sides allow it.
type walk struct {
	rank            int
	shape, to, from [maxWalk]int
}

// Copy copies one element of src to one of dst for each index of shape, each side placed by its own
// steps: the one routine under Transpose, Slice, Concat, Split, Expand, Tile and Pad. dst
// and src have the same type (any type, String included) and must not overlap. Where two indices
// name one element of dst, the later in row-major order wins.
//
// It allocates nothing. It fails with tensor.ErrDType when the types differ and with
// tensor.ErrShape, before anything is written, when an index falls outside either tensor.
func Copy(dst *tensor.Tensor, to Steps, src *tensor.Tensor, from Steps, shape []int) error {
	if dst.DType != src.DType {
		return fmt.Errorf("%w: cannot copy %v to %v", tensor.ErrDType, src.DType, dst.DType)
	}
	if len(to.Strides) != len(shape) || len(from.Strides) != len(shape) {
		return fmt.Errorf("%w: %d and %d strides for rank %d", tensor.ErrShape, len(to.Strides),
			len(from.Strides), len(shape))
	}
	if n, err := tensor.Count(shape); err != nil || n == 0 {
		return err
	}
	if !to.within(shape, held(dst)) || !from.within(shape, held(src)) {
		return fmt.Errorf("%w: copying %v leaves the tensor (%v of %v, %v of %v)", tensor.ErrShape,
			slices.Clone(shape),
			to.clone(), slices.Clone(dst.Shape), from.clone(), slices.Clone(src.Shape))
	}
	copySteps(dst, to, src, from, shape)
	return nil
}

func copySteps(dst *tensor.Tensor, to Steps, src *tensor.Tensor, from Steps, shape []int) {
	if len(shape) > maxWalk {
		for i := range shape[0] {
			copySteps(dst, Steps{to.Offset + i*to.Strides[0], to.Strides[1:]},
				src, Steps{from.Offset + i*from.Strides[0], from.Strides[1:]}, shape[1:])
		}
		return
	}
	var w walk
	w.join(shape, to.Strides, from.Strides)
	switch bits := dst.DType.Bits(); bits {
	case 0:
		copyWalk(&w, elems[string]{dst.Strings, src.Strings}, to.Offset, from.Offset)
	case 2, 4:
		copyWalk(&w, packed{dst, src}, to.Offset, from.Offset)
	case 8:
		copyWalk(&w, elems[byte]{dst.Data, src.Data}, to.Offset, from.Offset)
	case 16:
		copyWalk(&w, both[uint16](dst, src), to.Offset, from.Offset)
	case 32:
		copyWalk(&w, both[uint32](dst, src), to.Offset, from.Offset)
	case 64:
		copyWalk(&w, both[uint64](dst, src), to.Offset, from.Offset)
	case 128:
		copyWalk(&w, both[complex128](dst, src), to.Offset, from.Offset)
	}
}

// CopyElems copies n consecutive elements, from element si of src to element di of dst, which has
// the same type and does not overlap. Indices that the data does not have panic.
func CopyElems(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int) {
	switch bits := dst.DType.Bits(); bits {
	case 0:
		copy(dst.Strings[di:di+n], src.Strings[si:si+n])
	case 2, 4:
		packed{dst, src}.copyRun(di, 1, si, 1, n)
	default:
		size := bits / 8
		copy(dst.Data[di*size:(di+n)*size], src.Data[si*size:(si+n)*size])
	}
}

// clone keeps the caller's strides from escaping into an error.
func (s Steps) clone() Steps { return Steps{s.Offset, slices.Clone(s.Strides)} }

// within reports whether every index of shape, which has no zero dimension, falls into n elements.
func (s Steps) within(shape []int, n int) bool {
	lo, hi := s.Offset, s.Offset
	for k, d := range shape {
		if reach := s.Strides[k] * (d - 1); reach < 0 {
			lo += reach
		} else {
			hi += reach
		}
	}
	return lo >= 0 && hi < n
}

// held counts the elements that Data or Strings really hold.
func held(t *tensor.Tensor) int {
	if bits := t.DType.Bits(); bits > 0 {
		return len(t.Data) * 8 / bits
	}
	return len(t.Strings)
}

// join drops axes of one index and merges an axis into the one before it when both sides continue
// seamlessly.
func (w *walk) join(shape, to, from []int) {
	for k, n := range shape {
		if n == 1 {
			continue
		}
		if r := w.rank - 1; r >= 0 && w.to[r] == n*to[k] && w.from[r] == n*from[k] {
			w.shape[r], w.to[r], w.from[r] = w.shape[r]*n, to[k], from[k]
			continue
		}
		w.shape[w.rank], w.to[w.rank], w.from[w.rank] = n, to[k], from[k]
		w.rank++
	}
	if w.rank == 0 {
		w.rank, w.shape[0], w.to[0], w.from[0] = 1, 1, 1, 1
	}
}

// run copies n elements, each a step of its side after the one before it.
type run interface {
	copyRun(to, toStep, from, fromStep, n int)
}

// elems are whole elements on both sides of a copy.
type elems[T any] struct{ dst, src []T }

// both views the elements of both sides as T, whose width they have.
func both[T tensor.Elem](dst, src *tensor.Tensor) elems[T] {
	return elems[T]{tensor.Cast[T](dst.Data), tensor.Cast[T](src.Data)}
}

func copyWalk[R run](w *walk, r R, to, from int) {
	var idx [maxWalk]int
	last := w.rank - 1
	for {
		r.copyRun(to, w.to[last], from, w.from[last], w.shape[last])
		k := last - 1
		for ; k >= 0; k-- {
			to += w.to[k]
			from += w.from[k]
			if idx[k]++; idx[k] < w.shape[k] {
				break
			}
			to -= w.to[k] * w.shape[k]
			from -= w.from[k] * w.shape[k]
			idx[k] = 0
		}
		if k < 0 {
			return
		}
	}
}

func (e elems[T]) copyRun(to, toStep, from, fromStep, n int) {
	dst, src := e.dst, e.src
	switch {
	case toStep == 1 && fromStep == 1:
		copy(dst[to:to+n], src[from:from+n])
	case toStep == 1 && fromStep == 0:
		v := src[from]
		for i := range dst[to : to+n] {
			dst[to+i] = v
		}
	case toStep == 1:
		for i := range dst[to : to+n] {
			dst[to+i] = src[from]
			from += fromStep
		}
	default:
		for range n {
			dst[to] = src[from]
			to += toStep
			from += fromStep
		}
	}
}

// packed are elements of 2 or 4 bits on both sides of a copy.
type packed struct{ dst, src *tensor.Tensor }

// copyRun copies whole bytes where both sides start on one and step by one, and elements otherwise.
func (p packed) copyRun(to, toStep, from, fromStep, n int) {
	if per := 8 / p.dst.DType.Bits(); toStep == 1 && fromStep == 1 && to%per == 0 && from%per == 0 {
		whole := n / per
		copy(p.dst.Data[to/per:to/per+whole], p.src.Data[from/per:])
		to, from, n = to+whole*per, from+whole*per, n%per
	}
	for range n {
		p.dst.SetCode(to, p.src.Code(from))
		to += toStep
		from += fromStep
	}
}
