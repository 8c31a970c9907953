package seat

import (
	"context"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// Lent is the memory of a job that others may have between its iterations, all of it: weights that
// can be brought again, and arenas that can be made again. Room and Hold wait, without a lease;
// Begin and End bracket what needs the memory, and are for one goroutine at a time. [Elastic] is
// for a job whose arenas stay.
type Lent struct {
	quota  credit
	give   func(most int64) int64
	moving chan struct{} // held while memory is given back, and by who uses within
	within bool          // of what needs it
}

// NewLent returns the memory of a job. Give is called to give up to most bytes back to the quota,
// outside of Begin and End, and returns how many; it must not call the Lent.
func NewLent(job *broker.Job, give func(most int64) (freed int64)) *Lent {
	l := &Lent{quota: credit{granted: granted{job, core.Persistent}}, give: give,
		moving: make(chan struct{}, 1)}
	job.OnEvicted(l.Give)
	return l
}

// Quota is that of all that the job holds.
func (l *Lent) Quota() device.Quota { return &l.quota }

// Has reports whether what is missing is reserved.
func (l *Lent) Has(missing func() int64) bool { return missing() <= l.quota.has() }

// Room waits until what is missing is reserved. Others may ask it back until Begin. The error is
// that of broker.Job.ReserveWait.
func (l *Lent) Room(ctx context.Context, missing func() int64) error {
	for {
		n := missing() - l.quota.has()
		if n <= 0 {
			return nil
		}
		if err := l.quota.fill(ctx, n); err != nil {
			return err
		}
		l.Give() // who was to give before it was counted here has not given that
	}
}

// Begin keeps what the job holds until End, and reports whether nothing is missing. It does not
// wait while memory is given back: it says no.
func (l *Lent) Begin(missing func() int64) bool {
	select {
	case l.moving <- struct{}{}:
	default:
		return false
	}
	defer func() { <-l.moving }()
	l.within = l.Has(missing)
	return l.within
}

// Hold is Room until Begin says yes.
func (l *Lent) Hold(ctx context.Context, missing func() int64) error {
	for {
		if err := l.Room(ctx, missing); err != nil {
			return err
		}
		if l.Begin(missing) {
			return nil
		}
	}
}

// End ends what Begin began. What was reserved and not used is given back, and what others wait
// for.
func (l *Lent) End() {
	l.moving <- struct{}{}
	l.within = false
	<-l.moving
	l.quota.drain()
	l.Give()
}

// Cut gives up to so many bytes back, reserved or held, unless they are in use.
func (l *Lent) Cut(most int64) {
	if most <= 0 {
		return
	}
	l.moving <- struct{}{}
	defer func() { <-l.moving }()
	if l.within {
		return
	}
	if most -= l.quota.drain(); most > 0 {
		l.give(most)
	}
}

// Give gives back what the job was told to, unless it is in use. It is called where some of it may
// have come out of use.
func (l *Lent) Give() {
	if _, told := l.quota.job.Told(); !told {
		return
	}
	l.moving <- struct{}{}
	defer func() { <-l.moving }()
	most, told := l.quota.job.Told()
	if !told || l.within {
		return
	}
	over := int64(l.quota.job.Status().Memory.Resident() - most)
	if over -= l.quota.drain(); over > 0 && l.give(over) < over {
		l.quota.job.Stay()
	}
}
