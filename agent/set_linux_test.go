package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

func ptr[T any](v T) *T { return &v }

// setOf asks the agent of a folder for another share.
func setOf(t *testing.T, dir string, r ShareChange) (share.Job, error) {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Set(r)
}

func setPolicyOf(t *testing.T, dir, spec string) error {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.SetPolicy(spec)
}

// TestSetWhileItRuns gives a running job another share: its page, weir top and the agent after a
// restart go by it.
func TestSetWhileItRuns(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, modest)
	p := begin(t, s, dir, g.Token)
	p.launch(100 * time.Microsecond)
	got, err := setOf(t, dir, ShareChange{Job: "modest", Compute: ptr(0.5), Limit: ptr(0.75),
		Memory: ptr(2 * share.GiB), Class: ptr(share.Latency), Device: ptr(uint32(0))})
	want := share.Share{Memory: 2 * share.GiB, Compute: 0.5, Limit: 0.75, Class: share.Latency}
	if err != nil || got.Name != "modest" || got.Share != want {
		t.Fatalf("set to %+v, %v", got, err)
	}
	// What is not named stays as it is.
	want.Compute = 0.25
	if got, err = setOf(t, dir, ShareChange{Job: "modest", Compute: ptr(0.25)}); err != nil ||
		got.Share != want {
		t.Fatalf("set to %+v, %v", got, err)
	}
	check := func(a *Agent) {
		t.Helper()
		if j := onlyJob(t, a); j.Compute != 0.25 || j.Limit != 0.75 || j.Class != share.Latency ||
			j.MemoryCapBytes != 2<<30 {
			t.Errorf("the job is %+v", j)
		}
		if x, err := p.page.Terms(); err != nil || x.MemCap != 2<<30 || x.MemTotal != 2<<30 ||
			x.ComputePPM != 250000 || x.LimitPPM != 750000 || x.Class != wire.ClassLatency {
			t.Errorf("the page says %+v, %v", x, err)
		}
	}
	check(a)
	p.launch(100 * time.Microsecond)
	_ = a.Close()
	b := startAgent(t, testConfig(dir, s))
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	check(b)
}

// TestSetThatDoesNotFit asks for what cannot be: it is refused with the numbers, and nothing
// changes.
func TestSetThatDoesNotFit(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	_, g := controller(t, dir, modest)
	controller(t, dir, share.Job{Name: "rest",
		Share: share.Share{Memory: 70 << 30, Compute: 0.75}})
	p := begin(t, s, dir, g.Token)
	p.s.MemUsedBytes.Store(512 << 20)
	for _, c := range []struct {
		ShareChange
		says []string
	}{
		{ShareChange{Job: "modest", Class: ptr(share.Standard), Compute: ptr(0.5),
			Limit: ptr(1.0)}, []string{"0.5", "0.25 not promised"}},
		{ShareChange{Job: "modest", Memory: ptr(11 * share.GiB)}, []string{"11GiB", "10GiB"}},
		{ShareChange{Job: "modest", Memory: ptr(share.GiB / 4)}, []string{"512MiB", "256MiB"}},
		{ShareChange{Job: "modest", Memory: ptr(share.Bytes(0))}, []string{"0 bytes"}},
		{ShareChange{Job: "modest", Compute: ptr(0.3)}, []string{"0.3", "limit 0.2"}},
		{ShareChange{Job: "modest", Compute: ptr(1.5)}, []string{"1.5", "from 0 to 1"}},
		{ShareChange{Job: "modes", Compute: ptr(0.1)}, []string{"modes", "there is none"}},
		{ShareChange{Job: "modest", Device: ptr(uint32(1)), Compute: ptr(0.1)},
			[]string{"there is none"}},
	} {
		_, err := setOf(t, dir, c.ShareChange)
		if !errors.Is(err, ErrRefused) && !errors.Is(err, share.ErrInvalid) {
			t.Errorf("%+v: %v", c.ShareChange, err)
			continue
		}
		for _, x := range c.says {
			if !strings.Contains(err.Error(), x) {
				t.Errorf("%q does not say %q", err, x)
			}
		}
	}
	if j := a.Snapshot().Devices[0].Jobs[0]; j.Compute != 0.1 || j.Limit != 0.2 ||
		j.Class != share.Opportunistic || j.MemoryCapBytes != 1<<30 {
		t.Errorf("after refusals: %+v", j)
	}
	if x, err := p.page.Terms(); err != nil || x.MemCap != 1<<30 || x.MemTotal != 1<<30 {
		t.Errorf("the page says %+v, %v", x, err)
	}
}

// TestSetByAnotherUser has another user's process set a share and the policy.
func TestSetByAnotherUser(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	controller(t, dir, modest)
	for name, ask := range map[string]func(*Client) error{
		"set": func(c *Client) error {
			_, err := c.Set(ShareChange{Job: "modest", Compute: ptr(0.15)})
			return err
		},
		"policy": func(c *Client) error { return c.SetPolicy("fifo") },
	} {
		uc, err := dialAs(s.bornOf(ownUID+1), dir)
		if err != nil {
			t.Fatal(err)
		}
		c := &Client{uc: uc}
		var r *RefusedError
		if err := ask(c); !errors.As(err, &r) || r.Code != wire.RefusedCredentials {
			t.Errorf("%s: %v", name, err)
		}
		_ = c.Close()
	}
	if x := a.Snapshot(); x.Policy != DefaultPolicy || x.Devices[0].Jobs[0].Compute != 0.1 {
		t.Errorf("another user changed %+v", x)
	}
}

