package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
)

// said is what a server writes to its log.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// errors are the lines of level error.
func (s *said) errors() (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return lines
}

// odd are bodies that are wrong, or right for another endpoint, and oddNames what may stand in a
// path.
var (
	odd = []string{"", "{}", "[]", "null", "0", `""`, `{"":1}`, `{"":{}}`, `{`,
		"\x00\xff", "PK\x03\x04", `{"policy":""}`, `{"policy":"priority"}`, `{"policy":7}`,
		`{"class":"x"}`, `{"class":"latency",` +
			`"compute":1e300,"limit":-1,"memory_bytes":9223372036854775807}`,
		`{"compute":-1}`, `{"compute":1e999}`, `{"memory_bytes":-9223372036854775808}`,
		`{"limit":0}`,
		`{"memory_bytes":1}`, `{"inputs":{"image":[1]}}`, `{"inputs":{"":[]}}`, `{"inputs":null}`,
		`{"inputs":[{"name":"image","datatype":"FP32","shape":[1,1,8,8],"data":[1]}]}`,
		`{"name":"","grants":[{"rights":"read","models":"["}]}`, `{"name":"ann"}`,
		`{"name":"ann","weight":-1}`, `{"name":"` + strings.Repeat("n", 9999) + `"}`,
		`{"account":"ann","name":"x","expires":"-1h"}`, `{"account":"ann","name":"x"}`,
		`{"rights":"admin","models":"*"}`, `{"parameters":{"":""}}`,
		`{"parameters":{"config":"{}","file:1/model.onnx":"AAAA"}}`,
		`{"parameters":{"unload_dependents":true}}`, `{"key":"/x","byte_size":-1}`,
		strings.Repeat("[", 200), strings.Repeat(`{"a":`, 9999), `{"trace_level":[null]}`,
		`{"log_verbose_level":-9223372036854775808}`, `{"id":"a"}{"id":"b"}`,
	}
	oddNames = []string{"digits", "none", "..", "%00", "%2e%2e%2f", "7", "-1",
		strings.Repeat("n", 300), "ann", "admin"}
	oddQueries = []string{"", "?model=digits&version=1&name=x", "?model=..&version=-1",
		"?" + strings.Repeat("a=b&", 99), "?limit=-1&after=x", "?;=%zz"}
)

// TestEndpointsTakeAnything: whatever is asked of any endpoint that weir up has, no answer is that
// the server is at fault, and nothing panics; with accounts and without.
func TestEndpointsTakeAnything(t *testing.T) {
	for name, args := range map[string][]string{"anybody": nil, "accounts": {"--accounts"}} {
		t.Run(name, func(t *testing.T) {
			recipe := trainFolder(t, "steps: 40", "steps: 1000000")
			state, models := filepath.Join(t.TempDir(), "state"), t.TempDir()
			at := filepath.Join(models, "digits", "1")
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(at, "model.onnx"), string(digits.Model))
			log := &said{}
			s := opened(t, log, append(args, "--state", state, "--train", recipe, "--models",
				models, "--no-cache", "--shared-memory", "/weir-test-", "--grace", "0s")...)
			if err := s.begin(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			token := ""
			if args != nil {
				firstToken(t, state)
				token = strings.TrimSpace(os.Getenv(tokenVariable))
			}
			asked := askAnything(t, s, token)
			if err := s.stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			for _, line := range log.errors() {
				t.Errorf("the log says %.500s", line)
			}
			t.Logf("%d requests", asked)
		})
	}
}

// askAnything asks all endpoints of a service for everything that is odd.
func askAnything(t *testing.T, s *service, token string) (asked int) {
	t.Helper()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i, pattern := range slices.Sorted(slices.Values(s.server.Patterns())) {
		method, path, _ := strings.Cut(pattern, " ")
		for k, body := range odd {
			at := strings.Replace(path, "{$}", "", 1)
			for n := 0; strings.Contains(at, "{"); n++ {
				from, to := strings.Index(at, "{"), strings.Index(at, "}")
				at = at[:from] + oddNames[(k*7+i+n)%len(oddNames)] + at[to+1:]
			}
			at += oddQueries[(k+i)%len(oddQueries)]
			r, err := http.NewRequest(method, "http://localhost"+at, strings.NewReader(body))
			if err != nil {
				continue // it is no URL
			}
			ctx := t.Context()
			if strings.HasSuffix(path, "/events") {
				ctx = gone // else it never ends
			}
			r.Header.Set("Idempotency-Key", fmt.Sprint(i, k))
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r.WithContext(ctx))
			asked++
			if w.Code == http.StatusInternalServerError || w.Code > 503 {
				t.Errorf("%s %s with %.200q: %d %.300s", method, at, body, w.Code, w.Body)
			}
		}
	}
	return asked
}
