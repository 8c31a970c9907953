package agent

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// This file is about memory that the driver has not yet back when a process has ended and nobody
// holds its files any more. No list names a process for it. It shows in what of the device's memory
// is not free and is listed with nobody: by how much that is more than usual, slots of processes
// that have ended are kept, the last ones first.

const (
	// lateLook is after how long at least the device is asked again, and lateLookMost at most.
	lateLook, lateLookMost = time.Millisecond, 5 * time.Millisecond
	// lateLookAge is after what part of the time that the last one has been late.
	lateLookAge = 16
	// lateLookRest is how often a look's own time passes until the next one, where that is less
	// than the most: the management library's answers keep a thread, and the driver, from others.
	lateLookRest = 2
	// latest is for how long a slot is kept: what is more than usual may be somebody else's.
	latest = time.Second
	// moving is how many looks a figure takes at most while what is listed changes.
	moving = 4
	// usually is how many looks at a device, each measureEvery, tell what is usual.
	usually = 8
)

// lateness is what a device has not back.
type lateness struct {
	mu      sync.Mutex
	members []lateMember  // in the order of their ends
	watched bool          // a goroutine looks after them
	looked  chan struct{} // closed after a look at them; nil: nobody waits for that
	// unlisted are the bytes that no process was listed for, as of the last looks at which nobody
	// was late. None: it is taken to be usual that all is listed.
	unlisted []uint64
}

type lateMember struct {
	j     *job
	m     *member
	bytes uint64
	since time.Time
}

// letGo frees the slot of a process that has ended, once the driver has its memory back. The job's
// lock is held.
func (j *job) letGo(m *member) {
	if j.members[m.slot] != m || m.late {
		return
	}
	m.held = nil
	if j.a.cfg.Used == nil || j.owes(m) == 0 {
		j.remove(m)
		return
	}
	m.late = true
	l := &j.dev.late
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = append(l.members, lateMember{j, m, min(j.owes(m), j.unclaimed(l)), time.Now()})
	if !l.watched {
		l.watched = true
		j.a.work.Add(1)
		go j.a.await(j.dev)
	}
}

// unclaimed is what the job may have beside what it is late with. All that its ended processes say
// together is no more: as it cannot use meanwhile what is counted for them, false figures hide no
// memory that another job needs. Its lock and that of the lateness are held.
func (j *job) unclaimed(l *lateness) uint64 {
	left := j.terms.MemCap
	for _, x := range l.members {
		if x.j == j {
			left -= min(left, x.bytes)
		}
	}
	return left
}

// await frees the slots of processes that have ended, one after another.
func (a *Agent) await(d *device) {
	defer a.work.Done()
	t := time.NewTimer(lateLookMost)
	defer t.Stop()
	for {
		began := time.Now()
		for _, x := range a.given(d) {
			x.j.mu.Lock()
			x.j.remove(x.m)
			x.j.mu.Unlock()
			x.j.endIfAlone()
		}
		over := d.late.rests()
		d.late.tell()
		if over {
			return
		}
		now := time.Now()
		t.Reset(untilLateLook(d.late.age(now), now.Sub(began)))
		select {
		case <-t.C:
		case <-a.ctx.Done():
			return
		}
	}
}

// untilLateLook is how long to wait until the device is asked again, where the last one has been
// late for a time and the look before took another. Most drivers have memory back soon: so the
// first looks follow each other closely, and what others wait in vain stays a small part of what
// they have to wait.
func untilLateLook(age, took time.Duration) time.Duration {
	return min(max(lateLook, age/lateLookAge, lateLookRest*took), lateLookMost)
}

// given takes out those whose memory the device has back. They are counted before it is asked: one
// that is late only since may have been listed as alive, and what the device lacks of its memory is
// then not seen.
func (a *Agent) given(d *device) []lateMember {
	asked := d.late.count()
	return d.late.take(asked, a.lingers(d))
}

// age is for how long the last one has been late; 0 if nobody is.
func (l *lateness) age(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.members) == 0 {
		return 0
	}
	return now.Sub(l.members[len(l.members)-1].since)
}

// count is how many are late.
func (l *lateness) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.members)
}

// take takes out those whose memory the device has back, of so many that were late when it was
// asked and of whose memory it lacked so many bytes in all, or less.
func (l *lateness) take(asked int, over uint64) []lateMember {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.members[:asked]
	var sum uint64
	for _, x := range first {
		sum += x.bytes
	}
	n := 0
	for _, x := range first {
		if sum-x.bytes < over && time.Since(x.since) < latest {
			break
		}
		sum -= x.bytes
		n++
	}
	back := slices.Clone(l.members[:n])
	l.members = slices.Delete(l.members, 0, n)
	return back
}

