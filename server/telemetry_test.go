package server

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// stats is what the server says of models.
func stats(t *testing.T, s *Server, path string) []oip.Statistics {
	t.Helper()
	r := ask(s, "GET", path, nil)
	var list oip.StatisticsList
	if err := json.Unmarshal(all(t, r), &list); err != nil || r.StatusCode != 200 {
		t.Fatalf("%s: status %d, %v", path, r.StatusCode, err)
	}
	return list.Models
}

// TestStatistics: each answered request counts its rows and all phases, an error as a failure, and
// all paths tell the same.
func TestStatistics(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	_, pixels := picture(t, 3)
	for _, n := range []int{1, 3, 3} {
		body := pixels[:n*256]
		if r := ask(s, "POST", inferPath, body, headerLength, "0"); r.StatusCode != 200 {
			t.Fatalf("status %d: %s", r.StatusCode, all(t, r))
		}
	}
	if r := ask(s, "POST", inferPath, []byte("{}")); r.StatusCode != 400 {
		t.Fatalf("status %d", r.StatusCode)
	}
	list := stats(t, s, "/v2/models/digits/stats")
	if len(list) != 1 {
		t.Fatalf("%d models", len(list))
	}
	got := list[0]
	q := got.Requests
	if got.Name != "digits" || got.Version != "3" || got.Inferences != 7 || got.Executions != 3 ||
		got.LastInference == 0 || q.Fail.Count != 1 {
		t.Errorf("%+v", got)
	}
	for name, d := range map[string]oip.Duration{"success": q.Success, "queue": q.Queue,
		"input": q.Input, "infer": q.Infer, "output": q.Output} {
		if d.Count != 3 || d.NS == 0 || d.NS > q.Success.NS {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if sum := q.Queue.NS + q.Input.NS + q.Infer.NS + q.Output.NS; sum != q.Success.NS {
		t.Errorf("the parts are %d ns, the whole %d", sum, q.Success.NS)
	}
	if len(got.Batches) != 2 || got.Batches[0].Size != 1 || got.Batches[1].Size != 3 ||
		got.Batches[1].Infer.Count != 2 || got.Batches[0].Infer.NS+got.Batches[1].Infer.NS !=
		q.Infer.NS {
		t.Errorf("batches: %+v", got.Batches)
	}
	for _, path := range []string{"/v2/models/stats", "/v2/models/digits/versions/3/stats"} {
		if other := stats(t, s, path); len(other) != 1 || other[0].Requests != q {
			t.Errorf("%s: %+v", path, other)
		}
	}
	for path, want := range map[string]int{"/v2/models/none/stats": 404,
		"/v2/models/digits/versions/9/stats": 404} {
		if r := ask(s, "GET", path, nil); r.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, r.StatusCode, want)
		}
	}
}

// TestMetrics: the text has what requests came to, by outcome, also those for no model and those
// whose body was wrong; it is compressed for who asks.
func TestMetrics(t *testing.T) {
	s := begin(t, Options{Version: "v7", Queue: 1}, digitsSource())
	_, pixels := picture(t, 2)
	if r := ask(s, "POST", inferPath, pixels, headerLength, "0"); r.StatusCode != 200 {
		t.Fatalf("status %d", r.StatusCode)
	}
	ask(s, "POST", inferPath, []byte("{}"))
	ask(s, "POST", inferPath, []byte("{}"), "Content-Encoding", "br")
	ask(s, "POST", "/v2/models/none/infer", []byte("{}"))
	s.models["digits"].newest().queue.Leave(true)
	if r := ask(s, "POST", inferPath, pixels, headerLength, "0"); r.StatusCode != 503 {
		t.Fatalf("status %d", r.StatusCode)
	}
	r := ask(s, "GET", "/metrics", nil)
	text := string(all(t, r))
	if kind := r.Header.Get("Content-Type"); r.StatusCode != 200 ||
		!strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("status %d, %s", r.StatusCode, r.Header)
	}
	const of = `{model="digits",version="3",account=""`
	for _, line := range []string{
		"weir_build_info{version=\"v7\",",
		"weir_ready 1\n",
		"weir_load ",
		"weir_requests_total" + of + `,outcome="ok"} 1` + "\n",
		"weir_requests_total" + of + `,outcome="invalid"} 2` + "\n",
		"weir_requests_total" + of + `,outcome="unavailable"} 1` + "\n",
		`weir_requests_total{model="",version="",account="",outcome="not_found"} 1` + "\n",
		"weir_request_rows_total" + of + "} 2\n",
		"weir_request_bytes_total" + of + "} 1026\n",
		`weir_job_device_seconds_total{device="cpu:0",job="digits/3"} `,
		`weir_queue_length{model="digits",version="3"} 0` + "\n",
		`nv_inference_request_failure{model="digits",version="3"} 3` + "\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(text, `weir_response_bytes_total`+of+"} 0\n") {
		t.Error("an answer without bytes")
	}
	packed := all(t, ask(s, "GET", "/metrics", nil, "Accept-Encoding", "gzip"))
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(plain); err != nil || !bytes.Contains(b, []byte("weir_ready 1\n")) {
		t.Errorf("compressed: %v, %d bytes", err, len(b))
	}
}

