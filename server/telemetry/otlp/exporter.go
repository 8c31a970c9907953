package otlp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of an exporter.
const (
	DefaultQueue = 8192             // spans that wait
	most         = 512              // spans of a request
	every        = time.Second      // how long a span waits for others
	patience     = 30 * time.Second // how long a request is tried again
	timeout      = 10 * time.Second // of a try
)

// Options say where spans go.
type Options struct {
	// URL is the collector's, such as http://localhost:4318; without a path, /v1/traces is meant.
	URL string
	// Resource describes what sends the spans, such as service.name.
	Resource []Attr
	// Scope is what made them.
	Scope string
	// Queue is how many spans may wait; 0 stands for DefaultQueue.
	Queue int
	// Client sends; nil stands for one that follows no redirects.
	Client *http.Client
	// Log is told of what is not taken, once for each time that it begins; nil stands for
	// slog.Default.
	Log *slog.Logger
}

// Exporter sends spans to a collector. It needs [Exporter.Close].
type Exporter struct {
	o             Options
	sent, dropped atomic.Int64

	mu      sync.Mutex
	waiting []Span

	full   chan struct{} // there are enough for a request
	closed context.Context
	close  context.CancelFunc
	now    context.Context // ends tries
	end    context.CancelFunc
	done   chan struct{}
	failed bool // the last request was not taken
}

// New returns an exporter. The error is about the URL.
func New(o Options) (*Exporter, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("collector %q: give a URL such as http://localhost:4318", o.URL)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	o.URL = u.String()
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	e := &Exporter{o: o, full: make(chan struct{}, 1), done: make(chan struct{})}
	e.closed, e.close = context.WithCancel(context.Background())
	e.now, e.end = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// Export sends spans later, all or, where too many wait, none. It keeps what is in the slice.
func (e *Exporter) Export(spans []Span) {
	e.mu.Lock()
	if len(e.waiting)+len(spans) > e.o.Queue {
		e.mu.Unlock()
		e.dropped.Add(int64(len(spans)))
		return
	}
	e.waiting = append(e.waiting, spans...)
	enough := len(e.waiting) >= most
	e.mu.Unlock()
	if enough {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// Sent is how many spans the collector took, and Dropped how many were lost.
func (e *Exporter) Sent() int64 { return e.sent.Load() }

// Dropped is how many spans were lost: too many waited, or the collector did not take them.
func (e *Exporter) Dropped() int64 { return e.dropped.Load() }

// Close sends what waits until ctx is done, and drops the rest.
func (e *Exporter) Close(ctx context.Context) {
	e.close()
	select {
	case <-e.done:
	case <-ctx.Done():
		e.end()
		<-e.done
	}
	e.end()
}

// run sends what waits, until Close.
func (e *Exporter) run() {
	defer close(e.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		least := 1
		select {
		case <-e.full:
			least = most
		case <-tick.C:
		case <-e.closed.Done():
			for e.flush(1) {
			}
			return
		}
		for e.flush(least) && e.closed.Err() == nil {
		}
	}
}

// flush sends one request's worth where at least so many spans wait, and reports whether it did.
func (e *Exporter) flush(least int) bool {
	e.mu.Lock()
	n := min(len(e.waiting), most)
	if n < least {
		e.mu.Unlock()
		return false
	}
	batch := slices.Clone(e.waiting[:n])
	e.mu.Unlock()
	lost, err := e.deliver(appendRequest(nil, e.o.Resource, e.o.Scope, batch), n)
	e.dropped.Add(lost)
	e.sent.Add(int64(n) - lost)
	if err != nil && !e.failed {
		e.o.Log.Warn("spans are lost: the collector does not take them", "url", e.o.URL,
			"error", err)
	}
	e.failed = err != nil
	e.mu.Lock()
	defer e.mu.Unlock()
	// they counted as waiting until here, so that no more are held than may wait
	left := copy(e.waiting, e.waiting[n:])
	clear(e.waiting[left:])
	e.waiting = e.waiting[:left]
	return true
}

// deliver sends a request with n spans, again where that may help. It returns how many were lost.
func (e *Exporter) deliver(body []byte, n int) (lost int64, err error) {
	ctx, cancel := context.WithTimeout(e.now, patience)
	defer cancel()
	for wait := time.Second; ; wait *= 2 {
		refused, after, err := e.try(ctx, body)
		var again *retry
		if !errors.As(err, &again) {
			if err != nil {
				refused = int64(n)
			}
			return max(0, min(refused, int64(n))), err // a collector may say anything
		}
		// all that send to a collector that has fallen must not come back at once
		pause := max(after, wait/2+rand.N(wait))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return int64(n), err
		case <-e.closed.Done(): // a last try, without the pause
			refused, _, err = e.try(ctx, body)
			if err != nil {
				refused = int64(n)
			}
			return max(0, min(refused, int64(n))), err
		}
	}
}

// retry is an error after which the same request may be taken.
type retry struct{ error }

// try sends a request once. It returns how many spans the collector refuses of one that it takes,
// and for how long it asks to wait.
func (e *Exporter) try(ctx context.Context, body []byte) (refused int64, after time.Duration,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "weir")
	answer, err := e.o.Client.Do(r)
	if err != nil {
		return 0, 0, &retry{err}
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	switch answer.StatusCode {
	case http.StatusOK:
		return rejected(said), 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout: // those of the specification
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return 0, time.Duration(max(seconds, 0)) * time.Second,
			&retry{fmt.Errorf("status %s", answer.Status)}
	}
	return 0, 0, fmt.Errorf("status %s", answer.Status)
}
