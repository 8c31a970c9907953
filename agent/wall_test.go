package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// asker is a process that is looked for as the function says.
type asker struct {
	*person
	look func() bool
}

func (p asker) alive() bool { return p.look() }

// TestNobodyWaitsForWalls holds that jobs and processes can come and go while the walls ask the
// system who lives, and that only those count who do.
func TestNobodyWaitsForWalls(t *testing.T) {
	a := &Agent{jobs: map[wire.Token]*job{}}
	asked := 0
	for i := range 3 {
		pid := uint32(10 + i)
		j, m := counting(pid)
		m.process = asker{&person{}, func() bool {
			asked++
			if !a.mu.TryLock() {
				t.Fatalf("the agent is locked while it is asked for process %d", pid)
			}
			a.mu.Unlock()
			if !j.mu.TryLock() {
				t.Fatalf("a job is locked while it is asked for its process %d", pid)
			}
			j.mu.Unlock()
			return pid != 11
		}}
		j.controller, j.master.PID = &conn{}, pid+10
		a.jobs[wire.Token{byte(i)}] = j
	}
	w := &walls{a: a, more: map[wire.Token]uint64{{2}: 2 << 30}}
	list, known := w.tenants()
	for _, x := range list {
		pid, bytes := 10+uint32(x.token[0]), uint64(1<<30)
		if pid == 12 {
			bytes = 2 << 30
		}
		if lives := pid != 11; x.bytes != bytes || (len(x.pids) == 1) != lives ||
			known[pid] != lives || !known[pid+10] || lives && x.pids[0] != pid {
			t.Errorf("process %d: %d of %v, %v known", pid, x.bytes, x.pids, known)
		}
	}
	if asked != 3 || len(list) != 3 {
		t.Errorf("%d jobs, asked for %d processes", len(list), asked)
	}
}

// TestWallsRest holds that a look that took a while is not followed by another for four times that
// because jobs and processes have come and gone, but at once if somebody waits for it or it is time
// anyway, and that the agent's end ends it.
func TestWallsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &walls{a: &Agent{ctx: ctx}, kicked: make(chan struct{}, 1),
			asked: make(chan struct{}, 1)}
		wait := func(tick <-chan time.Time, took time.Duration) (time.Duration, bool) {
			began := time.Now()
			goesOn := w.await(tick, took)
			return time.Since(began), goesOn
		}
		for _, took := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
			w.kick()
			w.kick()
			if at, ok := wait(nil, took); at != 4*took || !ok {
				t.Errorf("after a look of %v: another after %v, %v", took, at, ok)
			}
		}
		go func() {
			time.Sleep(time.Second)
			w.kick()
		}()
		if at, ok := wait(nil, time.Millisecond); at != time.Second || !ok {
			t.Errorf("when something happens after a second: a look after %v, %v", at, ok)
		}
		w.kick()
		kick(w.asked)
		if at, ok := wait(nil, time.Hour); at != 0 || !ok || len(w.kicked) != 1 {
			t.Errorf("when somebody waits: a look after %v, %v", at, ok)
		}
		if at, ok := wait(time.After(wallEvery), time.Hour); at != wallEvery || !ok {
			t.Errorf("at its time: a look after %v, %v", at, ok)
		}
		cancel()
		if at, ok := wait(nil, time.Hour); at != 0 || ok {
			t.Errorf("at the agent's end: %v, %v", at, ok)
		}
	})
}
