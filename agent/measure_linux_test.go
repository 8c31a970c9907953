package agent

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/wire"
)

// TestMemoryIsReconciled has the device say that a process holds more than it counts, for once and
// for good, as much, and nothing.
func TestMemoryIsReconciled(t *testing.T) {
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	cfg.measureEvery = time.Hour
	var says atomic.Uint64
	var fails atomic.Bool
	var pid atomic.Uint32
	cfg.Holds = func(uint32) (map[uint32]uint64, error) {
		if fails.Load() {
			return nil, errors.New("no such call")
		}
		return map[uint32]uint64{pid.Load(): says.Load(), 1: 1 << 40}, nil
	}
	a := startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	p := begin(t, people, dir, grant.Token)
	pid.Store(p.self.pid)
	s := p.page.Slot(p.slot)
	s.MemUsedBytes.Store(200)
	s.MemContextBytes.Store(100)
	for i, c := range []struct{ says, found uint64 }{
		{300, 0}, {1000, 0}, {900, 600}, {1200, 600}, {1200, 900}, {300, 0}, {250, 0},
	} {
		says.Store(c.says)
		a.measure(a.devices[0])
		job := onlyJob(t, a)
		if got := s.FoundBytes.Load(); got != c.found || job.MemoryFoundBytes != c.found ||
			job.MemoryUsedBytes != 300+c.found || job.Processes[0].MemoryFoundBytes != c.found ||
			*job.Processes[0].MemoryMeasuredBytes != c.says {
			t.Errorf("%d: %d held: %d found, snapshot %+v", i, c.says, got, job)
		}
	}
	fails.Store(true)
	says.Store(1000)
	a.measure(a.devices[0])
	if job := onlyJob(t, a); job.MemoryFoundBytes != 0 ||
		job.Processes[0].MemoryMeasuredBytes != nil {
		t.Errorf("nobody tells, and the snapshot says %+v", job)
	}
}

// TestFoundMemoryStays finds memory of a process that counts none itself, and holds that it counts
// after a restart of the agent at once, and of the ended process as long as a child of it lives,
// whoever has its number then.
func TestFoundMemoryStays(t *testing.T) {
	const found = 600
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	cfg.measureEvery = time.Hour
	var pid atomic.Uint32
	var says atomic.Uint64
	says.Store(found)
	cfg.Holds = func(uint32) (map[uint32]uint64, error) {
		return map[uint32]uint64{pid.Load(): says.Load()}, nil
	}
	cfg.Used = func(uint32) (uint64, error) { return says.Load(), nil }
	a := startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	p := begin(t, people, dir, grant.Token)
	pid.Store(p.self.pid)
	look := func(when string, a *Agent) {
		t.Helper()
		a.measure(a.devices[0])
		if got := onlyJob(t, a).MemoryFoundBytes; got != found {
			t.Errorf("%s: %d bytes found, want %d", when, got, found)
		}
	}
	a.measure(a.devices[0])
	look("seen twice", a)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := startAgent(t, cfg)
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	look("after a restart", b)
	p.self.die() // the socket stays open, in a child
	look("when it has ended", b)
	says.Store(100 * found)
	look("when another has its number", b)
	p.halt()
	eventually(t, "the job has ended", func() bool { return jobNames(b) == "" })
}

// TestClaimsHideNoMemory has a process that lives on in a child claim to hold all there is: what
// the driver has not back of others shows beside that.
func TestClaimsHideNoMemory(t *testing.T) {
	const bytes = 1 << 20
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	cfg.measureEvery = time.Hour
	cfg.Holds = func(uint32) (map[uint32]uint64, error) { return nil, nil }
	cfg.Used = func(uint32) (uint64, error) { return 1 << 30, nil }
	a := startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: bytes}})
	liar := begin(t, people, dir, grant.Token)
	liar.page.Slot(liar.slot).MemUsedBytes.Store(1 << 62)
	liar.self.die()
	eventually(t, "all but its cap to be missed", func() bool {
		n, ok := a.unlisted(a.devices[0])
		return ok && n == 1<<30-bytes
	})
	liar.halt()
}

// TestProcessesAskWhatTheyHold holds that each gets its own figure, and is told if there is none.
func TestProcessesAskWhatTheyHold(t *testing.T) {
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	var pid atomic.Uint32
	cfg.Holds = func(uint32) (map[uint32]uint64, error) {
		return map[uint32]uint64{pid.Load(): 77, 1: 1 << 40}, nil
	}
	startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	known, unknown := begin(t, people, dir, grant.Token), begin(t, people, dir, grant.Token)
	pid.Store(known.self.pid)
	for _, c := range []struct {
		p    *program
		want uint64
	}{{known, 77}, {unknown, wire.NotMeasured}} {
		s := c.p.page.Slot(c.p.slot)
		c.p.signal(wire.KindMeasure, 5)
		eventually(t, "an answer", func() bool { return s.AnswerSeq.Load() == 5 })
		if got := s.MeasuredBytes.Load(); got != c.want {
			t.Errorf("told %d, want %d", got, c.want)
		}
	}
}

// TestMemoryThatComesBackLate has the driver take its time after a process's end, and forked
// children keep what another one had: both count until the device has it back.
func TestMemoryThatComesBackLate(t *testing.T) {
	const usual, bytes = 1 << 20, 1 << 30
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	cfg.measureEvery = time.Hour
	var lacks atomic.Int64 // of the device, listed with nobody
	var listed sync.Map
	cfg.Holds = func(uint32) (map[uint32]uint64, error) {
		all := map[uint32]uint64{}
		listed.Range(func(pid, _ any) bool { all[pid.(uint32)] = bytes; return true })
		return all, nil
	}
	cfg.Used = func(o uint32) (uint64, error) {
		all, _ := cfg.Holds(o)
		return uint64(lacks.Load()) + uint64(len(all))*bytes, nil
	}
	a := startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 8 << 30}})
	p, q := begin(t, people, dir, grant.Token), begin(t, people, dir, grant.Token)
	for _, p := range []*program{p, q} {
		p.page.Slot(p.slot).MemUsedBytes.Store(bytes)
		listed.Store(p.self.pid, nil)
	}
	lacks.Store(usual)
	a.measure(a.devices[0])

	listed.Delete(p.self.pid)
	lacks.Store(usual + bytes)
	p.kill()
	ended := func(n int) func() bool {
		return func() bool {
			job := onlyJob(t, a)
			count := 0
			for _, x := range job.Processes {
				if x.Ended {
					count++
				}
			}
			return count == n && job.MemoryUsedBytes == uint64(len(job.Processes))*bytes
		}
	}
	eventually(t, "its end is noticed", ended(1))
	lacks.Store(usual)
	eventually(t, "its memory is back", func() bool {
		return onlyJob(t, a).MemoryUsedBytes == bytes
	})

	listed.Delete(q.self.pid)
	lacks.Store(usual + bytes)
	q.self.die() // the socket stays open, in a child
	eventually(t, "the other's end is noticed", ended(1))
	a.measure(a.devices[0])
	if !ended(1)() {
		t.Errorf("while a child lives: %+v", onlyJob(t, a))
	}
	lacks.Store(usual)
	q.halt()
	eventually(t, "all memory is back", func() bool {
		return onlyJob(t, a).MemoryUsedBytes == 0
	})
}
