package cache

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"
)

// slowFile is a file that keeps what it is given, on a clock that each write of a huge page moves.
type slowFile struct {
	data  []byte
	sizes []int
	now   time.Time
	each  time.Duration
	fails int // the write that fails, 0 for none
}

func (f *slowFile) WriteAt(p []byte, at int64) (int, error) {
	if f.sizes = append(f.sizes, len(p)); len(f.sizes) == f.fails {
		return 0, errors.New("disk full")
	}
	if len(p) == hugePage {
		f.now = f.now.Add(f.each)
	}
	return copy(f.data[at:], p), nil
}

// TestWritePages writes in strokes of huge pages, until a few of them were dear.
func TestWritePages(t *testing.T) {
	const at = hugePage
	data := make([]byte, 6*hugePage+12345)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	for _, c := range []struct {
		each time.Duration
		want []int
	}{
		{time.Millisecond, []int{hugePage, hugePage, hugePage, hugePage, hugePage, hugePage,
			12345}},
		{2 * dearWrite, []int{hugePage, hugePage, hugePage, chunkBytes, chunkBytes, chunkBytes,
			chunkBytes, chunkBytes, chunkBytes, 12345}},
	} {
		f := &slowFile{data: make([]byte, at+len(data)), each: c.each}
		clock := func() time.Time { return f.now }
		if err := writePages(f, data, at, clock); err != nil || !bytes.Equal(f.data[at:], data) ||
			!slices.Equal(f.sizes, c.want) {
			t.Errorf("%v a page: error %v, wrote pieces of %v, want %v", c.each, err, f.sizes,
				c.want)
		}
		f = &slowFile{data: f.data, fails: 3}
		if err := writePages(f, data, at, clock); err == nil || len(f.sizes) != 3 {
			t.Errorf("a write that fails: error %v after %d writes", err, len(f.sizes))
		}
	}
}

// TestSections wants sections that fill a huge page to begin at one, and small entries to stay
// small.
func TestSections(t *testing.T) {
	for _, c := range []struct{ table, constants, weights uint64 }{
		{100, 0, 0}, {100, 1, 1}, {70000, 5000, hugePage - 1}, {100, 0, hugePage},
		{100, hugePage + 5, 3 * hugePage}, {100, hugePage, 7},
	} {
		s, ok := layOut(c.table, c.constants, c.weights)
		if !ok || s.constantsAt < int64(headBytes)+int64(c.table) ||
			s.weightsAt < s.constantsAt+int64(c.constants) ||
			s.size != s.weightsAt+int64(c.weights) {
			t.Errorf("%+v: %+v, %v", c, s, ok)
		}
		for _, part := range []struct {
			at int64
			n  uint64
		}{{s.constantsAt, c.constants}, {s.weightsAt, c.weights}} {
			if part.at%sectionAlign != 0 || part.n >= hugePage && part.at%hugePage != 0 {
				t.Errorf("%+v: %d bytes begin at %d", c, part.n, part.at)
			}
		}
		if c.constants < hugePage && c.weights < hugePage &&
			s.size > int64(c.table+c.constants+c.weights)+3*sectionAlign {
			t.Errorf("%+v: %d bytes", c, s.size)
		}
	}
	if _, ok := layOut(1<<62, 1<<62, 1); ok {
		t.Error("lays out more than there can be")
	}
}
