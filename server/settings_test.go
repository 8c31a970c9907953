package server

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// collect is a collector of traces over loopback.
func collect(t *testing.T) (url string, spans func() []*trace.Span) {
	var mu sync.Mutex
	var list []*trace.Span
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got collector.ExportTraceServiceRequest
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(b, &got)
		}
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, got.ResourceSpans[0].ScopeSpans[0].Spans...)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []*trace.Span {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// TestTrace: a request with its client's trace has the steps of the model in it.
func TestTrace(t *testing.T) {
	url, spans := collect(t)
	to, err := otlp.New(otlp.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	rec := telemetry.New(telemetry.Options{Traces: to})
	s := begin(t, Options{Recorder: rec}, digitsSource())
	_, pixels := picture(t, 1)
	for _, parent := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		if r := ask(s, "POST", inferPath, pixels, headerLength, "0", "traceparent",
			parent); r.StatusCode != 200 {
			t.Fatalf("status %d: %s", r.StatusCode, all(t, r))
		}
	}
	to.Close(t.Context())
	steps, names := 0, map[string]int{}
	for _, s := range spans() {
		names[s.Name]++
		for _, a := range s.Attributes {
			if a.Key == "weir.kernel" {
				steps++
			}
		}
	}
	if names["infer digits"] != 1 || names["compute"] != 1 || names["send"] != 1 || steps < 3 {
		t.Errorf("%d steps, %v", steps, names)
	}
}

// reply is what an endpoint of settings answers.
func reply(t *testing.T, s http.Handler, method, path, body string) (int, map[string]any) {
	t.Helper()
	r := ask(s, method, path, []byte(body))
	got := map[string]any{}
	if err := json.Unmarshal(all(t, r), &got); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r.StatusCode, got
}

// TestTraceSetting: settings of traces are read and changed as Triton has them, for all models and
// for one; what is wrong is refused.
func TestTraceSetting(t *testing.T) {
	url, _ := collect(t)
	to, err := otlp.New(otlp.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close(t.Context()) })
	s := begin(t, Options{Recorder: telemetry.New(telemetry.Options{Traces: to, TraceRate: 9})},
		digitsSource())
	const every, one = "/v2/trace/setting", "/v2/models/digits/trace/setting"
	for _, c := range []struct {
		method, path, body string
		status             int
		rate               any
	}{
		{"GET", every, "", 200, "9"},
		{"POST", every, `{"trace_rate":"5","trace_level":["TIMESTAMPS"]}`, 200, "5"},
		{"POST", one, `{"trace_rate":"7"}`, 200, "7"},
		{"GET", every, "", 200, "5"},
		{"GET", one, "", 200, "7"},
		{"POST", one, `{"trace_rate":null}`, 200, "5"},
		{"POST", one, `{}`, 200, "5"},
		{"POST", every, `{"trace_rate":[]}`, 200, "9"},
		{"POST", every, ``, 200, "9"},
		{"POST", every, `null`, 200, "9"},
		{"POST", every, `{"trace_rate":5}`, 400, nil},
		{"POST", every, `{"trace_rate":"x"}`, 400, nil},
		{"POST", every, `{"trace_level":["TENSORS"]}`, 501, nil},
		{"POST", every, `[]`, 400, nil},
		{"POST", every, `{`, 400, nil},
		{"POST", every, `{"x":"` + strings.Repeat("x", mostSettings) + `"}`, 400, nil},
		{"GET", "/v2/models/none/trace/setting", "", 404, nil},
		{"DELETE", every, "", 405, nil},
	} {
		status, got := reply(t, s, c.method, c.path, c.body)
		if status != c.status || got["trace_rate"] != c.rate || got["error"] == nil != (status ==
			200) {
			t.Errorf("%s %s %.40s: status %d, %v", c.method, c.path, c.body, status, got)
		}
		if level, ok := got["trace_level"].([]any); status == 200 && (!ok || len(level) != 1) {
			t.Errorf("%s %s: the level is no list: %v", c.method, c.path, got)
		}
	}
}

// TestLogging: levels of logs are read and changed as Triton has them.
func TestLogging(t *testing.T) {
	logs := telemetry.NewLogs(slog.DiscardHandler)
	s := begin(t, Options{Logs: logs}, digitsSource())
	status, got := reply(t, s, "POST", "/v2/logging", `{"log_verbose_level":1,"log_info":false}`)
	if status != 200 || got["log_verbose_level"] != 1.0 || got["log_info"] != false ||
		got["log_errors"] != true {
		t.Errorf("status %d, %v", status, got)
	}
	if _, now := reply(t, s, "GET", "/v2/logging", ""); now["log_info"] != false {
		t.Errorf("%v", now)
	}
	if status, got := reply(t, s, "POST", "/v2/logging", `{"log_info":1}`); status != 400 {
		t.Errorf("status %d, %v", status, got)
	}
}

// TestLoggingOfOthers: a server does not switch logs that it was not given.
func TestLoggingOfOthers(t *testing.T) {
	s := begin(t, Options{}, digitsSource())
	if status, got := reply(t, s, "GET", "/v2/logging", ""); status != 501 {
		t.Errorf("status %d, %v", status, got)
	}
}
