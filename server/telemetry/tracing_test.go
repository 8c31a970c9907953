package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry/otlp"
)

// listener is a network within a test.
type listener struct{ accepted chan net.Conn }

func (l listener) Accept() (net.Conn, error) {
	c, ok := <-l.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// collecting gives an exporter to a collector in virtual time, and a function that ends it and
// returns what the collector got.
func collecting(t *testing.T) (*otlp.Exporter, func() []*trace.Span) {
	var mu sync.Mutex
	var got []*trace.Span
	l := listener{make(chan net.Conn)}
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(b, &request)
		}
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, request.ResourceSpans[0].ScopeSpans[0].Spans...)
	})}
	go func() { _ = s.Serve(l) }()
	e, err := otlp.New(otlp.Options{URL: "http://collector.example", Log: slog.New(
		slog.DiscardHandler), Client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l.accepted <- there
			return here, nil
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() []*trace.Span {
		e.Close(t.Context())
		close(l.accepted)
		_ = s.Close()
		return got
	}
}

// ran has a request live through all phases as life does, with steps where it is traced.
func ran(m *Model, q *Request, steps int, err error) {
	q.For(m, "me")
	time.Sleep(1 * time.Millisecond)
	q.Ask(2)
	q.Mark(Admitted)
	e := m.Execute(2, q)
	o := e.Observer()
	for at := weir.RunBegun; at <= weir.RunComputed; at++ {
		time.Sleep(2 * time.Millisecond)
		if s, ok := o.(weir.StepObserver); ok && at == weir.RunComputed {
			for i := range steps {
				time.Sleep(time.Microsecond)
				s.Stepped(fmt.Sprint("node", i), "Conv", "conv.fast")
			}
		}
		o.Reached(at)
	}
	e.End(err)
	if err == nil {
		q.Mark(Encoded)
	}
	q.Bytes(10, 20)
	q.End(err)
}

const (
	clients = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unasked = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// TestSpans: a trace has a span of the request, under its client's, one for each phase below it
// without a gap, and one for each step below the computation.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, end := collecting(t)
		r := New(Options{Traces: e})
		m := r.Model("digits", "3", "")
		began := time.Now()
		q := r.Begin()
		q.Traced(clients, "vendor=1")
		ran(m, q, 3, nil)
		spans := end()
		if len(spans) != 1+len(parts)+3 {
			t.Fatalf("%d spans: %v", len(spans), spans)
		}
		root := spans[0]
		if hex.EncodeToString(root.TraceId) != clients[3:35] || root.TraceState != "vendor=1" ||
			hex.EncodeToString(root.ParentSpanId) != clients[36:52] || root.Status != nil ||
			root.Name != "infer digits" || root.Kind != trace.Span_SPAN_KIND_SERVER ||
			root.StartTimeUnixNano != uint64(began.UnixNano()) {
			t.Errorf("%v", root)
		}
		at := root.StartTimeUnixNano
		var compute *trace.Span
		for i, p := range parts {
			s := spans[1+i]
			if s.Name != p.name || s.StartTimeUnixNano != at ||
				string(s.ParentSpanId) != string(root.SpanId) ||
				string(s.TraceId) != string(root.TraceId) {
				t.Errorf("%s begins %d ns after what is before it: %v", p.name,
					s.StartTimeUnixNano-at, s)
			}
			if at = s.EndTimeUnixNano; p.name == "compute" {
				compute = s
			}
		}
		if at != root.EndTimeUnixNano {
			t.Errorf("the last ends %d ns before the request", root.EndTimeUnixNano-at)
		}
		steps := spans[1+len(parts):]
		for i, s := range steps {
			if string(s.ParentSpanId) != string(compute.SpanId) ||
				s.Name != fmt.Sprint("Conv node", i) ||
				s.Attributes[0].Value.GetStringValue() != "conv.fast" ||
				i > 0 && s.StartTimeUnixNano != steps[i-1].EndTimeUnixNano ||
				s.EndTimeUnixNano > compute.EndTimeUnixNano {
				t.Errorf("step %d: %v", i, s)
			}
		}
		if steps[0].StartTimeUnixNano != compute.StartTimeUnixNano {
			t.Error("the first step does not begin where the computation does")
		}
	})
}

