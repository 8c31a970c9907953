package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file gives jobs on several devices their leases together: gang scheduling, as in Ousterhout,
// "Scheduling techniques for concurrent systems", ICDCS 1982. The ranks of a distributed program
// wait for each other on their devices, so that one which runs while another waits for its turn
// only keeps its device from others, and two programs that cross keep each other waiting.
//
// No policy knows of gangs: each decides on its own device, and a gang runs when all of them have
// decided for it. It waits for one device and holds nothing meanwhile. Once it has that, it wants
// the others too and holds what it gets, but only for a while (its patience): if a device is
// missing then, it gives all back. Patience doubles with each try in vain, so that kernels longer
// than it do not keep a gang waiting for ever.
//
// What a gang holds in vain it is charged for, as nobody else could use it: were it not, whoever
// has a job on the missing device could keep the other one idle for nothing. So a device that it
// held comes back to it only when that is paid off, which with a fifth of the device takes five
// times as long as it held it. Would it hold another meanwhile, it would be in debt there next, and
// deeper each time. Hence after a try in vain it holds nothing before each device has decided for
// it once more, and begins with the last that does, on which it had most to pay. So it waits for
// the missing one too, as are several locks taken without an order, in which each could be waited
// for while others are held (std::lock of C++).
//
// Of two gangs that have a device in common only the one that has waited for longer holds some of
// its devices while it waits for others, and the other gives back what it has not run on yet, as in
// wound-wait (Rosenkrantz, Stearns and Lewis, 1978): so they do not wait for each other.

const (
	// Patience is for how long a gang at first keeps devices idle while it waits for its others.
	Patience = 10 * time.Millisecond
	// MostPatience is what that grows to, if the gang tries in vain.
	MostPatience = 30 * time.Second
	// retry is the time between two tries: gangs that take what the other has not run on yet from
	// each other would else do so without end at one moment.
	retry = 100 * time.Microsecond
)

// Gangs are the gangs on some devices. All on one device must be in the same. The zero value has
// none.
type Gangs struct {
	mu         sync.Mutex
	last       int64 // number given to a gang that began to wait
	collecting []*Gang
}

// Gang is a set of jobs on several devices that hold their leases together. It is for one goroutine
// at a time, which alone acquires and releases the leases of its jobs.
type Gang struct {
	all      *Gangs
	jobs     []*Job
	first    *Job // whose lease is held while others are waited for; nil: any
	patience time.Duration
	kicked   chan struct{} // one token when a lease of a job was revoked, or it is wounded

	// Guarded by the lock of all.
	age     int64         // the lower, the longer it has waited
	done    chan struct{} // set while it collects; closed when it has all its leases or gave up
	wounded bool          // it is to give up for one that has waited for longer
}

// New returns a gang without jobs.
func (s *Gangs) New() *Gang {
	return &Gang{all: s, patience: Patience, kicked: make(chan struct{}, 1)}
}

// Jobs returns the jobs, which the caller must not change.
func (g *Gang) Jobs() []*Job { return g.jobs }

// Join adds a job, which holds no lease, on a device on which the gang has none. The gang holds no
// leases.
func (g *Gang) Join(j *Job) {
	j.b.mu.Lock()
	j.gang = g
	j.b.mu.Unlock()
	g.jobs = append(slices.Clip(g.jobs), j)
}

// Leave takes a job out, with the lease that it may hold. Leaving again does nothing.
func (g *Gang) Leave(j *Job) {
	j.b.mu.Lock()
	j.gang = nil
	j.b.mu.Unlock()
	g.jobs = slices.DeleteFunc(slices.Clone(g.jobs), func(o *Job) bool { return o == j })
	if g.first == j {
		g.first = nil
	}
}

// Acquire waits until all jobs hold their leases. On an error, which is [core.ErrEnded] if one of
// them has ended, or the context's, none does.
func (g *Gang) Acquire(ctx context.Context) error { return g.acquire(ctx, false) }

