package jobs

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// input is a .npz file (numpy.savez) that is read from row to row: of each array what belongs to
// one run of the model with the least rows that it takes.
type input struct {
	columns []*column
	rows    int64
	// stacked: some array has an axis for rows that the model's input has not.
	stacked bool
	// open: any number of rows makes one run.
	open bool
}

// column is the array of one input.
type column struct {
	oip.TensorFields
	typ     tensor.DType
	file    *zip.File
	body    io.ReadCloser
	rows    *npy.Rows
	each    int // rows of the array for a row of the job
	stacked bool
}

// ErrInput is the kind of errors about a file that is no input of a job with the model.
var ErrInput = errors.New("not an input of the model")

// suffix ends the names of arrays in a file.
const suffix = ".npy"

// mostDirectory bounds the bytes of the list of arrays in a file, which is read into memory.
const mostDirectory = 1 << 20

// openInput finds the arrays of a model's inputs in a file, which stays the caller's.
func openInput(f io.ReaderAt, size int64, takes []oip.TensorFields) (*input, error) {
	bounded := &directory{from: f, left: mostDirectory}
	z, err := zip.NewReader(bounded, size)
	if err != nil {
		return nil, fmt.Errorf("%w: it is no .npz file: %w", ErrInput, err)
	}
	bounded.left = -1
	members := map[string]*zip.File{}
	for _, m := range z.File {
		name, ok := strings.CutSuffix(m.Name, suffix)
		if !ok || members[name] != nil {
			return nil, fmt.Errorf("%w: %.200q in the file is no array, or one of two: expected "+
				"NAME%s for each input", ErrInput, m.Name, suffix)
		}
		members[name] = m
	}
	in := &input{open: true, rows: -1}
	for _, t := range takes {
		m := members[t.Name]
		if m == nil {
			return nil, in.fail(fmt.Errorf("%w: the file has no array for input %s: it has %s",
				ErrInput, t.Name, strings.Join(names(z.File), ", ")))
		}
		delete(members, t.Name)
		if err := in.add(t, m); err != nil {
			return nil, in.fail(fmt.Errorf("input %s: %w", t.Name, err))
		}
	}
	for name := range members {
		return nil, in.fail(fmt.Errorf("%w: the model has no input %.200q", ErrInput, name))
	}
	if in.rows < 1 {
		return nil, in.fail(fmt.Errorf("%w: it has no rows", ErrInput))
	}
	return in, nil
}

func names(files []*zip.File) (list []string) {
	for i, m := range files {
		if i == 20 {
			return append(list, "...")
		}
		list = append(list, fmt.Sprintf("%.100q", strings.TrimSuffix(m.Name, suffix)))
	}
	return list
}

// directory is a file of which, while the list of arrays is read, a bounded part is read.
type directory struct {
	from io.ReaderAt
	left int64 // negative: any
}

// ReadAt implements io.ReaderAt.
func (d *directory) ReadAt(p []byte, at int64) (int, error) {
	if d.left >= 0 {
		if d.left -= int64(len(p)); d.left < 0 {
			d.left = 0
			return 0, fmt.Errorf("its list of arrays has more than %d bytes", mostDirectory)
		}
	}
	return d.from.ReadAt(p, at)
}

// fail closes what is open, and returns err.
func (in *input) fail(err error) error {
	in.close()
	return err
}

