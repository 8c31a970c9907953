package agent

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// This file is the second wall of a job's memory, below its programs: the driver's own limit of
// what the processes of a control group hold of a device. The first, in the programs themselves, a
// program can get around; the driver's it cannot. It is set where the agent may, and where the
// processes of jobs have a control group to themselves: limits bind all who are in it. A group of
// several jobs is held to the sum of their caps.
//
// A limit that is set holds until the last of these jobs has ended, whoever comes into the group
// meanwhile: a program must not get rid of it by letting others in.

// Limiter is the driver's own limit of memory. A group is named by its folder.
type Limiter interface {
	// MemoryLimit returns a group's limit on a device, [NoMemoryLimit] for none.
	MemoryLimit(ordinal uint32, group string) (uint64, error)
	// SetMemoryLimit sets it; [NoMemoryLimit] takes it back. The error wraps [ErrNoLimiter] if no
	// group's can be set on the device.
	SetMemoryLimit(ordinal uint32, group string, bytes uint64) error
}

// NoMemoryLimit is the limit of a group that has none.
const NoMemoryLimit = 1<<64 - 1

// ErrNoLimiter: the driver has no limit of its own for the device, or not for this agent.
var ErrNoLimiter = errors.New("no memory limit of the driver's")

// wallEvery is how often it is looked whether jobs have come to groups of their own, unless
// something has happened.
const wallEvery = 2 * time.Second

// wallRest is for how often the time that a look took none follows it, whatever happens, unless
// somebody waits for one: looks ask the system for each process of each job, and must not keep the
// processors from them where hundreds come and go.
const wallRest = 4

// walls are the limits that the agent has set.
type walls struct {
	a       *Agent
	limiter Limiter
	groups  groups
	until   time.Time     // for so long jobs of the agent before may come back
	kicked  chan struct{} // makes it look soon
	asked   chan struct{} // makes it look at once
	ended   chan struct{} // closed when nobody looks any more

	// Of the goroutine that looks.
	standing map[wallKey]*wall
	refused  map[wallKey]refusedGroup
	lacks    map[uint32]string // devices, with why they have no limits
	told     map[wire.Token]string

	mu     sync.Mutex
	waits  []chan struct{}       // closed after the next look that begins
	more   map[wire.Token]uint64 // caps that jobs are about to have
	states map[wire.Token]wallState
}

type wallKey struct {
	Device uint32
	Group  string
}

// wall is one limit.
type wall struct {
	id     pageID // of the group
	bytes  uint64 // that was set
	before uint64 // and before that
	jobs   map[wire.Token]bool
	// inherited: the agent before has set it, for jobs that may come back.
	inherited bool
}

// refusedGroup is a group that is not asked about again.
type refusedGroup struct {
	id  pageID
	why error
}

// wallState is what a job's snapshot says: the limit, or why there is none.
type wallState struct {
	bytes uint64
	why   string
}

// tenant is a job as walls see it.
type tenant struct {
	j     *job
	token wire.Token
	bytes uint64
	pids  []uint32
	slots []*member // who has come for a slot, and may have ended
}

// newWalls begins to look after limits, with those that the agent before has left; nil if there is
// nobody to set them.
func newWalls(a *Agent) *walls {
	if a.cfg.Limits == nil {
		return nil
	}
	w := &walls{
		a:       a,
		limiter: a.cfg.Limits,
		groups:  groups{a.cfg.root},
		until:   time.Now().Add(a.cfg.rejoins),
		kicked:  make(chan struct{}, 1),
		asked:   make(chan struct{}, 1),
		ended:   make(chan struct{}),
		refused: map[wallKey]refusedGroup{},
		lacks:   map[uint32]string{},
		told:    map[wire.Token]string{},
		more:    map[wire.Token]uint64{},
	}
	w.standing = w.load()
	go w.run()
	return w
}

// run looks until the agent ends, and once more for jobs that have ended before it.
func (w *walls) run() {
	defer close(w.ended)
	t := time.NewTicker(wallEvery)
	defer t.Stop()
	for {
		began := time.Now()
		w.mu.Lock()
		waits := w.waits
		w.waits = nil
		w.mu.Unlock()
		w.look()
		for _, c := range waits {
			close(c)
		}
		if !w.await(t.C, time.Since(began)) {
			w.look()
			return
		}
	}
}

