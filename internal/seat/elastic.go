package seat

import (
	"context"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// Weighty is packed weights that can leave the device and come back, as those of engine.Session.
type Weighty interface {
	// Away returns the bytes that are not on the device.
	Away() int64
	// Evict gives up to most bytes back to the quota, none within an iteration, and returns how
	// many. It may wait for bytes on their way.
	Evict(most int64) int64
	// Recall asks the quota for what is away, and has it brought.
	Recall(ctx context.Context) error
}

// Elastic holds the memory of a job whose weights leave the device while others need the room, and
// come back before its iterations. Reserve comes first, then Attach; Resident, Begin and End are
// for the goroutine that runs the iterations.
type Elastic struct {
	job     *broker.Job
	weights credit
	arenas  credit

	moving  chan struct{} // held while weights go or come, and by who uses what follows
	session Weighty       // nil before Attach
	within  bool          // an iteration
}

// NewElastic returns what holds the memory of a job.
func NewElastic(job *broker.Job) *Elastic {
	e := &Elastic{job: job, weights: credit{granted: granted{job, core.Persistent}},
		arenas: credit{granted: granted{job, core.Ephemeral}}, moving: make(chan struct{}, 1)}
	job.OnEvicted(e.give)
	return e
}

// Weights is the quota of packed weights, Arenas that of what stays while they are away.
func (e *Elastic) Weights() device.Quota { return &e.weights }

// Arenas is the quota of what the job holds beside its weights.
func (e *Elastic) Arenas() device.Quota { return &e.arenas }

// Reserve waits until there is room for both, which the quotas then grant at once.
func (e *Elastic) Reserve(ctx context.Context, weights, arenas int64) error {
	if err := e.arenas.fill(ctx, arenas); err != nil {
		return err
	}
	return e.weights.fill(ctx, weights)
}

// Unreserve gives back what was reserved and not used, where nothing is to be attached.
func (e *Elastic) Unreserve() {
	e.weights.drain()
	e.arenas.drain()
}

// Attach says whose weights they are, once they are loaded. What was reserved and not used is given
// back.
func (e *Elastic) Attach(s Weighty) {
	e.moving <- struct{}{}
	e.session = s
	<-e.moving
	e.Unreserve()
	e.give()
}

// Resident waits until all weights are on the device or on their way. The job must have a request,
// hold no lease and wait for none.
func (e *Elastic) Resident(ctx context.Context) error {
	for {
		away, err := e.recall(ctx, 0)
		if err != nil || away == 0 {
			return err
		}
		if err := e.weights.fill(ctx, away); err != nil {
			return err
		}
		if _, err := e.recall(ctx, away); err != nil {
			return err
		}
	}
}

// recall takes what was reserved, unless more has left the device meanwhile, and returns how much
// of the weights is not on the device then.
func (e *Elastic) recall(ctx context.Context, reserved int64) (away int64, err error) {
	select {
	case e.moving <- struct{}{}:
		defer func() { <-e.moving }()
	case <-ctx.Done():
		err = ctx.Err()
	}
	defer e.weights.drain()
	if err == nil && reserved > 0 && e.session.Away() == reserved {
		err = e.session.Recall(ctx)
	}
	return e.session.Away(), err
}

// Begin keeps the weights where they are until End, and reports whether all are on the device or on
// their way. It does not wait while they go, because its caller holds the device: it says no.
func (e *Elastic) Begin() bool {
	select {
	case e.moving <- struct{}{}:
	default:
		return false
	}
	defer func() { <-e.moving }()
	e.within = e.session.Away() == 0
	return e.within
}

// End is the end of an iteration. What others wait for leaves the device.
func (e *Elastic) End() {
	e.moving <- struct{}{}
	e.within = false
	<-e.moving
	e.give()
}

// give does what the job was told, unless it is within an iteration.
func (e *Elastic) give() {
	if _, told := e.job.Told(); !told {
		return
	}
	e.moving <- struct{}{}
	defer func() { <-e.moving }()
	most, told := e.job.Told()
	if !told || e.within || e.session == nil {
		return
	}
	over := e.job.Status().Memory.Resident() - most
	if freed := e.session.Evict(int64(over)); share.Bytes(freed) < over {
		e.job.Stay()
	}
}

// credit is a quota of which some was reserved before it is asked for.
type credit struct {
	granted
	mu   sync.Mutex
	left int64
}

// fill reserves n bytes more, which may wait.
func (q *credit) fill(ctx context.Context, n int64) error {
	if n <= 0 {
		return nil
	}
	if err := q.job.ReserveWait(ctx, q.kind, share.Bytes(n)); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left += n
	return nil
}

// drain gives back what was reserved and not asked for, and returns how much.
func (q *credit) drain() int64 {
	q.mu.Lock()
	n := q.left
	q.left = 0
	q.mu.Unlock()
	q.Release(n)
	return n
}

// has returns what was reserved and not asked for.
func (q *credit) has() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// Reserve implements [device.Quota].
func (q *credit) Reserve(n int64) error {
	q.mu.Lock()
	used := min(n, q.left)
	q.left -= used
	q.mu.Unlock()
	if n == used {
		return nil
	}
	err := q.granted.Reserve(n - used)
	if err != nil {
		q.mu.Lock()
		q.left += used
		q.mu.Unlock()
	}
	return err
}
