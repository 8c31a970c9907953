package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// patience is how long an answer may take.
const patience = 20 * time.Second

// bodies are right, each for some endpoint.
var bodies = []string{
	`{"id":"1","inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"INT32","data":[1,2,3,4]},
	{"name":"INPUT1","shape":[1,2],"datatype":"BYTES","data":["a","b"]}],
	"outputs":[{"name":"OUTPUT0","parameters":{"classification":2}},{"name":"OUTPUT1"}]}`,
	`{"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"INT32","parameters":
	{"binary_data_size":16}},{"name":"INPUT1","shape":[1,1],"datatype":"BYTES","parameters":
	{"binary_data_size":5}}],"parameters":{"binary_data_output":true}}` +
		"\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00a",
	`{"parameters":{"sequence_id":5,"sequence_start":true,"sequence_end":false,"timeout":100000},
	"inputs":[{"name":"INPUT0","shape":[1,1],"datatype":"INT32","data":[1]}]}`,
	`{"INPUT0":[1,2,3,4],"INPUT1":["a"],"parameters":{"timeout":100000}}`,
	`{"INPUT0":[1.5,2],"sequence_id":"a","sequence_start":true}`,
	`{"key":"/fuzz-none","offset":0,"byte_size":64}`,
	`{"trace_level":["TIMESTAMPS"],"trace_rate":"10"}`,
	`{"inputs":[{"name":"INPUT0","shape":[1,4],"datatype":"INT32","parameters":
	{"shared_memory_region":"r","shared_memory_byte_size":16,"shared_memory_offset":1}}]}`,
}

// names stand in paths.
var names = []string{"simple", "simple", "simple", "rows", "counter", "none", "..", "a/..", "%00",
	strings.Repeat("n", 300)}

// httpClient sends cases of HTTP.
type httpClient struct {
	of       *target
	client   *http.Client
	patterns []string
}

func newHTTP(t *target) *httpClient {
	// without an encoding that the client adds, small requests are answered before net/http
	as := &http.Transport{DisableCompression: true}
	return &httpClient{of: t, client: &http.Client{Timeout: patience, Transport: as},
		patterns: t.server.Patterns()}
}

// one sends one case.
func (c *httpClient) one(rng *rand.Rand) {
	method, path, _ := strings.Cut(c.patterns[rng.IntN(len(c.patterns))], " ")
	if rng.IntN(2) == 0 { // what takes most
		method, path = "POST", "/v2/models/{model}/"+[]string{"infer", "infer", "generate",
			"generate_stream"}[rng.IntN(4)]
	}
	for _, variable := range []string{"{model}", "{version}", "{region}"} {
		name := names[rng.IntN(len(names))]
		if variable != "{model}" {
			name = []string{"1", "1", "2", "x", "-1"}[rng.IntN(5)]
		}
		path = strings.Replace(path, variable, url.PathEscape(name), 1)
	}
	body := mutated(rng, []byte(bodies[rng.IntN(len(bodies))]))
	r, err := http.NewRequest(method, "http://"+c.of.http+path, nil)
	if err != nil {
		return // it is no URL
	}
	body = headers(rng, r, body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a, err := c.client.Do(r)
	if err != nil {
		c.of.answered("HTTP: no answer", true, err.Error())
		return
	}
	said, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
	_ = a.Body.Close()
	bad := a.StatusCode == http.StatusInternalServerError || a.StatusCode > 503 || err != nil
	c.of.answered("HTTP "+strconv.Itoa(a.StatusCode), bad, fmt.Sprintf("%s %s %q: %.200s", method,
		path, body, said))
}

// headers adds some that a body may need, right or not, and compresses it.
func headers(rng *rand.Rand, r *http.Request, body []byte) []byte {
	if rng.IntN(2) == 0 {
		length := bytes.LastIndexByte(body, '}') + 1
		if rng.IntN(4) == 0 {
			length = rng.IntN(2*len(body) + 2)
		}
		r.Header.Set("Inference-Header-Content-Length", strconv.Itoa(length))
	}
	switch rng.IntN(8) {
	case 0:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body)
		_ = w.Close()
		r.Header.Set("Content-Encoding", "gzip")
		body = mutated(rng, b.Bytes())
	case 1:
		r.Header.Set("Content-Encoding", []string{"gzip", "deflate", "br", ""}[rng.IntN(4)])
	}
	if rng.IntN(4) == 0 {
		r.Header.Set("Accept-Encoding", []string{"gzip", "deflate", "x", ","}[rng.IntN(4)])
	}
	return body
}
