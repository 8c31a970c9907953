package digits

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// npyMagic opens a NumPy array file of format version 1.0
// (numpy.lib.format, "Format Version 1.0").
const npyMagic = "\x93NUMPY\x01\x00"

// npyHeader matches the header that numpy.save writes: a Python dictionary with its keys in this
// order.
var npyHeader = regexp.MustCompile(
	`^\{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n$`)

// readNPY returns the elements of a .npy file, as a view of it, and their shape. The file must hold
// elements of type descr, of size bytes each, in C order; anything else is ErrFormat.
func readNPY(file []byte, descr string, size int) (data []byte, shape []int, err error) {
	prefix := len(npyMagic) + 2
	if len(file) < prefix || string(file[:len(npyMagic)]) != npyMagic {
		return nil, nil, fmt.Errorf("no version 1.0 header: %w", ErrFormat)
	}
	end := prefix + int(binary.LittleEndian.Uint16(file[len(npyMagic):]))
	if end > len(file) {
		return nil, nil, fmt.Errorf("header ends at byte %d of %d: %w", end, len(file), ErrFormat)
	}
	fields := npyHeader.FindSubmatch(file[prefix:end])
	if fields == nil {
		return nil, nil, fmt.Errorf("header %q: %w", file[prefix:end], ErrFormat)
	}
	if string(fields[1]) != descr {
		return nil, nil, fmt.Errorf("elements %q, want %q: %w", fields[1], descr, ErrFormat)
	}
	shape, want, err := parseShape(string(fields[2]), size)
	if err != nil {
		return nil, nil, err
	}
	if data = file[end:]; len(data) != want {
		return nil, nil, fmt.Errorf("shape %v wants %d bytes, file has %d: %w", shape, want,
			len(data), ErrFormat)
	}
	return data, shape, nil
}

// parseShape reads the inside of a Python tuple of integers and returns it with the bytes that so
// many elements of size bytes take.
func parseShape(tuple string, size int) (shape []int, bytes int, err error) {
	bytes = size
	for _, text := range strings.Split(tuple, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || (n > 0 && bytes > math.MaxInt32/n) {
			return nil, 0, fmt.Errorf("shape (%s): %w", tuple, ErrFormat)
		}
		shape = append(shape, n)
		bytes *= n
	}
	return shape, bytes, nil
}
