package dra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

// ledger is an agent as far as a driver sees one: it counts what it keeps, and refuses what it has
// no room for.
type ledger struct {
	devices map[string]Device
	kept    map[string]Job
	fail    func(when string) bool // whether a call fails: "before" or "after" it has its effect
	calls   int
}

var errAgent = errors.New("no agent answers")

func (l *ledger) Keep(_ context.Context, d Device, j Job) error {
	l.calls++
	if l.fail("before") {
		return errAgent
	}
	if had, ok := l.kept[j.ID]; ok && had.Token != j.Token {
		return fmt.Errorf("%s: kept with another token", j.ID)
	}
	l.kept[j.ID] = j
	memory, compute := l.sum(d.Name)
	if memory > d.Memory || compute > 1+1e-9 {
		delete(l.kept, j.ID)
		return fmt.Errorf("%s: no room", j.ID)
	}
	if l.fail("after") {
		return errAgent
	}
	return nil
}

func (l *ledger) Release(_ context.Context, id string) error {
	if l.fail("before") {
		return errAgent
	}
	delete(l.kept, id)
	if l.fail("after") {
		return errAgent
	}
	return nil
}

func (l *ledger) Kept(context.Context) ([]string, error) {
	var ids []string
	for id := range l.kept {
		ids = append(ids, id)
	}
	return ids, nil
}

func (l *ledger) sum(device string) (memory share.Bytes, compute float64) {
	for _, j := range l.kept {
		if j.Device == device {
			memory += j.Share.Memory
			compute += j.Share.Compute
		}
	}
	return memory, compute
}

func never(string) bool { return false }

// twoAndCPU is two GPUs and a CPU.
func twoAndCPU() []Device {
	gpu := func(n uint32) Device {
		return Device{Name: fmt.Sprintf("cuda-%d", n), Ordinal: n, Memory: 80 * share.GiB,
			Fake: true, Attributes: attributes("gpu", "test", fmt.Sprintf("GPU-%d", n))}
	}
	return []Device{gpu(0), gpu(1), {Name: "cpu-0", CPU: true, Memory: 16 * share.GiB, Units: 8,
		Attributes: attributes("cpu", "test", "")}}
}

// rig is a driver on a node.
type rig struct {
	t      testing.TB
	c      Config
	d      *Driver
	ledger *ledger
}

func newRig(t testing.TB) *rig {
	l := &ledger{devices: map[string]Device{}, kept: map[string]Job{}, fail: never}
	r := &rig{t: t, ledger: l, c: Config{Dir: t.TempDir(), CDI: t.TempDir(), Agent: l, soft: true,
		Node: Node{Runtime: "/run/weir-agent", UID: 7, Shim: "/opt/shim.so",
			FakeDriver: "/opt/fake", FakeState: "/run/gpu", Hook: "/opt/weir-node",
			Vendor: "nvidia.com/gpu"}}}
	r.start()
	return r
}

// start begins a driver on what the one before has left.
func (r *rig) start() {
	r.t.Helper()
	d, err := New(r.c)
	if err != nil {
		r.t.Fatal(err)
	}
	d.SetDevices(twoAndCPU())
	r.d = d
}

// claimOf is a claim of one part of a device.
func claimOf(uid, device string, memory share.Bytes, compute int) Claim {
	return Claim{UID: uid, Namespace: "ns", Name: "c-" + uid, Pods: []string{"pod-" + uid},
		Results: []Result{{Request: "gpu", Pool: "node", Device: device, ShareID: "share-" + uid,
			Memory: memory, Compute: compute}}}
}

// specOf reads the specification of a claim; nil for none.
func (r *rig) specOf(uid string) *spec {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.c.CDI, specName(uid)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var s spec
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		r.t.Fatalf("claim %s: %v", uid, err)
	}
	return &s
}

