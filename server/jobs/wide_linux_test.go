package jobs

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/store"
)

// headed is a .npz file whose array x has a header of its own and so many zeros, compressed.
func headed(t *testing.T, descr, shape string, zeros int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	w, err := z.Create("x" + suffix)
	if err != nil {
		t.Fatal(err)
	}
	head := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }"
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n"
	_, err = io.WriteString(w, "\x93NUMPY\x01\x00"+string([]byte{byte(len(head)),
		byte(len(head) >> 8)})+head)
	for chunk := make([]byte, 1<<20); zeros > 0 && err == nil; zeros -= int64(len(chunk)) {
		_, err = w.Write(chunk[:min(int64(len(chunk)), zeros)])
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestWideRows: a row has bounded memory, however small it was packed, and there is no end of rows
// that have none.
func TestWideRows(t *testing.T) {
	p := begin(t, t.TempDir(), Options{}, server.Source{Name: "wide", Version: 1,
		Open: func() (*weir.Model, error) {
			return model(`graph "wide" {
			  opset "" 17
			  input %x: float32[N,M]
			  %y: float32[N,M] = Neg@13 (%x)
			  output %y
			}`)
		}})
	for _, c := range []struct {
		descr, shape string
		zeros        int64
		says         string
	}{
		{"<f4", "(2, 33554432)", 256 << 20, "a row of the file has 134217728 bytes"},
		{"<f4", "(4611686018427387904, 0)", 0, "a row of the file has 0 bytes"},
		{"<U0", "(4611686018427387904, 2)", 0, "<U0"},
		{"<f4", "(4611686018427387904, 4)", 0, "too large"},
	} {
		_, _, err := p.jobs.Make(t.Context(), Asked{Key: c.shape, Model: "wide", Size: -1},
			bytes.NewReader(headed(t, c.descr, c.shape, c.zeros)))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.shape, err)
		}
	}
}

// TestLongFile: a file of which nobody said how long it is ends where files do.
func TestLongFile(t *testing.T) {
	p := begin(t, t.TempDir(), Options{Input: 1000}, models("digits")...)
	_, _, err := p.jobs.Make(t.Context(), Asked{Key: "a", Model: "digits", Size: -1},
		bytes.NewReader(make([]byte, 1001)))
	if oip.KindOf(err) != oip.TooLarge {
		t.Error(err)
	}
}

// TestReserveWhileSent: a file of which nobody said how long it is leaves as much of the disk free
// as is to be left.
func TestReserveWhileSent(t *testing.T) {
	dir := smallDisk(t, "32m")
	p := begin(t, dir, Options{Reserve: 16 << 20}, models("digits")...)
	defer p.end(t)
	least := int64(1 << 62)
	file := readerFunc(func(b []byte) (int, error) {
		left, err := store.Free(dir)
		least = min(least, left)
		if err == nil && left < 4<<20 {
			err = io.EOF
		}
		return len(b), err
	})
	_, _, err := p.jobs.Make(t.Context(), Asked{Key: "a", Model: "digits", Size: -1}, file)
	if !errors.Is(err, store.ErrFull) || least < 12<<20 {
		t.Errorf("%d bytes were left: %v", least, err)
	}
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