// await returns when it is time for the next look, after one that took so long; false if the agent
// ends.
func (w *walls) await(tick <-chan time.Time, took time.Duration) bool {
	rest := time.NewTimer(wallRest * took)
	defer rest.Stop()
	var kicked chan struct{} // not before it has rested
	for {
		select {
		case <-w.a.ctx.Done():
			return false
		case <-rest.C:
			kicked = w.kicked
			continue
		case <-kicked:
		case <-w.asked:
		case <-tick:
		}
		return true
	}
}

// close waits until nobody looks any more, as long as that may take. The agent's context is done.
func (w *walls) close() {
	if w == nil {
		return
	}
	select {
	case <-w.ended:
	case <-time.After(w.a.cfg.hangs):
	}
}

// kick makes somebody look soon.
func (w *walls) kick() {
	if w != nil {
		kick(w.kicked)
	}
}

// allow lets a job hold so much before its cap says so, so that a program that sees a higher cap
// finds it below, too. The function that it returns ends that.
func (w *walls) allow(token wire.Token, bytes uint64) (done func()) {
	if w == nil {
		return func() {}
	}
	looked := make(chan struct{})
	w.mu.Lock()
	w.more[token] = bytes
	w.waits = append(w.waits, looked)
	w.mu.Unlock()
	kick(w.asked)
	select {
	case <-looked:
	case <-w.ended:
	case <-time.After(w.a.cfg.hangs):
	}
	return func() {
		w.mu.Lock()
		delete(w.more, token)
		w.mu.Unlock()
		w.kick()
	}
}

