package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"testing/iotest"
)

// BenchmarkInfer is a request in process, as HTTP's handler takes it, for a picture as bytes.
func BenchmarkInfer(b *testing.B) {
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.LoadAll(b.Context(), []Source{digitsSource()}); err != nil {
		b.Fatal(err)
	}
	raw := make([]byte, 4*64)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "http://localhost"+inferPath, bytes.NewReader(raw))
		r.Header.Set(headerLength, "0")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusOK {
			body, _ := io.ReadAll(w.Body)
			b.Fatalf("%d %s", w.Code, body)
		}
	}
}

// TestCollectorRests: a server has the collector run no sooner than once as much as its ballast was
// allocated.
func TestCollectorRests(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// the smallest heap that is collected has some megabytes without it
	if m.NextGC < 2*ballast {
		t.Errorf("the next run is at %d bytes, with a ballast of %d", m.NextGC, ballast)
	}
}

// TestRequestsAllocateLittle: a request takes few pieces of memory, which are the collector's work.
func TestRequestsAllocateLittle(t *testing.T) {
	if !pools {
		t.Skip("the race detector allocates, too")
	}
	s := begin(t, Options{}, digitsSource())
	raw := make([]byte, 4*64)
	header := `{"inputs":[{"name":"image","shape":[1,1,8,8],"datatype":"FP32","parameters":` +
		`{"binary_data_size":256}}],"parameters":{"binary_data_output":true}}`
	body := append([]byte(header), raw...)
	asked := func(h http.Handler) float64 {
		return testing.AllocsPerRun(200, func() {
			// the last of a body comes with its end, as net/http has it
			r := httptest.NewRequest("POST", "http://localhost"+inferPath,
				iotest.DataErrReader(bytes.NewReader(body)))
			r.ContentLength = int64(len(body))
			r.Header.Set(headerLength, strconv.Itoa(len(header)))
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		})
	}
	nothing := asked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(raw)
	}))
	const most = 36
	if n := asked(s) - nothing; n > most {
		t.Errorf("%.0f allocations a request beyond those of a server that does nothing, and at "+
			"most %d are allowed", n, most)
	}
}
