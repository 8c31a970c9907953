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
	text, _, _ := p.after(r.Context(), 0, rights(r.Context()))
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
	s.run(r.Context(), p.known(r.Context(), r.Header.Get("Last-Event-ID")))
	return nil
}

// known returns the look that an id means, 0 where what has changed after it for whoever asks in
// ctx is not known.
func (p *Page) known(ctx context.Context, id string) uint64 {
	_, number, _ := strings.Cut(id, ".")
	number, _, _ = strings.Cut(number, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || n > p.n || id != p.id(n, rights(ctx)) {
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
// may no longer read, or its time is over. A reader whose rights are others than before has the
// whole anew: rows that it may see from now on, and no longer, have not changed.
func (s *stream) run(ctx context.Context, n uint64) {
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	had := rights(ctx)
	for auth.MayAny(ctx, auth.Read) {
		if now := rights(ctx); now != had {
			had, n = now, 0
		}
		news := s.page.waiting()
		text, last, whole := s.page.after(ctx, n, had)
		kind := map[bool]string{true: "state", false: "change"}[whole]
		if s.send("event: %s\nid: %s\ndata: %s\n\n", kind, s.page.id(last, had), text) != nil {
			return
		}
		n = last
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return
			case <-s.page.ended:
				return
			case <-news:
				waits = false
			case <-alive.C:
				if waits = rights(ctx) == had; waits && s.send(":\n\n") != nil {
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
