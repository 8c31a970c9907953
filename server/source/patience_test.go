package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// trip is a transport.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// dripping brings so many bytes each second, until its request ends.
type dripping struct {
	ctx  context.Context
	each int
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	case <-time.After(time.Second):
		return min(d.each, len(p)), nil
	}
}

func (d *dripping) Close() error { return nil }

// TestPatience: any body that does not come on is given up, a slow one is not.
func TestPatience(t *testing.T) {
	for each, want := range map[int]error{0: errStalled, 1: errStalled, 4 << 10: nil} {
		synctest.Test(t, func(t *testing.T) {
			p := &patient{trip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{Body: &dripping{r.Context(), each}}, nil
			})}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := p.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			_, err = io.CopyN(io.Discard, answer.Body, 1<<20)
			took := time.Since(begun)
			if !errors.Is(err, want) || want != nil && took != stall {
				t.Errorf("%d bytes a second: %v after %v", each, err, took)
			}
			_ = answer.Body.Close()
		})
	}
}

// TestStalledBody: that a request ends whose body does not come on is said with why.
func TestStalledBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&patient{(&Reach{Host: "127.0.0.1"}).Transport()}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	answer.Body.(*steady).timer.Reset(0) // as if it were time
	if _, err := io.ReadAll(answer.Body); !errors.Is(err, errStalled) {
		t.Error(err)
	}
}

// TestAgain: what a moment may mend is asked again, and no host is waited for twice.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		status int
		err    error
		again  bool
	}{
		{503, nil, true},
		{429, nil, true},
		{404, nil, false},
		{0, syscall.ECONNRESET, true},
		{0, os.ErrDeadlineExceeded, false},
	} {
		var answer *http.Response
		if c.err == nil {
			answer = &http.Response{StatusCode: c.status,
				Header: http.Header{"Retry-After": {"86400"}}}
		}
		wait, _ := again.Retry(0, answer, c.err)
		if (wait >= 0) != c.again || wait > 3*time.Second {
			t.Errorf("%d, %v: again after %v", c.status, c.err, wait)
		}
	}
}

// TestListsWithoutEnd: a place whose list goes on and on is given up.
func TestListsWithoutEnd(t *testing.T) {
	pages := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages++
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			w.Header().Set("Link", fmt.Sprintf("</v2/team/net/tags/list?last=%d>; rel=next", pages))
			_ = json.NewEncoder(w).Encode(map[string]any{"tags": []string{"beta"}})
			return
		}
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d"+
			"</NextContinuationToken></ListBucketResult>", pages)
	}))
	defer s.Close()
	for _, address := range []string{"s3://shelf", "oci://" + s.Listener.Addr().String() +
		"/team/net"} {
		pages = 0
		r, err := Parse(address, func(name string) string {
			return map[string]string{"AWS_ENDPOINT_URL": s.URL}[name]
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := r.Names(ctx); err == nil || ctx.Err() != nil || pages != mostPages {
			t.Errorf("%s: %v after %d pages", address, err, pages)
		}
		cancel()
	}
}

// TestRightsUnsaid: where a registry sends to a store with the right to read, that right is in no
// error, whatever the store answers.
func TestRightsUnsaid(t *testing.T) {
	g := newShelves()
	g.push("1", map[string]string{"model.onnx": "one"}, nil)
	for name, store := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.Close()
			}
		},
	} {
		s := httptest.NewServer(store)
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, s.URL+"/x?X-Amz-Signature=secret&more=secret",
					http.StatusTemporaryRedirect)
				return
			}
			g.ServeHTTP(w, r)
		}))
		r, err := Parse("oci://"+front.Listener.Addr().String()+"/team/net:1", nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Files(t.Context(), "net")
		if err != nil {
			t.Fatal(err)
		}
		_, err = read(t.Context(), r, &list[0])
		if err == nil || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), s.URL) {
			t.Errorf("%s: %v", name, err)
		}
		front.Close()
		s.Close()
	}
}

// TestCompressed: what is kept compressed is brought as it is kept, with the length that it has.
func TestCompressed(t *testing.T) {
	g := newShelves()
	g.push("1", map[string]string{"model.onnx": "one"}, nil)
	b := &bucket{files: files()}
	b.before = func(w http.ResponseWriter, _ string) bool {
		w.Header().Set("Content-Encoding", "gzip") // as its metadata have it
		return false
	}
	if err := mirror(t, t.TempDir(), shelf(t, b)).Bring(t.Context(), ""); err != nil {
		t.Error(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s may come compressed", r.URL)
		}
		g.ServeHTTP(w, r)
	}))
	defer s.Close()
	r, err := Parse("oci://"+s.Listener.Addr().String()+"/team/net", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := mirror(t, t.TempDir(), r).Bring(t.Context(), ""); err != nil {
		t.Error(err)
	}
}
