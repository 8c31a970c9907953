package core

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/evict"
	"github.com/weirgpu/weir/share/policy"
)

// Config describes the device to share and how.
type Config struct {
	// Device is the device's name in errors, such as "cpu:0".
	Device string
	// Units is the number of compute units, 1 to [share.MaxUnits].
	Units int
	// Memory is the memory that may be promised to jobs; above 0.
	Memory share.Bytes
	// Can says what can be enforced on the device.
	Can share.Can
	// Lanes is the most lanes in which jobs share the memory that they hold only within iterations
	// (share.Job.Ephemeral); 0: every job has its memory for itself. In a lane one job at a time is
	// within an iteration, whatever the policy: another goes on waiting until that one holds no
	// units and no ephemeral memory.
	Lanes int
	// Eviction says who gives memory back first that jobs hold in turn (share.Share.Elastic), where
	// the policy does not (share.Terms.Resident); nil: evict.Default. It must serve no other core.
	Eviction evict.Rule
	// Moving is the part of the time that memory may take at most which comes and goes with its
	// job's turns (Moved), above 0 and below 1; 0: a tenth.
	Moving float64
	// Policy decides who runs. It must serve no other core.
	Policy share.Policy
	// Needs is what the policy needs; a device that cannot do it is refused. The zero value is
	// right for a policy that lends the whole device to one job at a time.
	Needs share.Can
}

// Validate reports all faults together.
func (c Config) Validate() error {
	f := share.Faults{Object: "device " + c.Device}
	if c.Units < 1 || c.Units > share.MaxUnits {
		f.List = append(f.List, share.Fault{Field: "units", Value: fmt.Sprint(c.Units),
			Bound: fmt.Sprintf("must be from 1 to %d", share.MaxUnits)})
	}
	if c.Memory <= 0 {
		f.List = append(f.List,
			share.Fault{Field: "memory", Value: c.Memory.String(), Bound: "must be above 0"})
	}
	if c.Lanes < 0 {
		f.List = append(f.List,
			share.Fault{Field: "lanes", Value: fmt.Sprint(c.Lanes), Bound: "must not be negative"})
	}
	if !(c.Moving >= 0 && c.Moving < 1) {
		f.List = append(f.List, share.Fault{Field: "moving", Value: fmt.Sprint(c.Moving),
			Bound: "must be above 0 and below 1 (0: 0.1)"})
	}
	if c.Policy == nil {
		f.List = append(f.List, share.Fault{Field: "policy", Value: "nil", Bound: "must be set"})
	}
	if len(f.List) > 0 {
		return f
	}
	return c.Can.Enforces(c.Policy.Name(), c.Needs, c.Device)
}

// Core shares one device between jobs.
type Core struct {
	device string
	memory share.Bytes
	can    share.Can
	all    share.UnitSet

	policy share.Policy
	needs  share.Can
	rule   evict.Rule
	uses   evict.Uses

	now     time.Duration
	jobs    []*job         // in order of admission; jobs[i].state is &snap.Jobs[i]
	last    share.JobID    // given so far
	snap    share.Snapshot // what the policy sees; its Jobs are the jobs' states themselves
	holders []*job         // who hold units, in order of ID
	overlap bool           // whether a unit is held by two
	other   bool           // whether the policy was changed in this step
	blocked bool           // whether a job waits for a lane and not for the policy
	hidden  []*job         // those of them that the policy is not to see waiting
	stay    float64        // for how much longer than moving took memory stays
	dwells  time.Duration  // until when memory may stay on the device at most
	unhides time.Duration  // when one of those may have to be seen; 0: never
	wake    time.Duration
	slots   slots

	asking    int   // jobs whose reservation waits
	unsettled int   // above 0: jobs are unsettled
	turns     int64 // given so far

	notices   []Notice
	decisions int64
	faults    int64
	fault     error
}

// New returns a core with no jobs, at time 0. Its errors are [share.ErrInvalid] and
// [share.ErrCannot].
func New(c Config) (*Core, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	k := &Core{device: c.Device, memory: c.Memory, can: c.Can, policy: c.Policy, needs: c.Needs,
		rule: c.Eviction, stay: 1/c.Moving - 1, all: share.UnitRange(0, c.Units),
		slots: slots{end: Slot}}
	if c.Moving == 0 {
		k.stay = 1/moving - 1
	}
	if k.rule == nil {
		k.rule, _ = evict.New(evict.Default) // it is there
	}
	k.snap = share.Snapshot{Units: c.Units, Memory: c.Memory, Lanes: c.Lanes, Can: c.Can}
	return k, nil
}

