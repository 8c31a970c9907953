package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	lib "github.com/weirgpu/weir"
	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/server/web"
	"github.com/weirgpu/weir/share"
)

// programFlags say what a server has to do with the programs of weir exec.
type programFlags struct {
	fake, none bool
}

func (f *programFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.fake, "fake-gpu", false, "share the simulated GPUs of the fake driver "+
		"between programs (weir exec --fake-gpu)")
	c.Flags().BoolVar(&f.none, "no-agent", false, "leave the programs of weir exec to an agent of "+
		"their own, and show what that says")
}

// programs are those under weir exec on this machine, which stand beside the models: those of an
// agent that this process is, where no other one has the runtime folder, or else those of the other
// one. Without GPUs the agent has no programs, and is there for who asks it about models.
type programs struct {
	flags  *programFlags
	models *models
	log    *slog.Logger
	end    context.CancelFunc
	done   chan struct{}
	tried  chan struct{} // closed once it is known whose agent there is

	changing sync.Mutex // held while an agent begins, and while the policy changes
	why      string     // an agent could not begin last time
	own      atomic.Pointer[hosted]
	others   atomic.Pointer[agent.Snapshot] // what another process's agent says
}

// hosted is an agent that this process is.
type hosted struct {
	*agent.Agent
	gpus bool // it has some, and so programs
}

// How often another process's agent is asked, and looked for, and how often GPUs are where there
// were none: a driver may come up after this process.
const (
	askAgent  = 500 * time.Millisecond
	seekAgent = 5 * time.Second
	seekGPUs  = time.Minute
)

// begin follows the programs until close.
func (p *programs) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	p.end, p.done, p.tried = cancel, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.done)
		p.run(ctx, sync.OnceFunc(func() { close(p.tried) }))
	}()
}

// run has an agent, or follows the other one, until the context is done.
func (p *programs) run(ctx context.Context, tried func()) {
	defer tried()
	var c *agent.Config
	for ctx.Err() == nil {
		if c == nil || len(c.Devices) == 0 {
			c = p.config(ctx)
		}
		if c != nil && p.start(c) {
			tried()
			p.serve(ctx)
			continue
		}
		tried()
		p.watch(ctx)
		_ = pause(ctx, seekAgent)
	}
}

// config is that of an agent for the GPUs there are; nil where there is to be none.
func (p *programs) config(ctx context.Context) *agent.Config {
	if p.flags.none {
		return nil
	}
	c, err := agentConfig(ctx, p.flags.fake, p.log)
	if err != nil {
		p.log.Debug("no programs are shared a device with here", "why", err)
		if p.flags.fake {
			return nil
		}
		c = &agent.Config{Dir: agent.RuntimeDir(false), Log: p.log}
	}
	c.Beside = p.models
	return c
}

// start begins an agent, under the policy of the models or, where programs cannot be held to that,
// the usual one. It reports whether there is one.
func (p *programs) start(c *agent.Config) bool {
	p.changing.Lock()
	defer p.changing.Unlock()
	c.Policy = p.models.Status().Policy
	a, err := agent.Start(*c)
	if errors.Is(err, share.ErrCannot) {
		p.log.Warn("programs have another policy than models: they cannot be held to that",
			"policy", c.Policy, "of programs", agent.DefaultPolicy, "error", err)
		c.Policy = agent.DefaultPolicy
		a, err = agent.Start(*c)
	}
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, agent.ErrRunning) || len(c.Devices) == 0 || err.Error() == p.why {
			level = slog.LevelDebug // it is tried again until that has ended
		}
		p.why = err.Error()
		p.log.Log(context.Background(), level, "programs have no agent here", "error", err)
		return false
	}
	p.own.Store(&hosted{a, len(c.Devices) > 0})
	return true
}

// serve has the agent until the context is done, or there are GPUs for one that has none.
func (p *programs) serve(ctx context.Context) {
	a := p.own.Load()
	if !a.gpus {
		p.follow(ctx)
	} else {
		select {
		case <-ctx.Done():
		case <-a.Done():
		}
	}
	p.own.Store(nil)
	if err := a.Close(); err != nil {
		p.log.Warn("the agent of programs ended with an error", "error", err)
	}
}

// follow follows the agent of the simulated GPU, if there is one, until the context is done or
// there are GPUs.
func (p *programs) follow(ctx context.Context) {
	for looked := time.Now(); ctx.Err() == nil; _ = pause(ctx, seekAgent) {
		if p.watch(ctx); time.Since(looked) < seekGPUs {
			continue
		}
		if _, err := gpus(false); err == nil {
			return
		}
		looked = time.Now()
	}
}

// dial connects to another process's agent.
func (p *programs) dial() (*agent.Client, error) {
	if p.own.Load() == nil {
		return dialTop(p.flags.fake)
	}
	fake := agent.RuntimeDir(true)
	if fake == agent.RuntimeDir(false) {
		return nil, agent.ErrNotRunning // this process has the folder of both
	}
	return agent.Dial(fake)
}

// watch follows another process's agent for as long as there is one.
func (p *programs) watch(ctx context.Context) {
	c, err := p.dial()
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.Watch(ctx, askAgent, func(s agent.Snapshot) error {
		p.others.Store(&s)
		return nil
	})
	p.others.Store(nil)
}

func (p *programs) close() {
	p.end()
	<-p.done
}

// await returns once it is known whose agent there is, which a driver can make take long.
func (p *programs) await(ctx context.Context) {
	select {
	case <-p.tried:
	case <-ctx.Done():
	case <-time.After(seekAgent):
	}
}

