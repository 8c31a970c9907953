package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// create makes the job that a controller asks for. A controller that had its job from an agent that
// is gone gets it again, or makes the one that a program has brought back its own.
func (a *Agent) create(m wire.Create, name string, c *conn, file *os.File) (*job, error) {
	var gang gangSpec
	var kept string
	switch {
	case m.Keeps():
		var err error
		if name, kept, err = parseClaim(m, name); err != nil {
			return nil, err
		}
	case m.Gangs():
		var err error
		var text string
		name, text, _ = strings.Cut(name, "\x00")
		if gang, err = parseGang(text); err != nil {
			return nil, &errRefused{wire.RefusedAdmission, err}
		}
	}
	want := claim{
		gang: gang,
		kept: kept,
		terms: wire.Terms{
			Token:         m.Token,
			Name:          cleanName(name),
			CreatorUID:    c.peer.uid,
			ControllerPID: c.peer.pid,
			MemCap:        m.Memory,
			ComputePPM:    m.ComputePPM,
			LimitPPM:      m.LimitPPM,
			Class:         m.Class,
			Device:        m.Device,
			InFlight:      a.cfg.InFlight,
			Movable:       m.Movable(),
		},
		fake:       m.Fakes(),
		asked:      time.Duration(m.InflightUS) * time.Microsecond,
		controller: c.peer.identity(),
	}
	if kept != "" {
		return a.keep(want, c)
	}
	if !m.Rejoins() {
		if _, err := rand.Read(want.terms.Token[:]); err != nil {
			return nil, refusal(wire.RefusedBusy, "no random numbers: %w", err)
		}
		return a.admitNew(want, c)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.jobs[m.Token]; j != nil {
		return j, j.retake(c)
	}
	// What it was granted holds. Where that is not known it says so itself, as for a new job.
	if had, ok := a.recall(m.Token); ok {
		if err := controls(had.terms.Name, had.controller, c.peer); err != nil {
			return nil, err
		}
		want = had
	}
	page, err := mapBrought(file, want)
	if err != nil {
		return nil, err
	}
	return a.admitJob(want, c, page)
}

// errLate: a job may fit in place of those that have ended, whose memory the driver has not back
// yet.
var errLate = errors.New("a job that has ended still has what this one wants")

// admitNew lets a new job in. One that is started as another ends gets what that had: it waits for
// that for as long as ended processes keep their slots, but not longer than two of them in turn.
func (a *Agent) admitNew(want claim, c *conn) (*job, error) {
	patience := time.NewTimer(2 * latest)
	defer patience.Stop()
	for want.patient = true; ; {
		var back <-chan struct{}
		a.mu.Lock()
		if dev := a.device(want.terms.Device); dev != nil {
			back = dev.late.back()
		}
		j, err := a.admitJob(want, c, nil)
		a.mu.Unlock()
		if err == nil {
			if err = j.awaitRoom(); err != nil {
				j.release(c)
				return nil, err
			}
		}
		if !errors.Is(err, errLate) {
			return j, err
		}
		select {
		case <-back:
		case <-patience.C:
			want.patient = false
		case <-a.ctx.Done():
			want.patient = false
		}
	}
}

// controls refuses a peer that says it made a job which another process did: a program of the job
// knows its token too.
func controls(name string, master identity, p peer) error {
	if master.known() && !master.is(p.identity()) {
		return refusal(wire.RefusedCredentials, "job %s: was made by process %d, not by %d", name,
			master.PID, p.pid)
	}
	return nil
}

// jobFor finds the job that a process wants to join. One that comes back can bring a job that this
// agent has not been told of yet.
func (a *Agent) jobFor(m wire.Hello, c *conn, file *os.File) (*job, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := c.peer
	if j := a.jobs[m.Token]; j != nil {
		if j.terms.CreatorUID != p.uid && !c.door && !a.allows(p.uid) {
			return nil, refusal(wire.RefusedCredentials, "job %s: belongs to user %d, not %d",
				j.spec.Name, j.terms.CreatorUID, p.uid)
		}
		return a.refound(j, m, file)
	}
	if !m.Rejoins() {
		return nil, refusal(wire.RefusedUnknownJob,
			"no job with this token: it has ended, or belongs to another agent")
	}
	if file == nil {
		a.orphan(m.Token, p)
		return nil, refusal(wire.RefusedUnknownJob,
			"no job with this token, and no page of one: it has ended")
	}
	had, ok := a.recall(m.Token)
	if !ok {
		a.orphan(m.Token, p)
		return nil, refusal(wire.RefusedUnknownJob, "no job with this token: no agent has "+
			"recorded one, so its weir exec has to bring it back before its programs")
	}
	page, err := mapBrought(file, had)
	if err != nil {
		return nil, err
	}
	return a.admitJob(had, nil, page)
}

// orphan tells, once for a job, that a program came back to which nobody vouches for its terms: it
// goes on without a share until somebody does. The agent's lock is held.
func (a *Agent) orphan(token wire.Token, p peer) {
	if _, told := a.orphans[token]; told || len(a.orphans) >= maxJobs {
		return
	}
	a.orphans[token] = struct{}{}
	a.log.Warn("program refused: nobody vouches for the terms of its job, which runs unshared "+
		"until its weir exec comes back", "pid", p.pid, "token", token.String()[:8])
}

// mapBrought maps a page that a peer brought back: nil if it brought none. It must be the memory
// that the claim names. Where that is not known, it must be a page that says of itself that it is
// of the same job and user; nothing else that it says is used.
func mapBrought(file *os.File, of claim) (*wire.Page, error) {
	if file == nil {
		return nil, nil
	}
	own, err := dup(file)
	if err != nil {
		return nil, refusal(wire.RefusedPage, "page: %w", err)
	}
	if of.page != (pageID{}) {
		if idOf(own) != of.page {
			_ = own.Close()
			return nil, refusal(wire.RefusedPage, "page: is not the one that job %s had: %w",
				of.terms.Name, wire.ErrPage)
		}
		page, err := wire.ReclaimPage(own)
		if err != nil {
			return nil, refusal(wire.RefusedPage, "%w", err)
		}
		return page, nil
	}
	page, err := wire.MapPage(own)
	if err != nil {
		return nil, refusal(wire.RefusedPage, "%w", err)
	}
	t, err := page.Terms()
	if err == nil && (t.Token != of.terms.Token || t.CreatorUID != of.terms.CreatorUID) {
		err = fmt.Errorf("page: is of another job: %w", wire.ErrPage)
	}
	if err != nil {
		_ = page.Close()
		return nil, refusal(wire.RefusedPage, "%w", err)
	}
	return page, nil
}

// deviceOf returns the device that a job wants, if it is of the kind wanted.
func (a *Agent) deviceOf(want claim) (*device, error) {
	dev := a.device(want.terms.Device)
	if dev == nil {
		return nil, refusal(wire.RefusedDevice,
			"no device cuda:%d: weir device list shows those there are", want.terms.Device)
	}
	if dev.Fake != want.fake {
		return nil, refusal(
			wire.RefusedDevice,
			"device %s of the agent in %s is %s: end that agent, or choose another "+
				"WEIR_RUNTIME_DIR",
			dev.ID(),
			a.cfg.Dir,
			map[bool]string{true: "of the fake driver", false: "a real one"}[dev.Fake],
		)
	}
	return dev, nil
}

// admitJob lets a job in, with the page that was brought back or a new one. The agent's lock is
// held. The page is closed on an error.
func (a *Agent) admitJob(want claim, c *conn, page *wire.Page) (_ *job, err error) {
	t := want.terms
	defer func() {
		if err != nil && page != nil {
			_ = page.Close()
		}
		if g := a.gangs[want.gang.Name]; g != nil && refusesAll(err) {
			g.fail(err)
		}
	}()
	if a.closing || len(a.jobs) >= maxJobs {
		return nil, refusal(wire.RefusedBusy, "the agent is closing down or has %d jobs already",
			maxJobs)
	}
	if a.jobs[t.Token] != nil || a.keeps(want.kept) != nil {
		return nil, refusal(wire.RefusedBusy, "job %s: somebody else makes it: try again", t.Name)
	}
	dev, err := a.deviceOf(want)
	if err != nil {
		return nil, err
	}
	g, err := a.gangFor(want.gang, dev)
	if err != nil {
		return nil, err
	}
	waits := want.patient && dev.late.any()
	if waits && t.MemCap == 0 { // all that is not promised to others
		return nil, errLate
	}
	turns := dev.turnsFor(want)
	bj, err := admitUnder(dev, &t, turns)
	if err == nil && turns {
		if err = a.hostFor(dev, t.Name, bj.Spec().Memory); err != nil {
			dev.freeName(t.Name)
			bj.End(err)
			return nil, err
		}
	}
	if err != nil && waits {
		return nil, errLate
	}
	if err != nil {
		return nil, &errRefused{wire.RefusedAdmission, err}
	}
	asks, fresh := t.Name, page == nil
	if fresh {
		if page, err = wire.NewPage(); err != nil {
			dev.freeName(asks)
			bj.End(err)
			return nil, &errRefused{wire.RefusedBusy, err}
		}
	}
	t.Name, t.MemTotal, t.UUID = bj.Spec().Name, t.MemCap, dev.UUID
	t.ThreadPercent = dev.threads(bj.UnitLimit())
	j := a.newJob(dev, bj, t, page, g)
	j.asks, j.asked, j.master = asks, want.asked, want.controller
	j.claim = want.kept
	switch {
	case !fresh:
		j.takeUp()
	case want.kept != "":
		j.former = want.page
	}
	j.keepRecord()
	if c != nil {
		j.controller = c
		j.users.Add(1)
	}
	a.jobs[t.Token] = j
	a.boundInFlight(dev)
	j.start()
	a.log.Info("job created", "job", j, "device", dev.ID(), "memory", bj.Spec().Memory.String(),
		"compute", bj.Spec().Compute, "limit", bj.Spec().Limit, "class", bj.Spec().Class.String(),
		"rejoined", !fresh)
	return j, nil
}

// boundInFlight tells the jobs on a device what they may have in flight, after one has come or
// gone: more for one that is alone, less for others while there is a latency job. The agent's lock
// is held.
func (a *Agent) boundInFlight(dev *device) {
	latency, all := 0, 0
	for _, j := range a.jobs {
		if j.dev == dev {
			all++
			if j.spec.Class == share.Latency {
				latency++
			}
		}
	}
	for _, j := range a.jobs {
		switch {
		case j.dev != dev:
		case all == 1 && j.spec.Cap() >= 1:
			j.setInFlight(a.cfg.Alone)
		case latency > 0 && j.spec.Class != share.Latency:
			j.setInFlight(a.cfg.Nearby)
		default:
			j.setInFlight(a.cfg.InFlight)
		}
	}
}

// setInFlight says what the agent lets the job have in flight.
func (j *job) setInFlight(most time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.most = most
	j.writeBounds()
}

// heedBounds writes what the policy lets the job launch, if it says otherwise than before.
func (j *job) heedBounds() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writeBounds()
}