// acquire is Acquire of a gang of which the first job waits already, or none.
func (g *Gang) acquire(ctx context.Context, waits bool) error {
	g.all.arrive(g)
	defer g.awaitOthers(false)
	for vain := false; ; waits = false {
		if err := g.begin(ctx, waits, vain); err != nil {
			return err
		}
		if other := g.all.enter(g); other != nil {
			g.Release()
			select {
			case <-other:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		all, err := g.collect(ctx)
		if all || err != nil {
			return err
		}
		vain = true
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

// begin waits for the lease that is held while the gang waits for the others. After a try in vain
// it is the last one to be granted of all.
func (g *Gang) begin(ctx context.Context, waits, vain bool) error {
	if len(g.jobs) == 0 {
		return errors.New("gang without jobs")
	}
	if vain {
		return g.acquireLast(ctx)
	}
	if g.first == nil {
		g.first = g.jobs[0]
	}
	g.awaitOthers(true)
	return g.first.acquireOrAwait(ctx, waits)
}

// acquireLast waits until each device has granted its lease once, and keeps that of the last to do
// so. The others' are given back in the moment in which they are granted, and cost nothing.
func (g *Gang) acquireLast(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := atomic.Int64{}
	left.Store(int64(len(g.jobs)))
	answers := make(chan error, len(g.jobs))
	for _, j := range g.jobs {
		go func() {
			_, err := j.Acquire(ctx)
			switch {
			case err != nil:
			case left.Add(-1) > 0:
				j.lease.Release()
				j.awaitOthers(true)
			default:
				g.first = j
			}
			answers <- err
		}()
	}
	for range g.jobs {
		if failed := <-answers; failed != nil && err == nil {
			err = failed
			cancel()
		}
	}
	return err
}

// Renew gives all leases back and waits until the jobs hold them again, as Acquire does. The
// policies decide at once, so that a gang that is still first goes on without others being let in
// for a moment.
func (g *Gang) Renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		g.Release()
		return err
	}
	if g.first == nil || !g.first.lease.held() {
		g.Release()
		return g.Acquire(ctx)
	}
	if !g.first.lease.again() {
		for _, j := range g.jobs {
			if j != g.first {
				j.lease.Release()
			}
		}
		return g.acquire(ctx, true)
	}
	for _, j := range g.jobs {
		if j != g.first && !(j.lease.held() && j.lease.again()) {
			j.tell(core.Cancel)
			g.Release()
			g.first = j
			return g.Acquire(ctx)
		}
	}
	return nil
}

// awaitOthers tells the devices of the jobs beside the first that these wait for it, or do not any
// more.
func (g *Gang) awaitOthers(wait bool) {
	for _, j := range g.jobs {
		if j != g.first || !wait {
			j.awaitOthers(wait)
		}
	}
}

// awaitOthers tells the job's device that it waits for others of its gang first, or does not.
func (j *Job) awaitOthers(wait bool) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: core.Defer, Wait: wait}) // refused only after the end
}

// collect gets the leases beside the first, and reports whether it did. If it does not get one of
// them in time, or is to give back one that it has, it gives back all.
func (g *Gang) collect(ctx context.Context) (all bool, err error) {
	all, err = g.getAll(ctx)
	g.all.leave(g)
	if all {
		g.patience = Patience
	} else {
		g.Release()
	}
	return all, err
}

// getAll is collect without what follows.
func (g *Gang) getAll(ctx context.Context) (all bool, err error) {
	within, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	type answer struct {
		job *Job
		err error
	}
	answers := make(chan answer, len(g.jobs))
	for _, j := range g.jobs {
		if j != g.first {
			go func() {
				_, err := j.Acquire(within)
				answers <- answer{j, err}
			}()
		}
	}
	held, lost := []*Job{g.first}, false
	for n := len(g.jobs) - 1; n > 0; {
		lost = lost || g.all.wounded(g) ||
			slices.ContainsFunc(held, func(j *Job) bool { return j.lease.Until() == 0 })
		if lost {
			cancel()
		}
		select {
		case <-g.kicked:
		case a := <-answers:
			n--
			switch {
			case a.err == nil:
				held = append(held, a.job)
			case within.Err() == nil:
				err = a.err
				cancel()
			case !lost:
				lost = true
				g.patience = min(2*g.patience, MostPatience)
			}
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return !lost && err == nil, err
}

// arrive notes that a gang begins to wait.
func (s *Gangs) arrive(g *Gang) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	g.age = s.last
}

// enter notes that a gang has its first lease and wants the others. Of those with a device in
// common, younger ones are to give up; for an older one this one is, and enter returns what is
// closed when that one has ended.
func (s *Gangs) enter(g *Gang) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.collecting {
		if o.age < g.age && o.crosses(g) {
			return o.done
		}
	}
	for _, o := range s.collecting {
		if o.crosses(g) {
			o.wounded = true
			o.kick()
		}
	}
	g.done, g.wounded = make(chan struct{}), false
	s.collecting = append(s.collecting, g)
	return nil
}

// crosses reports whether two gangs have a device in common.
func (g *Gang) crosses(o *Gang) bool {
	return slices.ContainsFunc(g.jobs, func(j *Job) bool {
		return slices.ContainsFunc(o.jobs, func(k *Job) bool { return k.b == j.b })
	})
}

func (s *Gangs) wounded(g *Gang) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.wounded
}

// kick makes a gang that collects look again.
func (g *Gang) kick() {
	select {
	case g.kicked <- struct{}{}:
	default:
	}
}

func (s *Gangs) leave(g *Gang) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(g.done)
	s.collecting = slices.DeleteFunc(s.collecting, func(o *Gang) bool { return o == g })
}

// Over reports whether the leases must be given back: one was revoked, or all are over. Those that
// were granted first may be over before the others, since the gang could not run with them yet.
func (g *Gang) Over() bool {
	until := time.Duration(0)
	for _, j := range g.jobs {
		u := j.lease.Until()
		if u == 0 {
			return true
		}
		until = max(until, u-j.b.Now())
		if u == share.Forever {
			until = share.Forever
		}
	}
	return until <= 0
}

// TryRenew lets a gang whose leases are over go on without a break, if nobody waits for its devices
// and their policies let it. If it returns false it is to release them, as soon as it can.
func (g *Gang) TryRenew() bool {
	for _, j := range g.jobs {
		if j.lease.Until() == 0 || j.b.Waiting() {
			return false
		}
	}
	for _, j := range g.jobs {
		if j.lease.Revoked() && !j.lease.TryRenew() {
			return false
		}
	}
	return true
}

// Release gives back all leases that are held.
func (g *Gang) Release() {
	for _, j := range g.jobs {
		j.lease.Release()
	}
}
