package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/kept"
	"github.com/weirgpu/weir/server/shm"
	"github.com/weirgpu/weir/server/store"
	"github.com/weirgpu/weir/server/telemetry"
)

// The bounds of a server whose options say nothing of them.
const (
	DefaultBody   = 64 << 20
	DefaultBodies = 1 << 30
	DefaultQueue  = 256
	DefaultBatch  = 32
)

// ballast is how many bytes Server.ballast has: as much garbage more is in memory between two runs
// of the collector.
const ballast = 8 << 20

// Options say how a server answers.
type Options struct {
	Host weir.HostOptions
	// Name is what the server says that it is called; "" stands for weir.
	Name string
	// Version is what the server says of its own version.
	Version string
	// Body is the largest body in bytes, after decompression too; 0 stands for DefaultBody.
	Body int64
	// Bodies bounds the bytes of all bodies that are being read or wait for their answers, with
	// the answers that are being sent: no more bodies are read beyond it. 0 stands for
	// DefaultBodies.
	Bodies int64
	// Queue is how many requests for one model may wait; 0 stands for DefaultQueue.
	Queue int
	// Batch is the most rows of requests that are computed together, for models whose configuration
	// says nothing of it: those are put together as far as that is quicker. 0 stands for
	// DefaultBatch; 1: requests are computed one by one.
	Batch int
	// Lend lets models have the device's memory in turn: those that are idle give theirs up, above
	// what their Terms keep, where others need it, and it comes back before the next request is
	// computed. Without it every model keeps what it is promised.
	Lend bool
	// Terms say what share a model is to have, when it is loaded for the first time: with a Memory,
	// which is a cap, in place of what it turns out to need. nil: the zero share for all. It is
	// called with locks held and must return at once.
	Terms func(model string) weir.Share
	// AnyName answers requests whatever name of a host they have. Without it only those that name
	// this machine are answered: a server without accounts needs that, since a page from elsewhere
	// whose name was made to lead here could ask it.
	AnyName bool
	// Catalogue is where models are loaded from on request; nil stands for the sources of LoadAll.
	Catalogue Catalogue
	// State keeps over the end of the server what models were rolled back to, and what a rollback
	// serves; it has [Room]. nil: that is not kept.
	State *store.Store
	// Fixed refuses requests to load and unload models, and to roll back where [Server.Watch] does
	// not follow the catalogue.
	Fixed bool
	// Cache is the most bytes of answers that are kept for requests which are equal to those before
	// them, of models whose configuration says so (response_cache); 0: none are kept.
	Cache int64
	// Memory is what the names of shared memory begin with that clients may register, "/" for all;
	// "" takes none.
	Memory string
	// Recorder counts what the server is asked; nil stands for one of the server's own. The server
	// closes it.
	Recorder *telemetry.Recorder
	// Logs are what clients may switch levels of; nil: none.
	Logs *telemetry.Logs
	// Log is told what goes wrong by the server's fault; nil stands for slog.Default.
	Log *slog.Logger
}

// Server serves models. It needs [Server.Close].
type Server struct {
	o       Options
	host    *weir.Host
	rec     *telemetry.Recorder
	handler http.Handler   // what may ask at all, before inner
	inner   http.Handler   // mux, and what was put before it
	used    bool           // something was
	mux     *http.ServeMux // the endpoints
	// patterns are those of the endpoints
	patterns []string
	loaded   atomic.Bool // LoadAll is through
	retired  atomic.Bool
	loads    atomic.Uint64 // versions that were loaded
	bodies   atomic.Int64  // bytes of Options.Bodies that are held
	waiters  waiters
	across   *across
	regions  *shm.Regions // nil where none are taken
	kept     *kept.Cache  // nil where no answers are kept
	// ballast is memory that is never written, and so is not there: Go's collector counts it as in
	// use, and runs once as much again was allocated. Without it a server of small models, which
	// has a few MB, would have it run every few hundred requests.
	ballast []byte

	life       context.Context // done once Close was called
	end        context.CancelFunc
	background sync.WaitGroup // what goes on beside requests
	promising  chan struct{}  // one while what models are promised changes
	loading    chan struct{}  // one while versions are loaded, one after another
	learning   chan struct{}  // one while a version is tried, one after another
	unasked    time.Duration  // of the constant; tests change it
	calm       time.Duration  // of the constant; tests change it
	retained   time.Duration  // of the constant; tests change it

	mu       sync.Mutex
	models   map[string]*model
	besides  map[*lodger]bool // that are not closed
	given    given            // what LoadAll had, where the options have none
	closed   bool
	draining bool
	watched  bool          // Watch follows the catalogue
	keeps    bool          // the policy has versions be kept that a rollback would serve
	active   int           // requests for models that were admitted and are not answered
	idle     chan struct{} // closed once draining and active is 0
}

