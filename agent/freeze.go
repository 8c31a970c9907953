package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is how a job gives its memory away and gets it back. The agent keeps the job from the
// device, waits until nothing of it is in flight, and orders its processes to move their memory to
// the host (wire.Header.Move). What is away is not promised to the job any more, and its cap is
// lower by as much; before it comes back the promise is asked for again, as at admission. A process
// that cannot do what was ordered leaves its memory where it was, and the others are ordered back.

const (
	// moveLook is how often it is looked whether a job has come to rest, and after how long a
	// process that could not move its memory, as it was in use, is asked again.
	moveLook = 2 * time.Millisecond
	// moveWait is how long a process may take for an order, and moveRate, in bytes a second, how
	// slowly it may copy beside that: memory of the host has to be pinned first.
	moveWait = 30 * time.Second
	moveRate = 100 << 20
)

// moves is what a job knows of its memory's moves, guarded by its lock.
type moves struct {
	order  uint32      // as on the page
	frozen bool        // no process is to have the device: the memory is away, or on its way
	busy   bool        // a freeze or a thaw is under way
	away   share.Bytes // what is promised to others meanwhile
	// here is what was on the device when an order to move it away had been followed, by the
	// processes or by the device, and beyond what of that the device alone showed (shown.go).
	here, beyond share.Bytes
}

// FreezeReport is what a freeze or a thaw has done.
type FreezeReport struct {
	Job    string `json:"job"`
	Device string `json:"device"`
	// State is frozen or running.
	State string `json:"state"`
	// MovedBytes is what was moved. AwayBytes is what is on the host since.
	MovedBytes uint64 `json:"moved_bytes"`
	AwayBytes  uint64 `json:"away_bytes"`
	// SpilledBytes is what of AwayBytes lies in the job's --spill folder and not in memory.
	SpilledBytes uint64  `json:"spilled_bytes,omitempty"`
	Seconds      float64 `json:"seconds"`
	// Stays names what of a frozen job's memory is on the device still, as it cannot be moved.
	Stays []StayingMemory `json:"stays"`
}

// StayingMemory is memory that cannot be moved.
type StayingMemory struct {
	What  string `json:"what"`
	Bytes uint64 `json:"bytes"`
}

// serveFreeze moves a job's memory and tells what came of it.
func (c *conn) serveFreeze(m wire.Freeze, name string) error {
	if m.Version != wire.Version {
		return otherVersion(m.Version)
	}
	c.a.mu.Lock()
	j, err := c.a.named(name, ordinal(&m.Device))
	c.a.mu.Unlock()
	if err != nil {
		return err
	}
	began := time.Now()
	var r FreezeReport
	if m.Thaws() {
		r, err = j.thaw()
	} else {
		r, err = j.freeze()
	}
	if err != nil {
		return err
	}
	r.Job, r.Device, r.Seconds = j.spec.Name, j.dev.ID(), time.Since(began).Seconds()
	c.a.log.Info("job "+r.State, "job", j, "moved", share.Bytes(r.MovedBytes).String(), "seconds",
		r.Seconds)
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return c.write(wire.NewDone(wire.Done{TextLen: uint32(len(text))}), string(text), nil)
}

// mustRest reports whether no process of the job is to have the device for now.
func (j *job) mustRest() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moves.frozen || j.turning.leaves
}

// isFrozen reports whether the job is frozen, or about to be.
func (j *job) isFrozen() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moves.frozen
}

// heard takes what a process says of its memory; false: the message is about something else.
func (j *job) heard(mem *member, m wire.Message) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch m := m.(type) {
	case wire.Stays:
		mem.stays = m
		return m.Slot == mem.slot
	case wire.Moved:
		if m.Move == j.moves.order {
			mem.moved = &m
		}
		return m.Slot == mem.slot
	}
	return false
}

// writeTerms writes the job's terms on its page, with the cap lower by what is away. The job's lock
// is held.
func (j *job) writeTerms() {
	t := j.terms
	t.MemCap -= uint64(j.moves.away)
	j.page.SetTerms(t)
}

