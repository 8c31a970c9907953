package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// serveSet gives a job another share.
func (c *conn) serveSet(m wire.Set, name string) error {
	if m.Version != wire.Version {
		return otherVersion(m.Version)
	}
	to, err := c.a.change(&m, name)
	if err != nil {
		return err
	}
	spec, err := c.a.set(to)
	if err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return c.write(wire.NewDone(wire.Done{TextLen: uint32(len(text))}), string(text), nil)
}

// servePolicy makes another policy decide on all devices.
func (c *conn) servePolicy(m wire.Policy, spec string) error {
	if m.Version != wire.Version {
		return otherVersion(m.Version)
	}
	if err := c.a.setPolicy(spec); err != nil {
		return err
	}
	return c.write(wire.NewDone(wire.Done{TextLen: uint32(len(spec))}), spec, nil)
}

func otherVersion(v uint32) error {
	return refusal(wire.RefusedVersion,
		"version %d, this agent speaks %d: end it and start again", v, wire.Version)
}

// set makes a change to the share of a job, of which the values are valid.
func (a *Agent) set(to ShareChange) (share.Job, error) {
	defer a.allowMore(&to)()
	device, beside := a.hasBeside(to.Job)
	a.mu.Lock()
	j, err := a.named(to.Job, to.Device)
	if beside && to.Device == nil {
		a.mu.Unlock() // which others than clients need meanwhile
		if err == nil {
			err = refusal(wire.RefusedUnknownJob, "job %s: is on %s and on %s: name the device of "+
				"the program", to.Job, device, j.dev.ID())
		}
		if !errors.Is(err, ErrNoJob) {
			return share.Job{}, err
		}
		return a.setBeside(to)
	}
	defer a.mu.Unlock()
	if err != nil {
		return share.Job{}, err
	}
	return a.setProgram(j, &to)
}

// setProgram is set for a program. The agent's lock is held.
func (a *Agent) setProgram(j *job, to *ShareChange) (share.Job, error) {
	name := to.Job
	if j.isFrozen() {
		return share.Job{}, refusal(wire.RefusedAdmission,
			"job %s: is frozen: weir thaw %s first", name, name)
	}
	s := j.bj.Spec().Share
	if to.Memory != nil && s.Elastic && *to.Memory != s.Memory {
		return share.Job{}, refusal(wire.RefusedAdmission, "job %s: its memory of %v comes "+
			"and goes with its turns: start it again with another", name, s.Memory.About())
	}
	to.Apply(&s)
	if err := j.setShare(s); err != nil {
		return share.Job{}, err
	}
	j.setThreads()
	a.boundInFlight(j.dev)
	spec := j.bj.Spec()
	a.log.Info("share set", "job", j, "memory", spec.Memory.String(), "compute", spec.Compute,
		"limit", spec.Limit, "class", spec.Class.String())
	return spec, nil
}

// ordinal is a device that a message names; nil for none.
func ordinal(device *uint32) *uint32 {
	if *device == wire.NoDevice {
		return nil
	}
	return device
}

// change is what a message asks for.
func (a *Agent) change(m *wire.Set, name string) (to ShareChange, err error) {
	to.Job, to.Device = name, ordinal(&m.Device)
	if m.Fields&wire.FieldMemory != 0 {
		n := share.Bytes(m.Memory)
		if to.Memory = &n; m.Memory == 0 || m.Memory>>62 != 0 {
			return to, refusal(wire.RefusedAdmission, "job %s: wants a cap of %d bytes: %w", name,
				m.Memory, core.ErrNoMemory)
		}
	}
	if m.Fields&wire.FieldCompute != 0 {
		f := fraction(m.ComputePPM)
		to.Compute = &f
	}
	if m.Fields&wire.FieldLimit != 0 {
		f := fraction(m.LimitPPM)
		to.Limit = &f
	}
	if m.Fields&wire.FieldClass != 0 {
		c := share.Class(min(m.Class, 255))
		to.Class = &c
	}
	return to, nil
}

