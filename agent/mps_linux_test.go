package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
)

// daemon is an MPS control daemon that comes and goes.
type daemon struct{ atomic.Pointer[MPS] }

func (d *daemon) find() (MPS, error) {
	if m := d.Load(); m != nil {
		return *m, nil
	}
	return MPS{}, ErrNoMPS
}

func startWithMPS(t *testing.T, dir string, s *people, policy string) (*Agent, *daemon) {
	t.Helper()
	var d daemon
	d.Store(&MPS{"/run/mps", 100})
	c := testConfig(dir, s)
	c.MPS, c.Policy = d.find, policy
	return startAgent(t, c), &d
}

// TestPoliciesWithMPS: with a control daemon programs can be held to what needs overlap or limits,
// and run at once; not to units of their own, and without a daemon to neither.
func TestPoliciesWithMPS(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a, d := startWithMPS(t, dir, s, "mps")
	var ps []*program
	for name, compute := range map[string]float64{"a": 0.25, "b": 0.75} {
		_, g := controller(t, dir, share.Job{Name: name,
			Share: share.Share{Memory: 1 << 30, Compute: compute}})
		ps = append(ps, begin(t, s, dir, g.Token))
	}
	// Each launches once while the other has work in flight.
	together := func() {
		for i, p := range ps {
			other := ps[1-i]
			if !other.pass(20 * time.Second) {
				t.Fatalf("%v waited in vain", other.self.name)
			}
			other.s.Launches.Add(1)
			other.s.InflightNS.Add(uint64(time.Second))
			p.launch(time.Millisecond)
			other.s.InflightNS.Store(0)
		}
	}
	both := func() {
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() { p.launch(time.Millisecond) })
		}
		wg.Wait()
	}
	together()
	for _, spec := range []string{"pack:jobs=2", "mergeslice", "orion", "prophet", "priority",
		"mps:percent=50"} {
		if err := setPolicyOf(t, dir, spec); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		both()
	}
	together()
	refused := func(says string, specs ...string) {
		t.Helper()
		for _, spec := range specs {
			err := setPolicyOf(t, dir, spec)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says) {
				t.Errorf("policy %s: %v, want %q", spec, err, says)
			}
		}
	}
	refused("needs partition, the device has limit, overlap, launches", "fgpu", "mig", "steal")
	d.Store(nil)
	refused("limit, overlap", "mps")
	refused("nvidia-cuda-mps-control -d", "mps", "pack")
	if got := a.Snapshot().Policy; got != "mps:percent=50" {
		t.Errorf("after refusals the policy is %s", got)
	}
	if err := setPolicyOf(t, dir, "priority"); err != nil {
		t.Error(err)
	}
	both()
	if n := a.devices[0].broker.Status().Faults; n > 0 {
		t.Errorf("the policies made %d mistakes", n)
	}
}

