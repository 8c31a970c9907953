package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// tensorMessage is a TensorProto whose contents are still views of the file.
type tensorMessage struct {
	name     string
	dims     []int64
	dtype    int64
	raw      []byte
	hasRaw   bool
	floats   [][]byte
	doubles  [][]byte
	int32s   [][]byte
	int64s   [][]byte
	uint64s  [][]byte
	strings  [][]byte
	external map[string]string
	location int64 // 1: the contents are in another file
	segment  bool

	done *tensor.Tensor // the result of decode
	// the tensor of a function that this is a renamed copy of, so that all calls share one result
	of *tensorMessage
}

// DecodeTensor reads one TensorProto, the content of the .pb files of ONNX's test data. The result
// may be a view of b, which must not change while it is in use. It fails with [ErrFormat] or
// op.ErrUnsupported.
func DecodeTensor(b []byte) (*tensor.Tensor, error) {
	m, err := (&decoder{}).tensor(b)
	if err != nil {
		return nil, err
	}
	return m.decode(nil)
}

func (d *decoder) tensor(b []byte) (*tensorMessage, error) {
	t := &tensorMessage{external: map[string]string{}}
	err := fields("TensorProto", b,
		rule{1, intsTo(&t.dims, maxRank)}, rule{2, intTo(&t.dtype)}, rule{8, nameTo(&t.name)},
		rule{4, runsTo(&t.floats, protowire.Fixed32Type)},
		rule{10, runsTo(&t.doubles, protowire.Fixed64Type)},
		rule{5, runsTo(&t.int32s, protowire.VarintType)},
		rule{7, runsTo(&t.int64s, protowire.VarintType)},
		rule{11, runsTo(&t.uint64s, protowire.VarintType)},
		rule{6, runsTo(&t.strings, protowire.BytesType)},
		rule{13, d.entryTo(t.external)}, rule{14, intTo(&t.location)},
		rule{3, func(field) error { t.segment = true; return nil }},
		rule{9, func(x field) error { t.hasRaw = true; return bytesTo(&t.raw)(x) }})
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.name, err)
	}
	return t, nil
}

// elemType converts a TensorProto.DataType. 0, not given, is tensor.Undefined.
func elemType(n int64) (tensor.DType, error) {
	if n < 0 || n > math.MaxUint8 || n != 0 && !tensor.DType(n).Valid() {
		return tensor.Undefined, formatErr("element type %d does not exist", n)
	}
	return tensor.DType(n), nil
}

// decode gives the tensor: a view of the file where the format allows, a decoded copy for the
// integer fields, which the format packs as varints. The count of elements is compared with the
// data before anything is allocated.
func (t *tensorMessage) decode(files *externalFiles) (*tensor.Tensor, error) {
	if t.of != nil {
		return t.of.decode(files)
	}
	if t.done != nil {
		return t.done, nil
	}
	out, err := t.read(files)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.name, err)
	}
	t.done = out
	return out, nil
}

