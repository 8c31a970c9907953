package data

import (
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Column is one input of a model, or the labels, of all samples.
type Column struct {
	samples int
	per     int // elements of a sample
	bytes   *tensor.Tensor
	floats  []float32
	ints    []int64
	divide  float32
}

// NewColumn makes a column of samples for an input of that type, which takes per elements of each.
// Real numbers are divided by divide.
func NewColumn(t *tensor.Tensor, d tensor.DType, per int, divide float64) (*Column, error) {
	c := &Column{samples: t.Shape[0], per: per, divide: float32(divide)}
	if n := t.Len(); n != c.samples*per {
		return nil, fmt.Errorf("%w: %v of %v: a sample has %d elements, the model takes %d",
			ErrData, t.DType, t.Shape, n/max(c.samples, 1), per)
	}
	switch {
	case d == tensor.Float32 && t.DType == tensor.Uint8:
		c.bytes = t
		return c, nil
	case d == tensor.Float32:
		v, err := t.Floats()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrData, err)
		}
		return c, c.real(v, divide)
	case d == tensor.Int64:
		return c, c.whole(t)
	case d == tensor.Int32:
		if err := c.whole(t); err != nil {
			return nil, err
		}
		return c, c.between(math.MinInt32, math.MaxInt32)
	}
	return nil, fmt.Errorf("%w: the model takes %v; data fills float32, int32 and int64", ErrData,
		d)
}

// real keeps real numbers, of which training could not recover from any that are not finite.
func (c *Column) real(v []float64, divide float64) error {
	c.floats = make([]float32, len(v))
	for i, x := range v {
		c.floats[i] = float32(x / divide)
		if !(math.Abs(float64(c.floats[i])) <= math.MaxFloat32) {
			return fmt.Errorf("%w: sample %d holds %v, no number of float32", ErrData, i/c.per, x)
		}
	}
	return nil
}

// mostWhole is from where on float64 does not tell a whole number from the next.
const mostWhole = 1 << 53

// whole keeps whole numbers, whatever type they were written in.
func (c *Column) whole(t *tensor.Tensor) error {
	if v, err := t.Ints(); err == nil {
		c.ints = v
		return nil
	}
	v, err := t.Floats()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	c.ints = make([]int64, len(v))
	for i, x := range v {
		if !(math.Abs(x) < mostWhole) || x != math.Trunc(x) {
			return fmt.Errorf("%w: sample %d holds %v, want a whole number below 2^53", ErrData,
				i/c.per, x)
		}
		c.ints[i] = int64(x)
	}
	return nil
}

// Samples implements [Source].
func (c *Column) Samples() int { return c.samples }

// Within refuses whole numbers that are not from 0 to before n, but for those of apart.
func (c *Column) Within(n int, apart ...int64) error {
	for i, v := range c.ints {
		if (v < 0 || v >= int64(n)) && !slices.Contains(apart, v) {
			return fmt.Errorf("%w: sample %d is of class %d: the model has %d, from 0 on", ErrData,
				i/c.per, v, n)
		}
	}
	return nil
}

// between refuses whole numbers that are less than one or above another.
func (c *Column) between(least, most int64) error {
	for i, v := range c.ints {
		if v < least || v > most {
			return fmt.Errorf("%w: sample %d holds %d: the model takes int32", ErrData, i/c.per, v)
		}
	}
	return nil
}

// Paths refuses labels that no path of so many steps becomes when repeats, and then blanks, are
// taken out: classes from 0 to before n other than blank, -1 behind the last.
func (c *Column) Paths(n, blank, steps int) error {
	for r := range c.samples {
		needs, before, ended := 0, int64(-1), false
		for _, v := range c.ints[r*c.per : (r+1)*c.per] {
			if ended = ended || v == -1; ended && v != -1 || v < -1 || v >= int64(n) ||
				v == int64(blank) {
				return fmt.Errorf("%w: sample %d has a label %d: want classes before %d other "+
					"than blank %d, and -1 behind the last", ErrData, r, v, n, blank)
			}
			if v == -1 {
				continue
			}
			if needs++; v == before {
				needs++
			}
			before = v
		}
		if needs > steps {
			return fmt.Errorf("%w: sample %d has labels that take %d steps, repeats with a blank "+
				"between: the model gives %d", ErrData, r, needs, steps)
		}
	}
	return nil
}

// Parts refuses numbers that are not from 0 to 1, but for those of apart.
func (c *Column) Parts(apart ...float64) error {
	refuse := func(i int, v float32) error {
		if v >= 0 && v <= 1 || slices.Contains(apart, float64(v)) {
			return nil
		}
		return fmt.Errorf("%w: sample %d has a label of %v: want from 0 to 1", ErrData, i/c.per, v)
	}
	for i, v := range c.floats {
		if err := refuse(i, v); err != nil {
			return err
		}
	}
	if c.bytes == nil {
		return nil
	}
	for i, b := range c.bytes.Data {
		if err := refuse(i, float32(b)/c.divide); err != nil {
			return err
		}
	}
	return nil
}

// Fill implements [Source]: samples are as they are in each epoch, and the error is nil.
func (c *Column) Fill(into *tensor.Tensor, rows []int, _ int) error {
	switch {
	case c.bytes != nil:
		to := tensor.As[float32](into)
		for i, r := range rows {
			for k, b := range c.bytes.Data[r*c.per : (r+1)*c.per] {
				to[i*c.per+k] = float32(b) / c.divide
			}
		}
	case c.floats != nil:
		to := tensor.As[float32](into)
		for i, r := range rows {
			copy(to[i*c.per:(i+1)*c.per], c.floats[r*c.per:])
		}
	case into.DType == tensor.Int32:
		to := tensor.As[int32](into)
		for i, r := range rows {
			for k, v := range c.ints[r*c.per : (r+1)*c.per] {
				to[i*c.per+k] = int32(v)
			}
		}
	default:
		to := tensor.As[int64](into)
		for i, r := range rows {
			copy(to[i*c.per:(i+1)*c.per], c.ints[r*c.per:])
		}
	}
	return nil
}

// Digest implements [Source].
func (c *Column) Digest(h hash.Hash) {
	fmt.Fprintf(h, "%d samples of %d, divided by %v\n", c.samples, c.per, c.divide)
	switch {
	case c.bytes != nil:
		h.Write(c.bytes.Data)
	case c.floats != nil:
		h.Write(tensor.From(c.floats, len(c.floats)).Data)
	default:
		h.Write(tensor.From(c.ints, len(c.ints)).Data)
	}
}

// Label returns the whole number, or else the nearest one, of a sample with one.
func (c *Column) Label(row int) int64 { return c.ints[row*c.per] }
