// Package npy reads and writes tensors in NumPy's .npy format, version 1.0 to 3.0 (NumPy
// enhancement proposal 1), the form in which commands take inputs and leave outputs.
//
// Meet first: [Read] and [Write]. Element types that NumPy does not know are written as wider ones
// that hold their values; [ReadAs] narrows them again.
//
// Concurrency: the functions share nothing.
//
// What it refuses: big-endian data, object and structured types ([ErrFormat]), and headers whose
// shape needs more data than the file has, before anything large is allocated. Arrays in Fortran
// order are read into the order of tensors.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// ErrFormat is the kind of every error about a file that is not .npy, or not one that a tensor can
// hold.
var ErrFormat = errors.New("not a readable .npy file")

const magic = "\x93NUMPY"

var descr = map[tensor.DType]string{
	tensor.Float32: "<f4", tensor.Float64: "<f8", tensor.Float16: "<f2", tensor.Int8: "|i1",
	tensor.Int16: "<i2",
	tensor.Int32: "<i4", tensor.Int64: "<i8", tensor.Uint8: "|u1", tensor.Uint16: "<u2",
	tensor.Uint32: "<u4",
	tensor.Uint64: "<u8", tensor.Bool: "|b1", tensor.Complex64: "<c8", tensor.Complex128: "<c16",
}

// Write writes t. Types that NumPy does not know are widened: bfloat16 and smaller floats to
// float32, integers of 2 and 4 bits to those of 8. Strings become NumPy's fixed-width Unicode;
// those that are no UTF-8 or end in a zero byte, which that form cannot tell from its padding, fail
// with [ErrFormat], as do sequences and maps.
func Write(w io.Writer, t *tensor.Tensor) error {
	t, err := widened(t)
	if err != nil {
		return err
	}
	d, data := descr[t.DType], t.Data
	if t.DType == tensor.String {
		d, data, err = unicode(t.Strings)
	}
	if err != nil {
		return err
	}
	if d == "" {
		return fmt.Errorf("%w: %v has no .npy type", ErrFormat, t.DType)
	}
	if err := writeHeader(w, d, t.Shape); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// writeHeader writes what precedes the data of an array of NumPy's type d.
func writeHeader(w io.Writer, d string, shape []int) error {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", d,
		tuple(shape))
	pad := 64 - (len(magic)+4+len(head)+1)%64
	head += strings.Repeat(" ", pad%64) + "\n"
	var b bytes.Buffer
	b.WriteString(magic + "\x01\x00")
	if err := binary.Write(&b, binary.LittleEndian, uint16(len(head))); err != nil {
		return err
	}
	b.WriteString(head)
	_, err := w.Write(b.Bytes())
	return err
}

// tuple writes the inside of a Python tuple.
func tuple(shape []int) string {
	dims := make([]string, len(shape))
	for i, n := range shape {
		dims[i] = strconv.Itoa(n)
	}
	if len(dims) == 1 {
		return dims[0] + ","
	}
	return strings.Join(dims, ", ")
}

var (
	reDescr   = pattern(`['"]descr['"]:\s*['"]([<>|=])([a-zSU])(\d+)['"]`)
	reFortran = pattern(`['"]fortran_order['"]:\s*(True|False)`)
	reShape   = pattern(`['"]shape['"]:\s*\(([\d,\s]*)\)`)
)

// pattern compiles an expression when it is first used: programs that read no such file start
// without.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Read reads one tensor, whose bytes are its own. Errors are of kind [ErrFormat] or the reader's.
func Read(r io.Reader) (*tensor.Tensor, error) {
	a, err := described(r)
	if err != nil {
		return nil, err
	}
	if !a.fortran {
		return readArray(r, a.dtype, a.width, a.shape)
	}
	slices.Reverse(a.shape) // the first axis varies fastest
	t, err := readArray(r, a.dtype, a.width, a.shape)
	if err != nil {
		return nil, err
	}
	return transposed(t)
}

// array is what a header says.
type array struct {
	dtype   tensor.DType
	width   textWidth
	shape   []int
	fortran bool // the first of several axes varies fastest
}