// TestSpansOfFailure: what fails has the phases that it came to, and why; steps are bounded.
func TestSpansOfFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, end := collecting(t)
		r := New(Options{Traces: e, TraceRate: 1})
		m := r.Model("m", "1", "")
		ran(m, r.Begin(), 2*maxSteps, context.DeadlineExceeded)
		early := r.Begin()
		early.For(m, "")
		early.End(oip.Faultf(oip.Invalid, "the secret of the request"))
		spans := end()
		var names []string
		for _, s := range spans {
			if strings.Contains(s.String(), "secret") {
				t.Errorf("a trace has what is in a request: %v", s)
			}
			if !strings.HasPrefix(s.Name, "Conv") {
				names = append(names, s.Name)
			}
		}
		want := []string{"infer m", "decode", "queue", "place inputs", "wait for device",
			"compute", "infer m"}
		if !reflect.DeepEqual(names, want) || len(spans) != len(want)+maxSteps {
			t.Errorf("%d spans: %q", len(spans), names)
		}
		if s := spans[0]; s.Status.GetMessage() != "late" || s.ParentSpanId != nil {
			t.Errorf("%v", s)
		}
		if s := spans[len(spans)-1]; s.Status.GetMessage() != "invalid" {
			t.Errorf("%v", s)
		}
	})
}

// TestSampling: one request in so many is traced, those of a client's trace as that says, no more
// than are asked for, by the model's own settings where it has some.
func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, end := collecting(t)
		defer end()
		r := New(Options{Traces: e, TraceRate: 10})
		count := func(model, header string) (n int) {
			for range 100 {
				q := r.Begin()
				q.Traced(header, "")
				if q.For(r.Model(model, "1", ""), ""); q.traced != nil {
					n++
				}
			}
			return n
		}
		set := func(model string, pairs ...string) {
			changes := map[string][]string{}
			for i := 0; i < len(pairs); i += 2 {
				changes[pairs[i]] = nil
				if pairs[i+1] != "" {
					changes[pairs[i]] = []string{pairs[i+1]}
				}
			}
			if _, err := r.SetTrace(model, changes); err != nil {
				t.Errorf("%s: %v", model, err)
			}
		}
		check := func(model, header string, want int) {
			t.Helper()
			if got := count(model, header); got != want {
				t.Errorf("%s with %q: %d of 100, want %d", model, header, got, want)
			}
		}
		check("a", "", 10)
		check("a", clients, 100)
		check("a", unasked, 0)
		check("a", "nonsense", 10)
		set("a", traceRate, "2")
		check("a", "", 50)
		check("b", "", 10)
		set("", traceRate, "0")
		check("a", "", 50)
		check("b", "", 0)
		check("b", clients, 100)
		set("", traceLevel, "OFF")
		check("b", clients, 0)
		set("a", traceCount, "7", traceRate, "1")
		check("a", "", 7)
		check("a", clients, 0)
		set("a", traceCount, "")
		check("a", "", 100)
		set("a")
		check("a", clients, 0)
		set("", traceLevel, "", traceRate, "")
		check("a", "", 10)
	})
}

