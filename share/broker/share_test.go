package broker_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// look is how often a tenant that rests looks whether others are to have its units, as the agent
// does.
const look = 5 * ms

// tenant is a job and what it does, as data.
type tenant struct {
	name  string
	share share.Share
	step  time.Duration // time of a step
	steps int           // steps of an iteration
	every time.Duration // time between requests; 0: the next at once
	from  time.Duration // when it comes
	rests bool          // between requests, with its units
	slow  time.Duration // to give back what it rests on
	want  float64       // of the device, in the end
}

// run does the tenant's work until the context is done, as an engine would.
func (x *tenant) run(ctx context.Context, j *broker.Job) error {
	if x.every > 0 {
		return x.serve(ctx, j)
	}
	lease, err := j.Acquire(ctx)
	for err == nil {
		if err = x.iterate(ctx, j, lease); err == nil {
			err = lease.Renew(ctx)
		}
	}
	return err
}

// serve answers requests that come at regular times.
func (x *tenant) serve(ctx context.Context, j *broker.Job) error {
	var lease *broker.Lease
	for next := time.Now(); ; next = next.Add(x.every) {
		if err := x.pause(ctx, lease, next); err != nil {
			return err
		}
		j.Arrive()
		if lease == nil || !x.rests || !lease.Resume() {
			var err error
			if lease != nil {
				lease.Release()
			}
			if lease, err = j.Acquire(ctx); err != nil {
				return err
			}
		}
		if err := x.iterate(ctx, j, lease); err != nil {
			return err
		}
		j.Complete()
		if !x.rests || lease.Revoked() || lease.Rest() != nil {
			lease.Release()
		}
	}
}

// pause waits for the time of the next request, and gives back what the tenant rests on meanwhile
// if others are to have it.
func (x *tenant) pause(ctx context.Context, lease *broker.Lease, next time.Time) error {
	rests := x.rests && lease != nil
	for {
		if rests && lease.Until() == 0 {
			time.Sleep(x.slow)
			lease.Release()
			rests = false
		}
		left := time.Until(next)
		if rests {
			left = min(left, look)
		}
		select {
		case <-ctx.Done():
			if rests {
				lease.Release()
			}
			return ctx.Err()
		case <-time.After(left):
		}
		if !time.Now().Before(next) {
			return nil
		}
	}
}

func (x *tenant) iterate(ctx context.Context, j *broker.Job, lease *broker.Lease) error {
	j.BeginIteration()
	for range x.steps {
		if lease.Revoked() {
			if err := lease.Renew(ctx); err != nil {
				return err
			}
		}
		time.Sleep(x.step)
	}
	j.EndIteration()
	return nil
}

// together runs the tenants for a time and returns their jobs.
func together(t *testing.T, b *broker.Broker, d time.Duration, tenants []tenant) []*broker.Job {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	jobs := make([]*broker.Job, len(tenants))
	var wg sync.WaitGroup
	for i := range tenants {
		x := &tenants[i]
		jobs[i] = admit(t, b, x.name, x.share)
		wg.Go(func() {
			time.Sleep(x.from)
			err := x.run(ctx, jobs[i])
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("job %s: %v", x.name, err)
			}
		})
	}
	wg.Wait()
	return jobs
}