// state is what was last found of a job.
func (w *walls) state(token wire.Token) wallState {
	if w == nil {
		return wallState{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.states[token]
}

// tenants returns the jobs there are, and all their processes by number. The system is asked who
// lives with no lock held: it takes some 10 us a process, in which nobody could come or go.
func (w *walls) tenants() (list []tenant, known map[uint32]bool) {
	list, known = w.members()
	for i := range list {
		t := &list[i]
		for _, m := range t.slots {
			if m.process.alive() {
				t.pids = append(t.pids, m.who.PID)
				known[m.who.PID] = true
			}
		}
	}
	delete(known, 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range list {
		list[i].bytes = max(list[i].bytes, w.more[list[i].token])
	}
	return list, known
}

// members returns the jobs with the processes in their slots, and who made them by number.
func (w *walls) members() (list []tenant, makers map[uint32]bool) {
	makers = map[uint32]bool{}
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	for token, j := range w.a.jobs {
		t := tenant{j: j, token: token}
		j.mu.Lock()
		t.bytes = j.terms.MemCap
		if j.controller != nil && j.master.PID != 0 {
			makers[j.master.PID] = true
		}
		for _, m := range j.members {
			if m != nil && !m.named { // a program must not have others limited by their numbers
				t.slots = append(t.slots, m)
			}
		}
		j.mu.Unlock()
		list = append(list, t)
	}
	return list, makers
}

// look finds the groups of all jobs, and has each limited to what its jobs may hold.
func (w *walls) look() {
	list, known := w.tenants()
	why := map[wire.Token]error{}
	for _, t := range list {
		if err := w.find(t, known); err != nil {
			why[t.token] = err
		}
	}
	w.settle(list, why)
	states := map[wire.Token]wallState{}
	for _, t := range list {
		s := wallState{}
		if err := why[t.token]; err != nil {
			s.why = err.Error()
		}
		for k, b := range w.standing {
			if k.Device == t.j.dev.Ordinal && b.jobs[t.token] && b.bytes != NoMemoryLimit {
				s.bytes = max(s.bytes, b.bytes)
			}
		}
		w.tell(t, s)
		states[t.token] = s
	}
	maps.DeleteFunc(w.told, func(t wire.Token, _ string) bool {
		_, there := states[t]
		return !there
	})
	w.mu.Lock()
	w.states = states
	w.mu.Unlock()
}

// tell logs, once for each reason, why a job has no second wall. What holds of the device was said
// of that.
func (w *walls) tell(t tenant, s wallState) {
	if s.why == "" || s.why == w.told[t.token] || s.why == w.lacks[t.j.dev.Ordinal] {
		return
	}
	w.told[t.token] = s.why
	w.a.log.Info("the driver does not limit the job's memory, its programs do", "job", t.j,
		"reason", s.why)
}

// find enters a job where its processes are. The error is why one of its processes is in no group
// that can be limited.
func (w *walls) find(t tenant, known map[uint32]bool) error {
	device := t.j.dev.Ordinal
	if why := w.lacks[device]; why != "" {
		return errors.New(why)
	}
	var worst error
	for _, pid := range t.pids {
		group, err := w.groups.of(pid)
		if err == nil {
			err = w.enter(wallKey{device, group}, t.token, known)
		}
		if err != nil && worst == nil {
			worst = err
		}
	}
	return worst
}

// enter takes a job into a group's limit, which becomes one of the agent's if it can be.
func (w *walls) enter(k wallKey, token wire.Token, known map[uint32]bool) error {
	id := w.groups.id(k.Group)
	if b := w.standing[k]; b != nil && b.id == id {
		b.jobs[token] = true
		return nil
	}
	if r, ok := w.refused[k]; ok && r.id == id {
		return r.why
	}
	if err := w.groups.missing(); err != nil {
		w.lack(k.Device, err)
		return err
	}
	if err := w.groups.foreign(k.Group, known); err != nil {
		return err // others may leave
	}
	has, err := w.limiter.MemoryLimit(k.Device, k.Group)
	if err == nil && has != NoMemoryLimit {
		err = fmt.Errorf("%s, or a group above it, has a limit of %v already, which stays", k.Group,
			share.Bytes(min(has, 1<<62)).About())
	}
	if err != nil {
		w.refuse(k, id, err)
		return err
	}
	w.standing[k] = &wall{id: id, bytes: NoMemoryLimit, before: NoMemoryLimit,
		jobs: map[wire.Token]bool{token: true}}
	return nil
}

// refuse takes note that a group cannot be limited, or no group of the device.
func (w *walls) refuse(k wallKey, id pageID, err error) {
	if errors.Is(err, ErrNoLimiter) {
		w.lack(k.Device, err)
		return
	}
	if len(w.refused) >= maxJobs {
		clear(w.refused)
	}
	w.refused[k] = refusedGroup{id, err}
}

// lack tells, once, that the device's memory is limited by programs alone.
func (w *walls) lack(device uint32, err error) {
	if w.lacks[device] == "" {
		w.lacks[device] = err.Error()
		w.a.log.Info("the driver does not limit the memory of jobs, their programs do", "device",
			w.a.device(device).ID(), "reason", err)
	}
}

// settle has each group limited to what its jobs may hold, and groups without jobs to nothing.
func (w *walls) settle(list []tenant, why map[wire.Token]error) {
	caps := map[wire.Token]uint64{}
	for _, t := range list {
		caps[t.token] = t.bytes
	}
	wait := time.Now().Before(w.until)
	for _, k := range w.inOrder() {
		b := w.standing[k]
		b.inherited = b.inherited && wait
		want := b.wants(caps)
		if w.groups.id(k.Group) != b.id {
			delete(w.standing, k) // the limit has gone with the group
			w.keep()
			continue
		}
		if want == b.bytes {
			continue
		}
		if err := w.set(k, b, want); err != nil {
			for token := range b.jobs {
				why[token] = err
			}
		}
	}
}

// wants is the sum of the jobs' caps. Jobs that have ended leave, unless they may come back: then
// the limit is not lowered.
func (b *wall) wants(caps map[wire.Token]uint64) uint64 {
	sum, some := uint64(0), false
	for token := range b.jobs {
		bytes, there := caps[token]
		if !there && !b.inherited {
			delete(b.jobs, token)
		}
		some = some || there
		sum += min(bytes, NoMemoryLimit-1-sum)
	}
	switch {
	case b.inherited:
		return max(sum, b.bytes)
	case !some:
		return NoMemoryLimit
	}
	return sum
}

// set has a limit set, of which the next agent knows whenever this one ends.
func (w *walls) set(k wallKey, b *wall, bytes uint64) error {
	before := b.before
	b.before, b.bytes = b.bytes, bytes
	w.keep()
	err := w.limiter.SetMemoryLimit(k.Device, k.Group, bytes)
	switch {
	case err == nil && bytes == NoMemoryLimit:
		delete(w.standing, k)
		w.keep()
	case err == nil:
		w.a.log.Info("the driver limits what jobs in a control group hold", "device",
			w.a.device(k.Device).ID(), "group", k.Group, "memory", share.Bytes(bytes).String())
	case b.before == NoMemoryLimit:
		delete(w.standing, k)
		w.keep()
		w.refuse(k, b.id, err)
	default:
		b.before, b.bytes = before, b.before
		w.keep()
		w.a.log.Warn("the driver's limit of a control group stays as it was", "group", k.Group,
			"memory", share.Bytes(b.bytes).String(), "error", err)
	}
	return err
}
