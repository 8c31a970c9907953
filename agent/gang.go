package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// gang is the jobs of one program's ranks, each on a device of its own, whose gates open together
// and close together. One goroutine drives them, with the states of gate.go.
//
// A gang's turn ends when that of any of its jobs does. While it ends, launches are let through for
// what waits for them on another device (drain.go); a device whose job has drained is given back
// before the others'.
type gang struct {
	a     *Agent
	name  string
	ranks int // how many jobs must have come before programs begin; 0: they need not wait
	// kicked makes the goroutine look at the pages again.
	kicked chan struct{}
	// complete is closed when all ranks have come, failed when one was refused before.
	complete, failed chan struct{}

	// Guarded by the agent's lock.
	joined []*job
	why    error // the refusal

	// Of the goroutine.
	jobs   []*job
	leases *broker.Gang
}

// gangSpec is what a job says of its gang; zero for a job that is in none.
type gangSpec struct {
	Name  string `json:"name,omitempty"`
	Ranks int    `json:"ranks,omitempty"`
}

// maxRanks bounds how many jobs a gang can ask for.
const maxRanks = 1024

// gangFor returns the gang of this name, or a new one that has yet to be entered, or why a job on
// this device cannot join it. The agent's lock is held.
func (a *Agent) gangFor(s gangSpec, dev *device) (*gang, error) {
	if s.Name == "" {
		return nil, nil
	}
	g := a.gangs[s.Name]
	if g == nil {
		return &gang{a: a, name: s.Name, ranks: s.Ranks, kicked: make(chan struct{}, 1),
			complete: make(chan struct{}), failed: make(chan struct{}),
			leases: a.leases.New()}, nil
	}
	if s.Ranks != g.ranks {
		return g, refusal(wire.RefusedAdmission, "gang %s: is of %d ranks for others, of %d for "+
			"this one: say the same --ranks for all", g.name, g.ranks, s.Ranks)
	}
	if slices.ContainsFunc(g.joined, func(j *job) bool { return j.dev == dev }) {
		return g, refusal(wire.RefusedAdmission, "gang %s: has a rank on %s already, and they run "+
			"at the same time: give each rank a --device of its own", g.name, dev.ID())
	}
	if g.ranks > 0 && len(g.joined) == g.ranks {
		return g, refusal(wire.RefusedAdmission, "gang %s: has its %d ranks already", g.name,
			g.ranks)
	}
	return g, nil
}

// join enters a job, and the gang if it is the first. The agent's lock is held.
func (g *gang) join(j *job) {
	g.joined = append(slices.Clip(g.joined), j)
	if len(g.joined) == 1 {
		g.a.gangs[g.name] = g
		g.a.work.Add(1)
		go func() {
			defer g.a.work.Done()
			g.run()
		}()
	}
	if len(g.joined) >= g.ranks {
		select {
		case <-g.complete:
		default:
			close(g.complete)
		}
	}
	kick(g.kicked)
}

// leave takes a job out. The agent's lock is held.
func (g *gang) leave(j *job) {
	g.joined = slices.DeleteFunc(slices.Clone(g.joined), func(o *job) bool { return o == j })
	if len(g.joined) == 0 && g.a.gangs[g.name] == g {
		delete(g.a.gangs, g.name)
	}
	kick(g.kicked)
}

// fail refuses those who wait for the other ranks because one of them was refused. The agent's lock
// is held.
func (g *gang) fail(why error) {
	select {
	case <-g.complete:
	case <-g.failed:
	default:
		g.why = fmt.Errorf("gang %s: not all of its %d ranks fit: %w", g.name, g.ranks, why)
		close(g.failed)
		if g.a.gangs[g.name] == g {
			delete(g.a.gangs, g.name)
		}
	}
}

// run drives the gates until the gang has no jobs any more.
func (g *gang) run() {
	for s := stateIdle; s != stateEnded; {
		s = g.pass(s)
	}
}

// pass enters a state and returns the one that follows.
func (g *gang) pass(s state) state {
	if s == stateIdle && !g.update() {
		return stateEnded
	}
	for _, j := range g.jobs {
		j.mu.Lock()
		j.state = s
		j.mu.Unlock()
	}
	switch s {
	case stateIdle:
		return g.awaitWork()
	case stateWaiting, stateReturning:
		return g.acquire(s)
	case stateOpen:
		return g.open()
	case stateResting:
		return g.rest()
	case stateYielding:
		return g.yield(stateReturning)
	case stateLeaving:
		return g.yield(stateIdle)
	case stateProbing:
		return g.probe()
	}
	return stateEnded
}

