// Package coretest checks from outside what a core says, whoever drives it and under whatever
// policy: its notices must make sense one after another, and what jobs are charged must be what
// they held.
//
// Meet first: [Auditor], which reads the notices; and [Replay], which compares a recording with
// what a new core decides.
//
// An Auditor must be used by one goroutine at a time. It refuses nothing: what is wrong is in Err.
package coretest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// Auditor follows the notices of one core, none left out, and finds by itself what each job has to
// pay.
type Auditor struct {
	units   int
	overlap bool
	last    time.Duration
	jobs    map[share.JobID]*Audited
	holders []*Audited // in order of grants
	inUse   float64    // time in which units were in use, by their part of the device, in ns
	errs    []error
}

// Audited is what an Auditor knows of one job.
type Audited struct {
	Units share.UnitSet // held now
	Since time.Duration // when the present hold, the rest in it, or what follows began
	Ended bool
	// Used is the device time to pay up to the last notice, in nanoseconds: a unit held by k jobs
	// that pay costs each 1/k.
	Used float64
	// Holds are those that are over and paid for, in order. A rest is in them from the time on
	// when it was in the way of others.
	Holds []Hold

	busy    bool
	rests   bool
	revoked bool
}

// pays reports whether the job pays for what it holds.
func (j *Audited) pays() bool { return !j.rests || j.revoked }

// Hold is what a job held from one time to another.
type Hold struct {
	From, To time.Duration
	Units    share.UnitSet
}

// NewAuditor returns an auditor of a core with so many units, whose policy may give a unit to
// several jobs at once or not.
func NewAuditor(units int, overlap bool) *Auditor {
	return &Auditor{units: units, overlap: overlap, jobs: map[share.JobID]*Audited{}}
}

// Err returns what was wrong, up to the first few, or nil.
func (a *Auditor) Err() error { return errors.Join(a.errs...) }

// Job returns what is known of a job, or nil if it was never admitted.
func (a *Auditor) Job(id share.JobID) *Audited { return a.jobs[id] }

// InUse returns the whole-device time in which units were in use up to the last notice, in
// nanoseconds: held, and not only by jobs that rest and are in nobody's way.
func (a *Auditor) InUse() float64 { return a.inUse }

// Held returns the units that are held now.
func (a *Auditor) Held() share.UnitSet {
	var held share.UnitSet
	for _, h := range a.holders {
		held = held.Union(h.Units)
	}
	return held
}

func (a *Auditor) fault(n *core.Notice, format string, args ...any) {
	if len(a.errs) < 10 {
		a.errs = append(a.errs, fmt.Errorf("%v of job %d (%s) at %v: %s", n.Kind, n.Job, n.Name,
			n.At, fmt.Sprintf(format, args...)))
	}
}

// Observe reads the next notice.
func (a *Auditor) Observe(n core.Notice) {
	if n.At < a.last || n.From > n.At {
		a.fault(&n, "from %v, after a notice at %v", n.From, a.last)
	}
	a.Pass(n.At)
	if n.Kind == core.Switched {
		return
	}
	j := a.jobs[n.Job]
	if n.Kind == core.Admitted {
		if j != nil {
			a.fault(&n, "for the second time")
		}
		a.jobs[n.Job] = &Audited{}
		return
	}
	if j == nil || j.Ended {
		a.fault(&n, "it is not here")
		return
	}
	a.follow(j, &n)
}

