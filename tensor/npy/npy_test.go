package npy_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

func write(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := npy.Write(&b, x); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// file is a .npy file with the given version, header and data.
func file(major byte, header, data string) string {
	n := len(header)
	size := []byte{byte(n), byte(n >> 8)}
	if major >= 2 {
		size = append(size, byte(n>>16), byte(n>>24))
	}
	return "\x93NUMPY" + string([]byte{major, 0}) + string(size) + header + data
}

func TestRoundTrip(t *testing.T) {
	for _, x := range []*tensor.Tensor{
		tensor.From([]float32{1, -2.5, 3, 4, 5, 6}, 2, 3), tensor.From([]float64{1e300}),
		tensor.From([]int64{-1, 2}, 2),
		tensor.From([]int8{-1, 2}, 2, 1), tensor.From([]uint8{255}, 1, 1, 1),
		tensor.From([]int16{-300}, 1), tensor.From([]uint16{65535}, 1),
		tensor.From([]int32{-5}, 1), tensor.From([]uint32{5}, 1), tensor.From([]uint64{1 << 63}, 1),
		tensor.From([]bool{true, false}, 2),
		tensor.From([]tensor.Half{tensor.HalfOf(1.5)}, 1), tensor.From([]complex64{1 + 2i}, 1),
		tensor.From([]complex128{3 - 4i}, 1),
		tensor.From([]float32{}, 0, 3),
	} {
		data := write(t, x)
		if start := bytes.IndexByte(data, '\n') + 1; start%64 != 0 {
			t.Errorf("%v%v: data begins at byte %d, want a multiple of 64", x.DType, x.Shape, start)
		}
		got, err := npy.Read(bytes.NewReader(data))
		if err != nil || got.DType != x.DType || !slices.Equal(got.Shape, x.Shape) ||
			!bytes.Equal(got.Data, x.Data) {
			t.Errorf("%v%v became %v, %v", x.DType, x.Shape, got, err)
		}
	}
}

// TestKnownBytes holds the very bytes that numpy.save writes for numpy.array([[1, 2]],
// dtype=numpy.int16).
func TestKnownBytes(t *testing.T) {
	want := "\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }" +
		strings.Repeat(" ", 58) + "\n\x01\x00\x02\x00"
	if got := string(write(t, tensor.From([]int16{1, 2}, 1, 2))); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Every element type comes back as it was, those that NumPy does not know by ReadAs.
func TestReadAs(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ, tensor.Float8E5M2,
		tensor.Float8E5M2FNUZ, tensor.Float8E8M0,
		tensor.Float4E2M1, tensor.Int4, tensor.Uint4, tensor.Int2, tensor.Uint2} {
		codes := make([]uint8, 1<<d.Bits())
		for i := range codes {
			codes[i] = uint8(i)
		}
		x := tensor.FromCodes(d, codes, len(codes))
		got, err := npy.ReadAs(bytes.NewReader(write(t, x)), d)
		if err != nil || got.DType != d || tensor.Close(got, x, 0, 0) != nil {
			t.Errorf("%v became %v, %v", d, got, err)
		}
	}
	half := tensor.From([]tensor.BHalf{tensor.BHalfOf(1.5), 0x7f80, 0x7fc0}, 3)
	got, err := npy.ReadAs(bytes.NewReader(write(t, half)), tensor.BFloat16)
	if err != nil || tensor.Close(got, half, 0, 0) != nil {
		t.Errorf("bfloat16 became %v, %v", got, err)
	}
	for name, x := range map[string]*tensor.Tensor{"third": tensor.From([]float32{1, 1.0 / 3}, 2),
		"large": tensor.From([]float32{1e6}, 1)} {
		if got, err := npy.ReadAs(bytes.NewReader(write(t, x)),
			tensor.Float8E5M2); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := npy.ReadAs(bytes.NewReader(write(t, tensor.From([]int8{8}, 1))),
		tensor.Int4); !errors.Is(err, npy.ErrFormat) {
		t.Errorf("8 became %v, %v", got, err)
	}
	if got, err := npy.ReadAs(bytes.NewReader(write(t, tensor.From([]int64{8}, 1))),
		tensor.Int4); err != nil || got.DType != tensor.Int64 {
		t.Errorf("another type: %v, %v", got, err)
	}
}

// TestFortranOrder holds that the first axis varies fastest in a file that says so.
func TestFortranOrder(t *testing.T) {
	for descr, want := range map[string]*tensor.Tensor{
		"|u1": tensor.From([]byte("abcdef"), 2, 3),
		"|S1": tensor.FromStrings([]string{"a", "b", "c", "d", "e", "f"}, 2, 3),
	} {
		got, err := npy.Read(strings.NewReader(file(1,
			"{'descr': '"+descr+"', 'fortran_order': True, 'shape': (2, 3), }", "adbecf")))
		if err != nil || !tensor.Equal(got, want) {
			t.Errorf("%s: %v, %v", descr, got, err)
		}
	}
}

func TestText(t *testing.T) {
	x := tensor.FromStrings([]string{"a", "", "é\x00𝄞"}, 3, 1)
	data := write(t, x)
	if !bytes.Contains(data, []byte("'<U3'")) ||
		!bytes.HasSuffix(data, []byte("\xe9\x00\x00\x00\x00\x00\x00\x00\x1e\xd1\x01\x00")) {
		t.Errorf("wrote %q", data)
	}
	got, err := npy.Read(bytes.NewReader(data))
	if err != nil || !tensor.Equal(got, x) {
		t.Errorf("%v became %v, %v", x, got, err)
	}
	got, err = npy.Read(strings.NewReader(
		file(1, "{'descr': '|S3', 'fortran_order': False, 'shape': (2,), }", "ab\x00cde")))
	if err != nil || !slices.Equal(got.Strings, []string{"ab", "cde"}) {
		t.Errorf("bytes became %v, %v", got, err)
	}
	if got, err := npy.Read(bytes.NewReader(write(t, tensor.FromStrings(nil, 0, 2)))); err != nil ||
		!slices.Equal(got.Shape, []int{0, 2}) {
		t.Errorf("no strings became %v, %v", got, err)
	}
	for _, s := range []string{"\xff", "a\x00"} {
		if err := npy.Write(io.Discard,
			tensor.FromStrings([]string{s}, 1)); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if err := npy.Write(io.Discard, tensor.NewSequence()); !errors.Is(err, npy.ErrFormat) {
		t.Errorf("a sequence: %v", err)
	}
}

func TestReadForms(t *testing.T) {
	for name, text := range map[string]string{
		"version 2": file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n",
			"\x00\x00\x80?"),
		"version 3": file(3, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n",
			"\x00\x00\x80?"),
		"double quotes": file(1, `{"descr": "<f4", "fortran_order": False, "shape": (1,), }`,
			"\x00\x00\x80?"),
		"another order": file(1, "{'shape': (1,), 'fortran_order': False, 'descr': '=f4'}",
			"\x00\x00\x80?"),
		"fortran of one": file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }",
			"\x00\x00\x80?"),
		"more data after": file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
			"\x00\x00\x80?more"),
	} {
		x, err := npy.Read(strings.NewReader(text))
		if err != nil || x.DType != tensor.Float32 || !slices.Equal(x.Shape, []int{1}) ||
			tensor.As[float32](x)[0] != 1 {
			t.Errorf("%s: %v, %v", name, x, err)
		}
	}
	x, err := npy.Read(strings.NewReader(
		file(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\x00\x01\x07")))
	if err != nil || !slices.Equal(tensor.As[bool](x), []bool{false, true, true}) ||
		x.Data[2] != 1 {
		t.Errorf("booleans: %v, %v", x, err)
	}
	x, err = npy.Read(strings.NewReader(
		file(1, "{'descr': '>i1', 'fortran_order': False, 'shape': (), }", "\x05")))
	if err != nil || len(x.Shape) != 0 || x.Data[0] != 5 {
		t.Errorf("scalar of one byte: %v, %v", x, err)
	}
}

func TestReadRefuses(t *testing.T) {
	head := func(descr, fortran, shape string) string {
		return file(1, "{'descr': '"+descr+"', 'fortran_order': "+fortran+", 'shape': "+shape+", }",
			"12345678")
	}
	for name, text := range map[string]string{
		"empty": "", "not npy": "PK\x03\x04", "truncated magic": "\x93NUM",
		"no header": "\x93NUMPY\x01\x00", "short header": "\x93NUMPY\x01\x00\xff\x00{",
		"huge header": "\x93NUMPY\x02\x00\xff\xff\xff\xff",
		"big endian":  head(">f4", "False", "(2,)"), "objects": head("|O", "False", "(2,)"),
		"big-endian text":    head(">U1", "False", "(2,)"),
		"text without width": head("<U0", "False", "(1099511627776,)"),
		"no character":       head("<U1", "False", "(2,)"),
		"short text":         head("<U4", "False", "(2,)"),
		"long text":          head("<U2147483647", "False", "(4294967296,)"),
		"unknown size":       head("<f3", "False", "(2,)"),
		"short fortran":      head("<f4", "True", "(2, 2)"),
		"no order":           head("<f4", "Maybe", "(2,)"),
		"negative":           head("<f4", "False", "(-2,)"),
		"no shape":           head("<f4", "False", "2"),
		"short data":         head("<f8", "False", "(2,)"),
		"petabytes":          head("<f4", "False", "(1099511627776, 1024)"),
		"overflow":           head("<f4", "False", "(4294967296, 4294967296, 16)"),
		"huge numeral":       head("<f4", "False", "(99999999999999999999,)"),
		"structured": file(1,
			"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"),
	} {
		if x, err := npy.Read(strings.NewReader(text)); !errors.Is(err, npy.ErrFormat) {
			t.Errorf("%s: %v, %v", name, x, err)
		}
	}
}

// FuzzRead holds that foreign bytes never panic, and that what is read can be written and read
// again.
func FuzzRead(f *testing.F) {
	f.Add(write(f, tensor.From([]float32{1, 2}, 2)))
	f.Add(write(f, tensor.From([]bool{true}, 1)))
	f.Add([]byte(file(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n",
		"\x00\x00\x80?")))
	f.Add([]byte(file(1, "{'descr': '<c16', 'fortran_order': False, 'shape': (0, 1099511627776), }",
		"")))
	f.Add(write(f, tensor.FromStrings([]string{"a", "é"}, 2)))
	f.Add([]byte(file(1, "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }", "ab\xffc")))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := npy.Read(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, npy.ErrFormat) {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := npy.Write(&b, x); err != nil && x.DType == tensor.String &&
			errors.Is(err, npy.ErrFormat) {
			return // bytes that are no UTF-8 can only be read
		}
		again, err := npy.Read(&b)
		if err != nil || again.DType != x.DType || !slices.Equal(again.Shape, x.Shape) ||
			!bytes.Equal(again.Data, x.Data) ||
			!slices.Equal(again.Strings, x.Strings) {
			t.Fatalf("%v%v became %v, %v", x.DType, x.Shape, again, err)
		}
	})
}