func (t *tensorMessage) read(files *externalFiles) (*tensor.Tensor, error) {
	d, shape, err := t.header()
	if err != nil {
		return nil, err
	}
	n, err := tensor.ByteCount(d, shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	out := &tensor.Tensor{DType: d, Shape: shape}
	if d == tensor.String && t.location == 0 {
		out.Strings, err = t.stringData(n / 16)
		return out, err
	}
	out.Data, err = t.bytes(files, d, n)
	return out, err
}

// header is the element type and the shape.
func (t *tensorMessage) header() (tensor.DType, []int, error) {
	d, err := elemType(t.dtype)
	switch {
	case err != nil:
		return d, nil, err
	case d == tensor.Undefined:
		return d, nil, formatErr("no element type")
	case t.segment:
		return d, nil, fmt.Errorf("%w: tensors in segments", op.ErrUnsupported)
	}
	shape, err := sizes(t.dims)
	return d, shape, err
}

// bytes returns the n bytes of a tensor that holds no strings.
func (t *tensorMessage) bytes(files *externalFiles, d tensor.DType, n int) (data []byte,
	err error) {
	switch {
	case d == tensor.String:
		return nil, formatErr("strings cannot be external data")
	case t.location == 1:
		data, err = files.read(t, n)
	case t.hasRaw:
		if data = t.raw; len(t.raw) != n {
			return nil, formatErr("shape %v of %v needs %d bytes, raw_data has %d", t.dims, d, n,
				len(t.raw))
		}
	default:
		data, err = t.typed(d, n)
	}
	if d == tensor.Bool {
		data = plainBools(data)
	}
	return data, err
}

// sizes checks dimensions of the file.
func sizes(dims []int64) ([]int, error) {
	shape := make([]int, len(dims))
	for i, n := range dims {
		if n < 0 || int64(int(n)) != n {
			return nil, formatErr("dimension %d is %d", i, n)
		}
		shape[i] = int(n)
	}
	return shape, nil
}

func (t *tensorMessage) stringData(n int) ([]string, error) {
	if len(t.strings) != n {
		return nil, formatErr("shape %v needs %d strings, there are %d", t.dims, n, len(t.strings))
	}
	out := make([]string, n)
	for i, s := range t.strings {
		out[i] = string(s)
	}
	return out, nil
}

// typed reads the field that the element type is kept in, as the comments of TensorProto assign
// them, into n bytes.
func (t *tensorMessage) typed(d tensor.DType, n int) ([]byte, error) {
	switch d {
	case tensor.Float32, tensor.Complex64:
		return fixed(t.floats, n)
	case tensor.Float64, tensor.Complex128:
		return fixed(t.doubles, n)
	case tensor.Int64:
		return varints(t.int64s, d, n)
	case tensor.Uint32, tensor.Uint64:
		return varints(t.uint64s, d, n)
	}
	if d.Packed() { // each number is a byte of several elements
		d = tensor.Uint8
	}
	return varints(t.int32s, d, n)
}

// fixed joins runs of fixed-width elements; the usual single run is a view.
func fixed(chunks [][]byte, n int) ([]byte, error) {
	have := 0
	for _, c := range chunks {
		have += len(c)
	}
	if have != n {
		return nil, formatErr("needs %d bytes of data, has %d", n, have)
	}
	if len(chunks) == 1 {
		return chunks[0], nil
	}
	out, err := tensor.New(tensor.Uint8, n)
	if err != nil {
		return nil, err
	}
	b := out.Data[:0]
	for _, c := range chunks {
		b = append(b, c...)
	}
	return b, nil
}

// varints decodes runs of varints to elements of type d, n bytes in all, each truncated to its
// width.
func varints(chunks [][]byte, d tensor.DType, n int) ([]byte, error) {
	size := d.Size()
	if have := countVarints(chunks); have != n/size {
		return nil, formatErr("needs %d elements of data, has %d", n/size, have)
	}
	t, err := tensor.New(d, n/size)
	if err != nil {
		return nil, err
	}
	out := t.Data
	for _, c := range chunks {
		for len(c) > 0 {
			v, k := protowire.ConsumeVarint(c)
			if k < 0 || len(out) == 0 {
				return nil, formatErr("bad integer data: %v", protowire.ParseError(k))
			}
			c = c[k:]
			if d == tensor.Bool {
				v = min(v, 1)
			}
			putLow(out[:size], v)
			out = out[size:]
		}
	}
	return t.Data, nil
}

// putLow stores the low bytes of v.
func putLow(to []byte, v uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], v)
	copy(to, word[:])
}

// countVarints counts the bytes that end one.
func countVarints(chunks [][]byte) int {
	n := 0
	for _, c := range chunks {
		for _, b := range c {
			if b < 0x80 {
				n++
			}
		}
	}
	return n
}

// plainBools returns bytes that are 0 or 1 only, since any other byte in a Go bool is undefined;
// the usual array that already is comes back as it is.
func plainBools(b []byte) []byte {
	for i, v := range b {
		if v <= 1 {
			continue
		}
		out := append([]byte{}, b...)
		for j := i; j < len(out); j++ {
			out[j] = min(out[j], 1)
		}
		return out
	}
	return b
}

// sparseMessage is a SparseTensorProto.
type sparseMessage struct {
	values, indices *tensorMessage
	dims            []int64

	done *tensor.Tensor
	of   *sparseMessage
}

// A sparse tensor becomes dense when that takes at most sparseFloor bytes or sparseGrowth times
// those stored.
const (
	sparseFloor  = 1 << 20
	sparseGrowth = 64
)

func (d *decoder) sparse(b []byte) (*sparseMessage, error) {
	s := &sparseMessage{}
	err := fields("SparseTensorProto", b, rule{1, nestedTo(d, &s.values, d.tensor)},
		rule{2, nestedTo(d, &s.indices, d.tensor)}, rule{3, intsTo(&s.dims, maxRank)})
	if err == nil && (s.values == nil || s.indices == nil) {
		err = formatErr("SparseTensorProto: values or indices are missing")
	}
	return s, err
}

// dense spreads the values over a zeroed tensor. Indices are linear ([NNZ]) or one coordinate tuple
// a value ([NNZ, rank]).
func (s *sparseMessage) dense(files *externalFiles) (*tensor.Tensor, error) {
	if s.of != nil {
		return s.of.dense(files)
	}
	if s.done == nil {
		t, err := s.spread(files)
		if err != nil {
			return nil, fmt.Errorf("sparse tensor %q: %w", s.values.name, err)
		}
		s.done = t
	}
	return s.done, nil
}