// beginMove refuses what cannot be done, and takes the job for a freeze or a thaw.
func (j *job) beginMove(thaws bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := j.spec.Name
	switch {
	case j.ended || j.unmapped:
		return refusal(wire.RefusedUnknownJob, "job %s: has ended", name)
	case j.moves.busy:
		return refusal(wire.RefusedBusy, "job %s: is being frozen or thawed: try again", name)
	case thaws && !j.moves.frozen:
		return refusal(wire.RefusedAdmission, "job %s: is not frozen", name)
	case thaws:
	case j.moves.frozen:
		return refusal(wire.RefusedAdmission, "job %s: is frozen already, %v of it away: weir "+
			"thaw %s brings it back", name, j.moves.away, name)
	case !j.terms.Movable:
		return refusal(wire.RefusedAdmission, "job %s: its memory cannot be moved: start it with "+
			"weir exec --oversubscribe", name)
	case j.gang != nil:
		return refusal(wire.RefusedAdmission, "job %s: is a rank of gang %s, whose others wait "+
			"for it: a gang cannot be frozen", name, j.gang.name)
	}
	j.moves.busy, j.moves.frozen = true, true
	j.reconsider()
	return nil
}

// endMove lets go of the job, frozen or not.
func (j *job) endMove(frozen bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.moves.busy, j.moves.frozen = false, frozen
	kick(j.kicked)
}

// freeze moves the job's memory to the host.
func (j *job) freeze() (r FreezeReport, err error) {
	had := j.attached()
	turn, err := j.toHost() // before the job is kept from the device
	if err != nil {
		return r, err
	}
	defer turn()
	if err := j.beginMove(false); err != nil {
		return r, err
	}
	defer func() { j.endMove(err == nil) }()
	if err := j.comeToRest(); err != nil {
		return r, err
	}
	j.turning.carry.Lock()
	defer j.turning.carry.Unlock()
	for until := time.Now().Add(j.a.cfg.DrainTimeout); ; {
		if j.turning.turns && j.isOut() && j.turning.has == 0 { // since it was another's turn
			break
		}
		err := j.moveAway()
		if err == nil {
			break
		}
		if ended, is := err.(*errRefused); is {
			return r, ended
		}
		if back := j.move(false); back != nil {
			j.a.log.Error("memory not brought back", "job", j, "error", back)
			j.mu.Lock()
			j.turning.out = true // until it is, for the next turn
			j.mu.Unlock()
		}
		if e, again := err.(*moveError); !again || e.moved.Code != wire.MovedBusy ||
			time.Now().After(until) {
			return r, j.notMoved(err)
		}
		if err := j.pause(); err != nil {
			return r, err
		}
	}
	if had && !j.attached() {
		_ = j.move(false) // what comes later finds no order: there is nobody who could fail
		return r, refusal(wire.RefusedUnknownJob, "job %s: its processes have ended meanwhile, "+
			"and their memory is free", j.spec.Name)
	}
	r = j.report("frozen")
	j.freezeTurns()
	j.promise(share.Bytes(r.MovedBytes))
	r.AwayBytes = r.MovedBytes
	return r, nil
}

// thaw brings it back, if the device has the room promised to nobody.
func (j *job) thaw() (r FreezeReport, err error) {
	if err := j.beginMove(true); err != nil {
		return r, err
	}
	defer func() { j.endMove(err != nil) }()
	j.mu.Lock()
	away := j.moves.away
	err = j.promiseLocked(0)
	j.mu.Unlock()
	if err != nil {
		return r, refusal(wire.RefusedFull, "job %s: %v are away and it stays frozen: %w",
			j.spec.Name, away, err)
	}
	j.turning.carry.Lock()
	defer j.turning.carry.Unlock()
	if j.waitsForTurn() {
		return FreezeReport{State: "running", AwayBytes: uint64(away), Stays: []StayingMemory{}},
			nil
	}
	if err := j.move(false); err != nil {
		if back := j.moveAgain(); back != nil {
			j.a.log.Error("memory not taken away again", "job", j, "error", back)
			return r, j.notMoved(err) // what may be there still is lent to nobody
		}
		j.freezeTurns()
		j.promise(away)
		return r, j.notMoved(err)
	}
	j.mu.Lock()
	j.turning.out = false
	j.mu.Unlock()
	r = j.report("running")
	r.Stays = []StayingMemory{}
	return r, nil
}

