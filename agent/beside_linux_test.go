package agent

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weirgpu/weir/share"
)

// neighbour is a device of the agent's process with one job that is no program.
type neighbour struct {
	mu      sync.Mutex // the agent's goroutines and the test's
	job     share.Job
	policy  string
	refuses error
}

// has returns its job and its policy.
func (n *neighbour) has() (share.Job, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.job, n.policy
}

func (n *neighbour) rename(job string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.job.Name = job
}

func (n *neighbour) refuse(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = err
}

func (n *neighbour) Devices() []DeviceSnapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	return []DeviceSnapshot{{Device: "cpu:0", Policy: n.policy,
		Jobs: []JobSnapshot{{Name: n.job.Name, Compute: n.job.Compute}}}}
}

func (n *neighbour) Set(to ShareChange) (share.Job, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if to.Job != n.job.Name && to.Job != "digits" {
		return share.Job{}, fmt.Errorf("%w: %s", ErrNoJob, to.Job)
	}
	if n.refuses == nil {
		to.Apply(&n.job.Share)
	}
	return n.job, n.refuses
}

func (n *neighbour) SetPolicy(spec string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuses == nil {
		n.policy = spec
	}
	return n.refuses
}

// TestBeside: clients see other jobs of the agent's process behind its programs, and change the
// shares of either and the policy of both: of all, or of none.
func TestBeside(t *testing.T) {
	s, dir := newPeople(), socketDir(t)
	n := &neighbour{job: share.Job{Name: "digits/1", Share: share.Share{Memory: share.GiB}}}
	c := testConfig(dir, s)
	c.Beside = n
	a := startAgent(t, c)
	controller(t, dir, modest)
	seen := func() (all Snapshot) {
		t.Helper()
		v, err := Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		keep := func(x Snapshot) error { all = x; return nil }
		if err := v.Watch(t.Context(), 0, keep); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if x := seen(); len(x.Devices) != 2 || x.Devices[0].Beside || !x.Devices[1].Beside ||
		len(x.Devices[1].Jobs) != 1 {
		t.Errorf("clients see %+v", x)
	}
	if x := a.Snapshot(); len(x.Devices) != 1 || x.Devices[0].Device != "cuda:0" {
		t.Errorf("the agent's own are %+v", x)
	}
	for _, c := range []struct {
		job  string
		on   *uint32
		want error
	}{
		{"digits", nil, nil}, {"digits/1", nil, nil}, {"modest", nil, nil},
		{"modest", ptr(uint32(0)), nil}, {"nobody", nil, ErrRefused}, {"digit", nil, ErrRefused},
		{"digits", ptr(uint32(0)), ErrRefused}, {"modest", ptr(uint32(1)), ErrRefused},
	} {
		got, err := setOf(t, dir, ShareChange{Job: c.job, Device: c.on, Compute: ptr(0.15)})
		if !errors.Is(err, c.want) || err == nil && got.Compute != 0.15 {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	if j, _ := n.has(); j.Compute != 0.15 || j.Memory != share.GiB {
		t.Errorf("the other job has %+v", j)
	}
	if _, err := a.Set(ShareChange{Job: "nobody", Limit: ptr(0.5)}); !errors.Is(err, ErrNoJob) {
		t.Errorf("a job that nobody has: %v", err)
	}
	if _, err := a.Set(ShareChange{Job: "digits", Limit: ptr(2.0)}); !errors.Is(err,
		share.ErrInvalid) {
		t.Errorf("a share that is none: %v", err)
	}
	n.rename("modest")
	_, err := setOf(t, dir, ShareChange{Job: "modest", Compute: ptr(0.1)})
	if j, _ := n.has(); !errors.Is(err, ErrRefused) || j.Compute != 0.15 {
		t.Errorf("a name that two have: %v, %+v", err, j)
	}
	if _, err := setOf(t, dir, ShareChange{Job: "modest", Device: ptr(uint32(0)),
		Compute: ptr(0.1)}); err != nil || a.Snapshot().Devices[0].Jobs[0].Compute != 0.1 {
		t.Errorf("on its device: %v", err)
	}
	besidePolicies(t, a, n, dir)
}

func besidePolicies(t *testing.T, a *Agent, n *neighbour, dir string) {
	t.Helper()
	is := func(models, programs string) {
		t.Helper()
		_, theirs := n.has()
		if got := a.Snapshot().Policy; theirs != models || got != programs {
			t.Errorf("models are under %q, programs under %q", theirs, got)
		}
	}
	if err := setPolicyOf(t, dir, "fair"); err != nil {
		t.Error(err)
	}
	is("fair", "fair")
	if err := setPolicyOf(t, dir, "mps"); !errors.Is(err, ErrRefused) {
		t.Errorf("a policy that programs cannot have: %v", err)
	}
	is("fair", "fair")
	no := errors.New("no")
	n.refuse(no)
	if err := a.SetPolicy("fifo"); !errors.Is(err, no) {
		t.Errorf("a policy that the others cannot have: %v", err)
	}
	is("fair", "fair")
	n.refuse(nil)
	if err := a.SetPolicy("fifo"); err != nil {
		t.Error(err)
	}
	is("fifo", "fifo")
}
