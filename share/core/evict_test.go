package core_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/evict"
)

var histories = flag.Int("histories", 60, "random histories of twenty jobs in TestHistories")

// TestHistories lets twenty jobs join, load, iterate, give memory back, change their shares, fail
// and end at random in virtual time, under policies and eviction rules that change. Never a byte is
// held over a cap or the device, nobody is asked for what it keeps, or within an iteration, and all
// that waits is served.
func TestHistories(t *testing.T) {
	n := uint64(*histories)
	if os.Getenv("WEIR_LONG") != "" {
		n = max(n, 10_000)
	}
	told := 0
	for seed := range n {
		h := newCrowd(t, seed)
		h.play()
		if told += h.told; t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if told < int(n) {
		t.Errorf("%d evictions in %d histories", told, n)
	}
}

// actor is a job as its driver sees it.
type actor struct {
	name      string
	id        share.JobID // 0: outside
	spec      share.Job
	size      share.Bytes // of its weights
	ephemeral share.Bytes // in an iteration
	held      share.Bytes // of the weights
	extra     bool        // ephemeral is reserved
	queue     int
	lazy      bool        // gives back less than it is told
	most      share.Bytes // to be held; below 0: not told
	busy      int
	end       time.Duration // of the iteration
	version   int           // of what is to come
}

// What an actor does.
const (
	idles = iota
	wantsMemory
	wantsDevice
	iterates // and holds the device, or waits for it again
)

// coming is something that an actor does at a time.
type coming struct {
	at      time.Duration
	actor   *actor
	what    int
	version int
}

// What comes.
const (
	joins = iota
	asks
	slice
	gives
	changes
	fails
)

// crowd is a device and its jobs in virtual time.
type crowd struct {
	t        *testing.T
	r        *rand.Rand
	c        *core.Core
	now      time.Duration
	calendar []coming
	actors   []*actor
	notices  []core.Notice
	wake     time.Duration
	told     int
	draining bool
	lanes    int
	lacks    share.Bytes // above 0: what was promised is not all free yet
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	h := &crowd{t: t, r: rand.New(rand.NewPCG(seed, 13)), lanes: int(seed % 3)}
	rule, err := evict.New(evict.Names()[seed%uint64(len(evict.Names()))])
	if err != nil {
		t.Fatal(err)
	}
	c, err := core.Config{Device: "cpu:0", Units: 4, Memory: 1000, Can: everything,
		Eviction: rule, Lanes: h.lanes}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	if h.c, err = core.New(c); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		a := &actor{name: fmt.Sprint("job ", i), lazy: i == 0, most: -1}
		h.actors = append(h.actors, a)
		h.in(a, joins, 20*ms)
	}
	return h
}

// in lets something come within so long.
func (h *crowd) in(a *actor, what int, most time.Duration) {
	h.at(h.now+time.Duration(h.r.Int64N(int64(most))), a, what)
}

// at lets something come at a time, after what was to come then.
func (h *crowd) at(at time.Duration, a *actor, what int) {
	i, _ := slices.BinarySearchFunc(h.calendar, at, func(c coming, at time.Duration) int {
		if c.at <= at {
			return -1
		}
		return 1
	})
	h.calendar = slices.Insert(h.calendar, i, coming{at, a, what, a.version})
}

// play lets things happen at random for a while, and then lets all that began come to its end.
func (h *crowd) play() {
	const events, drained = 600, 20_000
	for n := 0; n < drained && !h.t.Failed(); n++ {
		h.draining = n >= events
		if n == events {
			h.actors[0].queue = min(1, h.actors[0].queue)
			h.fail(h.actors[0]) // who is lazy may keep others waiting for ever
		}
		if h.wake > 0 && (len(h.calendar) == 0 || h.wake < h.calendar[0].at) {
			h.now = max(h.now, h.wake)
			h.must(core.Event{Kind: core.Tick})
		} else if len(h.calendar) > 0 {
			e := h.calendar[0]
			h.calendar = h.calendar[1:]
			h.now = e.at
			h.happen(e)
		} else {
			break
		}
		h.heed()
	}
	for _, a := range h.actors {
		if h.t.Failed() {
			return
		}
		if a.busy != idles || a.id != 0 && a.queue > 0 {
			s, _ := h.c.Job(a.id)
			h.t.Errorf("in the end %s has %d requests, does %d: %v, %+v", a.name, a.queue, a.busy,
				s.Phase, s.Memory)
		}
	}
}

func (h *crowd) happen(e coming) {
	a := e.actor
	switch {
	case e.what == joins && !h.draining:
		h.join(a)
	case a.id == 0:
	case e.what == asks && !h.draining:
		a.queue++
		h.must(core.Event{Kind: core.Arrive, Job: a.id})
		h.begin(a)
		h.in(a, asks, 100*ms)
	case e.what == slice && e.version == a.version:
		h.sliced(a)
	case e.what == gives:
		h.give(a)
	case e.what == changes && !h.draining:
		h.change(a)
		h.in(a, changes, 500*ms)
	case e.what == fails && !h.draining:
		h.fail(a)
	}
}