func TestShares(t *testing.T) {
	const run = 6 * time.Second
	gaps := share.Share{Class: share.Opportunistic}
	for _, tc := range []struct {
		name    string
		policy  string
		tenants []tenant
	}{
		{"half and half", "fair", []tenant{
			{name: "a", share: share.Share{Compute: 0.5}, step: ms, steps: 10, want: 0.5},
			{name: "b", share: share.Share{Compute: 0.5}, step: ms, steps: 10, want: 0.5},
		}},
		{"unequal shares and steps", "fair", []tenant{
			{name: "a", share: share.Share{Compute: 0.3}, step: 5 * ms, steps: 7, want: 0.3},
			{name: "b", share: share.Share{Compute: 0.7}, step: ms / 10, steps: 30, want: 0.7},
		}},
		{"limit on an idle device", "fair", []tenant{
			{name: "a", share: share.Share{Limit: 0.25}, step: ms, steps: 10, want: 0.25},
		}},
		{"idle capacity is lent", "fair", []tenant{
			{name: "a", share: share.Share{Compute: 0.8}, step: ms, steps: 5, every: 50 * ms,
				want: 0.1},
			{name: "b", share: share.Share{Compute: 0.2}, step: ms, steps: 10, want: 0.9},
		}},
		{"a late arrival gets no arrears", "fair", []tenant{
			{name: "a", share: share.Share{Compute: 0.5}, step: ms, steps: 10, want: 0.75},
			{name: "b", share: share.Share{Compute: 0.5}, step: ms, steps: 10,
				from: 3 * time.Second, want: 0.25},
		}},
		{"opportunistic in the gaps", "priority", []tenant{
			{name: "a", share: share.Share{Class: share.Latency}, step: ms, steps: 10,
				every: 40 * ms, want: 0.25},
			{name: "b", share: gaps, step: ms, steps: 10, want: 0.75},
		}},
		{"classes and a guarantee", "priority", []tenant{
			{name: "a", share: share.Share{Class: share.Latency, Compute: 0.5}, step: ms, steps: 10,
				want: 0.7},
			{name: "b", share: share.Share{Compute: 0.3}, step: ms, steps: 10, want: 0.3},
			{name: "c", share: gaps, step: ms, steps: 10, want: 0},
		}},
		{"iterations in turn", "fifo", []tenant{
			{name: "a", step: ms, steps: 30, want: 0.75},
			{name: "b", step: ms, steps: 10, want: 0.25},
		}},
		{"equal slices", "timeslice", []tenant{
			{name: "a", share: share.Share{Compute: 0.9}, step: ms, steps: 30, want: 0.5},
			{name: "b", step: ms, steps: 10, want: 0.5},
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, m := newBroker(t, named(t, tc.policy))
			jobs := together(t, b, run, tc.tenants)
			for i, x := range tc.tenants {
				account := jobs[i].Account()
				got := float64(account.Used) / float64(run)
				if math.Abs(got-x.want) > 0.01 {
					t.Errorf("%s: %s got %.3f of the device, want %.3f", tc.name, x.name, got,
						x.want)
				}
				if e := account.ErrorP95; tc.policy == "fair" && e > 3 {
					t.Errorf("%s: %s: share error p95 %.2f points", tc.name, x.name, e)
				}
				m.Check(jobs[i].ID(), account.Used)
			}
			if n, err := b.Faults(); n > 0 {
				t.Errorf("%s: %v", tc.name, err)
			}
		})
	}
}

// TestRevokeAtOnce: a latency request is served after one step of the opportunistic job, not after
// its slice.
func TestRevokeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m := newBroker(t, named(t, "priority"))
		m.keep = true
		together(t, b, time.Second, []tenant{
			{name: "now", share: share.Share{Class: share.Latency}, step: ms, steps: 3,
				every: 97 * ms},
			{name: "gaps", share: share.Share{Class: share.Opportunistic}, step: 2 * ms,
				steps: 1000},
		})
		var asked time.Duration
		served := 0
		for _, e := range m.log {
			switch {
			case e.Name == "now" && e.Kind == core.Busy:
				asked = e.At
			case e.Name == "now" && e.Kind == core.Granted && asked != 0:
				if e.At-asked > 2*ms {
					t.Errorf("request of %v granted after %v, over a step", asked, e.At-asked)
				}
				asked = 0
				served++
			case e.Name == "gaps" && e.Kind == core.Released && e.At < time.Second &&
				e.Reason == core.ReasonExpired:
				if e.At-e.From < 5*ms {
					t.Errorf("slice of %v expired", e.At-e.From)
				}
			}
		}
		if served < 10 {
			t.Errorf("%d requests served, want 10 or more", served)
		}
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBroker(t, named(t, "fair"))
		j, err := b.Admit(share.Job{Name: "a", Iterations: 5,
			Share: share.Share{Compute: 0.25, Memory: share.MiB}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		j.Complete()
		j.EndIteration()
		j.Arrive()
		time.Sleep(ms)
		j.Arrive()
		lease, err := j.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		j.BeginIteration()
		time.Sleep(4 * ms)
		s := b.Status()
		got := s.Jobs[0]
		if s.Now != 5*ms || got.Used != 4*ms || got.Phase != share.Running || got.Requests != 2 ||
			got.Ready != 0 || !got.InIteration {
			t.Errorf("in the iteration: at %v: %+v", s.Now, got)
		}
		j.EndIteration()
		j.Complete()
		lease.Release()
		s = b.Status()
		got = s.Jobs[0]
		if got.Iterations != 1 || got.Remaining != 4 || got.IterationTime != 4*ms ||
			got.Ready != ms || !got.HasWork || got.Grants != 1 {
			t.Errorf("after the iteration: %+v", got)
		}
		if s.Promised != share.MiB || s.Guarantee != 0.25 || s.Device != "cpu:0" ||
			s.Policy != "fair" {
			t.Errorf("device: %+v", s)
		}
		for range 20 {
			j.Arrive()
		}
		for range 21 {
			j.Complete()
		}
		if got := j.Status(); got.Requests != 0 || got.HasWork || got.Ready != 5*ms {
			t.Errorf("after all requests: %+v", got)
		}
	})
}