// TestPrepareIsIdempotent prepares twice, with another driver in between, and gives back twice.
func TestPrepareIsIdempotent(t *testing.T) {
	r := newRig(t)
	c := claimOf("u1", "cuda-0", 8*share.GiB, 300)
	c.Results[0].Parameters = [][]byte{said(`,"class":"latency"`)}
	first, err := r.d.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := os.ReadFile(filepath.Join(r.c.CDI, specName("u1")))
	job := r.ledger.kept["u1/gpu"]
	if job.Share != (share.Share{Memory: 8 * share.GiB, Compute: 0.3, Class: share.Latency}) ||
		job.Name != "pod-u1" {
		t.Errorf("kept %+v", job)
	}
	r.start()
	again, err := r.d.Prepare(t.Context(), c)
	if err != nil || fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("%v, then %v, %v", first, again, err)
	}
	after, _ := os.ReadFile(filepath.Join(r.c.CDI, specName("u1")))
	if string(spec) != string(after) || r.ledger.kept["u1/gpu"] != job {
		t.Error("something has changed")
	}
	if first[0].Device != "cuda-0" || first[0].ShareID != "share-u1" || first[0].Pool != "node" ||
		!slices.Equal(first[0].CDI, []string{"gpu.weir.dev/claim=u1.gpu"}) {
		t.Errorf("answered %+v", first)
	}
	for range 2 {
		if err := r.d.Unprepare(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
		if len(r.ledger.kept) != 0 || r.specOf("u1") != nil || len(r.d.Claims()) != 0 {
			t.Error("something is left")
		}
	}
}

// TestSpecBringsAContainerIn holds what each kind of device puts into a container.
func TestSpecBringsAContainerIn(t *testing.T) {
	r := newRig(t)
	c := claimOf("u1", "cuda-1", share.GiB, 300)
	c.Results = append(c.Results,
		Result{Request: "cpu/big", Pool: "node", Device: "cpu-0", Memory: share.GiB, Compute: 250},
		Result{Request: "watch", Pool: "node", Device: "cuda-1", Admin: true})
	got, err := r.d.Prepare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.ledger.kept) != 1 {
		t.Errorf("the agent keeps %v", r.ledger.kept)
	}
	s := r.specOf("u1")
	if s.Version != "0.6.0" || s.Kind != "gpu.weir.dev/claim" || len(s.Devices) != 3 {
		t.Fatalf("%+v", s)
	}
	gpu, cpu, admin := s.Devices[0], s.Devices[1], s.Devices[2]
	token := r.ledger.kept["u1/gpu"].Token
	if !slices.Equal(gpu.Edits.Env, []string{"WEIR_SOCKET=/run/weir/agent.sock",
		"WEIR_JOB=" + token, "WEIR_AGENT_UID=7", "LD_PRELOAD=/opt/weir/libweir.so",
		"CUDA_VISIBLE_DEVICES=GPU-1", "LD_LIBRARY_PATH=/opt/weir/fake",
		"WEIR_FAKE_DIR=/run/weir-gpu", "WEIR_FAKE_GPUS=2", "WEIR_FAKE_MEMORY=85899345920"}) ||
		len(token) != 32 {
		t.Errorf("%q", gpu.Edits.Env)
	}
	if m := gpu.Edits.Mounts; len(m) != 4 || m[0].Host != "/run/weir-agent/join" ||
		m[0].Container != "/run/weir" || m[0].Options[0] != "ro" || m[3].Options[0] != "rw" {
		t.Errorf("%+v", m)
	}
	if cpu.Name != "u1.cpu.big" || got[1].CDI[0] != "gpu.weir.dev/claim=u1.cpu.big" ||
		len(cpu.Edits.Env) != 0 || cpu.Edits.Hooks[0].Name != "createRuntime" ||
		strings.Join(cpu.Edits.Hooks[0].Args, " ") !=
			"weir-node hold --memory 1073741824 --limit 250 --processors 8" {
		t.Errorf("%+v", cpu)
	}
	if admin.Edits.Env[0] != "WEIR_RUNTIME_DIR=/run/weir" ||
		admin.Edits.Mounts[0].Host != "/run/weir-agent" {
		t.Errorf("%+v", admin)
	}
	// A real GPU comes with its driver.
	d := twoAndCPU()[0]
	d.Fake, d.Attributes["uuid"] = false, "GPU-1"
	if ids := r.c.Node.ids("u", &Job{Request: "r"}, d); len(ids) != 2 ||
		ids[1] != "nvidia.com/gpu=GPU-1" {
		t.Errorf("%v", ids)
	}
	if e := r.c.Node.edits(&Job{}, d); len(e.Mounts) != 2 || len(e.Env) != 5 {
		t.Errorf("%+v", e)
	}
}

