package core

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// job is an admitted job.
type job struct {
	id    share.JobID
	spec  share.Job // with the memory cap filled in
	index int       // in Core.jobs and the snapshot

	terms    share.Terms // what the policy last said
	yield    share.Boundary
	untold   bool  // to be told of the revocation at the end of its iteration
	arrivals times // of requests not yet completed
	begun    starts
	busy     bool
	busyFrom time.Duration
	busyMark time.Duration // counted with work until
	charge   charge
	account  *account
	peak     share.Bytes
	waits    MemoryKind // of the reservation that waits
	counts   Counts
	forecast forecast
}

// Counts are what happened to a job since its admission.
type Counts struct {
	Grants      int64 // holds granted
	Revocations int64 // holds revoked before their time
	Expirations int64 // holds given back because their time was over
}

// state returns what the policy sees of the job. It moves when jobs come and go.
func (c *Core) state(j *job) *share.JobState { return &c.snap.Jobs[j.index] }

// admit lets a job in, if its specification is valid and the device can keep one more promise.
func (c *Core) admit(e *Event) error {
	if e.Spec == nil {
		return fmt.Errorf("%w: no specification", ErrEvent)
	}
	spec := *e.Spec
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.Memory == 0 {
		spec.Memory = e.Need
	}
	if e.Need < 0 || e.Need > spec.Memory {
		return fmt.Errorf("job %s: needs %v, cap %v: %w: raise memory or lower the batch",
			spec.Name, e.Need.About(), spec.Memory.About(), ErrOverCap)
	}
	for _, j := range c.jobs {
		if j.spec.Name == spec.Name {
			return fmt.Errorf("job %s: device %s: %w: choose another", spec.Name, c.device, ErrName)
		}
	}
	state := share.JobState{
		ID: c.last + 1, Share: spec.Share, Since: c.now, Ready: c.now, Admitted: c.now,
		Remaining: -1,
		Memory:    share.Memory{Cap: spec.Memory, Need: e.Need},
	}
	if spec.Iterations > 0 {
		state.Remaining = spec.Iterations
	}
	if err := c.fits(&spec, &state); err != nil {
		return err
	}
	state.State = c.newState()
	c.last++
	j := &job{id: c.last, spec: spec, index: len(c.jobs), account: newAccount(&c.slots)}
	c.jobs = append(c.jobs, j)
	c.snap.Jobs = append(c.snap.Jobs, state)
	c.notify(j, Notice{Kind: Admitted})
	return nil
}

// fits asks the policy's own rule where it has one, else whether caps and guarantees fit.
func (c *Core) fits(spec *share.Job, state *share.JobState) error {
	if a, ok := c.policy.(share.Admitter); ok {
		err := fmt.Errorf("job %s: %w", spec.Name, ErrPanic)
		c.guard(func() { err = a.Admit(&c.snap, state) })
		if err != nil {
			return fmt.Errorf("job %s: device %s: %w", spec.Name, c.device, err)
		}
		return nil
	}
	return c.promises(spec, nil)
}

// promises says whether the device can keep what the specification asks for beside the promises to
// all others but one.
func (c *Core) promises(spec *share.Job, but *job) error {
	left, compute := c.memory, 1.0
	for _, j := range c.jobs {
		if j != but {
			left -= j.spec.Memory
			compute -= j.spec.Guarantee()
		}
	}
	if spec.Memory > left {
		return fmt.Errorf("job %s: wants %v, device %s has %v of %v not promised: %w: lower its "+
			"memory or end another job",
			spec.Name, spec.Memory.About(), c.device, left.About(), c.memory.About(), ErrNoMemory)
	}
	// The tolerance lets ten jobs have a tenth each.
	if spec.Guarantee() > compute+1e-9 {
		return fmt.Errorf("job %s: wants a guarantee of %.4g, device %s has %.4g not promised: "+
			"%w: lower its compute or end another job",
			spec.Name, spec.Guarantee(), c.device, max(0, compute), ErrNoCompute)
	}
	return nil
}

// reshare gives a job another share, which must fit as that of a new job would.
func (c *Core) reshare(j *job, e *Event) error {
	if e.Spec == nil {
		return fmt.Errorf("job %s: %w: no share", j.spec.Name, ErrEvent)
	}
	spec := j.spec
	spec.Share = e.Spec.Share
	if spec.Memory == 0 {
		spec.Memory = j.spec.Memory
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	s := c.state(j)
	if held := s.Memory.Resident(); spec.Memory < held {
		return fmt.Errorf("job %s: holds %v, new cap %v: %w: wait until it holds less", spec.Name,
			held.About(), spec.Memory.About(), ErrOverCap)
	}
	if err := c.promises(&spec, j); err != nil {
		return err
	}
	j.spec, s.Share, s.Memory.Cap = spec, spec.Share, spec.Memory
	c.notify(j, Notice{Kind: Changed})
	c.serve(j)
	return nil
}

// end takes everything from a job and forgets it.
func (c *Core) end(j *job, cause error) {
	s := c.state(j)
	if !s.Units.Empty() {
		c.giveBack(j, ReasonEnded)
	}
	s.Phase, s.InIteration, s.Memory.Persistent, s.Memory.Ephemeral = share.Idle, false, 0, 0
	j.arrivals, j.begun = times{}, starts{}
	c.demand(j)
	account := c.accountOf(j)
	c.notify(j, Notice{Kind: Ended, From: s.Admitted, Err: cause, Account: &account})
	copy(c.jobs[j.index:], c.jobs[j.index+1:])
	copy(c.snap.Jobs[j.index:], c.snap.Jobs[j.index+1:])
	n := len(c.jobs) - 1
	c.jobs[n], c.snap.Jobs[n] = nil, share.JobState{}
	c.jobs, c.snap.Jobs = c.jobs[:n], c.snap.Jobs[:n]
	for i := j.index; i < n; i++ {
		c.jobs[i].index = i
	}
}

// change makes another policy decide from here on. What is held stays held; what the old policy
// kept of each job is dropped.
func (c *Core) change(spec string) error {
	next, err := Config{Device: c.device}.ForPolicy(spec)
	if err != nil {
		return err
	}
	if err := c.can.Enforces(next.Policy.Name(), next.Needs, c.device); err != nil {
		return err
	}
	c.install(next.Policy, next.Needs)
	return nil
}

func (c *Core) install(p share.Policy, needs share.Can) {
	c.policy, c.needs, c.wake = p, needs, 0
	for i := range c.snap.Jobs {
		c.snap.Jobs[i].State = c.newState()
	}
	c.notices = append(c.notices, Notice{Kind: Switched, Name: p.Name(), At: c.now, From: c.now})
}

// newState returns what the policy wants to keep of a new job.
func (c *Core) newState() (state any) {
	if p, ok := c.policy.(share.Stateful); ok &&
		!c.guard(func() { state = p.NewJobState() }) {
		return c.newState()
	}
	return state
}

// guard calls the policy. Should it panic, fair takes its place.
func (c *Core) guard(call func()) (ok bool) {
	defer func() {
		if fault := recover(); fault != nil {
			c.blame(0, fmt.Errorf("%w: %v", ErrPanic, fault))
			fair, err := policy.New(policy.Default)
			if err != nil {
				panic(err) // its defaults are wrong: so is the program
			}
			c.install(fair, share.Can{})
		}
	}()
	call()
	return true
}
