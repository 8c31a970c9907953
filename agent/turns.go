package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is memory that comes and goes with turns: programs whose memory can be moved are let in
// beside each other though their caps together are more than the device has, as long as each fits
// alone beside what is kept for the others. The broker decides who gives way to whom, and for how
// long whose memory has come stays (share/core, turns.go); the agent carries it out.
//
// A job that is granted the device reserves all that it may hold. Where that does not fit, others
// are told to give theirs back: each is ordered to move its memory to the host, with its gate
// closed and nothing in flight, and its reservation is freed. Then the job's own memory is ordered
// back, its reservation is counted, and its gate is opened. A job whose memory is away waits for
// its turn as at the gate: the library holds all calls that need the memory, and says so.
//
// What cannot be moved stays on the device and is kept for its job (share.Share.Keep), as soon as
// that is known. A job that cannot give way, or not be brought back, leaves things as they were:
// the one that wanted the room gives its turn back, says why in the log, and tries again later.

const (
	// roomAgain is after how long a job whose memory could not be brought to the device, or away
	// from it, tries again at first, and most after how long at most.
	roomAgain     = 20 * time.Millisecond
	roomAgainMost = time.Second
)

// errNoRoom: another job's memory could not be moved away.
var errNoRoom = errors.New("has to wait for memory that could not be moved away")

// turning is what a job knows of memory that comes and goes with its turns.
type turning struct {
	turns bool // its memory does; never written again
	// carry is held while its memory is moved, or is not to be. It is taken before the job's lock,
	// and by the job's own goroutine only while that keeps it from no state that others wait for.
	carry sync.Mutex

	has   share.Bytes   // reserved for it; guarded by carry
	again time.Duration // of the job's goroutine: as long it waited before it tried again

	// Guarded by the job's lock.
	out    bool // its memory is not to be taken to be on the device
	leaves bool // it is to have no turn, so that its memory can go
	swaps  int64
	took   time.Duration           // by all swaps
	noRoom context.CancelCauseFunc // ends a wait for room; nil: there is none
	// refused is what could not be kept for it when that was last asked for, and kept what is by
	// what its processes say, and no less if the device shows less.
	refused, kept share.Bytes
}

// turnsFor reports whether memory of a job of these terms comes and goes with its turns. It does
// not for a rank of a gang, for which others wait, and not where programs run at once as clients of
// MPS. The agent's lock is held.
func (d *device) turnsFor(want claim) bool {
	return want.terms.Movable && want.gang.Name == "" && !d.clients
}

// beginTurns has the memory of a new job on the device if there is room, and away if not: a program
// that was there under the agent before, too. Of one that was ever ordered to move, by the page, no
// more is believed than that it has the room.
func (j *job) beginTurns() {
	most := share.Bytes(j.terms.MemCap)
	if !j.turning.turns {
		return
	}
	j.turning.kept = j.bj.Spec().Share.Keep
	h := j.page.Header()
	if err := j.bj.Reserve(core.Persistent, most); err == nil {
		j.turning.has = most
		// Ordered back it may still find the device full, of one that the agent has yet to be
		// told of: it has to say that it is there before its gate is opened.
		j.turning.out = j.moves.order != 0
		return
	}
	j.turning.out = true
	j.moves.order = wire.NextMove(h.Move.Load(), true)
	h.Move.Store(j.moves.order)
	j.page.WakeMove()
}

// isOut reports whether the job's memory is not on the device.
func (j *job) isOut() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.turning.out
}

// awayLocked is what of the job's memory its processes say is on the host. The job's lock is held.
func (j *job) awayLocked() (sum share.Bytes) {
	for _, m := range j.members {
		if m != nil {
			sum += share.Bytes(min(m.s.AwayBytes.Load(), j.terms.MemCap))
		}
	}
	return sum
}

// place brings the memory of a job that has just been granted the device there. On an error it is
// where it was.
func (j *job) place(ctx context.Context) error {
	if !j.turning.turns {
		return nil
	}
	j.turning.carry.Lock()
	defer j.turning.carry.Unlock()
	began := time.Now()
	if err := j.takeRoom(ctx); err != nil {
		return err
	}
	if !j.isOut() {
		return nil
	}
	room := time.Since(began)
	if err := j.move(false); err != nil {
		if back := j.moveAway(); back != nil {
			j.a.log.Error("memory not taken away again", "job", j, "error", back)
			return err // what may be there still is lent to nobody
		}
		j.lend()
		return err
	}
	took := time.Since(began)
	j.bj.Moved(took)
	j.mu.Lock()
	j.turning.out, j.turning.again = false, 0
	j.turning.swaps++
	j.turning.took += took
	j.mu.Unlock()
	j.a.log.Debug("memory brought for a turn", "job", j, "seconds", took.Seconds(), "room",
		room.Seconds())
	return nil
}

