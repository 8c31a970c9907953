package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirgpu/weir/tensor"
)

// textWidth is the size of a fixed-width element of text: n characters of 4 bytes (NumPy's U) or of
// one (S).
type textWidth struct {
	n    int
	char int
}

func textOf(order, kind, digits string) (textWidth, bool) {
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n < 1 || n > math.MaxInt32:
		// an array of text without a width would have elements without data
		return textWidth{}, false
	case kind == "U" && order != ">":
		return textWidth{n, 4}, true
	case kind == "S":
		return textWidth{n, 1}, true
	}
	return textWidth{}, false
}

// readText reads elements of text. What pads an element is not part of it: zero characters at the
// end.
func readText(r io.Reader, width textWidth, shape []int) (*tensor.Tensor, error) {
	size := width.n * width.char
	count, err := tensor.Count(shape)
	if err != nil || count > math.MaxInt/size {
		return nil, fmt.Errorf("%w: %v elements of %d bytes", ErrFormat, shape, size)
	}
	data, err := read(r, count*size)
	if err != nil {
		return nil, fmt.Errorf("text%v: %w", shape, err)
	}
	t := &tensor.Tensor{DType: tensor.String, Shape: shape, Strings: make([]string, count)}
	for i := range t.Strings {
		if t.Strings[i], err = width.text(data[i*size : (i+1)*size]); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return t, nil
}

func (w textWidth) text(b []byte) (string, error) {
	if w.char == 1 {
		return strings.TrimRight(string(b), "\x00"), nil
	}
	var out []byte
	for ; len(b) > 0; b = b[4:] {
		c := binary.LittleEndian.Uint32(b)
		if c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
			return "", fmt.Errorf("%w: %#x is no character", ErrFormat, c)
		}
		out = utf8.AppendRune(out, rune(c))
	}
	return strings.TrimRight(string(out), "\x00"), nil
}

// unicode returns NumPy's type and data of strings, all as wide as the longest.
func unicode(all []string) (descr string, data []byte, err error) {
	width := 1
	for i, s := range all {
		if !utf8.ValidString(s) || strings.HasSuffix(s, "\x00") {
			return "", nil, fmt.Errorf("%w: element %d, %q, has no .npy form", ErrFormat, i, s)
		}
		width = max(width, utf8.RuneCountInString(s))
	}
	if int64(len(all)) > maxText/(4*int64(width)) {
		return "", nil, fmt.Errorf("%w: %d strings as wide as the longest, %d characters, take "+
			"more than %d bytes", ErrFormat, len(all), width, int64(maxText))
	}
	data = make([]byte, 4*width*len(all))
	for i, s := range all {
		at := data[4*width*i:]
		for k, c := range []rune(s) {
			binary.LittleEndian.PutUint32(at[4*k:], uint32(c))
		}
	}
	return fmt.Sprintf("<U%d", width), data, nil
}

// maxText bounds the file that one long string among many makes.
const maxText = 1 << 32