// tryBounds is heedBounds for the broker, under its lock; if the job's is held, the next beat does
// it at the latest.
func (j *job) tryBounds() {
	if j.mu.TryLock() {
		defer j.mu.Unlock()
		j.writeBounds()
	}
}

// longest bounds what may be in flight or pass the gate, whatever a policy says.
const longest = time.Second

// writeBounds writes which kernels pass the closed gate, by the policy, and what the job may have
// in flight: what the agent allows, its controller asked for, and the policy says, whichever is
// least. The job's lock is held.
func (j *job) writeBounds() {
	if j.unmapped || j.most == 0 {
		return
	}
	inFlight, free := j.most, time.Duration(0)
	if j.asked > 0 {
		inFlight = min(inFlight, j.asked)
	}
	if b := j.bounds.Load(); b != nil {
		if b.InFlight > 0 {
			inFlight = min(inFlight, b.InFlight)
		}
		free = min(max(0, b.Free), longest)
	}
	if inFlight == j.terms.InFlight && free == j.terms.Free {
		return
	}
	freed := free > j.terms.Free
	j.terms.InFlight, j.terms.Free = inFlight, free
	j.writeTerms()
	if freed {
		j.wake() // a thread that waits may pass
	}
}

// namesTried bounds the search for a name that is free.
const namesTried = maxJobs + 1

