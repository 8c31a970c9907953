package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
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

// TestStartAsAnotherEnds has jobs made as another ends whose memory the driver has not back yet:
// those that need what that had get it, as does one that wants all there is, and one that fits
// beside it does not wait.
func TestStartAsAnotherEnds(t *testing.T) {
	const most = 80 << 30
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	cfg.measureEvery = time.Hour
	var lacks atomic.Int64
	cfg.Holds = func(uint32) (map[uint32]uint64, error) { return nil, nil }
	cfg.Used = func(uint32) (uint64, error) { return uint64(lacks.Load()), nil }
	a := startAgent(t, cfg)
	late := &a.devices[0].late
	for _, next := range []share.Share{{Memory: most / 2, Compute: 0.5}, {Memory: most},
		{Memory: 1, Compute: 0.7}, {}} {
		first, grant := controller(t, dir, share.Job{Name: "first",
			Share: share.Share{Memory: most/2 + 1, Compute: 0.6}})
		p := begin(t, people, dir, grant.Token)
		p.page.Slot(p.slot).MemUsedBytes.Store(1 << 30)
		lacks.Store(1 << 30)
		p.kill()
		_ = first.Close()
		eventually(t, "its end is noticed", late.any)
		beside, _ := controller(t, dir, share.Job{Name: "beside",
			Share: share.Share{Memory: 1, Compute: 0.1}})
		if !late.any() {
			t.Error("what fits waited")
		}
		_ = beside.Close()
		waits := func() bool {
			late.mu.Lock()
			defer late.mu.Unlock()
			return late.looked != nil
		}
		eventually(t, "only what is late is left",
			func() bool { return jobNames(a) == "first" && !waits() })
		answer := make(chan error, 1)
		go func() {
			c, err := Dial(dir)
			if err == nil {
				defer c.Close()
				var g *JobGrant
				if g, err = c.Create(JobRequest{Fake: true,
					Job: share.Job{Name: "next", Share: next}}); err == nil {
					_ = g.Page.Close()
					if next.Memory == 0 && g.Memory != most {
						err = fmt.Errorf("got %v of %v", g.Memory, share.Bytes(most))
					}
				}
			}
			answer <- err
		}()
		eventually(t, "the next one waits", waits)
		lacks.Store(0)
		if err := <-answer; err != nil {
			t.Errorf("%+v: %v", next, err)
		}
		eventually(t, "all have ended", func() bool { return jobNames(a) == "" })
	}
}

// TestFloodOfQuestions has two processes ask what they hold 3,000 times each while the device is
// asked for the first of these questions: one more look answers all.
func TestFloodOfQuestions(t *testing.T) {
	const questions = 3000
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	cfg.measureEvery = time.Hour
	var looks atomic.Int64
	asked, answer := make(chan struct{}, questions), make(chan struct{})
	cfg.Holds = func(uint32) (map[uint32]uint64, error) {
		asked <- struct{}{}
		<-answer
		return map[uint32]uint64{1<<20 + 1: uint64(looks.Add(1)), 1<<20 + 2: 9}, nil
	}
	a := startAgent(t, cfg)
	_, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	p, q := begin(t, people, dir, grant.Token), begin(t, people, dir, grant.Token)
	p.signal(wire.KindMeasure, 1)
	<-asked
	for n := range uint32(questions) {
		p.signal(wire.KindMeasure, n+2)
		q.signal(wire.KindMeasure, n+1)
	}
	last := func() (all []uint32) {
		d := a.devices[0]
		d.asks.mu.Lock()
		defer d.asks.mu.Unlock()
		for _, x := range d.asks.of {
			all = append(all, x.number)
		}
		slices.Sort(all)
		return all
	}
	eventually(t, "the questions to be heard", func() bool {
		return slices.Equal(last(), []uint32{questions, questions + 1})
	})
	close(answer)
	eventually(t, "the last question to be answered", func() bool {
		return p.s.AnswerSeq.Load() == questions+1 && q.s.AnswerSeq.Load() == questions
	})
	if n, got := looks.Load(), p.s.MeasuredBytes.Load(); n != 2 || got != 2 {
		t.Errorf("%d looks for %d questions, and the last told %d", n, 2*questions, got)
	}
}

// TestDeviceThatDoesNotAnswer has the management library hang for one of two devices: the other's
// memory is measured on, what was found of the one stays, and the log and the snapshot say it.
func TestDeviceThatDoesNotAnswer(t *testing.T) {
	people := newPeople()
	dir := socketDir(t)
	cfg := testConfig(dir, people)
	other := cfg.Devices[0]
	other.Ordinal = 1
	cfg.Devices = append(cfg.Devices, other)
	cfg.measureEvery, cfg.hangs = time.Hour, 300*time.Millisecond
	var log lines
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	var stuck atomic.Bool
	held, answer := uint64(600), make(chan struct{})
	cfg.Holds = func(ordinal uint32) (map[uint32]uint64, error) {
		if ordinal == 1 && stuck.Load() {
			<-answer
		}
		return map[uint32]uint64{1<<20 + 1: held, 1<<20 + 2: held}, nil
	}
	a := startAgent(t, cfg)
	var programs [2]*program
	for i := range uint32(2) {
		c, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		g, err := c.Create(JobRequest{Fake: true, Device: i,
			Job: share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Page.Close()
		programs[i] = begin(t, people, dir, g.Token)
	}
	measure := func() {
		for range 2 {
			for _, d := range a.devices {
				a.measure(d)
			}
		}
	}
	found := func(when string, one, two uint64) {
		t.Helper()
		for i, want := range []uint64{one, two} {
			if got := programs[i].s.FoundBytes.Load(); got != want {
				t.Errorf("%s: %d bytes found on device %d, want %d", when, got, i, want)
			}
		}
	}
	measure()
	found("at first", 600, 600)
	stuck.Store(true)
	held = 900
	measure()
	found("while one hangs", 900, 600)
	s := a.Snapshot()
	if s.Devices[0].Unmeasured != "" || !strings.Contains(s.Devices[1].Unmeasured, "not answer") {
		t.Errorf("the snapshot says %q and %q", s.Devices[0].Unmeasured, s.Devices[1].Unmeasured)
	}
	stuck.Store(false)
	close(answer)
	eventually(t, "an answer again", func() bool {
		measure()
		return a.Snapshot().Devices[1].Unmeasured == ""
	})
	measure()
	found("at the end", 900, 900)
	for _, line := range []string{"level=WARN", "level=INFO msg=\"the management library lists"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is %d times in the log:\n%s", line, n, log.String())
		}
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestDeadHoldNothing has processes end that held nothing, while children have their sockets: they
// are gone at once, and with the last of them a job that nobody else keeps.
func TestDeadHoldNothing(t *testing.T) {
	people := newPeople()
	dir := socketDir(t)
	a := startAgent(t, testConfig(dir, people))
	c, grant := controller(t, dir, share.Job{Name: "job", Share: share.Share{Memory: 1 << 30}})
	p, q := begin(t, people, dir, grant.Token), begin(t, people, dir, grant.Token)
	p.self.die()
	eventually(t, "the first to be gone", func() bool {
		return len(onlyJob(t, a).Processes) == 1
	})
	_ = p.uc.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := p.uc.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("its socket is open: %d, %v", n, err)
	}
	_ = c.Close()
	q.self.die()
	eventually(t, "the job to end", func() bool { return jobNames(a) == "" })
}
