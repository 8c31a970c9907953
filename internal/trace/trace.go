package trace

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// MaxArgs is the number of arguments an event keeps; more are ignored.
const MaxArgs = 4

// DefaultCapacity is a capacity that suits a few seconds of a few jobs: 65536 events, about 17 MB.
const DefaultCapacity = 1 << 16

// Clock tells the time since an origin that all events of a trace share.
type Clock interface {
	Now() time.Duration
}

// Track is a line of the picture, obtained from [Recorder.Track]. The zero Track is a line of its
// own without a name.
type Track struct{ process, thread int32 }

// Recorder holds events in the order in which they were recorded. Times are readings of the
// recorder's clock.
type Recorder struct {
	clock   Clock
	events  []event
	claimed atomic.Int64 // events ever recorded, kept or not
	refused atomic.Int64 // counter values that are not numbers

	mu     sync.Mutex
	tracks []trackName // all but the zero Track
	byName map[trackName]Track
	groups map[string]int32
}

type trackName struct {
	process, thread string
	track           Track
}

// phase is the kind of an event, by the letter that the format has for it.
type phase byte

const (
	span      phase = 'X'
	instant   phase = 'i'
	counter   phase = 'C'
	flowStart phase = 's'
	flowStep  phase = 't'
	flowEnd   phase = 'f'
)

// event is one record. It is written once, by the goroutine that claimed it, and may be read once
// ready is set.
type event struct {
	ready    atomic.Bool
	phase    phase
	nargs    uint8
	track    Track
	name     string
	at       time.Duration
	duration time.Duration // of a span
	id       uint64        // of a flow; bits of a counter's value
	args     [MaxArgs]Arg
}

// New returns a recorder that keeps the first capacity events, in memory it claims at once;
// capacity <= 0 stands for [DefaultCapacity].
func New(c Clock, capacity int) *Recorder {
	if capacity <= 0 {
		capacity = DefaultCapacity
	}
	return &Recorder{
		clock:  c,
		events: make([]event, capacity),
		byName: map[trackName]Track{},
		groups: map[string]int32{},
	}
}

// Track returns the track named thread in the group named process; the same names give the same
// track. Tracks appear in the order in which they were first asked for. It takes a lock and may
// allocate: call it once per track.
func (r *Recorder) Track(process, thread string) Track {
	if r == nil {
		return Track{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := trackName{process: process, thread: thread}
	if t, ok := r.byName[key]; ok {
		return t
	}
	group, ok := r.groups[process]
	if !ok {
		group = int32(len(r.groups) + 1)
		r.groups[process] = group
	}
	t := Track{process: group, thread: int32(len(r.tracks) + 1)}
	r.byName[key] = t
	r.tracks = append(r.tracks, trackName{process, thread, t})
	return t
}

// Now reads the recorder's clock; it returns 0 for a nil Recorder.
func (r *Recorder) Now() time.Duration {
	if r == nil {
		return 0
	}
	return r.clock.Now()
}

// Span records that name lasted from start to end. Spans of one track must nest or follow one
// another; an end before the start counts as the start.
func (r *Recorder) Span(t Track, name string, start, end time.Duration, args ...Arg) {
	if e := r.claim(span, t, name, start); e != nil {
		e.duration = max(end-start, 0)
		e.finish(args)
	}
}

// Instant records that name happened at a moment.
func (r *Recorder) Instant(t Track, name string, at time.Duration, args ...Arg) {
	if e := r.claim(instant, t, name, at); e != nil {
		e.finish(args)
	}
}

// Counter records the value that the quantity called name has from a moment on. A quantity belongs
// to the track's process. Values that are not finite numbers count as dropped.
func (r *Recorder) Counter(t Track, name string, at time.Duration, value float64) {
	if r == nil {
		return
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		r.refused.Add(1)
		return
	}
	if e := r.claim(counter, t, name, at); e != nil {
		e.id = math.Float64bits(value)
		e.finish(nil)
	}
}

// FlowStart begins an arrow, from the span that encloses the moment on the track. All parts of one
// arrow have the same name and the same id.
func (r *Recorder) FlowStart(t Track, name string, id uint64, at time.Duration) {
	r.flow(flowStart, t, name, id, at)
}

// FlowStep leads an arrow through the span that encloses the moment on the track.
func (r *Recorder) FlowStep(t Track, name string, id uint64, at time.Duration) {
	r.flow(flowStep, t, name, id, at)
}

// FlowEnd ends an arrow at the span that encloses the moment on the track.
func (r *Recorder) FlowEnd(t Track, name string, id uint64, at time.Duration) {
	r.flow(flowEnd, t, name, id, at)
}

func (r *Recorder) flow(p phase, t Track, name string, id uint64, at time.Duration) {
	if e := r.claim(p, t, name, at); e != nil {
		e.id = id
		e.finish(nil)
	}
}

// Len returns the number of events kept.
func (r *Recorder) Len() int {
	if r == nil {
		return 0
	}
	return int(min(r.claimed.Load(), int64(len(r.events))))
}

// Dropped returns the number of events that were not kept because the recorder was full or their
// value was not a number.
func (r *Recorder) Dropped() int64 {
	if r == nil {
		return 0
	}
	return max(r.claimed.Load()-int64(len(r.events)), 0) + r.refused.Load()
}

// claim takes the next event, or returns nil if there is none.
func (r *Recorder) claim(p phase, t Track, name string, at time.Duration) *event {
	if r == nil {
		return nil
	}
	i := r.claimed.Add(1) - 1
	if i >= int64(len(r.events)) {
		return nil
	}
	e := &r.events[i]
	e.phase, e.track, e.name, e.at = p, t, name, at
	return e
}

// finish adds the arguments and lets readers see the event.
func (e *event) finish(args []Arg) {
	e.nargs = uint8(copy(e.args[:], args))
	e.ready.Store(true)
}
