package server

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
)

// TestCompressed: answers that are compressed are whole, also many at a time and after clients that
// were gone, and what compresses them is used again.
func TestCompressed(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	raw := make([]byte, 4*64*flight/40) // of whose answer more than flight bytes are numbers
	raw = append(raw, raw[:4*64]...)
	ask := func(encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://localhost"+inferPath, bytes.NewReader(raw))
		r.Header.Set(headerLength, "0")
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	want := ask("").Body.Bytes()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				z, err := gzip.NewReader(ask("gzip").Body)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%q, %v", got, err)
				}
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Accept-Encoding", "gzip")
				send(gone{httptest.NewRecorder()}, r, want)
			}
		})
	}
	all.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 100
	for range n {
		ask("gzip")
		ask("deflate")
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / (2 * n); pools && each > 500_000 {
		t.Errorf("an answer takes %d bytes of memory", each)
	}
}

// TestShortAnswersAsTheyAre: an answer that comes at once is not compressed for a client that asks
// for it, and the next longer one is.
func TestShortAnswersAsTheyAre(t *testing.T) {
	for n, want := range map[int]string{1: "", flight: "", flight + 1: "gzip"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		if sent := send(w, r, make([]byte, n)); sent != int64(w.Body.Len()) {
			t.Errorf("%d bytes: %d sent, %d came", n, sent, w.Body.Len())
		}
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("%d bytes: encoding %q, want %q", n, got, want)
		}
		if want == "" && w.Body.Len() != n {
			t.Errorf("%d bytes: %d came", n, w.Body.Len())
		}
	}
}

// gone is a client that reads nothing.
type gone struct{ *httptest.ResponseRecorder }

// Write implements io.Writer.
func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
