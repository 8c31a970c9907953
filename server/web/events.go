package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirgpu/weir/server/auth"
)

// The times of a stream.
const (
	patience  = 10 * time.Second // for a reader to take an event
	heartbeat = 15 * time.Second // between two events or signs of life
	life      = 5 * time.Minute  // until a reader must ask anew, and show again that it may
)

func (p *Page) getState(w http.ResponseWriter, r *http.Request) error {
	text, _ := p.after(r.Context(), 0)
	reply(w, http.StatusOK, text)
	return nil
}

// getEvents streams the state and its changes.
func (p *Page) getEvents(w http.ResponseWriter, r *http.Request) error {
	leave, err := p.streams.Enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of nginx, which would hold events back
	s := &stream{page: p, w: w, to: http.NewResponseController(w)}
	s.run(r.Context(), p.known(r.Header.Get("Last-Event-ID")))
	return nil
}

// known returns the look that an id means, 0 where what has changed after it is not known.
func (p *Page) known(id string) uint64 {
	_, number, _ := strings.Cut(id, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || n > p.n || n < p.floor || id != p.id(n) {
		return 0
	}
	return n
}

// waiting returns what is closed at the next change.
func (p *Page) waiting() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.news
}

// stream is a reader of events.
type stream struct {
	page *Page
	w    http.ResponseWriter
	to   *http.ResponseController
}

// run sends what has changed after look n, and what changes from then on, until the reader is gone,
// may no longer read, or its time is over.
func (s *stream) run(ctx context.Context, n uint64) {
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	kind := "change"
	if n == 0 {
		kind = "state"
	}
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for auth.MayAny(ctx, auth.Read) {
		news := s.page.waiting()
		text, now := s.page.after(ctx, n)
		if s.send("event: %s\nid: %s\ndata: %s\n\n", kind, s.page.id(now), text) != nil {
			return
		}
		n, kind = now, "change"
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return
			case <-s.page.ended:
				return
			case <-news:
				waits = false
			case <-alive.C:
				if s.send(":\n\n") != nil {
					return
				}
			}
		}
	}
}

// send writes to a reader that must take it soon.
func (s *stream) send(format string, args ...any) error {
	_ = s.to.SetWriteDeadline(time.Now().Add(patience)) // who has no deadlines is no connection
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.to.Flush()
}

// reply writes an answer in JSON.
func reply(w http.ResponseWriter, code int, text json.RawMessage) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	begin(w)
	w.WriteHeader(code)
	_, _ = w.Write(text) // a client that is gone reads no error either
}

// begin has the time begin in which a client must take an answer: to load a model may have taken
// longer.
func begin(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
}
