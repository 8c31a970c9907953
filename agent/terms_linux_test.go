package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// modest is a job of few claims, and greedy writes many into its page.
var modest = share.Job{Name: "modest", Share: share.Share{Memory: 1 << 30, Compute: 0.1, Limit: 0.2,
	Class: share.Opportunistic}}

func greedy(p *wire.Page) {
	h := p.Header()
	h.Magic.Store(0)
	h.MemCapBytes.Store(60 << 30)
	h.MemTotalReported.Store(60 << 30)
	h.Class.Store(wire.ClassLatency)
	h.ComputePPM.Store(wire.PPM)
	h.LimitPPM.Store(wire.PPM)
	h.InflightBoundNS.Store(1e9)
	h.ControllerPID.Store(1)
	h.TermsSeq.Store(4)
}

// isModest reports whether agent and page agree that the job has no more than it was granted.
func isModest(t *testing.T, a *Agent, p *wire.Page) {
	t.Helper()
	j := onlyJob(t, a)
	if j.Name != "modest" || j.Compute != 0.1 || j.Limit != 0.2 || j.MemoryCapBytes != 1<<30 ||
		j.Class != share.Opportunistic {
		t.Errorf("the job is %+v", j)
	}
	terms, err := p.Terms()
	if err != nil || p.Check() != nil || terms.Name != "modest" || terms.MemCap != 1<<30 ||
		terms.MemTotal != 1<<30 || terms.Class != wire.ClassOpportunistic ||
		terms.ComputePPM != 100000 || terms.LimitPPM != 200000 {
		t.Errorf("the page says %+v, %v", terms, err)
	}
}

// TestTermsAreWrittenAgain has a program write itself other terms while the agent runs.
func TestTermsAreWrittenAgain(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, modest)
	p := begin(t, s, dir, g.Token)
	want, err := p.page.Terms()
	if err != nil {
		t.Fatal(err)
	}
	greedy(p.page)
	p.s.OwnerPID.Store(1)
	eventually(t, "the terms are put right", func() bool {
		got, err := p.page.Terms()
		return err == nil && got == want && p.page.Check() == nil &&
			p.s.OwnerPID.Load() == p.self.pid
	})
	isModest(t, a, p.page)
}

// TestTermsAfterARestart has a program write itself other terms while no agent runs, and come back
// before its controller, after it, and without it.
func TestTermsAfterARestart(t *testing.T) {
	for name, order := range map[string]string{"program first": "pc", "controller first": "cp",
		"no controller": "p"} {
		t.Run(name, func(t *testing.T) {
			s, dir := newPeople(), socketDir(t)
			a := startAgent(t, testConfig(dir, s))
			_, g := controller(t, dir, modest)
			p := begin(t, s, dir, g.Token)
			_ = a.Close()
			greedy(p.page)
			b := startAgent(t, testConfig(dir, s))
			for _, who := range order {
				if who == 'p' {
					if err := p.hello(wire.FlagRejoin); err != nil {
						t.Fatal(err)
					}
				} else {
					bringBack(t, dir, JobRequest{Fake: true, Job: modest, Again: g})
				}
				isModest(t, b, p.page)
			}
		})
	}
}

// bringBack brings a job back as its controller.
func bringBack(t *testing.T, dir string, r JobRequest) {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	g, err := c.Create(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Page.Close() })
}