func (s *sparseMessage) spread(files *externalFiles) (*tensor.Tensor, error) {
	values, err := s.values.decode(files)
	if err != nil {
		return nil, err
	}
	indices, err := s.indices.decode(files)
	if err != nil {
		return nil, err
	}
	out, err := s.zeros(values)
	if err != nil {
		return nil, err
	}
	at, err := linear(indices, out.Shape, values.Len())
	if err != nil {
		return nil, err
	}
	for i, k := range at {
		strided.CopyElems(out, int(k), values, i, 1)
	}
	return out, nil
}

// zeros makes the dense tensor, if its size is in proportion to the values.
func (s *sparseMessage) zeros(values *tensor.Tensor) (*tensor.Tensor, error) {
	shape, err := sizes(s.dims)
	if err != nil {
		return nil, err
	}
	n, err := tensor.ByteCount(values.DType, shape)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	have, err := tensor.ByteCount(values.DType, values.Shape)
	if err != nil || n > max(sparseFloor, sparseGrowth*have) {
		return nil, fmt.Errorf("%w: %v%v is too large to make dense; store it dense",
			op.ErrUnsupported, values.DType, shape)
	}
	return tensor.New(values.DType, shape...)
}

// linear converts the indices of n sparse values to row-major offsets, each inside of the shape.
func linear(indices *tensor.Tensor, shape []int, n int) ([]int64, error) {
	if indices.DType != tensor.Int64 {
		return nil, formatErr("indices are %v, want int64", indices.DType)
	}
	flat := tensor.As[int64](indices)
	switch {
	case indices.Rank() == 1 && len(flat) == n:
		size, err := tensor.Count(shape)
		return flat, errors.Join(err, inside(flat, []int{size}))
	case indices.Rank() != 2 || indices.Shape[0] != n || indices.Shape[1] != len(shape):
		return nil, formatErr("indices have shape %v, want [%d] or [%d,%d]", indices.Shape, n, n,
			len(shape))
	}
	out := make([]int64, n)
	for i := range out {
		at := flat[i*len(shape) : (i+1)*len(shape)]
		if err := inside(at, shape); err != nil {
			return nil, err
		}
		for j, v := range at {
			out[i] = out[i]*int64(shape[j]) + v
		}
	}
	return out, nil
}

// inside checks each coordinate against the size of its dimension, or all of them against the only
// size when shape has just one.
func inside(at []int64, shape []int) error {
	for j, v := range at {
		if v < 0 || v >= int64(shape[j%len(shape)]) {
			return formatErr("index %v is outside of shape %v", v, shape)
		}
	}
	return nil
}

// maxSymbol bounds the name of a dimension: expressions over symbols multiply it.
const maxSymbol = 256

// opType converts a declared type. The zero op.Type, nothing known, is not an error.
func (t typeMessage) opType() (op.Type, error) {
	switch t.kind {
	case "":
		return op.Type{}, nil
	case "tensor":
		return t.tensorType()
	case kindSequence, kindOptional, kindMap:
		return t.containerType()
	}
	return op.Type{}, fmt.Errorf("%w: a value of type %s", op.ErrUnsupported, t.kind)
}

func (t typeMessage) containerType() (op.Type, error) {
	var elem op.Type
	if t.of != nil {
		var err error
		if elem, err = t.of.opType(); err != nil {
			return op.Type{}, fmt.Errorf("%s of: %w", t.kind, err)
		}
	}
	switch t.kind {
	case kindSequence:
		return op.SequenceOf(elem), nil
	case kindOptional:
		return op.OptionalOf(elem), nil
	}
	key, err := elemType(t.key)
	if err != nil {
		return op.Type{}, fmt.Errorf("key of a map: %w", err)
	}
	if key != tensor.String && !key.IsInteger() || elem.DType.IsContainer() {
		return op.Type{}, formatErr(
			"a map of %v to %v; keys are strings or integers, values numbers", key, elem)
	}
	return op.MapOf(key, elem), nil
}

func (t typeMessage) tensorType() (op.Type, error) {
	d, err := elemType(t.elem)
	if err != nil {
		return op.Type{}, err
	}
	if !t.ranked {
		return op.Unranked(d), nil
	}
	dims := make([]op.Dim, len(t.dims))
	for i, dim := range t.dims {
		switch {
		case dim.known && dim.size > math.MaxInt32*int64(math.MaxInt32):
			return op.Type{}, formatErr("dimension %d is %d", i, dim.size)
		case dim.known && dim.size >= 0:
			dims[i] = op.Known(int(dim.size))
		case dim.known || len(dim.param) > maxSymbol || strings.Contains(dim.param, "·"):
			dims[i] = op.Unknown() // -1 is what some exporters write for a size that varies
		default:
			dims[i] = op.Sym(dim.param)
		}
	}
	return op.Ranked(d, dims...), nil
}
