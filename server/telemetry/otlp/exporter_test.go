package otlp

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// receiver is a collector: a server of HTTP that reads what it gets by OpenTelemetry's own types.
type receiver struct {
	t      *testing.T
	answer func(n int, w http.ResponseWriter) // to the nth request, from 1 on; nil takes all

	mu       sync.Mutex
	requests []*collector.ExportTraceServiceRequest
	at       []time.Time
}

// ServeHTTP implements http.Handler.
func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	got := &collector.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(b, got)
	}
	if err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s %s: %v", r.Method, r.URL, r.Header, err)
	}
	if len(got.ProtoReflect().GetUnknown()) > 0 {
		c.t.Error("fields that nobody knows")
	}
	c.mu.Lock()
	c.requests = append(c.requests, got)
	c.at = append(c.at, time.Now())
	n := len(c.requests)
	c.mu.Unlock()
	if c.answer != nil {
		c.answer(n, w)
	}
}

// times are when requests came.
func (c *receiver) times() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// spans are those of all requests.
func (c *receiver) spans() (list []*trace.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		list = append(list, r.ResourceSpans[0].ScopeSpans[0].Spans...)
	}
	return list
}

// pipes is a network within a test.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// begin makes an exporter for the receiver, in virtual time. end is to be called.
func begin(t *testing.T, c *receiver, o Options) (e *Exporter, end func()) {
	p := pipes{make(chan net.Conn)}
	s := &http.Server{Handler: c}
	go func() { _ = s.Serve(p) }()
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			p.accepted <- there
			return here, nil
		}}
	o.URL, o.Client = "http://collector.example:4318", &http.Client{Transport: transport}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		e.Close(t.Context())
		close(p.accepted)
		_ = s.Close()
	}
}

func named(names ...string) (list []Span) {
	for _, n := range names {
		list = append(list, Span{Trace: NewTraceID(), ID: NewSpanID(), Name: n})
	}
	return list
}

// TestSpan: a collector reads a span back as it was, with a name that is no UTF-8.
func TestSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &receiver{t: t}
		e, end := begin(t, c, Options{Scope: "scope",
			Resource: []Attr{Text("service.name", "weir")}})
		now := time.Now()
		s := Span{Trace: NewTraceID(), ID: NewSpanID(), Parent: NewSpanID(), State: "a=b",
			Name: "infer \xff", Kind: Server, Begin: now, End: now.Add(123456789),
			Attrs:  []Attr{Int("rows", -7), Text("model", "m"), Text("account", "")},
			Failed: true, Reason: "late"}
		e.Export([]Span{s, {Name: "other"}})
		time.Sleep(every)
		end()
		spans := c.spans()
		if len(spans) != 2 {
			t.Fatalf("%d spans", len(spans))
		}
		got := spans[0]
		for _, d := range []struct{ got, want any }{
			{hex.EncodeToString(got.TraceId), hex.EncodeToString(s.Trace[:])},
			{hex.EncodeToString(got.SpanId), hex.EncodeToString(s.ID[:])},
			{hex.EncodeToString(got.ParentSpanId), hex.EncodeToString(s.Parent[:])},
			{got.TraceState, "a=b"}, {got.Name, "infer \ufffd"},
			{got.Kind, trace.Span_SPAN_KIND_SERVER},
			{got.StartTimeUnixNano, uint64(now.UnixNano())},
			{got.EndTimeUnixNano - got.StartTimeUnixNano, uint64(123456789)},
			{len(got.Attributes), 3}, {got.Attributes[0].Value.GetIntValue(), int64(-7)},
			{got.Attributes[1].Key, "model"}, {got.Attributes[1].Value.GetStringValue(), "m"},
			{got.Attributes[2].Value.Value != nil, true},
			{got.Status.GetCode(), trace.Status_STATUS_CODE_ERROR},
			{got.Status.GetMessage(), "late"},
			{spans[1].ParentSpanId == nil, true}, {spans[1].Status == nil, true},
			{c.requests[0].ResourceSpans[0].ScopeSpans[0].Scope.Name, "scope"},
			{c.requests[0].ResourceSpans[0].Resource.Attributes[0].Value.GetStringValue(), "weir"},
		} {
			if d.got != d.want {
				t.Errorf("%v, want %v", d.got, d.want)
			}
		}
		if e.Sent() != 2 || e.Dropped() != 0 {
			t.Errorf("%d sent, %d dropped", e.Sent(), e.Dropped())
		}
	})
}

