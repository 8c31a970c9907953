package agent

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// foreign begins a program outside the agent's pid namespace, known there by the number of its
// inode in pidfs, or, with 0, by nothing.
func foreign(t *testing.T, s *people, dir string, token wire.Token, ident uint64) *program {
	t.Helper()
	self := s.born()
	s.mu.Lock()
	self.pid, self.ident = 0, ident
	s.mu.Unlock()
	p := &program{t: t, self: self, dir: dir, token: token, slot: wire.NoSlot,
		halted: make(chan struct{})}
	if err := p.hello(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// TestForeignProcessesKeepTheirSlots has processes that all have the number 0 ask for each other's
// slots.
func TestForeignProcessesKeepTheirSlots(t *testing.T) {
	for name, ident := range map[string]uint64{"known": 1 << 40, "unknown": 0} {
		t.Run(name, func(t *testing.T) {
			s, dir := newPeople(), socketDir(t)
			a := startAgent(t, testConfig(dir, s))
			_, g := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
			p := foreign(t, s, dir, g.Token, ident)
			q := foreign(t, s, dir, g.Token, ident+ident>>40)
			p.s.MemUsedBytes.Store(5)
			q.s.MemUsedBytes.Store(7)
			victim, own := p.slot, q.slot
			q.slot = victim
			if err := q.hello(wire.FlagRejoin); err != nil {
				t.Fatal(err)
			}
			if q.slot == victim {
				t.Error("a process has the slot of another")
			}
			if p.s.OwnerPID.Load() != wire.ForeignPID || p.s.MemUsedBytes.Load() != 5 {
				t.Error("the other's slot is not as it was")
			}
			if ident == 0 {
				return
			}
			q.slot = own
			if err := q.hello(wire.FlagRejoin); err != nil || q.slot != own {
				t.Errorf("its own slot %d became %d: %v", own, q.slot, err)
			}
			if n := len(onlyJob(t, a).Processes); n != 3 {
				t.Errorf("%d processes", n)
			}
		})
	}
}

// TestForeignProcessesComeBack restarts the agent under processes that all have the number 0: what
// each holds stays counted, and each has its slot again.
func TestForeignProcessesComeBack(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	p, q := foreign(t, s, dir, g.Token, 1<<40), foreign(t, s, dir, g.Token, 1<<40+1)
	p.s.MemUsedBytes.Store(5)
	q.s.MemUsedBytes.Store(7)
	_ = a.Close()
	b := startAgent(t, testConfig(dir, s))
	for _, x := range []*program{q, p} {
		slot := x.slot
		if err := x.hello(wire.FlagRejoin); err != nil || x.slot != slot {
			t.Errorf("slot %d became %d: %v", slot, x.slot, err)
		}
		if got := b.Snapshot().Devices[0].Jobs[0].MemoryUsedBytes; got != 12 {
			t.Errorf("%d bytes are counted", got)
		}
	}
	p.kill()
	eventually(t, "the end of one is seen",
		func() bool { return onlyJob(t, b).MemoryUsedBytes == 7 })
}

// TestForeignProcessIsWatched watches a process by its descriptor alone.
func TestForeignProcessIsWatched(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	fds := [2]int{}
	for i := range fds {
		var err error
		if fds[i], err = unix.PidfdOpen(cmd.Process.Pid, 0); err != nil {
			_ = cmd.Process.Kill()
			t.Skip(err)
		}
	}
	p, q := watch(fds[0], 0), watch(fds[1], 0)
	defer p.forget()
	defer q.forget()
	if !p.alive() {
		t.Error("it seems dead")
	}
	if p.id() != q.id() {
		t.Errorf("one process has the numbers %d and %d", p.id(), q.id())
	}
	if own, err := unix.PidfdOpen(os.Getpid(), 0); err == nil && p.id() != 0 {
		r := watch(own, 0)
		defer r.forget()
		if r.id() == p.id() {
			t.Errorf("two processes have the number %d", r.id())
		}
	}
	_ = cmd.Process.Kill()
	<-p.done()
	if p.alive() {
		t.Error("it seems alive")
	}
	_ = cmd.Wait()
}