// takeRoom reserves what the job may hold, and waits until others have given way. To reserve
// nothing more takes back what it was told to give. The carry is held.
func (j *job) takeRoom(ctx context.Context) error {
	j.mu.Lock()
	more := share.Bytes(j.terms.MemCap) - j.moves.away - j.turning.has
	if more <= 0 {
		j.mu.Unlock()
		_ = j.bj.Reserve(core.Persistent, 0) // if it cannot, it is asked again
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	j.turning.noRoom = cancel
	j.mu.Unlock()
	err := j.bj.ReserveWait(ctx, core.Persistent, more)
	j.mu.Lock()
	j.turning.noRoom = nil
	j.mu.Unlock()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	j.turning.has += more
	return nil
}

// lend frees what is reserved for a job whose memory is away. What of it is on the device still is
// kept for it. The carry is held.
func (j *job) lend() {
	has := j.turning.has
	j.turning.has = 0
	j.keep(true)
	if err := j.bj.Free(core.Persistent, has); err != nil {
		j.a.log.Error("reservation not freed", "job", j, "error", err)
	}
}

// keep sets apart for the job what of its memory cannot be moved: what it holds with the other
// away, and as long as that is not known its contexts. That it is away is for the caller to know: a
// job that is out may have it on the device still.
func (j *job) keep(away bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended || j.unmapped || !j.turning.turns {
		return
	}
	stays := share.Bytes(0)
	for _, m := range j.members {
		if m != nil && away {
			stays += share.Bytes(min(m.counts(), j.terms.MemCap))
		} else if m != nil {
			stays += share.Bytes(min(m.s.MemContextBytes.Load(), j.terms.MemCap))
		}
	}
	s := j.bj.Spec().Share
	j.turning.kept = max(j.turning.kept, stays)
	stays = j.turning.kept
	if away {
		stays = max(stays, j.moves.here)
	} else {
		stays = max(stays, s.Keep)
	}
	if stays = min(stays, s.Memory); stays == s.Keep ||
		stays > s.Keep && stays == j.turning.refused {
		return
	}
	s.Keep = stays
	if err := j.bj.SetShare(s); err != nil {
		j.turning.refused = stays
		j.a.log.Warn("what cannot be moved of a program's memory is in the way of others'",
			"job", j, "stays", stays.String(), "error", err)
	}
}

// awaitRoom waits until a new job, whose memory does not come and go, has all that it was promised:
// others may use it in their turns. The error says that they do not give way.
func (j *job) awaitRoom() error {
	if j.turning.turns || !j.dev.anyTurns() {
		return nil
	}
	ctx, cancel := context.WithTimeout(j.ctx, moveWait)
	defer cancel()
	most := share.Bytes(j.terms.MemCap)
	if err := j.bj.ReserveWait(ctx, core.Persistent, most); err != nil {
		return refusal(wire.RefusedFull, "job %s: %v of device %s are used by others in turn, who "+
			"have not given way in %v: %w", j.spec.Name, most.About(), j.dev.ID(), moveWait, err)
	}
	return nil
}

// anyTurns reports whether memory of any job comes and goes with its turns.
func (d *device) anyTurns() bool {
	return slices.ContainsFunc(d.byID.all(), func(j *job) bool { return j.turning.turns })
}

// contexts is what contexts have been found to take on the device by jobs that take turns.
func (d *device) contexts() (most share.Bytes) {
	for _, j := range d.byID.all() {
		j.mu.Lock()
		if n := j.page.Header(); j.turning.turns && !j.unmapped {
			most = max(most, share.Bytes(min(n.ContextBytes.Load(), j.terms.MemCap)))
		}
		j.mu.Unlock()
	}
	return most
}

// giveWay moves the job's memory to the host for as long as it is told to, which it may be again.
// It is called on a goroutine of its own.
func (j *job) giveWay() {
	for wait := roomAgain; j.giveWayOnce(wait == roomAgain); wait = min(2*wait, roomAgainMost) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-j.ctx.Done():
			t.Stop()
			return
		}
	}
}

// giveWayOnce reports whether the job is to be asked again.
func (j *job) giveWayOnce(first bool) (again bool) {
	j.turning.carry.Lock()
	defer j.turning.carry.Unlock()
	if _, told := j.bj.Told(); !told || j.turning.has == 0 {
		return false
	}
	err := j.leaveDevice()
	if err == nil {
		j.lend()
		return false
	}
	if first && j.ctx.Err() == nil {
		j.a.log.Warn("memory not moved away for another's turn", "job", j, "error", err)
	}
	j.dev.tellNoRoom(fmt.Errorf("job %s: %w: %w", j.spec.Name, errNoRoom, err))
	return true
}

