package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// ErrData is the kind of error about data that cannot be trained on.
var ErrData = errors.New("unusable data")

// Read reads a file of samples. What it is shows by its name: .npy, .csv, or else IDX, each with
// .gz behind it or not.
func Read(path string) (t *tensor.Tensor, err error) {
	err = unpacked(path, func(from io.Reader, name string) error {
		t, err = decode(from, name)
		if err == nil {
			err = ends(from)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(t.Shape) == 0 {
		return nil, fmt.Errorf("%s: %w: one number, not samples along a first axis", path, ErrData)
	}
	return t, nil
}

// unpacked reads a file, packed by gzip where its name ends so; name is that of what is in it. What
// read refuses becomes of kind [ErrData], with the file.
func unpacked(path string, read func(from io.Reader, name string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var from io.Reader = bufio.NewReader(f)
	name, packed := strings.CutSuffix(path, ".gz")
	if packed {
		if from, err = gzip.NewReader(from); err != nil {
			return fmt.Errorf("%s: %w: %w", path, ErrData, err)
		}
	}
	if err := read(from, name); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrData, err)
	}
	return nil
}

// ends reads the end of a file, with the checksum of a packed one, and refuses what is behind it.
func ends(from io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(from, 1))
	if err == nil && n > 0 {
		err = errors.New("the file goes on behind its samples")
	}
	return err
}

// decode reads what a name says.
func decode(from io.Reader, name string) (*tensor.Tensor, error) {
	switch {
	case strings.HasSuffix(name, ".npy"):
		return npy.Read(from)
	case strings.HasSuffix(name, ".csv"):
		return table(from)
	}
	return idx(from)
}

// idxTypes are the element types of IDX files by their codes, and the bytes of each.
var idxTypes = map[byte]tensor.DType{8: tensor.Uint8, 9: tensor.Int8, 0xb: tensor.Int16,
	0xc: tensor.Int32, 0xd: tensor.Float32, 0xe: tensor.Float64}

// idx reads LeCun's format: two zeros, a type, the number of axes, their lengths, and the elements,
// all with the highest byte first.
func idx(from io.Reader) (*tensor.Tensor, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, fmt.Errorf("no IDX header: %w", err)
	}
	d, ok := idxTypes[head[2]]
	if head[0] != 0 || head[1] != 0 || !ok || head[3] == 0 || head[3] > 8 {
		return nil, fmt.Errorf("no IDX header: %x; name .npy and .csv files so", head)
	}
	shape := make([]int, head[3])
	for i := range shape {
		var n [4]byte
		if _, err := io.ReadFull(from, n[:]); err != nil {
			return nil, fmt.Errorf("IDX header: %w", err)
		}
		shape[i] = int(binary.BigEndian.Uint32(n[:]))
	}
	size, err := tensor.ByteCount(d, shape)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer // grows with what is there, whatever the header says
	got, err := io.Copy(&b, io.LimitReader(from, int64(size)))
	if err != nil {
		return nil, err
	}
	if got != int64(size) {
		return nil, fmt.Errorf("%v needs %d bytes, the file has %d", shape, size, got)
	}
	swap(b.Bytes(), d.Size())
	t, err := tensor.New(d, shape...)
	if err != nil {
		return nil, err
	}
	copy(t.Data, b.Bytes())
	return t, nil
}

// swap puts the lowest byte of each element first.
func swap(b []byte, size int) {
	for ; size > 1 && len(b) >= size; b = b[size:] {
		for i := range size / 2 {
			b[i], b[size-1-i] = b[size-1-i], b[i]
		}
	}
}

// maxLine bounds a sample of a table.
const maxLine = 16 << 20

// table reads numbers with commas between, a sample a line; a first line that is no numbers names
// the columns. One column is a vector.
func table(from io.Reader) (*tensor.Tensor, error) {
	s := bufio.NewScanner(from)
	s.Buffer(nil, maxLine)
	var values []float64 // which hold whole numbers that float32 does not
	columns, rows := 0, 0
	for line := 1; s.Scan(); line++ {
		text := strings.TrimSpace(s.Text())
		if text == "" {
			continue
		}
		row, err := numbers(text)
		switch {
		case err != nil && rows == 0 && line == 1:
			continue
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		case rows > 0 && len(row) != columns:
			return nil, fmt.Errorf("line %d: %d columns, those before it have %d", line, len(row),
				columns)
		}
		columns = len(row)
		values = append(values, row...)
		rows++
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("the line after %d samples has more than %d bytes", rows, maxLine)
	} else if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, errors.New("no line of numbers")
	}
	if columns == 1 {
		return tensor.From(values, rows), nil
	}
	return tensor.From(values, rows, columns), nil
}

func numbers(line string) ([]float64, error) {
	fields := strings.Split(line, ",")
	out := make([]float64, len(fields))
	for i, f := range fields {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil || !(math.Abs(v) <= math.MaxFloat32) {
			return nil, fmt.Errorf("column %d: %q is no number", i+1, f)
		}
		out[i] = v
	}
	return out, nil
}