// step tells the core of something, and checks what is.
func (h *crowd) step(e core.Event) error {
	e.At = h.now
	notices, err := h.c.Step(e)
	h.notices = append(h.notices, notices...)
	h.wake = h.c.Wake()
	for _, n := range notices {
		if s, _ := h.c.Job(n.Job); n.Kind == core.Evicted && (s.InIteration || !s.Share.Elastic ||
			n.Bytes < s.Share.Keep || n.Bytes >= s.Memory.Resident()) {
			h.t.Errorf("%v: %s is to hold %v: %+v", h.now, n.Name, n.Bytes, s.JobState)
		}
	}
	h.sound()
	return err
}

func (h *crowd) must(e core.Event) {
	if err := h.step(e); err != nil {
		h.t.Errorf("%v: %v", e.Kind, err)
	}
}

// sound checks that no byte is held beyond what may be, and that what waits does not fit.
func (h *crowd) sound() {
	s := h.c.Status()
	held, lacks := share.Bytes(0), -s.Memory
	lanes := map[int]share.Bytes{}
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		held += m.Resident()
		lacks += max(m.Own(), m.Cap-m.Shared-m.Bends)
		lanes[m.Lane] = max(lanes[m.Lane], m.Shared)
		if m.Resident() > m.Cap {
			h.t.Errorf("%v: %s is over its cap: %+v", h.now, s.Jobs[i].Name, *m)
		}
	}
	for _, size := range lanes {
		lacks += size
	}
	if h.lacks = lacks; held > s.Memory {
		h.t.Errorf("%v: jobs hold %v of %v", h.now, held, s.Memory)
	}
	asked, fit := 0, 0
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		if m.Asked == 0 {
			continue
		}
		asked++
		if m.Own()+m.Asked <= m.Cap-m.Shared && lacks+more(m) <= 0 {
			fit++
		}
	}
	if asked > 0 && asked == fit {
		h.t.Errorf("%v: whoever waits fits, %v left", h.now, -lacks)
	}
}

// more is what has to be found for a reservation that waits, all of the weights.
func more(m *share.Memory) share.Bytes {
	kept := m.Cap - m.Shared - m.Bends
	return max(kept, m.Own()+m.Asked) - max(kept, m.Own())
}

// join asks for a job to be let in.
func (h *crowd) join(a *actor) {
	size, ephemeral := 50+share.Bytes(h.r.IntN(250)), share.Bytes(h.r.IntN(30))
	a.spec = share.Job{Name: a.name, Ephemeral: ephemeral,
		Share: share.Share{Memory: size + ephemeral, Elastic: h.r.IntN(5) > 0,
			Class: share.Class(h.r.IntN(3))}}
	if a.spec.Elastic && h.r.IntN(2) == 0 {
		a.spec.Keep = share.Bytes(h.r.IntN(int(size / 3)))
	}
	a.size, a.ephemeral = size, 0
	if !a.spec.Elastic || h.lanes > 0 {
		a.ephemeral = ephemeral
	}
	err := h.step(core.Event{Kind: core.Admit, Spec: &a.spec, Need: a.spec.Memory})
	if err != nil {
		if !errors.Is(err, core.ErrNoMemory) {
			h.t.Error(err)
		}
		h.in(a, joins, 200*ms)
		return
	}
	s := h.c.Status()
	a.id = s.Jobs[len(s.Jobs)-1].ID
	a.held, a.extra, a.queue, a.busy, a.most = 0, false, 0, idles, -1
	h.in(a, asks, 50*ms)
	h.in(a, changes, 500*ms)
	h.in(a, fails, 3*sec)
}

// begin loads what is away and asks for the device.
func (h *crowd) begin(a *actor) {
	if a.busy != idles || a.queue == 0 {
		return
	}
	h.give(a) // as it was told to, before it begins another iteration
	if away := a.size - a.held; away > 0 {
		a.busy = wantsMemory
		e := core.Event{Kind: core.Reserve, Job: a.id, Bytes: away, Wait: true}
		h.must(e)
		if s, _ := h.c.Job(a.id); s.Memory.Asked > 0 {
			return
		}
		a.held += away
	}
	a.busy = wantsDevice
	h.must(core.Event{Kind: core.Want, Job: a.id})
}