// back returns what is closed once the device was looked at again, and the jobs that this leaves
// alone have ended.
func (l *lateness) back() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked == nil {
		l.looked = make(chan struct{})
	}
	return l.looked
}

// any reports whether some are late, or the jobs that they leave alone have yet to end.
func (l *lateness) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

func (l *lateness) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked != nil {
		close(l.looked)
		l.looked = nil
	}
}

// rests reports, and notes, that nobody is late.
func (l *lateness) rests() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = len(l.members) > 0
	return !l.watched
}

// lingers is how much of the device's memory is not free and is more than usually listed with
// nobody; 0 if the device does not tell.
func (a *Agent) lingers(d *device) uint64 {
	n, ok := a.unlisted(d)
	if !ok {
		return 0
	}
	d.late.mu.Lock()
	defer d.late.mu.Unlock()
	if len(d.late.unlisted) == 0 {
		return n
	}
	return n - min(n, slices.Min(d.late.unlisted))
}

// noteUnlisted notes what is usual, while nobody is late.
func (a *Agent) noteUnlisted(d *device) {
	if a.cfg.Used == nil || d.late.any() {
		return
	}
	n, ok := a.unlisted(d)
	d.late.mu.Lock()
	defer d.late.mu.Unlock()
	if !ok || len(d.late.members) > 0 {
		return
	}
	d.late.unlisted = append(d.late.unlisted, n)
	if len(d.late.unlisted) > usually {
		d.late.unlisted = d.late.unlisted[1:]
	}
}

// unlisted is how much of the device's memory is not free and listed with no process that lives,
// less what is known to be held by forked children of processes that have ended. A process that
// allocates or frees while the device is asked is taken to have held then the less of what it is
// listed with before and after. It may have held less still in between: so where something changes,
// the most of a few looks is believed, as who is taken to be late for too long only waits, and
// where nothing does, that look. Only what children hold before and after that is known.
func (a *Agent) unlisted(d *device) (most uint64, ok bool) {
	ended, children := a.ended(d)
	from := time.Now()
	before, err := a.listed(d, ended)
	for range moving {
		if err != nil {
			return 0, false
		}
		var used uint64
		if used, err = d.used.read(a.ctx, min(latest, a.cfg.hangs)); err != nil {
			return 0, false
		}
		var after map[uint32]uint64
		if after, err = a.listed(d, ended); err != nil {
			return 0, false
		}
		n := used - min(used, throughout(before, after))
		if maps.Equal(before, after) {
			most = n
			break
		}
		most = max(most, n)
		if time.Since(from) > latest/2 { // no slot waits for slow answers
			break
		}
		before = after
	}
	_, still := a.ended(d)
	return most - min(most, children, still), true
}

// throughout is what processes held from before until after, as far as the two tell.
func throughout(before, after map[uint32]uint64) (sum uint64) {
	for pid, n := range before {
		sum += min(n, after[pid])
	}
	return sum
}

// listed is what is listed with processes other than those with these numbers.
func (a *Agent) listed(d *device, ended map[uint32]bool) (map[uint32]uint64, error) {
	held, err := d.holds.read(a.ctx, min(latest, a.cfg.hangs))
	if err != nil {
		return nil, err
	}
	held = maps.Clone(held)
	maps.DeleteFunc(held, func(pid uint32, _ uint64) bool { return ended[pid] })
	return held, nil
}

// ended returns the numbers of processes that have ended and whose slots are kept, and what is
// known to be held by forked children of such. No document says that a management library lists a
// process no more that has ended; what one lists so the driver has not back. If another process has
// the number already, those that are late are so for the longest time at most.
func (a *Agent) ended(d *device) (pids map[uint32]bool, children uint64) {
	pids = map[uint32]bool{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range a.jobs {
		if j.dev != d {
			continue
		}
		j.mu.Lock()
		children += j.endedOnes(pids)
		j.mu.Unlock()
	}
	return pids, children
}

// endedOnes adds the numbers of the job's processes that have ended, and returns what forked
// children of them hold. The job's lock is held.
func (j *job) endedOnes(pids map[uint32]bool) (children uint64) {
	l := &j.dev.late
	l.mu.Lock()
	left := j.unclaimed(l)
	l.mu.Unlock()
	for _, m := range j.members {
		if m == nil || j.unmapped {
			continue
		}
		if m.held != nil {
			bytes := min(j.owes(m), left)
			children, left = children+bytes, left-bytes
		}
		if m.held != nil || m.late {
			pids[m.who.PID] = true
		}
	}
	return children
}
