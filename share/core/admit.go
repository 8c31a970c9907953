package core

import (
	"cmp"
	"fmt"
	"slices"
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
	untold   int   // iterations that end before it is told of the revocation
	arrivals times // of requests not yet completed
	begun    starts
	parts    spent   // by an iteration that had been in progress all along
	parted   spent   // of what the job spent
	solo     float64 // what its work would have taken alone on the whole device, in nanoseconds
	busy     bool
	busyFrom time.Duration
	busyMark time.Duration // counted with work until
	charge   charge
	account  *account
	peak     share.Bytes
	waits    MemoryKind // of the reservation that waits
	bending
	stands   int64 // the decision in which it was granted what another of its lane was to have
	queued   int64 // the decision since which it waits for its lane; 0: it does not
	counts   Counts
	forecast forecast
}

// Counts are what happened to a job since its admission.
type Counts struct {
	Grants      int64 // holds granted
	Revocations int64 // holds revoked before their time
	Expirations int64 // holds given back because their time was over
	Evictions   int64 // times that it was told to hold less memory
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
	if err := c.unnamed(spec.Name); err != nil {
		return err
	}
	state := share.JobState{
		ID: c.last + 1, Share: spec.Share, Since: c.now, Ready: c.now, Admitted: c.now,
		Remaining: -1,
		Memory:    share.Memory{Cap: spec.Memory, Need: e.Need},
	}
	if spec.Iterations > 0 {
		state.Remaining = spec.Iterations
	}
	if spec.Ephemeral > spec.Memory {
		return fmt.Errorf("job %s: ephemeral %v, memory %v: %w: raise memory", spec.Name,
			spec.Ephemeral.About(), spec.Memory.About(), ErrOverCap)
	}
	if c.snap.Lanes > 0 {
		state.Memory.Shared = spec.Ephemeral
	}
	state.Memory.Bends = bends(&spec, &state.Memory)
	if err := c.fits(spec.Name, &state, nil); err != nil {
		return err
	}
	c.enlist(spec, state)
	return nil
}

// unnamed refuses a name that a job has.
func (c *Core) unnamed(name string) error {
	for _, j := range c.jobs {
		if j.spec.Name == name {
			return fmt.Errorf("job %s: device %s: %w: choose another", name, c.device, ErrName)
		}
	}
	return nil
}

// enlist adds a job that was let in.
func (c *Core) enlist(spec share.Job, state share.JobState) {
	state.State = c.newState()
	c.last++
	j := &job{id: c.last, spec: spec, index: len(c.jobs), account: newAccount(&c.slots),
		peak: state.Memory.Resident()}
	c.jobs = append(c.jobs, j)
	c.snap.Jobs = append(c.snap.Jobs, state)
	c.bend(j)
	c.used(j)
	c.unsettle(j)
	c.notify(j, Notice{Kind: Admitted})
}

// bends returns what of a job's memory is not set apart for it.
func bends(spec *share.Job, m *share.Memory) share.Bytes {
	return spec.Bends(spec.Memory - m.Shared)
}

// bend sets nothing apart for a job where a policy's own rule promises more than the device has.
func (c *Core) bend(j *job) {
	if m := &c.state(j).Memory; c.snap.Promised() > c.memory {
		m.Bends = m.Cap - m.Shared
	}
}

// unsettle notes that others hold some of what a job has been promised, if they do.
func (c *Core) unsettle(j *job) {
	if c.snap.Lacks() > 0 {
		j.unsettled = true
		c.unsettled++
	}
}

// fits says whether a job may have what its state says that it is promised, beside all jobs but
// one: by the policy's own rule where it has one, else by whether caps and guarantees fit. Promises
// can always be lowered.
func (c *Core) fits(name string, state *share.JobState, but *job) error {
	snap := *c.look()
	if but != nil {
		snap.Jobs = slices.Delete(slices.Clone(snap.Jobs), but.index, but.index+1)
	}
	var err error
	a, ok := c.policy.(share.Admitter)
	if !ok || !c.guard(func() { err = a.Admit(&snap, state) }) {
		if but == nil || raises(&c.state(but).Memory, &state.Memory) {
			err = snap.FitsMemory(state)
		}
		if err == nil && (but == nil || state.Share.Guarantee() > but.spec.Guarantee()) {
			err = snap.FitsCompute(state)
		}
	}
	if err == nil && state.Memory.Shared > 0 &&
		(but == nil || raises(&c.state(but).Memory, &state.Memory)) {
		// Whatever a policy's own rule is, it cannot promise lanes that are not there.
		state.Memory.Lane, err = snap.Lane(state)
	}
	if err != nil {
		return fmt.Errorf("job %s: device %s: %w", name, c.device, err)
	}
	return nil
}

// raises reports whether memory of which next is promised in the place of now may not fit.
func raises(now, next *share.Memory) bool {
	return next.Cap > now.Cap || next.Kept() > now.Kept() || next.Bends > now.Bends
}

