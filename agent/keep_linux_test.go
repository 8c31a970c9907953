package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// claimed is a request for a claim's job of so much memory.
func claimed(claim string, memory share.Bytes) JobRequest {
	return JobRequest{Fake: true, Claim: claim, Job: share.Job{Name: "pod",
		Share: share.Share{Memory: memory, Compute: 0.25, Limit: 0.5}}}
}

// keepOnce asks for a claim's job, and is gone.
func keepOnce(t testing.TB, dir string, r JobRequest) (*JobGrant, error) {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g, err := c.Create(r)
	if err == nil {
		_ = g.Page.Close()
	}
	return g, err
}

func mustKeep(t testing.TB, dir string, r JobRequest) *JobGrant {
	t.Helper()
	g, err := keepOnce(t, dir, r)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func releaseOf(t testing.TB, dir, claim string) {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Release(claim); err != nil {
		t.Fatal(err)
	}
}

func promised(a *Agent) int64 { return a.Snapshot().Devices[0].PromisedBytes }

// TestClaimKeepsItsJob has nobody there but the claim, and asks twice.
func TestClaimKeepsItsJob(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	g := mustKeep(t, dir, claimed("ns/a", 60<<30))
	again := mustKeep(t, dir, claimed("ns/a", 60<<30))
	if g.Token != again.Token || again.Memory != 60<<30 {
		t.Errorf("the same claim got %v of %v and %v of %v", g.Token, g.Memory, again.Token,
			again.Memory)
	}
	if j := onlyJob(t, a); j.Claim != "ns/a" || promised(a) != 60<<30 {
		t.Errorf("the job is %+v", j)
	}
	if _, err := keepOnce(t, dir, claimed("ns/b", 30<<30)); !errors.Is(err, ErrRefused) {
		t.Errorf("more than there is was kept: %v", err)
	}
	p := begin(t, s, dir, g.Token)
	releaseOf(t, dir, "ns/a")
	if promised(a) != 60<<30 {
		t.Error("a released claim's memory is free while a program has it")
	}
	p.kill()
	eventually(t, "the job ends with its last process", func() bool { return promised(a) == 0 })
	releaseOf(t, dir, "ns/a")
	if _, err := os.Stat(recordPath(dir, g.Token)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}
}

// TestReleasedClaimIsKeptAgain has a claim come back while its programs run, by its token, and
// another one name the token of a claim.
func TestReleasedClaimIsKeptAgain(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	g := mustKeep(t, dir, claimed("a", 1<<30))
	p := begin(t, s, dir, g.Token)
	releaseOf(t, dir, "a")
	r := claimed("b", 1<<30)
	r.Token = g.Token
	if got := mustKeep(t, dir, r); got.Token != g.Token || onlyJob(t, a).Claim != "b" {
		t.Errorf("kept as %v of %s", got.Token, onlyJob(t, a).Claim)
	}
	r.Claim = "c"
	if _, err := keepOnce(t, dir, r); err == nil || !strings.Contains(err.Error(), "claim b") {
		t.Errorf("two claims have one token: %v", err)
	}
	p.kill()
	if onlyJob(t, a).Claim != "b" {
		t.Error("the claim went with its program")
	}
}

// TestClaimOutlivesTheAgent restarts the agent twice before a program comes back: its memory counts
// from the first moment, its page is the job's again, and others cannot have what is claimed.
func TestClaimOutlivesTheAgent(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	g := mustKeep(t, dir, claimed("ns/a", 60<<30))
	p, q := begin(t, s, dir, g.Token), begin(t, s, dir, g.Token)
	p.s.MemUsedBytes.Store(5)
	q.s.MemUsedBytes.Store(7)
	for range 2 {
		_ = a.Close()
		a = startAgent(t, testConfig(dir, s))
		if promised(a) != 60<<30 {
			t.Fatalf("%d bytes are promised after a restart", promised(a))
		}
	}
	before := p.page
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	if p.page != before || onlyJob(t, a).MemoryUsedBytes != 12 {
		t.Errorf("another page: %v; %d bytes are counted", p.page != before,
			onlyJob(t, a).MemoryUsedBytes)
	}
	if err := q.hello(wire.FlagRejoin); err != nil || len(onlyJob(t, a).Processes) != 2 {
		t.Errorf("%d processes, %v", len(onlyJob(t, a).Processes), err)
	}
	if again := mustKeep(t, dir, claimed("ns/a", 60<<30)); again.Token != g.Token {
		t.Error("the claim has another token")
	}
	if promised(a) != 60<<30 || onlyJob(t, a).Claim != "ns/a" {
		t.Errorf("%d bytes are promised to %q", promised(a), onlyJob(t, a).Claim)
	}
}

// TestNewProgramBeforeThoseThatComeBack has one begin in a claim's job first, after a restart:
// those that come back move to its page, and what they hold counts there.
func TestNewProgramBeforeThoseThatComeBack(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	g := mustKeep(t, dir, claimed("ns/a", 60<<30))
	p := begin(t, s, dir, g.Token)
	_ = a.Close()
	b := startAgent(t, testConfig(dir, s))
	q := begin(t, s, dir, g.Token)
	p.s.MemUsedBytes.Store(0)
	if err := p.hello(wire.FlagRejoin); err != nil {
		t.Fatal(err)
	}
	if !wire.SamePage(p.page.File(), q.page.File()) || len(onlyJob(t, b).Processes) != 2 {
		t.Error("the two are on different pages")
	}
	_ = b.Close()
	c := startAgent(t, testConfig(dir, s))
	if err := q.hello(wire.FlagRejoin); err != nil || promised(c) != 60<<30 {
		t.Errorf("%d bytes promised, %v", promised(c), err)
	}
}

// TestClaimThatNoAgentKnows is kept with the token that its programs have, after the runtime folder
// was lost: they come back to it.
func TestClaimThatNoAgentKnows(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a := startAgent(t, testConfig(dir, s))
	g := mustKeep(t, dir, claimed("ns/a", 1<<30))
	p := begin(t, s, dir, g.Token)
	_ = a.Close()
	if err := os.Remove(recordPath(dir, g.Token)); err != nil {
		t.Fatal(err)
	}
	b := startAgent(t, testConfig(dir, s))
	r := claimed("ns/a", 1<<30)
	r.Token = g.Token
	if got := mustKeep(t, dir, r); got.Token != g.Token {
		t.Fatalf("got %v", got.Token)
	}
	if err := p.hello(wire.FlagRejoin); err != nil || len(onlyJob(t, b).Processes) != 1 {
		t.Errorf("%v", err)
	}
}

// TestClaimsThatCannotBe are refused, here or by the agent, with what is wrong.
func TestClaimsThatCannotBe(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.Devices = append(c.Devices, Device{Ordinal: 1, Name: "second", Memory: 80 << 30, Fake: true})
	startAgent(t, c)
	mustKeep(t, dir, claimed("ns/a", 1<<30))
	for want, change := range map[string]func(*JobRequest){
		"printable ASCII": func(r *JobRequest) { r.Claim = "a\nb" },
		"1 to 200":        func(r *JobRequest) { r.Claim = strings.Repeat("a", 201) },
		"cap on memory":   func(r *JobRequest) { r.Memory = 0 },
		"gang":            func(r *JobRequest) { r.Gang = "g" },
		"on cuda:0":       func(r *JobRequest) { r.Device = 1 },
	} {
		r := claimed("ns/a", 1<<30)
		change(&r)
		if _, err := keepOnce(t, dir, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestDoorLetsProgramsJoinOnly comes to the socket for containers as another user: a program that
// knows a token joins, and nothing else is done, also for the agent's own user.
func TestDoorLetsProgramsJoinOnly(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	c := testConfig(dir, s)
	c.Door = true
	a := startAgent(t, c)
	g := mustKeep(t, dir, claimed("ns/a", 1<<30))
	door := DoorPath(dir)
	if entries, err := os.ReadDir(door); err != nil || len(entries) != 1 {
		t.Fatalf("the door's folder has %v, %v", entries, err)
	}
	p := &program{t: t, self: s.bornOf(ownUID + 7), dir: door, token: g.Token, slot: wire.NoSlot,
		halted: make(chan struct{})}
	if err := p.hello(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if len(onlyJob(t, a).Processes) != 1 {
		t.Error("it is not in the job")
	}
	q := &program{t: t, self: s.bornOf(ownUID + 7), dir: door, token: wire.Token{1},
		slot: wire.NoSlot, halted: make(chan struct{})}
	if err := q.hello(0); err == nil || !strings.Contains(err.Error(), "no job") {
		t.Errorf("a program without a token: %v", err)
	}
	q.dir, q.token = dir, g.Token
	if err := q.hello(0); err == nil || !strings.Contains(err.Error(), "serves user") {
		t.Errorf("another user at the agent's own socket: %v", err)
	}
	for what, ask := range map[string]func(*Client) error{
		"create":  func(c *Client) error { _, err := c.Create(claimed("x", 1)); return err },
		"release": func(c *Client) error { return c.Release("ns/a") },
		"policy":  func(c *Client) error { return c.SetPolicy("fair") },
	} {
		c, err := Dial(door)
		if err != nil {
			t.Fatal(err)
		}
		if err := ask(c); err == nil || !strings.Contains(err.Error(), SocketPath(dir)) {
			t.Errorf("%s at the door: %v", what, err)
		}
		_ = c.Close()
	}
	fi, err := os.Stat(filepath.Join(door, socketName))
	if err != nil || fi.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", fi, err)
	}
}