// granted runs, from its begin or on.
func (h *crowd) granted(a *actor, until time.Duration) {
	if a.busy == wantsDevice && a.held < a.size {
		a.busy = idles // asked back meanwhile
		h.must(core.Event{Kind: core.Release, Job: a.id})
		h.begin(a)
		return
	}
	if a.busy == wantsDevice {
		a.busy, a.end = iterates, h.now+ms+time.Duration(h.r.Int64N(int64(10*ms)))
		h.must(core.Event{Kind: core.Begin, Job: a.id})
	}
	if a.ephemeral > 0 && !a.extra {
		h.reserveExtra(a)
	}
	a.end = max(a.end, h.now+ms/8)
	a.version++
	h.at(min(a.end, max(h.now, until)), a, slice)
}

// reserveExtra takes what the job holds within an iteration, which was promised to it: it is never
// refused, unless more was promised a moment ago.
func (h *crowd) reserveExtra(a *actor) {
	err := h.step(core.Event{Kind: core.Reserve, Job: a.id, Memory: core.Ephemeral,
		Bytes: a.ephemeral})
	if a.extra = err == nil; a.extra || errors.Is(err, core.ErrNoMemory) && h.lacks > 0 {
		return
	}
	h.t.Errorf("%s: %v", a.name, err)
}

// sliced ends a hold, and the iteration with it if it is over.
func (h *crowd) sliced(a *actor) {
	if h.now < a.end {
		h.must(core.Event{Kind: core.Return, Job: a.id})
		return
	}
	if a.extra {
		h.must(core.Event{Kind: core.Unreserve, Job: a.id, Memory: core.Ephemeral,
			Bytes: a.ephemeral})
	}
	a.extra, a.busy = false, idles
	h.must(core.Event{Kind: core.Finish, Job: a.id})
	if h.r.IntN(2) == 0 {
		h.give(a)
	} else if a.most >= 0 {
		h.in(a, gives, 5*ms)
	}
	h.must(core.Event{Kind: core.Release, Job: a.id})
	a.queue--
	h.must(core.Event{Kind: core.Complete, Job: a.id})
	h.begin(a)
}

// give gives back what the job was told to.
func (h *crowd) give(a *actor) {
	if a.most < 0 || a.busy == iterates {
		return
	}
	n := a.held - a.most
	a.most = -1
	if n <= 0 {
		return
	}
	if a.lazy {
		n /= 2
	}
	a.held -= n
	h.must(core.Event{Kind: core.Unreserve, Job: a.id, Bytes: n})
	if a.lazy {
		h.must(core.Event{Kind: core.Stay, Job: a.id})
	}
}

// change gives a job another share, or the device another policy.
func (h *crowd) change(a *actor) {
	if h.r.IntN(8) == 0 {
		names := []string{"fair", "priority", "fifo", "timeslice", "mps"}
		h.must(core.Event{Kind: core.Switch, Policy: names[h.r.IntN(len(names))]})
		return
	}
	s := a.spec.Share
	s.Memory = a.size + a.spec.Ephemeral + share.Bytes(h.r.IntN(50))
	s.Elastic = h.r.IntN(5) > 0 && (a.ephemeral == 0 || h.lanes > 0)
	if s.Keep = 0; s.Elastic {
		s.Keep = share.Bytes(h.r.IntN(int(a.size)))
	}
	if err := h.step(core.Event{Kind: core.Change, Job: a.id, Spec: &share.Job{Name: a.name,
		Share: s}}); err == nil {
		a.spec.Share = s
	}
}

// fail ends a job amid whatever it does.
func (h *crowd) fail(a *actor) {
	if a.id == 0 {
		return
	}
	h.must(core.Event{Kind: core.End, Job: a.id, Cause: errors.New("failed")})
	a.id, a.busy, a.queue = 0, idles, 0
	a.version++
	h.in(a, joins, 200*ms)
}

// heed does what the notices say, which comes to an end before time goes on.
func (h *crowd) heed() {
	const most = 10_000
	for i := 0; i < len(h.notices) && !h.t.Failed(); i++ {
		if i == most {
			h.t.Errorf("%v: more than %d notices at once: %+v", h.now, most, h.notices[i-4:i])
		}
		n := h.notices[i]
		for _, a := range h.actors {
			if a.id == n.Job && a.id != 0 {
				h.hear(a, &n)
			}
		}
	}
	h.notices = h.notices[:0]
}

func (h *crowd) hear(a *actor, n *core.Notice) {
	switch n.Kind {
	case core.Reserved:
		a.held += n.Bytes
		a.busy = idles
		h.begin(a)
	case core.Granted:
		h.granted(a, n.Until)
	case core.Resized:
		h.granted(a, n.Until)
	case core.Revoked:
		if a.version++; a.busy == iterates {
			h.must(core.Event{Kind: core.Return, Job: a.id})
		}
	case core.Evicted:
		h.told++
		h.in(a, gives, 5*ms)
		a.most = n.Bytes
	}
}