// described reads the header of an array.
func described(r io.Reader) (a array, err error) {
	head, err := header(r)
	if err != nil {
		return a, err
	}
	if a.dtype, a.width, err = dtype(head); err != nil {
		return a, err
	}
	if a.shape, err = shape(head); err != nil {
		return a, err
	}
	m := reFortran().FindStringSubmatch(head)
	if m == nil {
		return a, fmt.Errorf("%w: no order of elements in its header", ErrFormat)
	}
	a.fortran = m[1] == "True" && len(a.shape) > 1
	return a, nil
}

// transposed returns t with its axes in the reverse order.
func transposed(t *tensor.Tensor) (*tensor.Tensor, error) {
	shape, from := slices.Clone(t.Shape), strided.RowMajor(t.Shape)
	slices.Reverse(shape)
	slices.Reverse(from.Strides)
	out, err := tensor.New(t.DType, shape...)
	if err != nil {
		return nil, err
	}
	return out, strided.Copy(out, strided.RowMajor(shape), t, from, shape)
}

// readArray reads elements in the order of their shape, the last axis fastest.
func readArray(r io.Reader, d tensor.DType, width textWidth, shape []int) (*tensor.Tensor, error) {
	if d == tensor.String {
		return readText(r, width, shape)
	}
	n, err := tensor.ByteCount(d, shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	data, err := read(r, n)
	if err != nil {
		return nil, fmt.Errorf("%v%v: %w", d, shape, err)
	}
	t := &tensor.Tensor{DType: d, Shape: shape, Data: data}
	if d == tensor.Bool {
		// A Go bool is 0 or 1, and a file may hold any byte.
		for i, b := range t.Data {
			t.Data[i] = min(b, 1)
		}
	}
	return t, nil
}

// read reads n bytes. Growing with what arrives keeps a short file with a huge header from
// allocating.
func read(r io.Reader, n int) ([]byte, error) {
	var data bytes.Buffer
	got, err := io.CopyN(&data, r, int64(n))
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: needs %d bytes, the file has %d: %w", ErrFormat, n, got, err)
	case err != nil:
		return nil, err
	}
	return data.Bytes(), nil
}

func header(r io.Reader) (string, error) {
	var fixed [8]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil || string(fixed[:6]) != magic {
		return "", fmt.Errorf("%w: it does not start with \\x93NUMPY", ErrFormat)
	}
	size := make([]byte, 2)
	if fixed[6] >= 2 {
		size = make([]byte, 4)
	}
	if _, err := io.ReadFull(r, size); err != nil {
		return "", fmt.Errorf("%w: truncated header", ErrFormat)
	}
	n := int(binary.LittleEndian.Uint16(size))
	if len(size) == 4 {
		n = int(binary.LittleEndian.Uint32(size))
	}
	if n > 1<<16 {
		return "", fmt.Errorf("%w: a header of %d bytes, limit %d", ErrFormat, n, 1<<16)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", fmt.Errorf("%w: truncated header", ErrFormat)
	}
	return string(head), nil
}

// dtype returns the element type, and of text the width of an element.
func dtype(head string) (tensor.DType, textWidth, error) {
	m := reDescr().FindStringSubmatch(head)
	if m == nil {
		return 0, textWidth{}, fmt.Errorf("%w: no plain element type in its header", ErrFormat)
	}
	for d, s := range descr {
		if s[1:] == m[2]+m[3] && (m[1] != ">" || d.Size() == 1) {
			return d, textWidth{}, nil
		}
	}
	if width, ok := textOf(m[1], m[2], m[3]); ok {
		return tensor.String, width, nil
	}
	return 0, textWidth{}, fmt.Errorf("%w: element type %s%s%s: save it as one of NumPy's "+
		"little-endian numbers, or as text", ErrFormat, m[1], m[2], m[3])
}

func shape(head string) ([]int, error) {
	m := reShape().FindStringSubmatch(head)
	if m == nil {
		return nil, fmt.Errorf("%w: no shape in its header", ErrFormat)
	}
	out := []int{}
	for _, part := range strings.Split(m[1], ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("%w: shape (%s)", ErrFormat, m[1])
		}
		out = append(out, n)
	}
	return out, nil
}