// add takes the array of an input.
func (in *input) add(t oip.TensorFields, m *zip.File) error {
	c := &column{TensorFields: t, file: m}
	var err error
	if c.typ, err = oip.ParseDatatype(t.Datatype); err != nil {
		return err
	}
	if c.body, err = m.Open(); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	in.columns = append(in.columns, c)
	if c.rows, err = npy.NewRows(c.body); err != nil {
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if !c.rows.Is(c.typ) {
		return fmt.Errorf("%w: it is %v, the model takes %v", ErrInput, c.rows.DType, c.typ)
	}
	n, err := c.fit()
	if err != nil {
		return err
	}
	if in.rows >= 0 && n != in.rows {
		return fmt.Errorf("%w: it has %d rows, and input %s has %d", ErrInput, n,
			in.columns[0].Name, in.rows)
	}
	in.rows = n
	in.stacked = in.stacked || c.stacked
	in.open = in.open && !c.stacked && c.Shape[0] < 0
	return nil
}

// fit says how rows of the array become values of the input, and returns how many there are.
func (c *column) fit() (int64, error) {
	shape, takes := c.rows.Shape, c.Shape
	rest := shape[1:]
	switch {
	case len(takes) == 0 || len(shape) == len(takes)+1:
		c.stacked, c.each = true, 1
		if len(takes) == 0 {
			rest = nil // any rank
		}
	case len(shape) == len(takes):
		c.each, takes = int(max(1, takes[0])), takes[1:]
	default:
		return 0, c.misfit()
	}
	for i, d := range rest {
		if takes[i] >= 0 && takes[i] != int64(d) {
			return 0, c.misfit()
		}
	}
	if shape[0]%c.each != 0 {
		return 0, fmt.Errorf("%w: the array has %d rows, and the model takes %d at a time",
			ErrInput, shape[0], c.each)
	}
	return int64(shape[0] / c.each), nil
}

func (c *column) misfit() error {
	return fmt.Errorf("%w: the array is %v, the model takes %v: give that with the rows along the "+
		"first axis, or one axis more in front of it", ErrInput, c.rows.Shape, c.Shape)
}

// bytes is how many bytes the arrays have.
func (in *input) bytes() int64 {
	var n int64
	for _, c := range in.columns {
		size := c.rows.RowBytes() * int64(c.rows.Shape[0])
		if n += size; size < 0 || n < 0 {
			return 1 << 62
		}
	}
	return n
}

// rowBytes is how many bytes a row of the job has, of all arrays together. It is called once bytes
// says that those are not too many.
func (in *input) rowBytes() (n int64) {
	for _, c := range in.columns {
		n += c.rows.RowBytes() * int64(c.each)
	}
	return n
}

// next reads the next n rows; n is 1 unless the input is open.
func (in *input) next(n int) (weir.Inputs, error) {
	all := weir.Inputs{}
	for _, c := range in.columns {
		t, err := c.rows.Next(n*c.each, c.typ)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w: %w", c.Name, ErrInput, err)
		}
		if c.stacked {
			t.Shape = t.Shape[1:]
		}
		all[c.Name] = t
	}
	return all, nil
}

// skip passes over n rows.
func (in *input) skip(n int64) error {
	for _, c := range in.columns {
		if err := c.rows.Skip(int(n) * c.each); err != nil {
			return fmt.Errorf("input %s: %w", c.Name, err)
		}
	}
	return nil
}

// checkEvery is how many bytes of an array are read before it is looked whether anybody waits: a
// file of few megabytes may unpack to gigabytes.
const checkEvery = 16 << 20

// check reads all rows, as long as ctx lasts, and holds that the arrays end with them and are as
// they were packed.
func (in *input) check(ctx context.Context) error {
	for _, c := range in.columns {
		var err error
		some := int(max(1, checkEvery/max(1, c.rows.RowBytes())))
		for left := c.rows.Left(); left > 0 && err == nil; left = c.rows.Left() {
			if err := ctx.Err(); err != nil {
				return err
			}
			err = c.rows.Skip(min(some, left))
		}
		if err == nil {
			var more int64
			if more, err = io.CopyN(io.Discard, c.body, 1); more > 0 {
				err = fmt.Errorf("the array goes on after its %d rows", c.rows.Shape[0])
			} else if errors.Is(err, io.EOF) {
				err = nil // the end, at which the checksum was held
			}
		}
		if err != nil {
			return fmt.Errorf("input %s: %w: %w", c.Name, ErrInput, err)
		}
	}
	return nil
}

func (in *input) close() {
	for _, c := range in.columns {
		_ = c.body.Close() // it was read
	}
}
