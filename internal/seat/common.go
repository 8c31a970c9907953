package seat

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// Commons are weights that several jobs of one broker use together. A job of its own holds each of
// them, once: no request comes to it, it is entitled to no device time, and it ends with the last
// of those who use it. What these hold themselves is the rest of their memory.
type Commons struct {
	broker *broker.Broker

	mu  sync.Mutex
	all map[string]*common
}

// NewCommons returns what holds weights that jobs of a broker share.
func NewCommons(b *broker.Broker) *Commons {
	return &Commons{broker: b, all: map[string]*common{}}
}

// Loaded is weights on the device, as those of engine.Session.
type Loaded interface {
	Weighty
	// Reload is how long it takes to bring all of them.
	Reload() time.Duration
	// Close gives them back.
	Close()
}

// common is weights that jobs use together.
type common struct {
	of      *Commons
	key     string
	bytes   int64
	job     *broker.Job
	memory  *Elastic
	ready   chan struct{} // closed once they are loaded, or err says why they are not
	weights Loaded
	err     error
	members int // guarded by of.mu
	staying int // of them, those for whom the weights stay

	coming chan struct{} // held by who has them brought
	mu     sync.Mutex
	users  int           // iterations for which they are to stay
	unused chan struct{} // closed when the last of these ends; nil while nobody waits
}

// Use is a job's use of weights that it shares with others. Resident, Begin and End are for the
// goroutine that runs the job's iterations, Leave for after them.
type Use struct {
	common *common
	stays  bool // for this job
	held   bool // Resident or Begin was successful, and End was not called since
	left   sync.Once
}

// Join has a job use weights with all who join by the same key, until Leave. For the first of them
// a job is admitted by the name that is given, which says whose weights they are; it waits until
// there is room for so many bytes, and load loads them under a quota that grants them. For a job
// that is not elastic they stay where they are. The errors are those of [broker.Broker.Admit], of
// [broker.Job.SetShare], of ctx, and of load.
func (c *Commons) Join(ctx context.Context, key, name string, bytes int64, elastic bool,
	load func(device.Quota) (Loaded, error)) (*Use, error) {
	for {
		w, first, err := c.enter(key, name, bytes)
		if err != nil {
			return nil, err
		}
		u := &Use{common: w, stays: !elastic}
		if first {
			w.load(ctx, load)
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			c.leave(w, false)
			return nil, ctx.Err()
		}
		switch err := w.stay(u.stays); {
		case w.err != nil && first:
			return nil, fmt.Errorf("%s: %w", name, w.err)
		case w.err != nil: // of who came first: it is tried again
		case err != nil:
			c.leave(w, false)
			return nil, err
		default:
			w.expect()
			return u, nil
		}
	}
}

// enter counts a member, and admits the job of weights that nobody uses yet.
func (c *Commons) enter(key, name string, bytes int64) (w *common, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w = c.all[key]; w != nil {
		w.members++
		return w, false, nil
	}
	// The least weight that there can be: device time is for those who use the weights.
	job, err := c.broker.Admit(share.Job{Name: name, Share: share.Share{Memory: share.Bytes(bytes),
		Elastic: true, Compute: 1e-9, Class: share.Opportunistic}}, share.Bytes(bytes))
	if err != nil {
		return nil, false, err
	}
	w = &common{of: c, key: key, bytes: bytes, job: job, memory: NewElastic(job), members: 1,
		ready: make(chan struct{}), coming: make(chan struct{}, 1)}
	c.all[key] = w
	return w, true, nil
}

// load loads the weights, for the first who uses them.
func (w *common) load(ctx context.Context, load func(device.Quota) (Loaded, error)) {
	err := w.memory.Reserve(ctx, w.bytes, 0)
	if err == nil {
		w.weights, err = load(w.memory.Weights())
	}
	if err == nil {
		w.memory.Attach(w.weights)
	} else {
		w.of.mu.Lock()
		delete(w.of.all, w.key)
		w.job.End(err)
		w.of.mu.Unlock()
	}
	w.err = err
	close(w.ready)
}

