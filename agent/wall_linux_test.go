package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// limiter is a driver that limits groups, and remembers what it was told.
type limiter struct {
	mu     sync.Mutex
	limits map[string]uint64
	orders []uint64
	fails  error
}

func (l *limiter) MemoryLimit(_ uint32, group string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, ok := l.limits[group]; ok {
		return n, nil
	}
	return NoMemoryLimit, nil
}

func (l *limiter) SetMemoryLimit(_ uint32, group string, bytes uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return l.fails
	}
	l.orders = append(l.orders, bytes)
	l.limits[group] = bytes
	return nil
}

// of is a group's limit, and told what was ever set.
func (l *limiter) of(group string) uint64 {
	n, _ := l.MemoryLimit(0, group)
	return n
}

func (l *limiter) told() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.orders)
}

// house is a machine with control groups.
type house struct {
	t    *testing.T
	root string
	s    *people
	l    *limiter
	dir  string
	log  strings.Builder
	mu   sync.Mutex
}

func (h *house) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(b)
}

func (h *house) said(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.log.String(), what)
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, root: t.TempDir(), s: newPeople(), dir: socketDir(t),
		l: &limiter{limits: map[string]uint64{}}}
	h.write("sys/fs/cgroup/cgroup.controllers", "cpu memory dmem\n")
	h.write("sys/fs/cgroup/cgroup.procs", "1\n")
	return h
}

func (h *house) config() Config {
	c := testConfig(h.dir, h.s)
	c.Limits, c.root = h.l, h.root
	c.Log = slog.New(slog.NewTextHandler(h, nil))
	return c
}

func (h *house) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// put puts a process into a group.
func (h *house) put(pid, parent uint32, group string) string {
	h.t.Helper()
	h.write(fmt.Sprintf("proc/%d/cgroup", pid), "0::"+group+"\n")
	h.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (a) b) S %d 1 1\n", pid, parent))
	name := "sys/fs/cgroup" + group + "/cgroup.procs"
	text, _ := os.ReadFile(filepath.Join(h.root, name))
	h.write(name, fmt.Sprintf("%s%d\n", text, pid))
	return h.root + groupsMount + group
}

// job begins a job with one program in a group.
func (h *house) job(name string, cap share.Bytes, group string) (*Client, *program) {
	h.t.Helper()
	c, g := controller(h.t, h.dir, share.Job{Name: name, Share: share.Share{Memory: cap}})
	h.put(1<<20+h.s.next.Load()+1, 1, group)
	return c, begin(h.t, h.s, h.dir, g.Token)
}

// set gives a job another cap.
func (h *house) set(job string, cap share.Bytes) {
	h.t.Helper()
	c, err := Dial(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Set(ShareChange{Job: job, Memory: &cap}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) limited(group string, want uint64) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("%s is limited to %d", group, want),
		func() bool { return h.l.of(group) == want })
}

// stateOf waits for what the snapshot says of a job.
func stateOf(t *testing.T, a *Agent, job string, is func(JobSnapshot) bool) {
	t.Helper()
	eventually(t, job+" is shown so", func() bool {
		for _, j := range a.Snapshot().Devices[0].Jobs {
			if j.Name == job {
				return is(j)
			}
		}
		return false
	})
}

// TestDriverLimits holds that the driver limits a group to what the jobs in it may hold, from a
// job's first process to its end, and that a cap is never above the limit while it is raised.
func TestDriverLimits(t *testing.T) {
	const gib = 1 << 30
	h := newHouse(t)
	a := startAgent(t, h.config())
	first, p := h.job("first", gib, "/a/job")
	group := h.root + groupsMount + "/a/job"
	h.limited(group, gib)
	child := h.put(7001, p.self.pid, "/a/job/below") // what a program starts is of its job
	stateOf(t, a, "first", func(j JobSnapshot) bool {
		return j.DriverLimitBytes == gib && j.DriverLimitMissing == ""
	})
	h.set("first", 3*gib)
	if got := h.l.of(group); got != 3*gib {
		t.Errorf("the cap is 3 GiB, the limit %d", got)
	}
	second, q := h.job("second", 2*gib, "/a/job")
	h.limited(group, 5*gib)
	h.set("first", gib)
	h.limited(group, 3*gib)
	h.put(7002, 1, "/a/job") // who comes later does not take the limit away
	a.walls.kick()
	p.kill()
	_ = first.Close()
	h.limited(group, 2*gib)
	q.kill()
	_ = second.Close()
	h.limited(group, NoMemoryLimit)
	if h.l.of(child) != NoMemoryLimit {
		t.Error("the group below has a limit of its own")
	}
	eventually(t, "the record is empty", func() bool {
		list, err := readWalls(filepath.Join(h.dir, wallFile))
		return err == nil && len(list) == 0
	})
}