func (a *Auditor) follow(j *Audited, n *core.Notice) {
	switch n.Kind {
	case core.Busy, core.Drained:
		if j.busy == (n.Kind == core.Busy) {
			a.fault(n, "for the second time")
		}
		j.busy = !j.busy
	case core.Granted:
		if !j.Units.Empty() {
			a.fault(n, "it holds %v", j.Units)
		}
		a.holders = append(a.holders, j)
		j.take(a, n)
	case core.Resized:
		if j.Units.Empty() || j.rests || j.revoked || !n.Units.Contains(j.Units) {
			a.fault(n, "to %v, it holds %v, rests: %v, revoked: %v", n.Units, j.Units, j.rests,
				j.revoked)
		}
		j.cut(n.At)
		j.take(a, n)
	case core.Rested:
		if j.Units.Empty() || j.rests {
			a.fault(n, "it holds %v, rests: %v", j.Units, j.rests)
		}
		j.cut(n.At)
		j.rests = true
	case core.Resumed:
		if j.Units.Empty() || !j.rests || j.revoked {
			a.fault(n, "it holds %v, rests: %v, revoked: %v", j.Units, j.rests, j.revoked)
		}
		j.Since, j.rests = n.At, false
	case core.Revoked:
		if j.Units.Empty() || j.revoked {
			a.fault(n, "it holds %v, revoked: %v", j.Units, j.revoked)
		}
		if j.rests {
			j.cut(n.At)
		}
		j.revoked = true
	case core.Released:
		if j.Units.Empty() || j.Units != n.Units {
			a.fault(n, "of %v, it holds %v", n.Units, j.Units)
		}
		j.cut(n.At)
		a.holders = slices.DeleteFunc(a.holders, func(h *Audited) bool { return h == j })
		j.Units, j.rests, j.revoked = share.UnitSet{}, false, false
	case core.Ended:
		if !j.Units.Empty() {
			a.fault(n, "with units %v", j.Units)
		}
		j.Ended = true
	}
}

// cut ends what the job has held and paid for, if it did, and begins the next.
func (j *Audited) cut(now time.Duration) {
	if j.pays() && now > j.Since {
		j.Holds = append(j.Holds, Hold{j.Since, now, j.Units})
	}
	j.Since = now
}

// take notes what a job holds from now on.
func (j *Audited) take(a *Auditor, n *core.Notice) {
	all := share.UnitRange(0, a.units)
	if n.Units.Empty() || !all.Contains(n.Units) || n.Until <= n.At {
		a.fault(n, "of %v of %v until %v", n.Units, all, n.Until)
	}
	for _, h := range a.holders {
		if h != j && !a.overlap && h.Units.Overlaps(n.Units) {
			a.fault(n, "of %v, another holds %v", n.Units, h.Units)
		}
	}
	j.Units, j.Since = n.Units, n.At
}

// Pass lets time go by without a notice.
func (a *Auditor) Pass(to time.Duration) {
	dt := float64(to - a.last)
	if dt <= 0 {
		return
	}
	a.last = to
	var paid share.UnitSet
	var k [share.MaxUnits]float64
	for _, h := range a.holders {
		if h.pays() {
			paid = paid.Union(h.Units)
			for u := range h.Units.All() {
				k[u]++
			}
		}
	}
	a.inUse += dt * float64(paid.Len()) / float64(a.units)
	for _, h := range a.holders {
		switch {
		case !h.pays():
		case !a.overlap:
			h.Used += dt * float64(h.Units.Len()) / float64(a.units)
		default:
			for u := range h.Units.All() {
				h.Used += dt / k[u] / float64(a.units)
			}
		}
	}
}

// Check compares the device time that a job was charged up to the last notice with what it had to
// pay. A core charges in whole nanoseconds and carries what is left over.
func (a *Auditor) Check(id share.JobID, charged time.Duration) {
	j := a.jobs[id]
	if j == nil {
		return
	}
	if math.Abs(j.Used-float64(charged)) > 2+1e-9*j.Used {
		a.errs = append(a.errs, fmt.Errorf("job %d: charged %v, has to pay %v", id, charged,
			time.Duration(j.Used)))
	}
}

// Replay tells a new core with this configuration, but a new policy as policy.New reads it, what
// was recorded. The error is one of [core.Replay], or says that the recording is empty.
func Replay(c core.Config, spec string, recording io.Reader) error {
	c, err := c.ForPolicy(spec)
	if err != nil {
		return err
	}
	k, err := core.New(c)
	if err != nil {
		return err
	}
	n, err := core.Replay(k, recording)
	if err == nil && n == 0 {
		return errors.New("the recording is empty")
	}
	return err
}