// TestThreadPercent: the percentage of a job is on its page and in its programs' environment, and
// follows its share, the policy and the daemon; what a process began with it is seen to keep.
func TestThreadPercent(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	a, d := startWithMPS(t, dir, s, "priority")
	_, g := controller(t, dir, share.Job{Name: "early", Share: share.Share{Memory: 1 << 30,
		Compute: 0.25}})
	early := begin(t, s, dir, g.Token)
	env := Environment([]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=7"}, "s", g, "lib.so")
	if g.ThreadPercent != 0 || !slices.Contains(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=7") {
		t.Errorf("under priority a job is given %d percent, %q", g.ThreadPercent, env)
	}
	early.s.MemUsedBytes.Store(1 << 20)
	check := func(when string, p *program, want uint32) {
		t.Helper()
		if terms, err := p.page.Terms(); err != nil || terms.ThreadPercent != want {
			t.Errorf("%s: %d percent on the page, want %d: %v", when, terms.ThreadPercent, want,
				err)
		}
	}
	check("under priority", early, 0)
	if err := setPolicyOf(t, dir, "mps"); err != nil {
		t.Fatal(err)
	}
	check("under mps", early, 25)
	if keep := a.Snapshot().Devices[0].Jobs[0].Keep(); len(keep) != 1 ||
		keep[0].PID != early.self.pid {
		t.Errorf("a process from before MPS is not named: %+v", keep)
	}
	_, g = controller(t, dir, share.Job{Name: "late", Share: share.Share{Memory: 1 << 30,
		Compute: 0.301}})
	env = Environment([]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100",
		"CUDA_MPS_PIPE_DIRECTORY=/elsewhere"}, "s", g, "lib.so")
	for _, want := range []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=31",
		"CUDA_MPS_PIPE_DIRECTORY=/run/mps"} {
		name, _, _ := strings.Cut(want, "=")
		if n := len(slices.DeleteFunc(slices.Clone(env), func(v string) bool {
			return !strings.HasPrefix(v, name)
		})); n != 1 || !slices.Contains(env, want) {
			t.Errorf("%s is not in the environment alone: %q", want, env)
		}
	}
	if g.Name != "late" {
		t.Errorf("the job is called %q", g.Name)
	}
	late := begin(t, s, dir, g.Token)
	check("a job made under mps", late, 31)
	late.s.MemUsedBytes.Store(1 << 20)
	late.s.ThreadPercent.Store(31)
	if keep := a.Snapshot().Devices[0].Jobs[1].Keep(); len(keep) != 0 {
		t.Errorf("a process that began as its job is named: %+v", keep)
	}
	if _, err := setOf(t, dir, ShareChange{Job: "late", Limit: ptr(0.6)}); err != nil {
		t.Fatal(err)
	}
	check("with a limit", late, 60)
	if keep := a.Snapshot().Devices[0].Jobs[1].Keep(); len(keep) != 1 ||
		keep[0].ThreadPercent != 31 {
		t.Errorf("a process that keeps what it began with is not named: %+v", keep)
	}
	if _, err := setOf(t, dir, ShareChange{Job: "late",
		Memory: ptr(share.Bytes(9 << 40))}); err == nil {
		t.Error("a cap beyond the device is taken")
	}
	check("after a refusal", late, 60)
	d.Store(&MPS{"/run/mps", 40})
	if err := setPolicyOf(t, dir, "mps"); err != nil {
		t.Fatal(err)
	}
	check("within the daemon's limit", late, 40)
	if err := setPolicyOf(t, dir, "fair"); err != nil {
		t.Fatal(err)
	}
	check("under fair", late, 0)
}

// TestFindMPS asks programs in place of nvidia-cuda-mps-control.
func TestFindMPS(t *testing.T) {
	dir := t.TempDir()
	program := func(text string) string {
		path := filepath.Join(t.TempDir(), "control")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const speaks = `read -r all
case "$all" in
get_server_list) printf '%s' "$SERVERS" ;;
get_default_active_thread_percentage) echo 100.0 ;;
"get_active_thread_percentage 42") echo 37.5 ;;
*) echo "$CUDA_MPS_PIPE_DIRECTORY: $all" ;;
esac
`
	for _, c := range []struct {
		name, program, pipe string
		percent             float64
		says                string
	}{
		{"no server", program("SERVERS=\n" + speaks), dir, 100, ""},
		{"a server", program("SERVERS=42\n" + speaks), dir, 37.5, ""},
		{"two servers", program("SERVERS='42\n43'\n" + speaks), dir, 100, ""},
		{"nonsense", program("echo -5"), dir, 0, `"-5"`},
		{"no daemon", program("echo no such process >&2; exit 1"), dir, 0, "no such process"},
		{"no program", "no-such-program", dir, 0, "no-such-program"},
		{"no folder", program("echo 100"), filepath.Join(dir, "none"), 0, "none"},
	} {
		m, err := FindMPS(t.Context(), c.program, c.pipe)
		if c.says == "" && (err != nil || m != MPS{dir, c.percent}) {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
		if c.says != "" && (!errors.Is(err, ErrNoMPS) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.says)
		}
	}
}