// TestDriverLimitsOutliveTheAgent holds that an agent which is started again keeps the limits of
// jobs that come back, as they are, and takes back those of jobs that do not; and that a limit
// which somebody else has set meanwhile, or of a group that was made anew, is none of its own.
func TestDriverLimitsOutliveTheAgent(t *testing.T) {
	const gib = 1 << 30
	h := newHouse(t)
	a := startAgent(t, h.config())
	_, stays := h.job("stays", gib, "/stays")
	_, goes := h.job("goes", 2*gib, "/goes")
	_, changed := h.job("changed", 3*gib, "/changed")
	_, anew := h.job("anew", 4*gib, "/anew")
	at := func(group string) string { return h.root + groupsMount + group }
	for group, n := range map[string]uint64{"/stays": gib, "/goes": 2 * gib, "/changed": 3 * gib,
		"/anew": 4 * gib} {
		h.limited(at(group), n)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*program{goes, changed, anew} {
		p.kill()
	}
	if err := h.l.SetMemoryLimit(0, at("/changed"), 77); err != nil {
		t.Fatal(err)
	}
	// Another group of the same name, with a limit of the same size by chance.
	if err := os.Rename(at("/anew"), at("/old")); err != nil {
		t.Fatal(err)
	}
	h.put(7003, 1, "/anew")
	before := len(h.l.told())
	cfg := h.config()
	cfg.rejoins = time.Hour
	b := startAgent(t, cfg)
	if err := stays.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	stateOf(t, b, "stays", func(j JobSnapshot) bool { return j.DriverLimitBytes == gib })
	if got := h.l.told()[before:]; len(got) > 0 {
		t.Errorf("while jobs may come back limits were set to %v", got)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.rejoins = time.Nanosecond
	c := startAgent(t, cfg)
	h.limited(at("/goes"), NoMemoryLimit)
	if err := stays.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	h.limited(at("/stays"), gib)
	stateOf(t, c, "stays", func(j JobSnapshot) bool { return j.DriverLimitBytes == gib })
	if x, y := h.l.of(at("/changed")), h.l.of(at("/anew")); x != 77 || y != 4*gib {
		t.Errorf("the limits of others are %d and %d", x, y)
	}
}

// TestForgedOwnersAreNotLimited has a program write, while no agent runs, into its page that slots
// of its job are those of processes that have nothing to do with it: one with a control group to
// itself, and one that has come into the program's. Neither is limited for that.
func TestForgedOwnersAreNotLimited(t *testing.T) {
	h := newHouse(t)
	a := startAgent(t, h.config())
	_, p := h.job("job", 1<<30, "/job")
	group, other := h.root+groupsMount+"/job", h.root+groupsMount+"/other"
	h.limited(group, 1<<30)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(h.dir, wallFile)); err != nil {
		t.Fatal(err)
	}
	if err := h.l.SetMemoryLimit(0, group, NoMemoryLimit); err != nil {
		t.Fatal(err)
	}
	for slot, at := range map[uint32]string{5: "/other", 6: "/job"} {
		stranger := h.s.born()
		h.put(stranger.pid, 1, at)
		p.page.Slot(slot).OwnerStart.Store(stranger.start())
		p.page.Slot(slot).OwnerPID.Store(stranger.pid)
	}
	b := startAgent(t, h.config())
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.walls.allow(wire.Token{}, 0)()
	}
	for _, g := range []string{group, other} {
		if got := h.l.of(g); got != NoMemoryLimit {
			t.Errorf("%s, in which there are strangers, is limited to %d", g, got)
		}
	}
	h.write("sys/fs/cgroup/job/cgroup.procs", fmt.Sprintln(p.self.pid))
	h.limited(group, 1<<30) // who has come back is
}

// TestNoDriverLimit holds that a job which cannot have a second wall runs with the first, that its
// snapshot says why, and the log once.
func TestNoDriverLimit(t *testing.T) {
	for name, c := range map[string]struct {
		group string
		setup func(*house)
		says  string
	}{
		"root":    {"/", func(*house) {}, "in the root of all control groups"},
		"outside": {"/../x", func(*house) {}, "outside of the agent's"},
		"strangers": {"/shared", func(h *house) { h.put(7000, 1, "/shared") },
			"process 7000, which is of no job"},
		"agent": {"/agents", func(h *house) { h.put(ownPID, 1, "/agents") }, "is of no job"},
		"limited": {"/limited", func(h *house) {
			h.l.limits[h.root+groupsMount+"/limited"] = 5 << 20
		}, "already, which stays"},
		"refused": {"/job", func(h *house) { h.l.fails = errors.New("driver says no") },
			"driver says no"},
		"not permitted": {"/job", func(h *house) {
			h.l.fails = fmt.Errorf("%w: only root", ErrNoLimiter)
		}, "only root"},
		"version 1": {"/job", func(h *house) {
			_ = os.Remove(h.root + groupsMount + "/cgroup.controllers")
		}, "version 2 are not mounted"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			c.setup(h)
			a := startAgent(t, h.config())
			_, p := h.job("job", 1<<30, c.group)
			stateOf(t, a, "job", func(j JobSnapshot) bool {
				return j.DriverLimitBytes == 0 && strings.Contains(j.DriverLimitMissing, c.says)
			})
			for range 3 { // looks, each after the one before
				a.walls.allow(wire.Token{}, 0)()
			}
			if n := h.said("their programs do\"") + h.said("its programs do\""); n != 1 {
				t.Errorf("it was said %d times", n)
			}
			if told := h.l.told(); len(told) > 0 {
				t.Errorf("limits were set to %v", told)
			}
			p.launch(time.Microsecond)
		})
	}
}

// TestLimiterHangs holds that a driver which never answers keeps nobody waiting for ever.
func TestLimiterHangs(t *testing.T) {
	h := newHouse(t)
	cfg := h.config()
	cfg.hangs = time.Millisecond
	stuck := make(chan struct{})
	cfg.Limits = stuckLimiter{stuck}
	a := startAgent(t, cfg)
	h.job("job", 1<<30, "/job")
	h.set("job", 2<<30)
	if j := onlyJob(t, a); j.MemoryCapBytes != 2<<30 {
		t.Errorf("%+v", j)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	close(stuck)
	<-a.walls.ended
}

type stuckLimiter struct{ until chan struct{} }

func (l stuckLimiter) MemoryLimit(uint32, string) (uint64, error) {
	<-l.until
	return NoMemoryLimit, nil
}

func (l stuckLimiter) SetMemoryLimit(uint32, string, uint64) error { return nil }