// promise has the job be promised less by what is away.
func (j *job) promise(away share.Bytes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.promiseLocked(away); err != nil {
		j.a.log.Warn("promise not lowered", "job", j, "error", err)
	}
}

// promiseLocked is promise with the job's lock held. It keeps what the job holds, and a byte, as a
// cap of none means another thing.
func (j *job) promiseLocked(away share.Bytes) error {
	if j.ended || j.unmapped {
		return fmt.Errorf("job %s: %w", j.spec.Name, core.ErrEnded)
	}
	was := j.moves.away
	rest := j.terms.MemCap - min(j.terms.MemCap, max(1, j.page.MemoryHeld(),
		uint64(j.moves.here)))
	j.moves.away = min(away, share.Bytes(rest))
	s := j.bj.Spec().Share
	s.Memory = share.Bytes(j.terms.MemCap) - j.moves.away
	s.Keep = min(s.Keep, s.Memory)
	if err := j.bj.SetShare(s); err != nil {
		j.moves.away = was
		return err
	}
	j.writeTerms()
	return nil
}

// comeToRest waits until the job has given the device back and nothing of it is in flight.
func (j *job) comeToRest() error {
	for until := time.Now().Add(j.a.cfg.DrainTimeout); ; {
		j.mu.Lock()
		idle := j.state == stateIdle && j.cancelWait == nil
		j.mu.Unlock()
		if idle && j.undrained() == nil {
			return nil
		}
		if time.Now().After(until) {
			return refusal(wire.RefusedBusy, "job %s: has had work in flight for %v: it goes on",
				j.spec.Name, j.a.cfg.DrainTimeout)
		}
		if err := j.pause(); err != nil {
			return err
		}
	}
}

// pause lets some time pass; the error says that the job, or the agent, has ended.
func (j *job) pause() error {
	t := time.NewTimer(moveLook)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-j.ctx.Done():
		return refusal(wire.RefusedUnknownJob, "job %s: has ended", j.spec.Name)
	}
}

// moveError is a process that could not do what was ordered.
type moveError struct {
	pid   uint32
	moved wire.Moved
}

// Error implements error.
func (e *moveError) Error() string {
	m := e.moved
	needs, has := share.Bytes(m.Needs).About(), share.Bytes(m.Has).About()
	switch m.Code {
	case wire.MovedBusy:
		return fmt.Sprintf("process %d was not done with its memory, or captures a stream", e.pid)
	case wire.MovedHost:
		return fmt.Sprintf("process %d needs %v of the host's memory more, of which %v are left "+
			"for this: weir agent --host-memory sets how much there is", e.pid, needs, has)
	case wire.MovedDevice:
		return fmt.Sprintf("process %d needs %v of the device's memory, of which %v are free: end "+
			"or freeze another, or wait with weir thaw --wait", e.pid, needs, has)
	case wire.MovedSpill:
		why, next := syscall.Errno(m.Result), "look at the disk"
		switch why {
		case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
			next = "make room there"
		case syscall.EBADF:
			next = "the program has closed the file that its memory is in: end it"
		}
		return fmt.Sprintf("process %d: its --spill folder, for %v of memory: %v: %s", e.pid, needs,
			why, next)
	case wire.MovedDamaged:
		return fmt.Sprintf("process %d: what its --spill folder gives back is not what was "+
			"written, in a piece of %v: the program cannot go on: end it, and look at the disk",
			e.pid, needs)
	}
	return fmt.Sprintf("process %d: the driver gave error %d", e.pid, m.Result)
}

// attached reports whether the job has a process that can be told to move its memory.
func (j *job) attached() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.members[:], func(m *member) bool {
		return m != nil && m.conn != nil
	})
}

// notMoved says why the job is as it was.
func (j *job) notMoved(err error) error {
	code := wire.RefusedBusy
	if e, ok := err.(*moveError); ok &&
		(e.moved.Code == wire.MovedHost || e.moved.Code == wire.MovedDevice) {
		code = wire.RefusedFull
	}
	return refusal(code, "job %s: its memory stays where it is: %w", j.spec.Name, err)
}

// moveTime is how long the job's processes have to move their memory: no longer than for its cap,
// whatever they say of it, as other jobs' moves may wait for this one.
func (j *job) moveTime() time.Duration {
	return moveWait + time.Duration(float64(j.movable())/moveRate*float64(time.Second))
}

