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
	members int            // guarded by of.mu
	keeps   map[*Use]int64 // what stays for those who have joined
	shelved int            // members whose jobs are kept in case they are wanted again; likewise

	coming chan struct{} // held by who has them brought
	mu     sync.Mutex
	users  int           // iterations for which they are to stay
	unused chan struct{} // closed when the last of these ends; nil while nobody waits
}

// Use is a job's use of weights that it shares with others. Resident, Begin and End are for the
// goroutine that runs the job's iterations, Leave for after them.
type Use struct {
	common *common
	held   bool // Resident or Begin was successful, and End was not called since
	left   sync.Once
	// shelved is that of Shelve, guarded by the common's of.mu
	shelved bool
}

// Join has a job use weights with all who join by the same key, until Leave. For the first of them
// a job is admitted by the name that is given, which says whose weights they are; it waits until
// there is room for so many bytes, and load loads them under a quota that grants them. As many of
// them as the job keeps stay where they are once they are there, the most of what any of its users
// does. The errors are those of [broker.Broker.Admit], of [broker.Job.SetShare], of ctx, and of
// load.
func (c *Commons) Join(ctx context.Context, key, name string, bytes, keep int64,
	load func(device.Quota) (Loaded, error)) (*Use, error) {
	for {
		w, first, err := c.enter(key, name, bytes)
		if err != nil {
			return nil, err
		}
		u := &Use{common: w}
		if first {
			w.load(ctx, load)
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			u.Leave()
			return nil, ctx.Err()
		}
		switch err := u.Keep(keep); {
		case w.err != nil && first:
			return nil, fmt.Errorf("%s: %w", name, w.err)
		case w.err != nil: // of who came first: it is tried again
		case err != nil:
			u.Leave()
			return nil, err
		default:
			u.Expect()
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
	job, err := c.broker.Admit(ofWeights(name, bytes, 0), share.Bytes(bytes))
	if err != nil {
		return nil, false, err
	}
	w = c.add(key, bytes, job)
	return w, true, nil
}

// ofWeights is the job that holds weights. It has the least weight that there can be: device time
// is for those who use them.
func ofWeights(name string, bytes, keep int64) share.Job {
	return share.Job{Name: name, Share: share.Share{Memory: share.Bytes(bytes),
		Keep: share.Bytes(keep), Elastic: true, Compute: 1e-9, Class: share.Opportunistic}}
}

// add notes weights, with the first member; c.mu is held.
func (c *Commons) add(key string, bytes int64, job *broker.Job) *common {
	w := &common{of: c, key: key, bytes: bytes, job: job, memory: NewElastic(job), members: 1,
		keeps: map[*Use]int64{}, ready: make(chan struct{}), coming: make(chan struct{}, 1)}
	c.all[key] = w
	return w
}

// Shared is what weights that one job has had alone have to do to be shared.
type Shared interface {
	Loaded
	// Requota is that of engine.Session.
	Requota(ctx context.Context, next func(granted int64) (device.Quota, error)) error
}

// Found has weights that a job has loaded, under a quota of its own, be used together from here on,
// with all who join by the key. What of them is on the device is counted on as before, and so is
// the cap: the job's is lower by as much as the weights, and all that is left of it is set apart
// for the job. It must be outside of an iteration and wait for no memory. The errors are those of
// [broker.Job.Split] and Requota, and change nothing.
func (c *Commons) Found(ctx context.Context, key, name string, bytes, keep int64, job *broker.Job,
	weights Shared) (*Use, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key] != nil {
		return nil, fmt.Errorf("%s: they are shared already", name)
	}
	var w *common
	err := weights.Requota(ctx, func(granted int64) (device.Quota, error) {
		of, err := job.Split(ofWeights(name, bytes, keep), share.Bytes(granted))
		if err != nil {
			return nil, err
		}
		w = c.add(key, bytes, of)
		return w.memory.Weights(), nil
	})
	if err != nil {
		return nil, err
	}
	w.weights = weights
	w.memory.Attach(weights)
	close(w.ready)
	u := &Use{common: w}
	w.keeps[u] = keep
	return u, nil
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

// Keep has so many bytes of the weights stay for the job, as far as they are on the device, or come
// to it. The error is that of [broker.Job.SetShare], and changes nothing.
func (u *Use) Keep(n int64) error {
	w := u.common
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.err != nil {
		return nil // they were never loaded
	}
	was := w.keeps[u]
	w.keeps[u] = min(n, w.bytes)
	err := w.settle()
	if err != nil {
		w.keeps[u] = was
	}
	return err
}

// Kept is how many bytes of the weights stay for the job.
func (u *Use) Kept() int64 {
	u.common.of.mu.Lock()
	defer u.common.of.mu.Unlock()
	return u.common.keeps[u]
}

// settle has stay what any job keeps; of.mu is held.
func (w *common) settle() error {
	s, most := w.job.Spec().Share, int64(0)
	for _, n := range w.keeps {
		most = max(most, n)
	}
	if s.Keep == share.Bytes(most) {
		return nil
	}
	s.Keep = share.Bytes(most)
	return w.job.SetShare(s)
}

// leave takes back what Join has counted. The last who uses the weights gives them back.
func (c *Commons) leave(u *Use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := u.common
	w.members--
	delete(w.keeps, u)
	if u.shelved {
		w.shelved--
	}
	switch {
	case c.all[w.key] != w: // never loaded
	case w.members == 0:
		delete(c.all, w.key)
		w.weights.Close()
		w.job.End(nil)
	default:
		_ = w.settle() // a promise can always be lowered
		select {
		case <-w.ready:
			w.expect()
		default:
		}
	}
}

// expect tells the broker how many use the weights, which leave after those that fewer do, and how
// long it takes to bring them; of.mu is held.
func (w *common) expect() {
	w.job.Expect(share.Forecast{Users: w.members, Reload: w.weights.Reload()})
	w.job.Shelve(w.shelved == w.members)
}

// Quota is that of the weights, which have been granted.
func (u *Use) Quota() device.Quota { return u.common.memory.Weights() }

// Weights is what the job shares.
func (u *Use) Weights() Loaded { return u.common.weights }

// Expect tells the broker how long it takes to bring the weights now.
func (u *Use) Expect() {
	u.common.of.mu.Lock()
	defer u.common.of.mu.Unlock()
	u.common.expect()
}

// Shelve says whether the job is kept in case it is wanted again. Weights go before those of others
// while all of the jobs that use them are.
func (u *Use) Shelve(on bool) {
	w := u.common
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if u.shelved == on {
		return
	}
	if u.shelved = on; on {
		w.shelved++
	} else {
		w.shelved--
	}
	w.job.Shelve(w.shelved == w.members)
}

// Members is how many jobs use the weights.
func (u *Use) Members() int {
	u.common.of.mu.Lock()
	defer u.common.of.mu.Unlock()
	return u.common.members
}

// Name is what the job of the weights is called.
func (u *Use) Name() string { return u.common.job.Name() }

// Leave ends the job's use; the last one gives the weights back. Leaving twice is allowed.
func (u *Use) Leave() {
	u.left.Do(func() {
		u.End()
		u.common.of.leave(u)
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