// TestOnlyTheControllerVouches brings a job back of which there is no record that can be believed:
// its program is refused until its controller has come.
func TestOnlyTheControllerVouches(t *testing.T) {
	other := wire.Token{9}.String()
	for name, spoil := range map[string]func(path string, text []byte) error{
		"removed": func(path string, _ []byte) error { return os.Remove(path) },
		"empty":   func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"cut": func(path string, text []byte) error {
			return os.Truncate(path, int64(len(text)-1))
		},
		"twice": func(path string, text []byte) error {
			return os.WriteFile(path, append(text, text...), 0o600)
		},
		"huge": func(path string, text []byte) error {
			return os.WriteFile(path, append(text, bytes.Repeat([]byte(" "), 1<<20)...), 0o600)
		},
		"more fields": func(path string, text []byte) error {
			return os.WriteFile(path, append([]byte(`{"x":1,`), text[1:]...), 0o600)
		},
		"all memory": func(path string, text []byte) error {
			return os.WriteFile(path, bytes.Replace(text, []byte(`"memory_bytes":1073741824`),
				[]byte(`"memory_bytes":0`), 1), 0o600)
		},
		"another's": func(path string, text []byte) error {
			token := strings.TrimSuffix(filepath.Base(path), recordSuffix)
			return os.WriteFile(path, bytes.ReplaceAll(text, []byte(token), []byte(other)), 0o600)
		},
		"for all to read": func(path string, _ []byte) error { return os.Chmod(path, 0o644) },
		"a link": func(path string, _ []byte) error {
			return errors.Join(os.Rename(path, path+"x"), os.Symlink(path+"x", path))
		},
		"a pipe": func(path string, _ []byte) error {
			return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600))
		},
		"a folder": func(path string, _ []byte) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newPeople(), socketDir(t)
			a := startAgent(t, testConfig(dir, s))
			_, g := controller(t, dir, modest)
			p := begin(t, s, dir, g.Token)
			_ = a.Close()
			path := recordPath(dir, g.Token)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(path, text); err != nil {
				t.Fatal(err)
			}
			b := startAgent(t, testConfig(dir, s))
			var r *RefusedError
			if err := p.hello(wire.FlagRejoin); !errors.As(err, &r) ||
				r.Code != wire.RefusedUnknownJob {
				t.Errorf("the program alone: %v", err)
			}
			bringBack(t, dir, JobRequest{Fake: true, Job: modest, Again: g})
			if err := p.hello(wire.FlagRejoin); err != nil {
				t.Error(err)
			}
			isModest(t, b, p.page)
		})
	}
}

// TestImpostors bring a job back with another page, and as a controller that they are not.
func TestImpostors(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	made := s.born()
	uc, err := dialAs(made, dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{uc: uc}
	defer c.Close()
	g, err := c.Create(JobRequest{Fake: true, Job: modest})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Page.Close()
	p := begin(t, s, dir, g.Token)
	forged, err := wire.NewPage()
	if err != nil {
		t.Fatal(err)
	}
	defer forged.Close()
	terms, err := p.page.Terms()
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	forged.SetTerms(terms)
	b := startAgent(t, testConfig(dir, s))
	var r *RefusedError
	thief := &program{t: t, self: s.born(), dir: dir, token: g.Token, page: forged,
		s: forged.Slot(0), halted: make(chan struct{})}
	if err := thief.hello(wire.FlagRejoin); !errors.As(err, &r) || r.Code != wire.RefusedPage {
		t.Errorf("another page: %v", err)
	}
	more := modest
	more.Share = share.Share{Memory: 60 << 30, Compute: 1, Class: share.Latency}
	bring := func(who *person) error {
		uc, err := dialAs(s.twin(who), dir)
		if err != nil {
			return err
		}
		c := &Client{uc: uc}
		t.Cleanup(func() { _ = c.Close() })
		again := *g
		again.Memory = 60 << 30
		got, err := c.Create(JobRequest{Fake: true, Job: more, Again: &again})
		if err == nil {
			_ = got.Page.Close()
		}
		return err
	}
	for _, when := range []string{"before its program", "after it"} {
		if err := bring(p.self); !errors.As(err, &r) || r.Code != wire.RefusedCredentials {
			t.Errorf("a program as the controller of its job, %s: %v", when, err)
		}
		if err := p.hello(wire.FlagRejoin); err != nil {
			t.Fatal(err)
		}
	}
	if err := bring(made); err != nil {
		t.Errorf("the controller: %v", err)
	}
	isModest(t, b, p.page)
}

// TestRecordsAreTheJobs follows the files of a job from its beginning to its end.
func TestRecordsAreTheJobs(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	files := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "job") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	c, g := controller(t, dir, modest)
	path := recordPath(dir, g.Token)
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode() != 0o600 || len(files()) != 1 {
		t.Errorf("%v, %v, in all %v", fi, err, files())
	}
	p := begin(t, s, dir, g.Token)
	_ = c.Close()
	p.kill()
	eventually(t, "the record goes with the job", func() bool { return len(files()) == 0 })

	// What an agent that was killed left is removed by the next when no other has had it for long.
	_, g = controller(t, dir, modest)
	_ = a.Close()
	path = recordPath(dir, g.Token)
	if err := os.WriteFile(filepath.Join(dir, recordTemp+"x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fi, err = os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = startAgent(t, testConfig(dir, s)).Close()
	if got := files(); len(got) != 1 {
		t.Errorf("after a restart there are %v", got)
	}
	long := fi.ModTime().Add(-recordAge)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	startAgent(t, testConfig(dir, s))
	if got := files(); len(got) != 0 {
		t.Errorf("after a day there are %v", got)
	}
}