// ForPolicy fills in the Policy and Needs of a configuration from a policy as a user writes it.
func (c Config) ForPolicy(spec string) (Config, error) {
	s, err := policy.ParseSpec(spec)
	if err != nil {
		return c, err
	}
	if c.Needs, err = s.Needs(); err != nil {
		return c, err
	}
	c.Policy, err = s.New()
	return c, err
}

// Step tells the core of an event, and returns what changed, in order. The notices are good until
// the next call. An event that is refused changes nothing but the time, and the error says why; the
// notices are still to be heeded.
func (c *Core) Step(e Event) ([]Notice, error) {
	c.notices, c.other = c.notices[:0], false
	c.advance(min(e.At, latest))
	// Charges are cut where events are and nowhere else, or what they round to would depend on who
	// looks when.
	for _, j := range c.holders {
		c.settle(j)
	}
	decides, err := c.apply(&e)
	c.pour()
	if decides && err == nil || c.other {
		c.decide()
	}
	if c.asking > 0 || c.unsettled > 0 {
		c.reclaim()
	}
	return c.notices, err
}

// latest is a time that leaves room for sums of times; none has come so far.
const latest = share.Forever / 4

// Now returns the time of the last event.
func (c *Core) Now() time.Duration { return c.now }

// Wake returns when the driver is to send Tick, 0 for never.
func (c *Core) Wake() time.Duration { return c.wake }

// Units returns the number of compute units of the device.
func (c *Core) Units() int { return c.snap.Units }

// Policy returns the policy's name.
func (c *Core) Policy() string { return c.policy.Name() }

// Ruled reports whether the policy lets jobs in by a rule of its own, or bounds their units by how
// many there are: then one more that is nobody's would count.
func (c *Core) Ruled() bool {
	_, admits := c.policy.(share.Admitter)
	_, limits := c.policy.(share.Limiter)
	return admits || limits
}

// Faults returns how many of the policy's instructions were unsound and not carried out, a panic
// being one as is one of the eviction rule, and the first of them as an error.
func (c *Core) Faults() (int64, error) { return c.faults, c.fault }

// Decisions returns how often the policy was asked.
func (c *Core) Decisions() int64 { return c.decisions }

// apply carries an event out, and reports whether the policy is to be asked.
func (c *Core) apply(e *Event) (decides bool, err error) {
	switch e.Kind {
	case Admit:
		return true, c.admit(e)
	case Switch:
		return true, c.change(e)
	case Tick:
		c.wake = 0
		return true, nil
	case Look:
		return false, nil
	}
	j := c.job(e.Job)
	if j == nil {
		return false, fmt.Errorf("%v: job %d: %w", e.Kind, e.Job, ErrEnded)
	}
	switch e.Kind {
	case End:
		c.end(j, e.Cause)
		return true, nil
	case Arrive, Complete, Begin, Finish, Expect:
		return c.work(j, e)
	case Want, Cancel, Return, Release, Rest:
		return true, c.hold(j, e.Kind)
	case Defer:
		c.state(j).Deferred = e.Wait && c.state(j).Phase == share.Idle
		return true, nil
	case Pay:
		c.pay(j, e.Used)
		return false, nil
	case Measure:
		return true, c.measure(j, e)
	case Reserve, Unreserve, Withdraw:
		return c.reserve(j, e)
	case Moved:
		c.moved(j, e.Used)
		return true, nil
	case Stay:
		j.stays = j.told // what it reserved since may be asked back
		return false, nil
	case Shelve:
		j.shelved = e.Wait
		return false, nil
	case Copy:
		return false, c.copied(j, e.Bytes)
	case Change:
		return true, c.reshare(j, e)
	case Split:
		return true, c.split(j, e)
	}
	return false, fmt.Errorf("%v: %w", e.Kind, ErrEvent)
}

// job returns the job of this number, or nil.
func (c *Core) job(id share.JobID) *job {
	lo, hi := 0, len(c.jobs)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if c.snap.Jobs[mid].ID < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(c.jobs) && c.snap.Jobs[lo].ID == id {
		return c.jobs[lo]
	}
	return nil
}

// notify adds a notice about a job, now.
func (c *Core) notify(j *job, n Notice) {
	n.Job, n.Name, n.At = j.id, j.spec.Name, c.now
	switch n.Kind {
	case Revoked, Released, Resumed, Iterated, Drained, Ended:
	default:
		n.From = n.At
	}
	c.notices = append(c.notices, n)
}
