package scenario

import (
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// watcher keeps what a broker tells: who held the device when. It implements broker.Observer.
type watcher struct {
	stage *stage

	mu     sync.Mutex
	zero   time.Duration // the broker's clock when the phase began
	list   []Hold
	spans  []MemorySpan
	ids    map[share.JobID]int // places among the phase's tenants
	tracks map[share.JobID]trace.Track
	ahead  time.Duration // of the trace's clock before the broker's
}

func newWatcher(s *stage) *watcher {
	return &watcher{stage: s, list: make([]Hold, 0, 1<<14),
		ids: map[share.JobID]int{}, tracks: map[share.JobID]trace.Track{}}
}

// Observe implements broker.Observer: it only appends, since the broker's lock is held.
func (w *watcher) Observe(e core.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == core.Admitted {
		// A job that is let in late is not known by its number yet.
		w.ids[e.Job] = slices.IndexFunc(w.stage.tenants, func(t *tenant) bool {
			return t.p.spec.Name == e.Name
		})
		if rec := w.stage.run.o.Trace; rec != nil {
			w.tracks[e.Job] = rec.Track("policy "+w.stage.phase.Policy, e.Name)
			w.ahead = rec.Now() - e.At
		}
		return
	}
	i := w.indexLocked(e.Job)
	if i < 0 {
		return
	}
	if e.Kind == core.Released {
		w.list = append(w.list,
			Hold{Job: i, From: e.From - w.zero, To: e.At - w.zero,
				Fraction: float64(e.Units.Len()) / float64(w.stage.run.Pool.Threads()),
				Revoked:  e.Reason == core.ReasonRevoked})
	}
	w.record(e)
}

// record writes one event to the trace.
func (w *watcher) record(e core.Notice) {
	rec := w.stage.run.o.Trace
	track, ok := w.tracks[e.Job]
	if !ok {
		return
	}
	from, at := w.ahead+e.From, w.ahead+e.At
	switch e.Kind {
	case core.Released:
		rec.Span(track, "lease", from, at, trace.String("ended", e.Reason.String()))
	case core.Iterated:
		rec.Instant(track, "iteration done", at, trace.Float("ms", ms(e.At-e.From)))
	case core.Ended:
		rec.Instant(track, "ended", at)
	}
}

// moved writes weights of a job that left or came to the trace.
func (w *watcher) moved(id share.JobID, m move) {
	w.mu.Lock()
	defer w.mu.Unlock()
	track, ok := w.tracks[id]
	if !ok {
		return
	}
	name, bytes := "weights came", m.bytes
	if bytes < 0 {
		name, bytes = "weights left", -bytes
	}
	w.stage.run.o.Trace.Instant(track, name, w.ahead+m.at, trace.Int("bytes", bytes),
		trace.Int("resident", m.resident))
}

func (w *watcher) start(brokerNow time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.zero = brokerNow
}

// began returns the broker's clock when the phase began.
func (w *watcher) began() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.zero
}

func (w *watcher) index(id share.JobID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.indexLocked(id)
}

// indexLocked maps a job of the broker to its place among the phase's tenants. Refused jobs were
// never admitted and have none.
func (w *watcher) indexLocked(id share.JobID) int {
	if i, ok := w.ids[id]; ok {
		return i
	}
	return -1
}

func (w *watcher) holds() []Hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list
}

func (w *watcher) memory() []MemorySpan {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spans
}

func (w *watcher) sample(at time.Duration, st core.Status) {
	span := MemorySpan{At: at, Held: make([]share.Bytes, len(w.stage.tenants))}
	for _, j := range st.Jobs {
		if i := w.index(j.ID); i >= 0 {
			span.Held[i] = j.Memory.Resident()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spans = append(w.spans, span)
	rec := w.stage.run.o.Trace
	for _, j := range st.Jobs {
		if track, ok := w.tracks[j.ID]; ok {
			rec.Counter(track, "memory of "+j.Name, w.ahead+st.Now,
				float64(j.Memory.Resident()))
			rec.Counter(track, "copied by "+j.Name, w.ahead+st.Now, float64(j.Copied))
		}
	}
}