// TestTraceSettings: settings are as Triton names them, and a change that is wrong changes nothing.
func TestTraceSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, end := collecting(t)
		defer end()
		r := New(Options{Traces: e, TraceRate: 1000, Models: 1})
		want := map[string][]string{"trace_level": {"TIMESTAMPS"}, "trace_rate": {"1000"},
			"trace_count": {"-1"}, "trace_mode": {"opentelemetry"}, "trace_file": {""},
			"log_frequency": {"0"}}
		if got := r.TraceSettings(""); !reflect.DeepEqual(got, want) {
			t.Errorf("%v", got)
		}
		for _, c := range []struct {
			name, value string
			kind        oip.Kind
		}{
			{"trace_level", "TENSORS", oip.Unsupported}, {"trace_level", "x", oip.Invalid},
			{"trace_rate", "-1", oip.Invalid}, {"trace_rate", "4294967296", oip.Invalid},
			{"trace_count", "-2", oip.Invalid}, {"trace_file", "/x", oip.Unsupported},
			{"trace_mode", "triton", oip.Unsupported}, {"log_frequency", "1", oip.Unsupported},
			{"color", "red", oip.Invalid},
		} {
			changes := map[string][]string{"trace_count": {"5"}, "trace_rate": {"5"}}
			changes[c.name] = []string{c.value}
			_, err := r.SetTrace("", changes)
			if err == nil || oip.KindOf(err) != c.kind {
				t.Errorf("%s %s: %v", c.name, c.value, err)
			}
		}
		for _, list := range [][]string{{"OFF", "TIMESTAMPS"}, {"TIMESTAMPS", "OFF"}} {
			if _, err := r.SetTrace("", map[string][]string{"trace_level": list}); err == nil {
				t.Errorf("%q are taken", list)
			}
		}
		if got := r.TraceSettings(""); !reflect.DeepEqual(got, want) {
			t.Errorf("after changes that are wrong: %v", got)
		}
		one := map[string][]string{"trace_rate": {"1"}}
		if _, err := r.SetTrace("a", one); err != nil {
			t.Error(err)
		}
		if _, err := r.SetTrace("b", one); oip.KindOf(err) != oip.Unavailable {
			t.Errorf("settings of models without a bound: %v", err)
		}
		none := New(Options{})
		if _, err := none.SetTrace("", map[string][]string{"trace_level": {"TIMESTAMPS"}}); oip.
			KindOf(err) != oip.Unsupported {
			t.Errorf("traces without a collector: %v", err)
		}
		if got := none.TraceSettings("")["trace_level"][0]; got != "OFF" {
			t.Errorf("level %s", got)
		}
	})
}

// TestGivesUpWhileTraced: a request that is traced may end while its execution tells of steps.
func TestGivesUpWhileTraced(t *testing.T) {
	e, err := otlp.New(otlp.Options{URL: "http://127.0.0.1:1", Queue: 1,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Traces: e, TraceRate: 1})
	m := r.Model("m", "1", "")
	for range 200 {
		q := r.Begin()
		q.For(m, "")
		q.Ask(1)
		q.Mark(Admitted)
		x := m.Execute(1, q)
		var run sync.WaitGroup
		run.Go(func() {
			o := x.Observer().(weir.StepObserver)
			o.Reached(weir.RunGranted)
			o.Stepped("n", "Conv", "k")
			x.End(nil)
		})
		q.End(context.Canceled)
		run.Wait()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e.Close(ended)
	if e.Dropped() < 400 {
		t.Errorf("%d spans were dropped, where one may wait", e.Dropped())
	}
}

func BenchmarkTraced(b *testing.B) {
	e, err := otlp.New(otlp.Options{URL: "http://127.0.0.1:1", Log: slog.New(
		slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	defer e.Close(ended)
	r := New(Options{Traces: e, TraceRate: 1})
	m := r.Model("m", "1", "")
	b.ReportAllocs()
	for b.Loop() {
		q := r.Begin()
		q.For(m, "")
		q.Ask(1)
		q.Mark(Admitted)
		x := m.Execute(1, q)
		o := x.Observer().(weir.StepObserver)
		for at := weir.RunBegun; at <= weir.RunComputed; at++ {
			o.Reached(at)
		}
		for range 10 {
			o.Stepped("node", "Conv", "conv.fast")
		}
		x.End(nil)
		q.End(nil)
	}
}