// New returns a server without models, which is alive and not ready. The error is that of
// weir.NewHost, or that of shm.New about Memory.
func New(o Options) (*Server, error) {
	o.Body = cmp.Or(o.Body, DefaultBody)
	o.Bodies = cmp.Or(o.Bodies, DefaultBodies)
	o.Queue = cmp.Or(o.Queue, DefaultQueue)
	o.Batch = cmp.Or(o.Batch, DefaultBatch)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	var regions *shm.Regions
	if o.Memory != "" {
		var err error
		if regions, err = shm.New(o.Memory); err != nil {
			return nil, err
		}
	}
	host, err := weir.NewHost(o.Host)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, across: newAcross(), host: host, rec: o.Recorder, regions: regions,
		kept: kept.New(o.Cache), models: map[string]*model{}, ballast: make([]byte, ballast),
		idle: make(chan struct{}), promising: make(chan struct{}, 1),
		loading: make(chan struct{}, 1), learning: make(chan struct{}, 1), unasked: unasked,
		calm: calm, retained: retained, keeps: keepsUnder(o.Host.Policy)}
	s.life, s.end = context.WithCancel(context.Background())
	if s.rec == nil {
		s.rec = telemetry.New(telemetry.Options{Version: o.Version, Log: o.Log})
	}
	s.rec.Watch(s)
	s.routes()
	s.inner = s.mux
	s.handler = s.guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inner.ServeHTTP(w, r)
	}))
	return s, nil
}

// Handle adds an endpoint by a pattern of http.ServeMux, before the server serves. It must not
// contradict those that are there.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.patterns = append(s.patterns, pattern)
	s.mux.Handle(pattern, auth.Owned(pattern, h))
}

// Patterns are those of all endpoints, as http.ServeMux has them, before the server serves.
func (s *Server) Patterns() []string { return slices.Clone(s.patterns) }

// Use puts a handler before all endpoints, and before those that Use put there earlier; before the
// server serves. Requests that come from pages of other origins do not reach it.
func (s *Server) Use(before func(next http.Handler) http.Handler) {
	s.inner, s.used = before(s.inner), true
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// net/http writes of its own accord (100 Continue), and leaves the deadline of the last answer
	_ = timed(w).SetWriteDeadline(time.Now().Add(patience))
	s.handler.ServeHTTP(w, r)
}

// Ready reports whether every model that the server was to load when it began is loaded, and it is
// not stopping. What is loaded later, or cannot be, changes nothing of it.
func (s *Server) Ready() bool {
	if !s.loaded.Load() || s.retired.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.models {
		if m.missing {
			return false
		}
	}
	return true
}

// Retire ends readiness, so that whoever spreads requests sends no more, and goes on answering.
func (s *Server) Retire() { s.retired.Store(true) }

// Drain ends readiness, refuses further requests for models, and waits until those that were
// admitted are answered, or ctx is done, whose cause it then returns.
func (s *Server) Drain(ctx context.Context) error {
	s.Retire()
	s.mu.Lock()
	if !s.draining {
		s.draining = true
		if s.active == 0 {
			close(s.idle)
		}
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		left := s.active
		s.mu.Unlock()
		return fmt.Errorf("%d requests were not answered in time: %w", left, context.Cause(ctx))
	}
}

// Close ends all models. Requests under way end with an error.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, m := range s.models {
		m.forgo()
	}
	s.mu.Unlock()
	s.end()
	s.rec.Close()
	err := s.host.Close()
	s.background.Wait()
	if s.regions != nil {
		s.regions.Close()
	}
	return err
}

// run does something beside requests, which Close waits for. Of a server that is closed nothing is
// left to be done: f then ends soon.
func (s *Server) run(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beside(f)
}

// beside is run where mu is held.
func (s *Server) beside(f func()) {
	if s.closed {
		go f()
		return
	}
	s.background.Go(f)
}

// errStopping is what a request is told that comes too late.
var errStopping = busy("the server is stopping")

// stopping reports whether Drain was called.
func (s *Server) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

func (s *Server) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.draining && s.active == 0 {
		close(s.idle)
	}
}