// stay has loaded weights stay for a job, if they are to.
func (w *common) stay(stays bool) error {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if !stays || w.err != nil {
		return nil
	}
	if w.staying == 0 {
		s := w.job.Spec().Share
		s.Keep = s.Memory
		if err := w.job.SetShare(s); err != nil {
			return err
		}
	}
	w.staying++
	return nil
}

// leave takes back what Join has counted. The last who uses the weights gives them back.
func (c *Commons) leave(w *common, stays bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.members--; stays {
		w.staying--
	}
	switch {
	case c.all[w.key] != w: // never loaded
	case w.members == 0:
		delete(c.all, w.key)
		w.weights.Close()
		w.job.End(nil)
	case stays && w.staying == 0:
		s := w.job.Spec().Share
		s.Keep = 0
		_ = w.job.SetShare(s) // a promise can always be lowered
	}
}

// expect tells the broker how many use the weights, which leave after those that fewer do, and how
// long it takes to bring them.
func (w *common) expect() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.job.Expect(share.Forecast{Users: w.members, Reload: w.weights.Reload()})
}

// Quota is that of the weights, which have been granted.
func (u *Use) Quota() device.Quota { return u.common.memory.Weights() }

// Weights is what the job shares.
func (u *Use) Weights() Loaded { return u.common.weights }

// Expect tells the broker how long it takes to bring the weights now.
func (u *Use) Expect() { u.common.expect() }

// Leave ends the job's use; the last one gives the weights back. Leaving twice is allowed.
func (u *Use) Leave() {
	u.left.Do(func() {
		u.End()
		u.common.of.leave(u.common, u.stays)
	})
}

// Resident waits until all of the weights are on the device or on their way, and has them stay
// until End. The job must hold no lease and wait for none. Who comes while others wait for the room
// of the weights, which go once nobody uses them, waits for its turn.
func (u *Use) Resident(ctx context.Context) error {
	if u.held {
		return nil
	}
	w := u.common
	select {
	case w.coming <- struct{}{}:
		defer func() { <-w.coming }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !w.another() {
		if err := w.free(ctx); err != nil {
			return err
		}
		if err := w.bring(ctx); err != nil {
			return err
		}
	}
	u.held = true
	return nil
}

// another counts one more iteration where there is one already, unless the weights are to go.
func (w *common) another() bool {
	_, told := w.job.Told()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 || told {
		return false
	}
	w.users++
	return true
}

// free waits until no iteration needs the weights.
func (w *common) free(ctx context.Context) error {
	w.mu.Lock()
	if w.users == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.unused == nil {
		w.unused = make(chan struct{})
	}
	unused := w.unused
	w.mu.Unlock()
	select {
	case <-unused:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bring waits for the weights, for the first iteration that needs them. coming is held, so there is
// no other.
func (w *common) bring(ctx context.Context) error {
	w.job.Arrive()
	for {
		if err := w.memory.Resident(ctx); err != nil {
			w.job.Complete()
			return err
		}
		if w.begin() {
			return nil
		}
	}
}

// begin keeps the weights where they are, if all are there.
func (w *common) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.memory.Begin() {
		return false
	}
	w.users = 1
	return true
}

// Begin keeps the weights where they are until End, and reports whether all are on the device or on
// their way. It does not wait, because its caller holds the device: it says no.
func (u *Use) Begin() bool {
	if u.held {
		return true
	}
	w := u.common
	select {
	case w.coming <- struct{}{}:
		defer func() { <-w.coming }()
	default:
		return false
	}
	u.held = w.another()
	if u.held || w.inUse() {
		return u.held
	}
	w.job.Arrive()
	if u.held = w.begin(); !u.held {
		w.job.Complete()
	}
	return u.held
}

func (w *common) inUse() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.users > 0
}

// End is the end of an iteration, or of the wait for one. What others wait for leaves the device
// once no iteration needs it.
func (u *Use) End() {
	if !u.held {
		return
	}
	u.held = false
	w := u.common
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 1 { // before another begins
		w.memory.End()
		w.job.Complete()
		if w.unused != nil {
			close(w.unused)
			w.unused = nil
		}
	}
	w.users--
}