// move orders the job's processes to move their memory, and waits until all have. Those that end
// meanwhile have none. The error of a job that has ended is a refusal.
func (j *job) move(away bool) error {
	if away {
		j.a.recallHost(j)
	}
	left, wait := j.a.hostLeft(j), j.moveTime()
	j.mu.Lock()
	if j.ended || j.unmapped {
		j.mu.Unlock()
		return refusal(wire.RefusedUnknownJob, "job %s: has ended", j.spec.Name)
	}
	h := j.page.Header()
	h.MoveHostBytes.Store(uint64(left))
	j.moves.order = wire.NextMove(j.moves.order, away)
	asked := map[*member]bool{}
	for _, m := range j.members {
		if m != nil && m.conn != nil {
			m.moved, asked[m] = nil, true
		}
	}
	h.Move.Store(j.moves.order)
	j.page.WakeMove()
	j.mu.Unlock()
	return j.await(asked, wait)
}

// await waits until those asked have moved their memory, for so long.
func (j *job) await(asked map[*member]bool, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(j.ctx, wait)
	defer cancel()
	for {
		m, err := j.unmoved(asked)
		if m == nil {
			return err
		}
		if ctx.Err() != nil && j.ctx.Err() == nil {
			return fmt.Errorf("process %d has not said in %v that it has moved its memory: it may "+
				"be stopped", m.who.PID, wait)
		}
		if err := j.pause(); err != nil {
			return err
		}
	}
}

// unmoved returns a process that has not answered, or nil and what the first that could not do what
// was ordered said.
func (j *job) unmoved(asked map[*member]bool) (*member, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var failed error
	for _, m := range j.members {
		if m == nil || m.conn == nil || !asked[m] {
			continue
		}
		if m.moved == nil {
			return m, nil
		}
		if m.moved.Code != wire.MovedAll && failed == nil {
			failed = &moveError{m.who.PID, *m.moved}
		}
	}
	return nil, failed
}

// moveAway has the job's memory moved to the host, as far as the device shows that it was.
func (j *job) moveAway() error {
	found := j.found()
	if err := j.move(true); err != nil {
		return err
	}
	j.shown(found)
	return j.gone()
}

// moveAgain takes away what a thaw has brought back in vain.
func (j *job) moveAgain() error {
	turn, err := j.toHost()
	if err != nil {
		return err
	}
	defer turn()
	return j.moveAway()
}

// toHost waits for the turn to move memory to the host, which ends with the function it returns.
func (j *job) toHost() (func(), error) {
	select {
	case j.a.toHost <- struct{}{}:
		return func() { <-j.a.toHost }, nil
	case <-j.ctx.Done():
		return nil, refusal(wire.RefusedUnknownJob, "job %s: has ended", j.spec.Name)
	}
}

// hostLeft is what of the host's memory the job may have for what it moves there.
func (a *Agent) hostLeft(j *job) share.Bytes {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.cfg.HostMemory
	for _, other := range a.jobs {
		switch {
		case other == j:
		case other.turning.turns && a.hostPromised(other.dev, 0) > 0:
			left -= max(other.onHost(), other.bj.Spec().Memory)
		default:
			left -= other.onHost()
		}
	}
	return max(0, left)
}

// lendWait is how long is waited for memory of the host that jobs keep for their next move.
const lendWait = time.Second

// recallHost has the other jobs give back what they keep of the host's memory for their next move,
// where a job whose memory is to be moved there may not have room beside it. It is called by who
// has the turn to move memory to the host.
func (a *Agent) recallHost(j *job) {
	until := time.Now().Add(lendWait)
	for asked := false; a.hostLeft(j) < j.movable(); asked = true {
		kept := share.Bytes(0)
		for _, other := range a.others(j) {
			kept += other.keepsHost(!asked)
		}
		if kept == 0 || time.Now().After(until) || j.pause() != nil {
			return
		}
	}
}

// others are the jobs but one whose memory of the host is not promised to them, as it is where they
// do not fit on the device and take turns. These move to the host by freezes alone, one at a time.
func (a *Agent) others(j *job) (others []*job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, other := range a.jobs {
		if other != j && !(other.turning.turns && a.hostPromised(other.dev, 0) > 0) {
			others = append(others, other)
		}
	}
	return others
}