// reshare gives a job another share, which must fit as that of a new job would.
func (c *Core) reshare(j *job, e *Event) error {
	if e.Spec == nil {
		return fmt.Errorf("job %s: %w: no share", j.spec.Name, ErrEvent)
	}
	spec := j.spec
	spec.Share = e.Spec.Share
	if spec.Memory == 0 {
		spec.Memory, spec.Elastic, spec.Keep = j.spec.Memory, j.spec.Elastic, j.spec.Keep
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	s := c.state(j)
	if held := max(s.Memory.Resident(), s.Memory.Persistent+s.Memory.Shared); spec.Memory < held {
		return fmt.Errorf("job %s: holds %v, new cap %v: %w: wait until it holds less", spec.Name,
			held.About(), spec.Memory.About(), ErrOverCap)
	}
	if asked := c.capFor(j); spec.Memory < asked {
		return fmt.Errorf("job %s: waits for memory that takes a cap of %v, new cap %v: %w: wait "+
			"until it has it", spec.Name, asked.About(), spec.Memory.About(), ErrOverCap)
	}
	need := cmp.Or(e.Need, s.Memory.Need)
	if spec.Memory < need {
		return fmt.Errorf("job %s: needs %v, new cap %v: %w: raise memory, or end it", spec.Name,
			need.About(), spec.Memory.About(), ErrOverCap)
	}
	next := *s
	next.Share, next.Memory.Cap, next.Memory.Need = spec.Share, spec.Memory, need
	next.Memory.Bends = bends(&spec, &s.Memory)
	if err := c.fits(spec.Name, &next, j); err != nil {
		return err
	}
	kept := s.Memory.Kept()
	j.spec, s.Share, s.Memory = spec, spec.Share, next.Memory
	c.bend(j)
	j.whole = s.Memory.Persistent
	if j.told, j.stays = false, false; s.Memory.Kept() > kept {
		c.unsettle(j)
	}
	c.notify(j, Notice{Kind: Changed})
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
	c.unask(j)
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

// change makes another policy decide from here on.
func (c *Core) change(e *Event) error {
	can := c.can
	if e.Can != nil {
		can = *e.Can
	}
	next, err := c.successor(e.Policy, can)
	if err != nil {
		return err
	}
	c.can, c.snap.Can = can, can
	c.promise()
	c.install(next.Policy, next.Needs)
	return nil
}

// promise sets apart for all jobs what each was promised, for those admitted last only as far as a
// policy's own rule has not let in more than fits.
func (c *Core) promise() {
	kept := make([]share.Bytes, len(c.jobs))
	for i, j := range c.jobs {
		m := &c.snap.Jobs[i].Memory
		kept[i], m.Bends = m.Kept(), bends(&j.spec, m)
	}
	for _, j := range slices.Backward(c.jobs) {
		c.bend(j)
	}
	for i, j := range c.jobs {
		if c.snap.Jobs[i].Memory.Kept() > kept[i] {
			c.unsettle(j)
		}
	}
}

// Accepts returns nil if a change to a policy would be made now on a device where so much can be
// enforced, or else the error of that. Nothing changes.
func (c *Core) Accepts(spec string, can share.Can) error {
	_, err := c.successor(spec, can)
	return err
}

func (c *Core) successor(spec string, can share.Can) (Config, error) {
	next, err := Config{Device: c.device, Can: can}.ForPolicy(spec)
	if err != nil {
		return next, err
	}
	if err := can.Enforces(next.Policy.Name(), next.Needs, c.device); err != nil {
		return next, err
	}
	before := c.snap
	before.Now, before.Jobs, before.Can = c.now, nil, can
	return next, c.accepts(next.Policy, &before)
}

// accepts returns nil if all jobs would have been let in under a policy one after the other, on a
// device without any, by its own rule where it has one: what the policy before it promised may be
// more than fits.
func (c *Core) accepts(p share.Policy, before *share.Snapshot) (err error) {
	a, asks := p.(share.Admitter)
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("policy %s: %w: %v", p.Name(), ErrPanic, fault)
		}
	}()
	for i, j := range c.jobs {
		s := c.snap.Jobs[i]
		s.State, s.Memory.Bends = nil, bends(&j.spec, &s.Memory)
		if keeps, ok := p.(share.Stateful); ok {
			s.State = keeps.NewJobState()
		}
		if asks {
			err = a.Admit(before, &s)
		} else if err = before.FitsMemory(&s); err == nil {
			err = before.FitsCompute(&s)
		}
		if err != nil {
			return fmt.Errorf("policy %s: job %s: device %s: %w", p.Name(), j.spec.Name, c.device,
				err)
		}
		before.Jobs = append(before.Jobs, s)
	}
	return nil
}

// install puts a policy in the place of another. What is held was given for as long as that other
// saw fit, which may be for ever, and is asked back; what it kept of each job is dropped.
func (c *Core) install(p share.Policy, needs share.Can) {
	c.policy, c.needs, c.wake, c.other = p, needs, 0, true
	c.notices = append(c.notices, Notice{Kind: Switched, Name: p.Name(), At: c.now, From: c.now})
	for _, h := range c.holders {
		c.revoke(h)
	}
	for i, j := range c.jobs {
		c.bound(j, &share.Terms{Job: j.id}) // what the other bounded it by
		c.snap.Jobs[i].State = c.newState()
	}
}

// newState returns what the policy wants to keep of a new job.
func (c *Core) newState() (state any) {
	if p, ok := c.policy.(share.Stateful); ok &&
		!c.guard(func() { state = p.NewJobState() }) {
		return c.newState()
	}
	return state
}

// fallback returns what takes the place of a policy that panics with a fault: fair, and for fair
// itself fifo, which keeps nothing that could be wrong.
func (c *Core) fallback(fault any) share.Policy {
	name := policy.Default
	if c.policy.Name() == name {
		name = "fifo"
	}
	next, err := policy.New(name)
	if err != nil || c.policy.Name() == "fifo" {
		panic(fault) // the program is wrong
	}
	return next
}

// guard calls the policy. Should it panic, another takes its place.
func (c *Core) guard(call func()) (ok bool) {
	defer func() {
		if fault := recover(); fault != nil {
			c.blame(0, fmt.Errorf("%w: %v", ErrPanic, fault))
			c.install(c.fallback(fault), share.Can{})
		}
	}()
	call()
	return true
}
