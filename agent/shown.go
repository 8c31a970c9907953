package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// This file holds what programs say that they have moved to the host against what the device shows
// of them. A program writes its page itself, and answers orders itself: what it says has left the
// device, and has not, would be promised to others, whose allocations then fail. So nothing that
// the management library shows with a job's processes is lent while their memory is away. Where
// there is no such library, or it lists none of them, they are believed. Where it otherwise does,
// and a call of it fails, it is asked again.

// showWait is how long the device may take to show that memory has left it: what a driver has back
// late, it has back in about that (late.go).
const showWait = time.Second

// shown waits until the device shows no more of the job's memory than its processes say is there
// still, which they have just taken to the host by an order. What it shows beyond that for all of
// the time counts as there, and of so much is not waited for the next time, nor of what was found
// of them before the order.
func (j *job) shown(found share.Bytes) {
	for until := time.Now().Add(j.a.cfg.showWait); ; {
		says, shows, err := j.here()
		over := shows - says
		j.mu.Lock()
		done := over <= max(j.moves.beyond, found) && (err == nil || !j.dev.lists(err)) ||
			time.Now().After(until)
		if done {
			j.moves.here, j.moves.beyond = shows, over
		}
		j.mu.Unlock()
		if done || j.pause() != nil {
			return
		}
	}
}

// found is what the device was found to hold of the job beside what its processes count: their
// code, say, which stays.
func (j *job) found() (sum share.Bytes) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !j.unmapped {
			sum += share.Bytes(min(m.s.FoundBytes.Load(), j.terms.MemCap))
		}
	}
	return min(sum, share.Bytes(j.terms.MemCap))
}

// lists reports whether a device that has failed to say what processes hold is expected to say so
// soon: it does not hang, and did not fail when it was last measured.
func (d *device) lists(err error) bool {
	why := d.unmeasured.Load()
	return !errors.Is(err, errHangs) && (why == nil || *why == "")
}

// here is what of the job's memory is on the device: as its processes count it, without what was
// found of them meanwhile (measure.go), which the device alone shows, and as the device shows too,
// where that is more; each no more than the job may have. The error is the device's, which then
// shows nothing.
func (j *job) here() (says, shows share.Bytes, err error) {
	var held map[uint32]uint64
	if j.a.cfg.Holds != nil {
		held, err = j.dev.holds.read(j.ctx, min(latest, j.a.cfg.hangs))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m == nil || j.unmapped {
			continue
		}
		own := j.owes(m)
		says += share.Bytes(min(m.counts(), j.terms.MemCap))
		if m.who.PID != 0 && !m.ended() {
			own = max(own, min(held[m.who.PID], j.terms.MemCap))
		}
		shows += share.Bytes(own)
	}
	most := share.Bytes(j.terms.MemCap)
	return min(says, most), min(shows, most), err
}

// gone refuses to have the job's memory taken to be away, where the device shows more of it than
// can be kept for the job: of jobs that take turns all that is not kept is others'.
func (j *job) gone() error {
	j.keep(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	if keeps := j.bj.Spec().Share.Keep; j.turning.turns && j.moves.beyond > 0 &&
		j.moves.here > keeps {
		j.moves.beyond = 0 // it is waited for again the next time
		return fmt.Errorf("its processes have said that their memory is moved, and after %v the "+
			"device shows %v of it still, of which %v can be kept for it: end it, or start it "+
			"again without --oversubscribe", j.a.cfg.showWait, j.moves.here.About(), keeps.About())
	}
	return nil
}

// shownLess keeps less for a job whose memory is away, as soon as the device shows less of it: one
// that was slow for once would have others be without for the job's life.
func (j *job) shownLess() {
	if !j.turning.turns || !j.turning.carry.TryLock() { // it is moved, and looked at then
		return
	}
	defer j.turning.carry.Unlock()
	j.mu.Lock()
	was, out := j.moves, j.turning.out
	j.mu.Unlock()
	if !out || j.turning.has != 0 || was.beyond <= 0 {
		return
	}
	says, shows, err := j.here()
	if err != nil || shows >= was.here {
		return
	}
	j.mu.Lock()
	j.moves.here, j.moves.beyond = shows, shows-says
	j.mu.Unlock()
	j.keep(true)
}