// movable is what of the job's memory can be moved, by what its processes say.
func (j *job) movable() (sum share.Bytes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !j.unmapped {
			sum += share.Bytes(min(m.s.MovableBytes.Load(), j.terms.MemCap))
		}
	}
	return min(sum, share.Bytes(j.terms.MemCap))
}

// keepsHost is what the job's processes keep of the host's memory while theirs is on the device. It
// asks them to give it back.
func (j *job) keepsHost(ask bool) (sum share.Bytes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended || j.unmapped || !j.terms.Movable {
		return 0
	}
	for _, m := range j.members {
		if m != nil && m.conn != nil && m.s.AwayBytes.Load() == 0 {
			sum += share.Bytes(min(m.s.HostBytes.Load(), j.terms.MemCap))
		}
	}
	if sum > 0 && ask {
		j.page.Header().MoveHostBytes.Store(0)
		j.page.WakeMove()
	}
	return sum
}

// onHost is what the job's processes have of the host's memory, by what they say: no more than the
// job may have on the device, so that none that lies leaves others nothing.
func (j *job) onHost() (sum share.Bytes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !j.unmapped {
			sum += share.Bytes(min(m.s.HostBytes.Load(), j.terms.MemCap))
		}
	}
	if !j.terms.Movable {
		return 0
	}
	return min(sum, share.Bytes(j.terms.MemCap))
}

// report sums what the processes have said.
func (j *job) report(state string) FreezeReport {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := FreezeReport{State: state, Stays: []StayingMemory{}}
	var sum wire.Stays
	var opened uint64
	for _, m := range j.members {
		if m == nil || m.moved == nil {
			continue
		}
		r.MovedBytes += min(m.moved.Bytes, j.terms.MemCap)
		r.SpilledBytes += min(m.s.SpilledBytes.Load(), m.moved.Bytes)
		opened += m.moved.Opened
		sum.Contexts += m.stays.Contexts
		sum.Managed += m.stays.Managed
		sum.Arrays += m.stays.Arrays
		sum.Mapped += m.stays.Mapped
		sum.Pools += m.stays.Pools
		sum.Small += m.stays.Small
	}
	for _, s := range []StayingMemory{
		{"contexts and modules", sum.Contexts},
		{"managed memory", sum.Managed},
		{"arrays", sum.Arrays},
		{"memory that the program maps itself", sum.Mapped},
		{"pools and memory of graphs", sum.Pools},
		{"allocations below 2MiB", sum.Small},
		{"memory of other processes", opened},
		{"what the device shows of memory that its processes say is moved",
			uint64(j.moves.beyond)},
	} {
		if s.Bytes > 0 {
			r.Stays = append(r.Stays, s)
		}
	}
	return r
}

// Freeze moves the device memory of a job to the host, and Thaw brings it back; both return what
// was done. Device is the ordinal of the job's device, or nil for whichever has it. They take as
// long as the bytes take to be copied, and end with the context; the move itself goes on then. An
// error is [ErrRefused] with the agent's text, of the code wire.RefusedFull where the device, or
// the host, has no room, the context's, or one of the connection. The connection is of no further
// use.
func (c *Client) Freeze(ctx context.Context, job string, device *uint32) (FreezeReport, error) {
	return c.askFreeze(ctx, job, device, false)
}

// Thaw is described at [Client.Freeze].
func (c *Client) Thaw(ctx context.Context, job string, device *uint32) (FreezeReport, error) {
	return c.askFreeze(ctx, job, device, true)
}

func (c *Client) askFreeze(ctx context.Context, job string, device *uint32,
	thaw bool) (r FreezeReport, err error) {
	name := wire.TrimName(job)
	m := wire.Freeze{Device: wire.NoDevice, Version: wire.Version, TextLen: uint32(len(name))}
	if device != nil {
		m.Device = *device
	}
	if err := c.send(wire.NewFreeze(m, thaw), name, nil); err != nil {
		return r, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	answer, text, file, err := c.receive()
	if file != nil {
		_ = file.Close()
	}
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if _, ok := answer.(wire.Done); err == nil && !ok {
		err = fmt.Errorf("agent: answer of kind %d: %w", wire.KindOf(answer), wire.ErrMessage)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	return r, err
}