// update takes up who came and drops who went, while no leases are held. It reports whether anybody
// is left.
func (g *gang) update() bool {
	g.a.mu.Lock()
	joined := g.joined
	g.a.mu.Unlock()
	for _, j := range g.jobs {
		if !slices.Contains(joined, j) {
			g.leases.Leave(j.bj)
		}
	}
	for _, j := range joined {
		if !slices.Contains(g.jobs, j) {
			g.leases.Join(j.bj)
		}
	}
	g.jobs = joined
	return len(joined) > 0 && g.a.ctx.Err() == nil
}

// changed reports whether somebody came or went since update.
func (g *gang) changed() bool {
	g.a.mu.Lock()
	defer g.a.mu.Unlock()
	return g.a.ctx.Err() != nil || !slices.Equal(g.joined, g.jobs)
}

func (g *gang) any(f func(*job) bool) bool { return slices.ContainsFunc(g.jobs, f) }

func (g *gang) wants() bool    { return g.any((*job).wants) }
func (g *gang) quiet() bool    { return !g.any(func(j *job) bool { return !j.quiet() }) }
func (g *gang) mayStay() bool  { return !g.any(func(j *job) bool { return !j.mayStay() }) }
func (g *gang) unwanted() bool { return g.changed() || !g.wants() }

func (g *gang) activity() (count uint64) {
	for _, j := range g.jobs {
		n, _ := j.activity()
		count += n
	}
	return count
}

// awaitWork waits until a process waits at a gate. What a job has in flight from before may wait
// for that.
func (g *gang) awaitWork() state {
	t := time.NewTimer(wire.Beat)
	defer t.Stop()
	for {
		drained := true
		for _, j := range g.jobs {
			drained = j.settleOverstay() && drained
		}
		switch {
		case g.changed():
			return stateIdle
		case g.wants() && (drained || len(g.jobs) > 1):
			return stateWaiting
		}
		t.Reset(wire.Beat)
		g.sleep(t.C)
	}
}

// acquire waits for all leases until no process wants them any more.
func (g *gang) acquire(from state) state {
	ctx, cancel := context.WithCancel(g.a.ctx)
	look := make(chan struct{})
	go func() {
		defer close(look)
		t := time.NewTicker(wire.Beat)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-g.kicked:
			case <-t.C:
			}
			if g.unwanted() {
				cancel()
			}
		}
	}()
	err := errUnwanted
	if !g.unwanted() {
		if from == stateReturning {
			err = g.leases.Renew(ctx)
		} else {
			err = g.leases.Acquire(ctx)
		}
	}
	cancel()
	<-look
	kick(g.kicked) // which the other goroutine may have taken
	switch {
	case err != nil:
		g.leases.Release()
		return stateIdle
	case g.leases.Over():
		// Others are to have one of the devices already: one gate open without the other would let
		// one rank get ahead.
		g.leases.Release()
		return stateReturning
	case from == stateReturning:
		return stateProbing
	}
	return stateOpen
}

// openGates opens the gates for the leases, or tells of their new end.
func (g *gang) openGates() {
	until := uint64(noEnd)
	if last, ok := g.until(); ok {
		until = uint64(wire.Monotonic() + last + late)
	}
	for _, j := range g.jobs {
		j.openGateUntil(until)
	}
}

// until is the time until the last of the leases is over; false if only a revocation ends them.
func (g *gang) until() (last time.Duration, ok bool) {
	waiting := g.any(func(j *job) bool { return j.dev.broker.Waiting() })
	if g.mayStay() && !waiting {
		return 0, false
	}
	for _, j := range g.jobs {
		u := j.lease.Until()
		if u == share.Forever {
			return 0, false
		}
		last = max(last, u-j.dev.broker.Now())
	}
	return last, true
}

// open keeps the gates open until the gang cannot just go on running.
func (g *gang) open() state {
	g.openGates()
	t := time.NewTimer(look)
	defer t.Stop()
	for {
		switch {
		case g.changed():
			return stateYielding
		case g.leases.Over():
			if !g.mayStay() || !g.leases.TryRenew() {
				return stateYielding
			}
			g.openGates()
		case g.quiet():
			if g.mayStay() {
				return stateResting
			}
			return stateLeaving
		}
		wait := look
		for _, j := range g.jobs {
			j.reopen()
			j.tellUse()
		}
		if last, ok := g.until(); ok {
			wait = min(wait, max(0, last))
		}
		t.Reset(wait)
		if g.sleep(t.C) {
			for _, j := range g.jobs {
				j.noteQuiet()
			}
		}
	}
}