// TestQueueDrops: while a collector does not answer, no more spans wait than may; the others are
// counted, Export waits for nothing, and what waits is sent later.
func TestQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		c := &receiver{t: t, answer: func(int, http.ResponseWriter) { <-hold }}
		e, end := begin(t, c, Options{Queue: 10})
		before := time.Now()
		for range 7 {
			e.Export(named("a", "b", "c"))
			time.Sleep(every)
		}
		if took := time.Since(before); took != 7*every {
			t.Errorf("took %v", took)
		}
		if e.Dropped() != 12 {
			t.Errorf("%d dropped, of 21 where 10 may wait", e.Dropped())
		}
		close(hold)
		synctest.Wait()
		end()
		if n := len(c.spans()); n != 9 || e.Sent() != 9 || e.Dropped() != 12 {
			t.Errorf("the collector has %d, %d sent, %d dropped", n, e.Sent(), e.Dropped())
		}
	})
}

// TestTriesAgain: what a collector may take later is sent again, after as long as it asks for; what
// it never takes is given up after half a minute, and said once.
func TestTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &receiver{t: t, answer: func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}}
		e, end := begin(t, c, Options{})
		e.Export(named("a"))
		time.Sleep(time.Minute)
		if at := c.times(); len(at) != 2 || at[1].Sub(at[0]) != 7*time.Second || e.Sent() != 1 {
			t.Errorf("sent at %v, %d taken", at, e.Sent())
		}
		end()

		var said strings.Builder
		down := &receiver{t: t, answer: func(_ int, w http.ResponseWriter) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}}
		e, end = begin(t, down, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
		for range 3 {
			e.Export(named("a"))
			time.Sleep(time.Minute)
		}
		if e.Sent() != 0 || e.Dropped() != 3 || len(down.times()) < 9 {
			t.Errorf("%d sent, %d dropped, after %d tries", e.Sent(), e.Dropped(),
				len(down.times()))
		}
		if n := strings.Count(said.String(), "spans are lost"); n != 1 {
			t.Errorf("said %d times:\n%s", n, &said)
		}
		end()
	})
}

// TestRefused: a request that is wrong is not sent again, and spans that a collector refuses are
// lost.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &receiver{t: t, answer: func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			b, err := proto.Marshal(&collector.ExportTraceServiceResponse{
				PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 2,
					ErrorMessage: "no"}})
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(b)
		}}
		e, end := begin(t, c, Options{})
		e.Export(named("a", "b"))
		time.Sleep(time.Minute)
		e.Export(named("a", "b", "c"))
		time.Sleep(time.Minute)
		end()
		if e.Sent() != 1 || e.Dropped() != 4 || len(c.times()) != 2 {
			t.Errorf("%d sent, %d dropped, %d requests", e.Sent(), e.Dropped(), len(c.times()))
		}
	})
}

// TestWhatIsTriedAgain: statuses after which a collector may take the same request later, as the
// specification names them, and no others; a redirect is not followed.
func TestWhatIsTriedAgain(t *testing.T) {
	for status, tries := range map[int]int{429: 2, 502: 2, 503: 2, 504: 2, 200: 1, 302: 1, 400: 1,
		500: 1, 501: 1} {
		synctest.Test(t, func(t *testing.T) {
			c := &receiver{t: t, answer: func(n int, w http.ResponseWriter) {
				if n == 1 {
					w.Header().Set("Location", "http://elsewhere.example/v1/traces")
					w.WriteHeader(status)
				}
			}}
			e, end := begin(t, c, Options{})
			own, err := New(Options{URL: e.o.URL})
			if err != nil {
				t.Fatal(err)
			}
			own.Close(t.Context())
			e.o.Client.CheckRedirect = own.o.Client.CheckRedirect
			e.Export(named("a"))
			time.Sleep(time.Minute)
			end()
			if n := len(c.times()); n != tries {
				t.Errorf("status %d: %d requests, want %d", status, n, tries)
			}
			if sent := e.Sent(); (sent == 1) != (tries == 2 || status == 200) {
				t.Errorf("status %d: %d sent", status, sent)
			}
		})
	}
}

// TestPauses: a collector that does not say when it takes requests again is asked after pauses that
// grow, and one that does not answer at all is given ten seconds.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &receiver{t: t, answer: func(n int, w http.ResponseWriter) {
			if n < 5 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}}
		e, end := begin(t, c, Options{})
		e.Export(named("a"))
		time.Sleep(time.Minute)
		end()
		at := c.times()
		for i := range len(at) - 1 {
			wait := time.Second << i
			if d := at[i+1].Sub(at[i]); d < wait/2 || d > 3*wait/2 {
				t.Errorf("pause %d: %v, want about %v", i, d, wait)
			}
		}

		stop := make(chan struct{})
		silent := &receiver{t: t, answer: func(n int, _ http.ResponseWriter) {
			if n == 1 {
				<-stop
			}
		}}
		e, end = begin(t, silent, Options{})
		e.Export(named("a"))
		time.Sleep(time.Minute)
		at = silent.times()
		if len(at) != 2 || at[1].Sub(at[0]) < timeout || at[1].Sub(at[0]) > timeout+2*time.Second ||
			e.Sent() != 1 {
			t.Errorf("asked at %v, %d sent", at, e.Sent())
		}
		close(stop)
		end()
	})
}