// TestPanicCounts: a request whose handler panics is not one that was answered well, and no stop
// waits for it.
func TestPanicCounts(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	s.models["digits"].newest().types = nil
	s.models["digits"].newest().on = nil
	_, pixels := picture(t, 1)
	body := `{"inputs":[{"name":"image","datatype":"FP32","shape":[1,1,8,8],"parameters":` +
		`{"binary_data_size":256}}]}`
	r := ask(s, "POST", inferPath, append([]byte(body), pixels...), headerLength, "103")
	if r.StatusCode != http.StatusInternalServerError {
		t.Fatalf("status %d: %s", r.StatusCode, all(t, r))
	}
	if q := s.models["digits"].newest().counts.Statistics().Requests; q.Success.Count != 0 ||
		q.Fail.Count != 1 {
		t.Errorf("%+v", q)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != 0 {
		t.Errorf("%d requests are under way", s.active)
	}
}

// TestRowsOfNothing: a request without elements counts as one row, however many it says there are.
func TestRowsOfNothing(t *testing.T) {
	s := begin(t, Options{}, written("open", `graph "open" {
	  opset "" 17
	  input %x: float32[N,M]
	  %y: float32[N,M] = Identity@16 (%x)
	  output %y
	}`))
	a, err := s.Infer(t.Context(), "open", "", &oip.Request{Inputs: []oip.Input{{Name: "x",
		Tensor: &tensor.Tensor{DType: tensor.Float32, Shape: []int{1 << 40, 0}}}}})
	if err == nil {
		a.Close()
	}
	if got := stats(t, s, "/v2/models/open/stats")[0].Inferences; got > 1 {
		t.Errorf("%d rows of nothing (%v)", got, err)
	}
}

// residentBytes is what the metrics say that a version holds; "" where they say nothing.
func residentBytes(s *Server, name, version string) string {
	series := fmt.Sprintf(`weir_model_resident_bytes{model=%q,version=%q} `, name, version)
	_, rest, _ := strings.Cut(string(s.rec.AppendText(nil, s)), "\n"+series)
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// TestMetricsOfSameNumber: what a version holds is told of the one that is served, whichever of its
// number were loaded beside it, failed, and left.
func TestMetricsOfSameNumber(t *testing.T) {
	from := &shelf{}
	s := begin(t, Options{Catalogue: from}, times("m", 1))
	load := func(what string, src Source, fails bool) {
		t.Helper()
		from.put("m", src)
		if err := s.LoadModel(t.Context(), "m", nil); (err != nil) != fails {
			t.Fatalf("%s: %v", what, err)
		}
		s.background.Wait()
		v := s.models["m"].newest()
		want := fmt.Sprint(int64(v.job.Usage().Memory))
		if got := residentBytes(s, "m", v.number); got != want {
			t.Errorf("%s: %q bytes, want %q", what, got, want)
		}
	}
	failing := func(version int64) Source {
		src := times("m", version)
		src.Config = &oip.Config{Name: "m", ModelWarmup: []oip.Warmup{{Name: "none"}}}
		return src
	}
	load("another failed", failing(1), true)
	load("loaded anew", times("m", 1), false)
	load("failed again", failing(1), true)
	one, two := times("m", 1), times("m", 2)
	one.Mark, two.Mark = "one", "two"
	load("with a mark", one, false)
	load("the next", two, false)
	load("failed beside the one that is kept", failing(1), true)
	load("loaded beside the one that failed", one, false)
}