// rest leaves the gates open for nothing while nobody else is to have one of the devices.
func (g *gang) rest() state {
	used := make([]uint64, len(g.jobs))
	for i, j := range g.jobs {
		_, used[i] = j.activity()
		if j.lease.Rest() != nil {
			return stateLeaving
		}
		j.setEnd(noEnd)
	}
	t := time.NewTicker(look)
	defer t.Stop()
	for !g.leases.Over() && g.quiet() && !g.changed() {
		g.sleep(t.C)
	}
	next := stateOpen
	for i, j := range g.jobs {
		_, measured := j.activity()
		j.lease.Charge(elapsed(used[i], measured))
		if !j.lease.Resume() {
			next = stateLeaving
		}
	}
	return next
}

// yield ends the gang's turn. Devices whose jobs have drained are given back as they do.
func (g *gang) yield(drained state) state {
	for _, j := range g.jobs {
		j.shut()
	}
	if !g.a.drained(g.a.ctx, g.kicked, g.missed, g.jobs...) || g.changed() {
		drained = stateIdle
	}
	if drained == stateIdle {
		g.leases.Release()
	}
	return drained
}

// missed reports whether a job beside those whose devices are held has a thread at its gate: it has
// come since the gang's turn began, or has given its device back already.
func (g *gang) missed(held []*job) bool {
	g.a.mu.Lock()
	joined := g.joined
	g.a.mu.Unlock()
	return slices.ContainsFunc(joined, func(j *job) bool {
		return !slices.Contains(held, j) && j.wants()
	})
}

// probe opens the gates for a gang that was busy before others had their turn, and waits for a
// process to have work.
func (g *gang) probe() state {
	before := g.activity()
	g.openGates()
	t := time.NewTimer(wire.Idle)
	defer t.Stop()
	for over := false; ; {
		switch {
		case g.changed():
			return stateYielding
		case g.activity() != before || g.wants() || g.leases.Over():
			return stateOpen
		case over:
			return stateLeaving
		}
		over = g.sleep(t.C)
	}
}

// sleep returns when somebody says that a page changed, the agent ends, or the timer has run out,
// which it reports.
func (g *gang) sleep(timer <-chan time.Time) bool {
	defer func() {
		for _, j := range g.jobs {
			j.heedBounds()
		}
	}()
	select {
	case <-g.kicked:
	case <-g.a.ctx.Done():
	case <-timer:
		return true
	}
	return false
}

// parseGang reads the gang that follows a job's name in a Create: its name and, after a slash, its
// number of ranks.
func parseGang(text string) (gangSpec, error) {
	name, ranks, _ := strings.Cut(text, "/")
	s := gangSpec{Name: strings.TrimSpace(name)}
	if s.Name == "" || s.Name != cleanName(s.Name) {
		return s, fmt.Errorf("gang %q: want a name of 1 to %d printable bytes without a slash",
			name, wire.NameSize)
	}
	if ranks == "" {
		return s, nil
	}
	if _, err := fmt.Sscan(ranks, &s.Ranks); err != nil || s.Ranks < 1 || s.Ranks > maxRanks {
		return s, fmt.Errorf("gang %s: of %s ranks: want 1 to %d", s.Name, ranks, maxRanks)
	}
	return s, nil
}

// sane reports whether parseGang could have read this, or there is none.
func (s gangSpec) sane() bool {
	same, err := parseGang(s.String())
	return s == gangSpec{} || err == nil && same == s
}

// gangSpec is what the job says of its gang.
func (j *job) gangSpec() gangSpec {
	if j.gang == nil {
		return gangSpec{}
	}
	return gangSpec{j.gang.name, j.gang.ranks}
}

// String writes what parseGang reads.
func (s gangSpec) String() string {
	if s.Ranks == 0 {
		return s.Name
	}
	return fmt.Sprintf("%s/%d", s.Name, s.Ranks)
}

// awaitRanks tells a controller when all ranks have come, or that they cannot, until the context is
// done.
func (c *conn) awaitRanks(ctx context.Context, g *gang) {
	select {
	case <-g.complete:
		_ = c.write(wire.NewDone(wire.Done{}), "", nil)
	case <-g.failed:
		g.a.mu.Lock()
		why := g.why
		g.a.mu.Unlock()
		c.refuse(wire.RefusedAdmission, why.Error())
		c.close()
	case <-ctx.Done():
	}
}

// refusesAll reports whether a refusal means that the ranks of a gang cannot all be had.
func refusesAll(err error) bool {
	var r *errRefused
	return errors.As(err, &r) && (r.code == wire.RefusedAdmission || r.code == wire.RefusedDevice)
}
