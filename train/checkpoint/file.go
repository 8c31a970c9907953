package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/tensor"
)

// ErrCheckpoint is the kind of error about a file that a run cannot go on from.
var ErrCheckpoint = errors.New("unusable checkpoint")

// Value is a named tensor.
type Value struct {
	Name string
	*tensor.Tensor
}

// entry is a value in the header of a safetensors file.
type entry struct {
	DType   string    `json:"dtype"`
	Shape   []int     `json:"shape"`
	Offsets *[2]int64 `json:"data_offsets"`
}

// dtypes are the names of element types in safetensors files.
var dtypes = map[tensor.DType]string{tensor.Float32: "F32", tensor.Float64: "F64",
	tensor.Float16: "F16", tensor.BFloat16: "BF16", tensor.Int64: "I64", tensor.Int32: "I32",
	tensor.Uint8: "U8", tensor.Bool: "BOOL"}

// Keys of metadata that this package writes itself.
const (
	metadata  = "__metadata__"
	digestKey = "weir.digest"
)

// maxHeader bounds the header of a file, as the format's own reader does.
const maxHeader = 100 << 20

// Write writes values and metadata to a file, whole or not at all.
func Write(path string, meta map[string]string, values []Value) error {
	header, err := headerOf(meta, values)
	if err != nil {
		return err
	}
	return wholefile.Write(path, func(w io.Writer) error {
		if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
			return err
		}
		if _, err := w.Write(header); err != nil {
			return err
		}
		for _, v := range values {
			if _, err := w.Write(v.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// headerOf is the header of a file, padded so that the data is aligned.
func headerOf(meta map[string]string, values []Value) ([]byte, error) {
	all := map[string]any{}
	with := map[string]string{}
	for k, v := range meta {
		with[k] = v
	}
	with[digestKey] = Digest(meta, values) // not that of a file that meta may be of
	all[metadata] = with
	var at int64
	for _, v := range values {
		d, ok := dtypes[v.DType]
		if _, twice := all[v.Name]; !ok || twice {
			return nil, fmt.Errorf("%w: value %q of %v cannot be written", ErrCheckpoint, v.Name,
				v.DType)
		}
		n := int64(len(v.Data))
		all[v.Name] = entry{d, append([]int{}, v.Shape...), &[2]int64{at, at + n}}
		at += n
	}
	header, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return append(header, bytes.Repeat([]byte{' '}, (8-len(header)%8)%8)...), nil
}

// Digest is that of metadata and values, in hexadecimal digits: equal runs have equal digests.
func Digest(meta map[string]string, values []Value) string {
	h := sha256.New()
	keys := make([]string, 0, len(meta))
	for k := range meta {
		if k != digestKey {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(h, "%q=%q\n", k, meta[k])
	}
	for _, v := range values {
		fmt.Fprintf(h, "%q %v %v\n", v.Name, v.DType, v.Shape)
		h.Write(v.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Read reads a file into values of the same names, types and shapes, and returns its metadata.
// Values are written only when the file is whole and holds all of them, and no others.
func Read(path string, into []Value) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	meta, err := read(f, into)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrCheckpoint, err)
	}
	return meta, nil
}

func read(f *os.File, into []Value) (map[string]string, error) {
	meta, entries, from, err := readHeader(f)
	if err != nil {
		return nil, err
	}
	if len(entries) != len(into) {
		return nil, fmt.Errorf("it holds %d values, the run has %d: it is of another recipe",
			len(entries), len(into))
	}
	got := make([]Value, len(into))
	for i, v := range into {
		e, ok := entries[v.Name]
		if !ok {
			return nil, fmt.Errorf("it has no value %q: it is of another recipe", v.Name)
		}
		if e.DType != dtypes[v.DType] || !slices.Equal(e.Shape, v.Shape) || e.Offsets == nil ||
			e.Offsets[1]-e.Offsets[0] != int64(len(v.Data)) {
			return nil, fmt.Errorf("value %q is %s%v, in the run %v%v", v.Name, e.DType, e.Shape,
				v.DType, v.Shape)
		}
		t := v.Tensor.Clone()
		if _, err := f.ReadAt(t.Data, from+e.Offsets[0]); err != nil {
			return nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
		got[i] = Value{v.Name, t}
	}
	if Digest(meta, got) != meta[digestKey] {
		return nil, errors.New("its content is not what was written: it is damaged")
	}
	for i, v := range into {
		copy(v.Data, got[i].Data)
	}
	return meta, nil
}

// readHeader returns what a file says of itself, and where its data begins.
func readHeader(f io.Reader) (meta map[string]string, entries map[string]entry, data int64,
	err error) {
	var n uint64
	if err := binary.Read(f, binary.LittleEndian, &n); err != nil {
		return nil, nil, 0, err
	}
	if n > maxHeader {
		return nil, nil, 0, fmt.Errorf("a header of %d bytes", n)
	}
	var text bytes.Buffer
	if got, err := io.Copy(&text, io.LimitReader(f, int64(n))); err != nil || got != int64(n) {
		return nil, nil, 0, fmt.Errorf("a header of %d bytes of %d: %w", got, n, errOr(err))
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text.Bytes(), &all); err != nil {
		return nil, nil, 0, err
	}
	entries = map[string]entry{}
	for name, raw := range all {
		if name == metadata {
			err = json.Unmarshal(raw, &meta)
		} else {
			var e entry
			err = json.Unmarshal(raw, &e)
			entries[name] = e
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return meta, entries, int64(n) + 8, nil
}

func errOr(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}