// TestWholeRequests: while many spans come, requests are full; what is left over waits for others.
// What has been sent is held no longer.
func TestWholeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &receiver{t: t}
		e, end := begin(t, c, Options{})
		defer end()
		began := time.Now()
		e.Export(named(make([]string, 2*most+1)...))
		synctest.Wait()
		if n := len(c.spans()); n != 2*most {
			t.Errorf("%d spans are sent at once", n)
		}
		time.Sleep(2 * every)
		at := c.times()
		if len(at) != 3 || at[2].Sub(began) != every || len(c.spans()) != 2*most+1 {
			t.Errorf("%d spans in %d requests", len(c.spans()), len(at))
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, s := range e.waiting[:cap(e.waiting)] {
			if s.ID != (SpanID{}) {
				t.Fatal("a span that was sent is held")
			}
		}
	})
}

// TestNonsense: whatever number of spans a collector says that it refuses, sent and lost ones are
// those that there were, and no more of an answer is read than there is to it.
func TestNonsense(t *testing.T) {
	for _, refuses := range []int64{-1, 0, 1, 2, 3, 1 << 62, -1 << 63} {
		synctest.Test(t, func(t *testing.T) {
			c := &receiver{t: t, answer: func(_ int, w http.ResponseWriter) {
				b, err := proto.Marshal(&collector.ExportTraceServiceResponse{
					PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: refuses}})
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(b)
			}}
			e, end := begin(t, c, Options{})
			e.Export(named("a", "b"))
			time.Sleep(2 * every)
			end()
			lost := max(0, min(refuses, 2))
			if e.Dropped() != lost || e.Sent() != 2-lost {
				t.Errorf("%d refused: %d sent, %d lost", refuses, e.Sent(), e.Dropped())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		wrote := 0
		c := &receiver{t: t, answer: func(_ int, w http.ResponseWriter) {
			for b := make([]byte, 1<<10); wrote < 64<<20; wrote += len(b) {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}}
		e, end := begin(t, c, Options{})
		e.Export(named("a"))
		time.Sleep(2 * every)
		end()
		if wrote > 1<<20 {
			t.Errorf("%d bytes of an answer were read", wrote)
		}
	})
}

// TestCloseSends: what waits is sent at the end, in requests that are bounded, and an end that may
// not wait drops it.
func TestCloseSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &receiver{t: t}
		e, end := begin(t, c, Options{})
		for i := range 3 * most / 2 {
			e.Export(named(fmt.Sprint(i)))
		}
		before := time.Now()
		end()
		if n := len(c.spans()); n != 3*most/2 || len(c.times()) != 2 || time.Since(before) > 0 {
			t.Errorf("%d spans in %d requests after %v", n, len(c.times()), time.Since(before))
		}

		hold := make(chan struct{})
		stuck := &receiver{t: t, answer: func(int, http.ResponseWriter) { <-hold }}
		e, end = begin(t, stuck, Options{})
		e.Export(named("a"))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		before = time.Now()
		e.Close(ctx)
		if took := time.Since(before); took != 2*time.Second || e.Dropped() != 1 {
			t.Errorf("after %v %d were dropped", took, e.Dropped())
		}
		close(hold)
		end()
	})
}

// TestLoopback: over a real connection, as a program has it.
func TestLoopback(t *testing.T) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &receiver{t: t}
	s := &http.Server{Handler: c}
	go func() { _ = s.Serve(on) }()
	defer s.Close()
	e, err := New(Options{URL: "http://" + on.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	e.Export(named("a"))
	e.Close(t.Context())
	if len(c.spans()) != 1 {
		t.Errorf("%d spans", len(c.spans()))
	}
}

// TestURLs: a collector is named by a URL.
func TestURLs(t *testing.T) {
	for _, url := range []string{"", "localhost:4318", "ftp://x", "http://", "http://a b"} {
		if e, err := New(Options{URL: url}); err == nil {
			e.Close(t.Context())
			t.Errorf("%q is taken", url)
		}
	}
}

// FuzzRejected: whatever a collector answers is no more than a number.
func FuzzRejected(f *testing.F) {
	f.Add([]byte{10, 2, 8, 5})
	f.Add([]byte{10, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		got := rejected(b)
		r := &collector.ExportTraceServiceResponse{}
		if proto.Unmarshal(b, r) == nil && r.PartialSuccess != nil &&
			strings.Count(string(b), "\x0a") == 1 && r.PartialSuccess.RejectedSpans != got {
			t.Errorf("%x: %d, want %d", b, got, r.PartialSuccess.RejectedSpans)
		}
	})
}
