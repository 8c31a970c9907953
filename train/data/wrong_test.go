package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
)

// idxFile is an IDX file of a type by its code, with the lengths of its axes.
func idxFile(code byte, axes []byte, data string) string {
	b := []byte{0, 0, code, byte(len(axes))}
	for _, n := range axes {
		b = append(b, 0, 0, 0, n)
	}
	return string(b) + data
}

// write makes a file and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// packed is content as gzip packs it.
func packed(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(content))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReadWrong: what is wrong with a file is said with its name, and the line of a table.
func TestReadWrong(t *testing.T) {
	ones := packed(t, idxFile(8, []byte{200}, strings.Repeat("1", 200)))
	damaged := []byte(ones)
	damaged[len(damaged)-8] ^= 1 // in the checksum
	for _, c := range []struct{ name, content, want string }{
		{"a.csv", "x,y\n1,2\n1,z\n", `line 3: column 2: "z" is no number`},
		{"a.csv", "1,2\n\n1,NaN\n", `line 3: column 2: "NaN" is no number`},
		{"a.csv", "1\n1e39\n", `line 2: column 1: "1e39" is no number`},
		{"a.csv", "1,2\n1,2,3\n", "line 2: 3 columns, those before it have 2"},
		{"a.csv", "x,y\n", "no line of numbers"},
		{"a.csv", "1\n" + strings.Repeat("7", 17<<20),
			"the line after 1 samples has more than"},
		{"a", "", "no IDX header"},
		{"a", "\x00\x00\x07\x01", "no IDX header"},
		{"a", "\x01\x00\x08\x01", "no IDX header"},
		{"a", idxFile(8, nil, ""), "no IDX header"},
		{"a", "\x00\x00\x08\x02\x00\x00\x00\x01", "IDX header: EOF"},
		{"a", idxFile(8, []byte{2, 2}, "123"), "[2 2] needs 4 bytes, the file has 3"},
		{"a", idxFile(8, []byte{2, 2}, "12345"), "goes on behind"},
		{"a", "\x00\x00\x0e\x02\xff\xff\xff\xff\xff\xff\xff\xff", "a"},
		{"a", "\x00\x00\x08\x02\xff\xff\xff\xff\x00\x00\x10\x00", "the file has 0"},
		{"a.gz", "1", "EOF"},
		{"a.gz", ones[:len(ones)-9], "EOF"},
		{"a.gz", string(damaged), "checksum"},
	} {
		path := write(t, c.name, c.content)
		_, err := Read(path)
		if !errors.Is(err, ErrData) || !strings.HasPrefix(err.Error(), path+": ") ||
			!strings.Contains(strings.TrimPrefix(err.Error(), path), c.want) {
			t.Errorf("%s of %.30q: %v, want %q", c.name, c.content, err, c.want)
		}
	}
	var one bytes.Buffer
	if err := npy.Write(&one, tensor.Scalar(float32(1))); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(write(t, "a.npy", one.String())); !errors.Is(err, ErrData) {
		t.Errorf("a number without an axis: %v", err)
	}
}