// allowMore has the driver let a job hold what it is about to be given; see walls.allow.
func (a *Agent) allowMore(to *ShareChange) (done func()) {
	a.mu.Lock()
	j, err := a.named(to.Job, to.Device)
	a.mu.Unlock()
	if err != nil || to.Memory == nil {
		return func() {}
	}
	return a.walls.allow(j.terms.Token, uint64(*to.Memory))
}

// named returns the job of this name on the device, or on any if that is nil. The agent's lock is
// held.
func (a *Agent) named(name string, device *uint32) (*job, error) {
	var found *job
	for _, j := range a.jobs {
		if j.spec.Name != name || device != nil && j.dev.Ordinal != *device {
			continue
		}
		if found != nil {
			return nil, refusal(wire.RefusedUnknownJob, "job %s: is on %s and on %s: name its "+
				"device", name, found.dev.ID(), j.dev.ID())
		}
		found = j
	}
	if found == nil {
		return nil, unknownJob(name)
	}
	return found, nil
}

// setShare gives the job a share that fits, and writes it where programs and the next agent read
// it. A lower cap is written first: programs count against it before they allocate, so that from
// then on they do not come to hold more while it is compared with what they do hold.
func (j *job) setShare(s share.Share) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended || j.unmapped {
		return refusal(wire.RefusedUnknownJob, "job %s: has ended", j.spec.Name)
	}
	before := j.terms
	j.terms.MemCap, j.terms.MemTotal = uint64(s.Memory), uint64(s.Memory)
	var err error
	if j.terms.MemCap < before.MemCap {
		j.writeTerms()
		if held := j.page.MemoryHeld(); held > j.terms.MemCap {
			err = fmt.Errorf("job %s: holds %v, new cap %v: %w: wait until it holds less",
				j.spec.Name, share.Bytes(min(held, 1<<62)).About(), s.Memory.About(),
				core.ErrOverCap)
		}
	}
	if err == nil {
		err = j.bj.SetShare(s)
	}
	if err != nil {
		j.terms.MemCap, j.terms.MemTotal = before.MemCap, before.MemTotal
		j.writeTerms()
		return &errRefused{wire.RefusedAdmission, err}
	}
	j.spec.Share = s
	j.terms.ComputePPM, j.terms.LimitPPM = millionths(s.Compute), millionths(s.Limit)
	j.terms.Class = uint32(s.Class)
	j.writeTerms()
	j.keepRecord()
	return nil
}

// setPolicy makes a policy decide on all devices. One that any of them cannot have, for what can be
// enforced or for the jobs that are there, changes nothing.
func (a *Agent) setPolicy(spec string) error {
	p, err := forPrograms(spec)
	if err != nil {
		return &errRefused{wire.RefusedAdmission, err}
	}
	mps, can := a.cfg.findMPS()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range a.jobs {
		if j.turning.turns && p.clients {
			return refusal(wire.RefusedAdmission, "policy %s: memory of job %s comes and goes "+
				"with its turns, and programs would run at once: end it, or start it without "+
				"--oversubscribe", spec, j.spec.Name)
		}
	}
	for _, d := range a.devices {
		if err := d.broker.Accepts(p.spec, can); err != nil {
			return &errRefused{wire.RefusedAdmission, lacksMPS(err, can)}
		}
	}
	if a.cfg.Beside != nil {
		if err := a.cfg.Beside.SetPolicy(spec); err != nil {
			return &errRefused{wire.RefusedAdmission, err}
		}
	}
	for _, d := range a.devices {
		if err := d.broker.SetPolicyWhere(p.spec, can); err != nil {
			return &errRefused{wire.RefusedAdmission, lacksMPS(err, can)}
		}
		d.conserving.Store(p.conserving)
		d.mps, d.clients = mps, p.clients
	}
	for _, j := range a.jobs {
		j.setThreads()
	}
	a.policy = spec
	a.log.Info("policy set", "policy", p.spec)
	return nil
}