// unpromised is what a job can be given that names no cap: what is kept for no other, and unless it
// takes turns with them, used by none in turn.
func (d *device) unpromised(turns bool) share.Bytes {
	s := d.broker.Status()
	left, most := s.Memory, share.Bytes(0)
	for i := range s.Jobs {
		m := &s.Jobs[i].Memory
		left -= m.Kept()
		most = max(most, m.Bends)
	}
	if !turns {
		left -= most
	}
	return max(0, left)
}

// admitUnder lets a job in under its name, or under that with a number. A cap of zero becomes all
// that is not promised to others. The agent's lock is held.
func admitUnder(dev *device, t *wire.Terms, turns bool) (*broker.Job, error) {
	if t.MemCap == 0 {
		if t.MemCap = uint64(dev.unpromised(turns)); t.MemCap == 0 {
			return nil, fmt.Errorf(
				"job %s: device %s has none of its %v left: %w: end a job or give it less", t.Name,
				dev.ID(), dev.Memory, core.ErrNoMemory)
		}
	}
	if t.MemCap>>62 != 0 {
		return nil, fmt.Errorf("job %s: wants %d bytes, device %s has %v: %w", t.Name, t.MemCap,
			dev.ID(), dev.Memory, core.ErrNoMemory)
	}
	spec := share.Job{Name: t.Name, Share: share.Share{
		Memory:  share.Bytes(t.MemCap),
		Elastic: turns,
		Compute: fraction(t.ComputePPM),
		Limit:   fraction(t.LimitPPM),
		Class:   share.Class(min(t.Class, 255)),
	}}
	if turns {
		spec.Keep = min(dev.contexts(), spec.Memory)
	}
	n := dev.names[t.Name]
	for range namesTried {
		bj, err := dev.broker.Admit(spec, 0)
		if err == nil {
			n.jobs++
			dev.names[t.Name] = n
		}
		if !errors.Is(err, core.ErrName) {
			return bj, err
		}
		// Most often the job that came last with this name has the number before.
		n.last = n.last%namesTried + 1
		suffix := fmt.Sprintf("-%d", n.last+1)
		spec.Name = strings.ToValidUTF8(t.Name[:min(len(t.Name), wire.NameSize-len(suffix))], "") +
			suffix
	}
	return nil, fmt.Errorf("job %s: device %s: %w: choose another", t.Name, dev.ID(),
		core.ErrName)
}