// SetPolicy makes another policy decide on all devices that this process shares, or changes
// nothing.
func (p *programs) SetPolicy(spec string) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	own := p.own.Load()
	if own == nil {
		return p.models.SetPolicy(spec)
	}
	err := own.SetPolicy(spec)
	if err != nil && !errors.Is(err, lib.ErrOption) && !errors.Is(err, lib.ErrMemory) &&
		!errors.Is(err, lib.ErrCompute) && !errors.Is(err, lib.ErrClosed) {
		err = oip.Faultf(oip.Invalid, "%v", err)
	}
	return err
}

// setShare gives a program another share.
func (p *programs) setShare(device, name string, s web.Share) (c web.Changed[web.Share],
	err error) {
	to, err := programChange(device, name, s)
	if err != nil {
		return c, oip.Faultf(oip.Invalid, "%v", err)
	}
	before, found := p.share(device, name)
	if !found {
		return c, oip.Faultf(oip.NotFound, "there is no program %.200q", name)
	}
	set := p.askSet
	if own := p.own.Load(); own != nil && own.gpus {
		set = own.Set
	}
	now, err := set(to)
	switch {
	case errors.Is(err, agent.ErrNoJob):
		err = oip.Faultf(oip.NotFound, "%v", err)
	case err != nil:
		err = oip.Faultf(oip.Invalid, "%v", err)
	}
	return web.Changed[web.Share]{Before: web.ShareOf(before), Now: web.ShareOf(now.Share)}, err
}

// askSet has another process's agent give a program another share.
func (p *programs) askSet(to agent.ShareChange) (share.Job, error) {
	c, err := p.dial()
	if err != nil {
		return share.Job{}, err
	}
	defer c.Close()
	return c.Set(to)
}

// programChange is a change as the agent is asked for it.
func programChange(device, name string, s web.Share) (to agent.ShareChange, err error) {
	to = agent.ShareChange{Job: name, Compute: s.Compute, Limit: s.Limit}
	if device != "" {
		if to.Device, err = ordinalOf(device); err != nil {
			return to, err
		}
	}
	if s.Class != nil {
		class, err := share.ParseClass(*s.Class)
		if err != nil {
			return to, err
		}
		to.Class = &class
	}
	if s.Memory != nil {
		n := share.Bytes(*s.Memory)
		to.Memory = &n
	}
	return to, nil
}

// now is what the agent says, whosoever it is; nil without one.
func (p *programs) now() *agent.Snapshot {
	if own := p.own.Load(); own != nil && own.gpus {
		s := own.Snapshot()
		return &s
	}
	return p.others.Load()
}

// share is that of a program.
func (p *programs) share(device, name string) (s share.Share, found bool) {
	for d, j := range p.jobs() {
		if j.Name == name && (device == "" || device == d.Device) {
			return share.Share{Memory: share.Bytes(j.MemoryCapBytes), Compute: j.Compute,
				Limit: j.Limit, Class: j.Class}, true
		}
	}
	return s, false
}

// jobs goes through the programs and the device of each.
func (p *programs) jobs() func(yield func(*agent.DeviceSnapshot, *agent.JobSnapshot) bool) {
	return func(yield func(*agent.DeviceSnapshot, *agent.JobSnapshot) bool) {
		for _, d := range p.devices() {
			for i := range d.Jobs {
				if !yield(&d, &d.Jobs[i]) {
					return
				}
			}
		}
	}
}

// devices are those that programs share, with the policy of each.
func (p *programs) devices() []agent.DeviceSnapshot {
	s := p.now()
	if s == nil {
		return nil
	}
	var list []agent.DeviceSnapshot
	for _, d := range s.Devices {
		if !d.Beside { // of another server, which is not this one's to show
			d.Policy = cmp.Or(d.Policy, s.Policy)
			list = append(list, d)
		}
	}
	return list
}

// rows are the devices and programs as a page shows them.
func (p *programs) rows() (devices []web.Device, list []web.Program) {
	for _, d := range p.devices() {
		row := web.Device{Name: d.Device, Label: d.Name, Policy: d.Policy, Memory: d.MemoryBytes,
			Promised: d.PromisedBytes}
		for i := range d.Jobs {
			j := &d.Jobs[i]
			row.Held += int64(j.MemoryUsedBytes)
			list = append(list, web.Program{Name: j.Name, Device: d.Device,
				Class: j.Class.String(), State: j.State, Compute: j.Compute, Limit: j.Limit,
				Cap: j.MemoryCapBytes, Held: int64(j.MemoryUsedBytes), Used: j.DeviceShare})
		}
		devices = append(devices, row)
	}
	return devices, list
}

// measured are the same as metrics have them.
func (p *programs) measured() (list []telemetry.Programs) {
	for _, d := range p.devices() {
		row := telemetry.Programs{Device: d.Device, Policy: d.Policy,
			Memory: lib.Bytes(d.MemoryBytes), Promised: lib.Bytes(d.PromisedBytes)}
		for i := range d.Jobs {
			j := &d.Jobs[i]
			held := lib.Bytes(min(j.MemoryUsedBytes, 1<<62))
			row.Held += held
			row.Jobs = append(row.Jobs, telemetry.Program{Name: j.Name, Held: held,
				Cap:  lib.Bytes(j.MemoryCapBytes),
				Used: time.Duration(j.DeviceSeconds * float64(time.Second))})
		}
		list = append(list, row)
	}
	return list
}
