package npy

import (
	"fmt"
	"io"
	"math"

	"github.com/weirgpu/weir/tensor"
)

// Rows reads an array a part of its first axis at a time, for arrays that are larger than memory.
type Rows struct {
	// DType and Shape are those of the whole array, which has at least one axis.
	DType tensor.DType
	Shape []int

	from  io.Reader
	width textWidth
	read  int
}

// NewRows reads the header of an array. Errors are those of [Read]; an array without axes, and one
// in Fortran order, whose rows lie apart, are of kind [ErrFormat].
func NewRows(r io.Reader) (*Rows, error) {
	a, err := described(r)
	switch {
	case err != nil:
		return nil, err
	case len(a.shape) == 0:
		return nil, fmt.Errorf("%w: it has no axes, so it has no rows", ErrFormat)
	case a.fortran:
		return nil, fmt.Errorf("%w: it is in Fortran order, in which rows lie apart: save "+
			"numpy.ascontiguousarray of it", ErrFormat)
	}
	rows := &Rows{DType: a.dtype, Shape: a.shape, from: r, width: a.width}
	n, err := tensor.Count(a.shape)
	if err != nil || int64(n) > math.MaxInt64/rows.elementBytes() {
		return nil, fmt.Errorf("%w: the shape %v is too large", ErrFormat, a.shape)
	}
	return rows, nil
}

// elementBytes is how many bytes of the file an element takes.
func (r *Rows) elementBytes() int64 {
	if r.DType == tensor.String {
		return int64(r.width.n) * int64(r.width.char)
	}
	return int64(r.DType.Size())
}

// Left is how many rows were not read yet.
func (r *Rows) Left() int { return r.Shape[0] - r.read }

// Is reports whether rows are of type d or, where d has no form of its own in a file, of the type
// that [Write] writes for it.
func (r *Rows) Is(d tensor.DType) bool { return r.DType == d || r.DType == wider(d) }

// RowBytes is how many bytes of the file a row takes.
func (r *Rows) RowBytes() int64 {
	size := r.elementBytes()
	for _, n := range r.Shape[1:] {
		size *= int64(n)
	}
	return size
}

// Next reads the next n rows, which must be there, as type d, as [ReadAs] does.
func (r *Rows) Next(n int, d tensor.DType) (*tensor.Tensor, error) {
	if n < 0 || n > r.Left() {
		return nil, fmt.Errorf("%w: rows %d to %d of %d", ErrFormat, r.read, r.read+n, r.Shape[0])
	}
	t, err := readArray(r.from, r.DType, r.width, append([]int{n}, r.Shape[1:]...))
	if err != nil {
		return nil, err
	}
	r.read += n
	return narrowed(t, d)
}

// Skip passes over the next n rows, which must be there.
func (r *Rows) Skip(n int) error {
	if n < 0 || n > r.Left() {
		return fmt.Errorf("%w: rows %d to %d of %d", ErrFormat, r.read, r.read+n, r.Shape[0])
	}
	r.read += n
	_, err := io.CopyN(io.Discard, r.from, int64(n)*r.RowBytes())
	return err
}

// WriteHeader writes what [Write] writes before the data of an array of type d, which must be one
// that NumPy knows and of a fixed size: the data of rows, written one after the other, may follow.
func WriteHeader(w io.Writer, d tensor.DType, shape []int) error {
	if descr[d] == "" {
		return fmt.Errorf("%w: %v has no .npy type", ErrFormat, d)
	}
	return writeHeader(w, descr[d], shape)
}

// Widened is a tensor as [Write] writes it: of a type that NumPy knows.
func Widened(t *tensor.Tensor) (*tensor.Tensor, error) { return widened(t) }

// WiderType is the type of what [Widened] returns for a tensor of type d.
func WiderType(d tensor.DType) tensor.DType { return wider(d) }