// cleanName makes a name fit to be shown and to lie in a page.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, ""))
	if s = strings.TrimSpace(wire.TrimName(s)); s == "" {
		return "job"
	}
	return s
}

// retake makes a controller that comes back the job's.
func (j *job) retake(c *conn) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.terms.CreatorUID != c.peer.uid:
		return refusal(wire.RefusedCredentials, "job %s: belongs to user %d", j.spec.Name,
			j.terms.CreatorUID)
	case j.ended:
		return refusal(wire.RefusedUnknownJob, "the job has ended")
	case j.controller != nil:
		return refusal(wire.RefusedProtocol, "job %s: has a controller", j.spec.Name)
	}
	if err := controls(j.spec.Name, j.master, c.peer); err != nil {
		return err
	}
	j.controller = c
	j.users.Add(1)
	return nil
}

// takeUp goes through the slots of a page that was brought back: those whose processes are dead are
// freed, the others are expected to come back.
func (j *job) takeUp() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range uint32(wire.SlotCount) {
		s := j.page.Slot(i)
		pid := s.OwnerPID.Load()
		start := s.OwnerStart.Load()
		switch pid {
		case 0:
		case wire.ForeignPID:
			m := j.newMember(i, identity{ID: start}, absent{start, time.Now().Add(rejoinWait)})
			m.named = true
		default:
			p, err := j.a.cfg.system.find(pid, start)
			if err != nil {
				s.Clear()
				continue
			}
			j.newMember(i, identity{PID: pid, Start: start, ID: p.id()}, p).named = true
		}
	}
	j.told = j.doings() // what the agent before has accounted for
}