// TestWrongClaimsLeaveNothing has claims that cannot be: each error says why and nothing is kept.
func TestWrongClaimsLeaveNothing(t *testing.T) {
	r := newRig(t)
	if _, err := r.d.Prepare(t.Context(), claimOf("cpu", "cpu-0", 10*share.GiB, 600)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.d.Prepare(t.Context(), claimOf("gpu", "cuda-1", 10*share.GiB, 600)); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Claim){
		"uid":             func(c *Claim) { c.UID = "../x" },
		"no device":       func(c *Claim) { c.Results = nil },
		"several devices": func(c *Claim) { c.Results = append(c.Results, c.Results[0]) },
		"none of this":    func(c *Claim) { c.Results[0].Device = "cuda-9" },
		"class": func(c *Claim) {
			c.Results[0].Parameters = [][]byte{said(`,"class":"x"`)}
		},
		"which has": func(c *Claim) { c.Results[0].Memory = 81 * share.GiB },
		"6GiB and 0.4": func(c *Claim) {
			c.Results[0].Device, c.Results[0].Memory = "cpu-0", 7*share.GiB
		},
		"and 0.4 are left": func(c *Claim) {
			c.Results[0].Device, c.Results[0].Compute = "cpu-0", 500
		},
		"no room": func(c *Claim) {
			// The first of the two is given, and must be taken back.
			c.Results = append(c.Results, Result{Request: "second", Device: "cuda-1",
				Memory: 71 * share.GiB})
		},
	} {
		c := claimOf("bad", "cuda-0", share.GiB, 300)
		change(&c)
		_, err := r.d.Prepare(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
		if len(r.ledger.kept) != 1 || r.specOf("bad") != nil || len(r.d.Claims()) != 2 {
			t.Errorf("%s: left %v and %v", want, r.ledger.kept, r.d.Claims())
		}
	}
	if err := r.d.Unprepare(t.Context(), "../x"); err == nil {
		t.Error("a path was taken for a claim")
	}
}

// TestBrokenBookHarmsNobody spoils the book: the driver goes on, what the agent keeps stays, and
// goes when the claim is given back.
func TestBrokenBookHarmsNobody(t *testing.T) {
	for name, spoil := range map[string]func(text []byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"cut":   func(b []byte) []byte { return b[:len(b)-2] },
		"bit":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"newer": func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"version":1`, `"version":2`, 1))
		},
	} {
		r := newRig(t)
		if _, err := r.d.Prepare(t.Context(), claimOf("u1", "cuda-0", share.GiB, 1)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(r.c.Dir, bookName)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, spoil(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		if err := r.d.Recover(t.Context()); err != nil || len(r.ledger.kept) != 1 ||
			r.specOf("u1") == nil {
			t.Errorf("%s: %v, %v", name, err, r.ledger.kept)
		}
		if _, err := os.Stat(path + ".bad"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.ledger.kept["u10/gpu"] = Job{ID: "u10/gpu"} // another's
		if err := r.d.Unprepare(t.Context(), "u1"); err != nil || len(r.ledger.kept) != 1 ||
			r.specOf("u1") != nil {
			t.Errorf("%s: %v, left %v", name, err, r.ledger.kept)
		}
	}
}

// TestLacks has an agent that knows nothing of a claim on a GPU; of others it need not know.
func TestLacks(t *testing.T) {
	r := newRig(t)
	c := claimOf("u1", "cuda-0", share.GiB, 1)
	c.Results = append(c.Results,
		Result{Request: "cpu", Pool: "node", Device: "cpu-0", Memory: share.GiB},
		Result{Request: "watch", Pool: "node", Device: "cuda-1", Admin: true})
	if _, err := r.d.Prepare(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if !r.d.Lacks([]string{"u1/cpu"}) || r.d.Lacks([]string{"other", "u1/gpu"}) {
		t.Error("it is not the GPU's job that counts")
	}
}

// TestReallocatedClaimMoves prepares a claim that was given another device since.
func TestReallocatedClaimMoves(t *testing.T) {
	r := newRig(t)
	for _, device := range []string{"cuda-0", "cuda-1"} {
		if _, err := r.d.Prepare(t.Context(), claimOf("u1", device, 60*share.GiB, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if m, _ := r.ledger.sum("cuda-0"); m != 0 || len(r.ledger.kept) != 1 {
		t.Errorf("%v are left", m)
	}
	if m, c := r.d.Given("cuda-1"); m != 60*share.GiB || c != 0.001 {
		t.Errorf("given are %v and %v", m, c)
	}
}

// killed is what a driver ends with that is killed between two writes.
type killed struct{}

// survive calls a driver, which is killed at the nth step, and reports whether it was.
func (r *rig) survive(n int, call func(*Driver) error) (dead bool, err error) {
	left := n
	r.c.step = func(string) {
		if left--; left == 0 {
			panic(killed{})
		}
	}
	r.d.c.step, r.d.book.step = r.c.step, r.c.step
	defer func() {
		r.c.step = nil
		if p := recover(); p != nil {
			if _, is := p.(killed); !is {
				panic(p)
			}
			dead = true
			r.start()
		}
	}()
	return false, call(r.d)
}

// node is a kubelet and a scheduler beside a rig: what they were told.
type node struct {
	*rig
	rng     *rand.Rand
	running map[string]Claim  // whose containers run
	tokens  map[string]string // that they have
	unsure  map[string]Claim  // a call for them did not end
	next    int
}

// TestNothingIsGivenTwice has a kubelet do random things while driver and agent fail at random:
// what is given out of each device is never more than it has, no running pod's job is ever not
// kept, and in the end nothing is left. WEIR_LONG does ten thousand operations.
func TestNothingIsGivenTwice(t *testing.T) {
	operations := 700
	if os.Getenv("WEIR_LONG") != "" {
		operations = 10000
	}
	n := &node{rig: newRig(t), rng: rand.New(rand.NewPCG(16, 1)), running: map[string]Claim{},
		tokens: map[string]string{}, unsure: map[string]Claim{}}
	kills, refused := 0, 0
	for range operations {
		dead, err := n.operate()
		if dead {
			kills++
		}
		if err != nil && !errors.Is(err, errAgent) {
			refused++
		}
		n.check()
		if t.Failed() {
			return
		}
	}
	if kills < operations/20 || refused < operations/20 {
		t.Errorf("%d kills, %d refusals: the test tries too little", kills, refused)
	}
	t.Logf("%d operations, %d kills, %d refusals", operations, kills, refused)
	n.ledger.fail = never
	for _, uid := range slices.Concat(keys(n.running), keys(n.unsure)) {
		if err := n.d.Unprepare(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
	left, _ := os.ReadDir(n.c.CDI)
	if len(n.ledger.kept) != 0 || len(n.d.Claims()) != 0 || len(left) != 0 {
		t.Errorf("left are %v, %v, %v", n.ledger.kept, n.d.Claims(), left)
	}
}

func keys(m map[string]Claim) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// operate does one thing.
func (n *node) operate() (dead bool, err error) {
	die := 0
	if n.rng.IntN(5) == 0 {
		die = 1 + n.rng.IntN(12)
	}
	n.ledger.fail = func(string) bool { return n.rng.IntN(25) == 0 }
	ctx := n.t.Context()
	switch n.rng.IntN(10) {
	case 0:
		return n.survive(die, func(d *Driver) error { return d.Recover(ctx) })
	case 1, 2, 3, 4, 5:
		c := n.pick()
		if _, runs := n.running[c.UID]; !runs {
			n.unsure[c.UID] = c
		}
		dead, err = n.survive(die, func(d *Driver) error {
			_, err := d.Prepare(ctx, c)
			return err
		})
		if !dead && err == nil {
			n.running[c.UID], n.tokens[c.UID] = c, n.token(c.UID)
			delete(n.unsure, c.UID)
		}
	default:
		all := slices.Concat(keys(n.running), keys(n.unsure))
		if len(all) == 0 {
			return false, nil
		}
		uid := all[n.rng.IntN(len(all))]
		if c, ok := n.running[uid]; ok {
			n.unsure[uid] = c // its containers have ended
			delete(n.running, uid)
			delete(n.tokens, uid)
		}
		dead, err = n.survive(die, func(d *Driver) error { return d.Unprepare(ctx, uid) })
		if !dead && err == nil {
			delete(n.unsure, uid)
			if s := n.specOf(uid); s != nil {
				n.t.Errorf("claim %s was given back and has a specification", uid)
			}
		}
	}
	return dead, err
}

// pick is a claim to prepare: one again, or a new one of random size, which may not fit.
func (n *node) pick() Claim {
	again := slices.Concat(keys(n.running), keys(n.unsure))
	if len(again) > 0 && n.rng.IntN(3) == 0 {
		uid := again[n.rng.IntN(len(again))]
		if c, ok := n.running[uid]; ok {
			return c
		}
		return n.unsure[uid]
	}
	n.next++
	v := twoAndCPU()[n.rng.IntN(3)]
	c := claimOf(fmt.Sprintf("uid-%d", n.next), v.Name,
		1+share.Bytes(n.rng.Int64N(int64(v.Memory)/3)), n.rng.IntN(400))
	if n.rng.IntN(4) == 0 {
		w := twoAndCPU()[n.rng.IntN(3)]
		c.Results = append(c.Results, Result{Request: "second", Pool: "node", Device: w.Name,
			Memory: 1 + share.Bytes(n.rng.Int64N(int64(w.Memory)/3)), Compute: n.rng.IntN(400)})
	}
	return c
}

// token is what the specification of a claim gives its first container.
func (n *node) token(uid string) string {
	for _, v := range n.specOf(uid).Devices[0].Edits.Env {
		if t, ok := strings.CutPrefix(v, "WEIR_JOB="); ok {
			return t
		}
	}
	return ""
}

// check holds what must always hold.
func (n *node) check() {
	for _, v := range twoAndCPU() {
		memory, compute := n.ledger.sum(v.Name)
		if v.CPU {
			memory, compute = n.d.Given(v.Name)
		}
		if memory > v.Memory || compute > 1+1e-9 {
			n.t.Errorf("%s: %v and %v are given out", v.Name, memory, compute)
		}
	}
	for uid, c := range n.running {
		if n.specOf(uid) == nil || n.token(uid) != n.tokens[uid] {
			n.t.Errorf("claim %s: its containers have another token", uid)
		}
		for _, r := range c.Results {
			j, ok := n.ledger.kept[uid+"/"+r.Request]
			if r.Device == "cpu-0" {
				j, ok = n.bookJob(uid, r.Request)
			}
			if !ok || j.Share.Memory != r.Memory || j.Share.Compute != milli(r.Compute) {
				n.t.Errorf("claim %s runs, and its %v of %s are kept as %+v", uid, r.Memory,
					r.Device, j)
			}
		}
	}
}

func (n *node) bookJob(uid, request string) (Job, bool) {
	for _, j := range n.d.book.entries[uid].Jobs {
		if j.Request == request {
			return j, true
		}
	}
	return Job{}, false
}