// TestColumnWrong: samples that a model cannot take are refused with the number of the first.
func TestColumnWrong(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		of   *tensor.Tensor
		d    tensor.DType
		want string
	}{
		{tensor.From([]float32{1, 2, 3, nan}, 2, 2), tensor.Float32, "sample 1 holds NaN"},
		{tensor.From([]float32{1, 2, inf, 4}, 2, 2), tensor.Float32, "sample 1 holds -Inf"},
		{tensor.From([]float64{1, 1e39, 3, 4}, 2, 2), tensor.Float32, "sample 0 holds 1e+39"},
		{tensor.From([]float32{1, 2, 3, 4.5}, 2, 2), tensor.Int64, "sample 1 holds 4.5, want"},
		{tensor.From([]float32{1, 2, nan, 4}, 2, 2), tensor.Int64, "sample 1 holds NaN, want"},
		{tensor.From([]float64{1, 2, 1e30, 4}, 2, 2), tensor.Int64, "sample 1 holds 1e+30"},
		{tensor.From([]float64{1, 2, 1 << 53, 4}, 2, 2), tensor.Int64, "a whole number below 2^53"},
		{tensor.From([]float64{1, 2, 3, -1 << 63}, 2, 2), tensor.Int64, "sample 1 holds -9.22"},
		{tensor.From([]int64{1, 2, 3, 1 << 31}, 2, 2), tensor.Int32, "sample 1 holds 2147483648"},
		{tensor.From([]int64{1, 2, 3, 4, 5, 6}, 2, 3), tensor.Float32,
			"a sample has 3 elements, the model takes 2"},
		{tensor.From([]int64{1, 2, 3, 4}, 2, 2), tensor.Float16, "the model takes float16"},
	} {
		if _, err := NewColumn(c.of, c.d, 2, 1); !errors.Is(err, ErrData) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.of, err, c.want)
		}
	}
	for _, wrong := range []int64{-1, 3} {
		c, err := NewColumn(tensor.From([]int64{0, 2, wrong}, 3), tensor.Int64, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Within(3); !errors.Is(err, ErrData) ||
			!strings.Contains(err.Error(), "sample 2 is of class ") {
			t.Errorf("class %d: %v", wrong, err)
		}
		if err := c.Within(4); (err == nil) != (wrong == 3) {
			t.Errorf("class %d of 4: %v", wrong, err)
		}
	}
}

// TestTableWhole: whole numbers of a table are those that it says, or are refused.
func TestTableWhole(t *testing.T) {
	v, err := table(strings.NewReader("id\n16777217\n-9007199254740991\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewColumn(v, tensor.Int64, 1, 1)
	if err != nil || c.ints[0] != 1<<24+1 || c.ints[1] != 1-1<<53 {
		t.Errorf("%v, %v", c.ints, err)
	}
	if v, err = table(strings.NewReader("9007199254740993\n")); err != nil {
		t.Fatal(err)
	}
	if c, err := NewColumn(v, tensor.Int64, 1, 1); !errors.Is(err, ErrData) {
		t.Errorf("%v, %v", c.ints, err)
	}
}

// FuzzIDX: an IDX file is refused, or holds what its header says.
func FuzzIDX(f *testing.F) {
	f.Add([]byte(idxFile(8, []byte{2, 2}, "1234")))
	f.Add([]byte(idxFile(0xe, []byte{1}, "12345678")))
	f.Add([]byte(idxFile(0xb, []byte{1, 0, 3}, "")))
	f.Add([]byte("\x00\x00\x08\x02\xff\xff\xff\xff\x00\x00\x10\x00"))
	f.Add([]byte("\x00\x00\x0e\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := idx(bytes.NewReader(b))
		if err != nil {
			return
		}
		head := 4 + 4*len(v.Shape)
		if len(v.Shape) != int(b[3]) || v.Len()*v.DType.Size() != len(v.Data) ||
			len(b) < head+len(v.Data) {
			t.Fatalf("%v of %d bytes", v, len(b))
		}
		data := slices.Clone(v.Data)
		swap(data, v.DType.Size())
		if !bytes.Equal(data, b[head:head+len(data)]) {
			t.Errorf("%x became %x", b, v.Data)
		}
	})
}

// FuzzTable: a table is refused, or holds finite numbers, as many on each line.
func FuzzTable(f *testing.F) {
	for _, s := range []string{"x,y\n1,2\n", "1\n\n2", "1,2\n3\n", "1,,2", "0x1p-3,-0", "1e999",
		"nan\ninf\n", "\xef\xbb\xbf1,2\n3,4", "1_0\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := table(bytes.NewReader(b))
		if err != nil {
			return
		}
		lines := bytes.Count(b, []byte("\n")) + 1
		if n := v.Shape[0]; n < 1 || n > lines || v.Len()%n != 0 ||
			v.Len() > bytes.Count(b, []byte(","))+lines {
			t.Fatalf("%v of %q", v, b)
		}
		for _, x := range tensor.As[float64](v) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Errorf("%v of %q", x, b)
			}
		}
	})
}
