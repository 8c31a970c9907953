package server

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestGrownBodies: what a request has beside the bytes in which it came is memory of the same
// bound, and is given back.
func TestGrownBodies(t *testing.T) {
	const n = 15_000
	s := begin(t, Options{Bodies: 4 * step}, pairSource)
	texts := strings.Repeat(`"",`, n-1) + `""`
	infer := fmt.Sprintf(`{"inputs":[{"name":"s","datatype":"BYTES","shape":[%d],"data":[%s]}]}`,
		n, texts)
	head := fmt.Sprintf(`{"inputs":[{"name":"s","datatype":"BYTES","shape":[%d],"parameters":`+
		`{"binary_data_size":%d}}]}`, n, 4*n)
	binary := append([]byte(head), make([]byte, 4*n)...)
	const path = "/v2/models/pair/"
	for name, r := range map[string]*http.Response{
		"JSON":     ask(s, "POST", path+"infer", []byte(infer)),
		"binary":   ask(s, "POST", path+"infer", binary, headerLength, fmt.Sprint(len(head))),
		"generate": ask(s, "POST", path+"generate", []byte(`{"s":[`+texts+`]}`)),
	} {
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, %s", name, r.Status, all(t, r))
		}
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held without a request", n)
	}
	small := `{"inputs":[{"name":"x","datatype":"INT32","shape":[1],"data":[1]},` +
		`{"name":"s","datatype":"BYTES","shape":[1],"data":["a"]}]}`
	r := ask(s, "POST", path+"infer", []byte(small))
	if body := all(t, r); r.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"a"`)) {
		t.Errorf("a small one after them: %s, %s", r.Status, body)
	}
	if n := s.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are held without a request", n)
	}
}