// TestPolicyWhileItRuns changes the policy under two programs, and refuses those that they cannot
// be held to.
func TestPolicyWhileItRuns(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	var ps []*program
	for _, name := range []string{"a", "b"} {
		_, g := controller(t, dir, share.Job{Name: name, Share: share.Share{Memory: 1 << 30}})
		ps = append(ps, begin(t, s, dir, g.Token))
	}
	both := func() {
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() { p.launch(time.Millisecond) })
		}
		wg.Wait()
	}
	for _, spec := range []string{"fifo", "fair:slice=3ms", "timeslice", "priority"} {
		both()
		if err := setPolicyOf(t, dir, spec); err != nil {
			t.Fatal(err)
		}
		both()
		name, _, _ := strings.Cut(spec, ":")
		if got := a.Snapshot().Policy; got != spec ||
			a.devices[0].broker.Status().Policy != name {
			t.Errorf("the policy is %s, set %s", got, spec)
		}
	}
	for spec, says := range map[string]string{"mps": "limit, overlap", "nosuch": "nosuch",
		"fair:slice=-1s": "slice", "": "policy"} {
		if err := setPolicyOf(t, dir, spec); !errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("policy %q: %v", spec, err)
		}
	}
	if got := a.Snapshot().Policy; got != "priority" {
		t.Errorf("after refusals the policy is %s", got)
	}
	both()
}

// TestPolicyThatCannotBeEnforced starts an agent with one that needs what programs cannot be held
// to.
func TestPolicyThatCannotBeEnforced(t *testing.T) {
	c := testConfig(socketDir(t), newPeople())
	c.Policy = "mps"
	a, err := Start(c)
	if err == nil {
		_ = a.Close()
	}
	if !errors.Is(err, share.ErrCannot) || !strings.Contains(err.Error(), "limit, overlap") {
		t.Errorf("an agent with a policy that cannot be enforced: %v", err)
	}
}

// TestContextBytesStayInTheJob has a program claim that contexts take 3 GiB: no other job is to
// count by that.
func TestContextBytesStayInTheJob(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	startAgent(t, testConfig(dir, s))
	_, bad := controller(t, dir, modest)
	p := begin(t, s, dir, bad.Token)
	p.page.Header().ContextBytes.Store(3 << 30)
	beat := p.page.Header().AgentBeatNS.Load()
	eventually(t, "the agent beats twice", func() bool {
		return p.page.Header().AgentBeatNS.Load() > beat+uint64(wire.Beat)
	})
	_, good := controller(t, dir, share.Job{Name: "good", Share: share.Share{Memory: 1 << 30}})
	q := begin(t, s, dir, good.Token)
	if n := q.page.Header().ContextBytes.Load(); n != 0 {
		t.Errorf("another job's contexts are taken to need %d bytes", n)
	}
}

// TestRefusalsAreLogged has programs come with tokens of no job: each is named in the log, and one
// that keeps coming back is named once.
func TestRefusalsAreLogged(t *testing.T) {
	var log lockedBuffer
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	startAgent(t, c)
	for range 2 {
		if _, err := attach(t, s, dir, wire.Token{1}); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
	}
	p := &program{t: t, self: s.born(), dir: dir, token: wire.Token{2}, slot: 1}
	for range 3 {
		if err := p.hello(wire.FlagRejoin); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
	}
	text := log.String()
	if n := strings.Count(text, "peer refused"); n != 2 {
		t.Errorf("%d of 2 refusals are in the log:\n%s", n, text)
	}
	if n := strings.Count(text, "program refused"); n != 1 {
		t.Errorf("a program that keeps coming back is in the log %d times:\n%s", n, text)
	}
}

// lockedBuffer is a log for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestSmallShares: a limit too small for the page's millionths does not become none, and what Set
// returns is what the job has.
func TestSmallShares(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	controller(t, dir, share.Job{Name: "tiny", Share: share.Share{Memory: share.GiB, Limit: 1e-9}})
	if j := onlyJob(t, a); j.Limit != 1e-6 {
		t.Errorf("created with a limit of %g", j.Limit)
	}
	got, err := setOf(t, dir, ShareChange{Job: "tiny", Limit: ptr(0.4e-6), Compute: ptr(1e-12)})
	if err != nil || got.Limit != 1e-6 || got.Compute != 1e-6 {
		t.Errorf("set to %+v, %v", got, err)
	}
	if j := onlyJob(t, a); j.Limit != got.Limit || j.Compute != got.Compute {
		t.Errorf("told of %+v, the job has %+v", got, j)
	}
	got, err = setOf(t, dir, ShareChange{Job: "tiny", Limit: ptr(0.0), Compute: ptr(0.0)})
	if err != nil || got.Limit != 0 || got.Compute != 0 {
		t.Errorf("set to %+v, %v", got, err)
	}
}

// TestPolicyOfAllDevices: a policy that the jobs on one GPU do not fit is refused for all.
func TestPolicyOfAllDevices(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.Devices = append(c.Devices, c.Devices[0])
	c.Devices[1].Ordinal = 1
	a := startAgent(t, c)
	for _, name := range []string{"one", "two"} {
		client, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		g, err := client.Create(JobRequest{Fake: true, Device: 1, Job: share.Job{Name: name,
			Share: share.Share{Memory: 1 << 30}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Page.Close() })
	}
	err := setPolicyOf(t, dir, "vgpu:mode=fixed-share,max=1")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "made for 1 jobs") {
		t.Errorf("a policy for one job beside two: %v", err)
	}
	for i, d := range a.devices {
		if got := d.broker.Status().Policy; got != "priority" {
			t.Errorf("after a refusal GPU %d is shared by %s", i, got)
		}
	}
	if err := setPolicyOf(t, dir, "vgpu:mode=fixed-share,max=2"); err != nil {
		t.Error(err)
	}
}
