package web_test

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/web"
)

// TestFiles: each file is there under its type, is not sent again unless it has changed, and no
// other page can do anything with it.
func TestFiles(t *testing.T) {
	p := web.New(served("a"), web.Options{})
	defer p.Close()
	mux := http.NewServeMux()
	for pattern, h := range p.Routes() {
		mux.Handle(pattern, h)
	}
	get := func(path, tag string) *http.Response {
		q := httptest.NewRequest("GET", path, nil)
		q.Header.Set("If-None-Match", tag)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, q)
		return w.Result()
	}
	entries, err := fs.ReadDir(os.DirFS("."), "assets")
	if err != nil || len(entries) < 10 {
		t.Fatalf("%d files: %v", len(entries), err)
	}
	total := 0
	for _, e := range entries {
		path := "/assets/" + e.Name()
		if e.Name() == "index.html" {
			path = "/"
		}
		r := get(path, "")
		body, _ := io.ReadAll(r.Body)
		total += len(body)
		h := r.Header
		if r.StatusCode != 200 || len(body) == 0 || h.Get("Content-Type") == "" ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s, %v", path, r.Status, h)
		}
		for _, want := range []string{"default-src 'none'", "script-src 'self';",
			"style-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), want) {
				t.Errorf("%s: the policy has no %s", path, want)
			}
		}
		if r := get(path, h.Get("ETag")); r.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %s", path, r.Status)
		}
	}
	if most := 150 << 10; total > most {
		t.Errorf("the page has %d bytes, at most %d", total, most)
	}
	if r := get("/assets/index.html", ""); r.StatusCode != 404 {
		t.Errorf("there are two of the page: %s", r.Status)
	}
}

// TestRoutesHaveRows: each endpoint says in the table of rights what it needs, and what changes
// something is recorded.
func TestRoutesHaveRows(t *testing.T) {
	p := web.New(served("a"), web.Options{})
	defer p.Close()
	for pattern := range p.Routes() {
		at := slices.IndexFunc(auth.Endpoints, func(e auth.Endpoint) bool {
			return slices.Contains(e.HTTP, pattern)
		})
		if at < 0 {
			t.Errorf("%s has no row in auth.Endpoints", pattern)
			continue
		}
		if e := auth.Endpoints[at]; e.Changes != strings.HasPrefix(pattern, "POST ") {
			t.Errorf("%s: a change is %v", pattern, e.Changes)
		}
	}
}

// TestFilesAlone: the page refers to nothing outside of it, and what it refers to is there.
func TestFilesAlone(t *testing.T) {
	files := os.DirFS("assets")
	names, err := fs.Glob(files, "*")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"base.css": true}
	for _, n := range names {
		there[n] = true
	}
	refers := regexp.MustCompile(`(?:from "\./|(?:href|src)="assets/)([^"]+)"`)
	for _, n := range names {
		text, err := fs.ReadFile(files, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range refers.FindAllStringSubmatch(string(text), -1) {
			if !there[m[1]] {
				t.Errorf("%s refers to %s", n, m[1])
			}
		}
		outside := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"http:", "https:", "innerHTML", "eval(", " style=\"",
			"onclick=\""} {
			if strings.Contains(outside, bad) {
				t.Errorf("%s has %s", n, bad)
			}
		}
	}
}

// TestGraphs: few graphs are drawn at once, since a model is read for each, and who has asked for
// another waits; of a model without a file in plain it is said that there is none, and not where.
func TestGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		at := open(t, served("a"), web.Options{Graphs: func(context.Context, string, string) (
			*graph.Graph, func() error, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil, nil, &fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrNotExist}
		}}, nil)
		began := time.Now()
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				var got struct{ Error string }
				if code := at.ask("GET", "/v1/models/a/graph", "", &got); code != 404 ||
					!strings.Contains(got.Error, "model a has no file in plain") ||
					strings.Contains(got.Error, "/secret") {
					t.Errorf("%d, %s", code, got.Error)
				}
			})
		}
		all.Wait()
		if n, took := most.Load(), time.Since(began); n != 2 || took != 3*time.Second {
			t.Errorf("%d at once, in %v", n, took)
		}
	})
}