// leaveDevice moves the memory of a job that has no turn away. The carry is held.
func (j *job) leaveDevice() error {
	j.setLeaves(true)
	defer j.setLeaves(false)
	for until := time.Now().Add(j.a.cfg.DrainTimeout); !j.setOut(); {
		if time.Now().After(until) {
			return refusal(wire.RefusedBusy, "job %s: has had work in flight for %v",
				j.spec.Name, j.a.cfg.DrainTimeout)
		}
		if err := j.pause(); err != nil {
			return err
		}
	}
	err := j.moveAway()
	if err == nil {
		return nil
	}
	if back := j.move(false); back != nil {
		j.a.log.Error("memory not brought back", "job", j, "error", back)
		return err
	}
	j.mu.Lock()
	j.turning.out = false
	j.mu.Unlock()
	return err
}

// setLeaves says whether the job is to have no turn for now.
func (j *job) setLeaves(leaves bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.turning.leaves = leaves
	j.reconsider()
}

// setOut takes note that the job's memory is about to go, unless it has a turn or something in
// flight: from then on its gate is not opened before it is back. It reports whether it did.
func (j *job) setOut() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	waits := j.state == stateIdle || j.state == stateWaiting || j.state == stateReturning
	if !waits || wire.IsOpen(j.gate) || j.undrainedLocked() != nil {
		return false
	}
	j.turning.out = true
	return true
}

// freezeTurns takes note that the memory of a job is away and has no turn. The carry is held.
func (j *job) freezeTurns() {
	if !j.turning.turns {
		return
	}
	j.mu.Lock()
	j.turning.out = true
	j.mu.Unlock()
	j.lend()
}

// waitsForTurn reports whether the memory of a job that is thawed comes back with its next turn
// only, as there is no room for it before. The carry is held.
func (j *job) waitsForTurn() bool {
	most := share.Bytes(j.terms.MemCap)
	if !j.turning.turns {
		return false
	}
	if j.bj.Reserve(core.Persistent, most) != nil {
		return true
	}
	j.turning.has = most
	return false
}

// tellNoRoom ends the waits for room on the device.
func (d *device) tellNoRoom(err error) {
	for _, j := range d.byID.all() {
		j.mu.Lock()
		if j.turning.noRoom != nil {
			j.turning.noRoom(err)
		}
		j.mu.Unlock()
	}
}

// unplaced gives a turn back that was of no use, and waits before the next one is asked for.
func (j *job) unplaced(err error) {
	j.giveBack()
	if j.ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, core.ErrEnded) {
		return
	}
	if j.turning.again == 0 {
		j.a.log.Warn("memory not brought to the device for a turn", "job", j, "error", err)
	}
	j.turning.again = min(max(roomAgain, 2*j.turning.again), roomAgainMost)
	t := time.NewTimer(j.turning.again)
	defer t.Stop()
	select {
	case <-t.C:
	case <-j.ctx.Done():
	}
}

// hostFor refuses a job for whose memory, and that of those that it would take turns with, the host
// has no room: while one comes, that of all may be there. The agent's lock is held.
func (a *Agent) hostFor(dev *device, name string, most share.Bytes) error {
	needs := a.hostPromised(dev, most)
	if needs == 0 {
		return nil
	}
	left := a.cfg.HostMemory
	for _, d := range a.devices {
		if d != dev {
			left -= a.hostPromised(d, 0)
		}
	}
	for _, j := range a.jobs {
		if j.isFrozen() && j.dev != dev {
			left -= j.onHost()
		}
	}
	if needs <= left {
		return nil
	}
	return refusal(wire.RefusedAdmission, "job %s: wants %v of device %s in turn with others, for "+
		"which %v of the host's memory are needed, of which %v are left: lower its memory, or set "+
		"weir agent --host-memory", name, most.About(), dev.ID(), needs.About(),
		max(0, left).About())
}

// hostPromised is what of the host's memory the jobs on a device that take turns may need, with one
// more that may hold so much: none where all fit together. The agent's lock is held.
func (a *Agent) hostPromised(dev *device, most share.Bytes) share.Bytes {
	all, turn := most, most
	for _, j := range a.jobs {
		if j.dev != dev {
			continue
		}
		s := j.bj.Spec()
		all += s.Memory
		if j.turning.turns {
			turn += s.Memory
		}
	}
	if all <= dev.Memory {
		return 0
	}
	return turn
}
