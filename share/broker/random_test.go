package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/core/coretest"
	"github.com/weirgpu/weir/share/policy"
)

// randomTenants draws up to five jobs whose promises can be kept together.
func randomTenants(r *rand.Rand) []tenant {
	list := make([]tenant, 1+r.IntN(5))
	left := 1.0
	for i := range list {
		x := &list[i]
		x.name = fmt.Sprint("job-", i)
		x.step = time.Duration(1+r.IntN(5000)) * time.Microsecond
		x.steps = 1 + r.IntN(20)
		x.from = time.Duration(r.IntN(2)) * time.Duration(r.IntN(int(200*ms)))
		x.share.Class = share.Class(r.IntN(3))
		if r.IntN(2) == 0 {
			x.share.Compute = left * r.Float64()
			left -= x.share.Compute
		}
		if r.IntN(3) == 0 {
			x.share.Limit = min(1, x.share.Compute+0.05+r.Float64())
		}
		if r.IntN(2) == 0 {
			x.every = time.Duration(1+r.IntN(100)) * ms
			x.rests = r.IntN(2) == 0
			x.slow = time.Duration(r.IntN(int(10 * ms)))
		}
	}
	return list
}

// TestRandomJobs runs random jobs under every policy and checks what must hold for any: units,
// charges, limits, waits, a device in use while somebody who may run waits, and the same decisions
// by a new core that is told of the same events.
func TestRandomJobs(t *testing.T) {
	n := uint64(1000)
	switch {
	case os.Getenv("WEIR_LONG") != "":
		n = 100_000
	case testing.Short(): // one of every policy, for the race detector
		n = uint64(len(policy.All()))
	}
	rows := policy.All()
	for seed := range n {
		tenants := randomTenants(rand.New(rand.NewPCG(seed, 2)))
		row := rows[seed%uint64(len(rows))]
		synctest.Test(t, func(t *testing.T) { checkJobs(t, &row, tenants) })
		if t.Failed() {
			t.Fatalf("seed %d, policy %s: %+v", seed, row.Name, tenants)
		}
	}
}

func checkJobs(t *testing.T, row *policy.Row, tenants []tenant) {
	const run = 1200 * ms
	var record bytes.Buffer
	c := core.Config{Can: row.Needs, Needs: row.Needs, Policy: named(t, row.Name)}
	tenants = admissible(t, row, tenants)
	b, m := newBrokerOf(t, c, &record)
	jobs := together(t, b, run, tenants)
	if n, err := b.Faults(); n > 0 {
		t.Errorf("%d faults: %v", n, err)
	}
	ids := make([]share.JobID, len(jobs))
	sum := 0.0
	for i, j := range jobs {
		ids[i] = j.ID()
		account := j.Account()
		m.Check(ids[i], account.Used)
		sum += float64(account.Used)
		checkLimit(t, row, &tenants[i], m.Job(ids[i]).Holds)
		checkWait(t, row, tenants, i, m.Job(ids[i]).Holds, run)
	}
	if math.Abs(sum-m.InUse()) > float64(2*len(jobs)) {
		t.Errorf("accounts of %.0f ns together, units in use for %.0f", sum, m.InUse())
	}
	if row.Honours.Conserving {
		checkInUse(t, tenants, m, ids, run)
	}
	b.Close()
	c.Device, c.Units, c.Memory = "cpu:0", units, share.GiB
	if err := coretest.Replay(c, row.Name, &record); err != nil {
		t.Error(err)
	}
}

// admissible returns those of the tenants that the policy's own rule lets in, if it has one.
func admissible(t *testing.T, row *policy.Row, tenants []tenant) []tenant {
	p := named(t, row.Name)
	if _, ok := p.(share.Admitter); !ok {
		return tenants
	}
	b, _ := newBrokerOf(t, core.Config{Can: row.Needs, Needs: row.Needs, Policy: p}, nil)
	return slices.DeleteFunc(tenants, func(x tenant) bool {
		_, err := b.Admit(share.Job{Name: x.name, Share: x.share}, 0)
		return err != nil
	})
}

// checkLimit: over any window of a second, a job's use is at most its limit, the burst and the step
// in which its slice ended, or as long as it took to give back what it rested on.
func checkLimit(t *testing.T, row *policy.Row, x *tenant, holds []coretest.Hold) {
	most := time.Duration(x.share.Cap()*float64(time.Second)) + row.Honours.Burst + x.step
	if x.rests {
		most += look + x.slow
	}
	if got := peak(holds, time.Second); row.Honours.Limit && x.share.Cap() < 1 && got > most {
		t.Errorf("%s used %v of a second, limit %.3f", x.name, got, x.share.Limit)
	}
}

// checkWait: a tenant that always has work waits no longer than the policy says.
func checkWait(t *testing.T, row *policy.Row, tenants []tenant, i int, holds []coretest.Hold,
	run time.Duration) {
	shares, steps := make([]share.Share, len(tenants)), make([]time.Duration, len(tenants))
	for k := range tenants {
		x := &tenants[k]
		shares[k], steps[k] = x.share, x.step
		if x.rests {
			steps[k] += look + x.slow
		}
	}
	most, ok := row.Honours.Wait.Bound(shares, steps, i)
	if tenants[i].every > 0 || !ok {
		return
	}
	longest, from := time.Duration(0), tenants[i].from
	for _, h := range holds {
		longest, from = max(longest, h.From-from), h.To
	}
	if longest = max(longest, run-from); longest > most {
		t.Errorf("%s waited for %v, at most %v are stated", tenants[i].name, longest, most)
	}
}

// checkInUse: from the time when a job without limit that always has work has come, the device is
// never idle.
func checkInUse(t *testing.T, tenants []tenant, m *monitor, ids []share.JobID, run time.Duration) {
	from := run
	for i := range tenants {
		if x := &tenants[i]; x.every == 0 && x.share.Cap() >= 1 {
			from = min(from, x.from)
		}
	}
	if used := m.inUse(ids, from, run); used < run-from {
		t.Errorf("device used for %v of the %v in which somebody always wanted it", used, run-from)
	}
}

// TestStress lets goroutines do everything at once, in real time, for the race detector and the
// monitor to watch.
func TestStress(t *testing.T) {
	for _, row := range policy.All() {
		b, m := newBrokerOf(t, core.Config{Can: row.Needs, Needs: row.Needs,
			Policy: named(t, row.Name)}, nil)
		_, refuses := named(t, row.Name).(share.Admitter)
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() { stress(t, b, n, refuses) })
		}
		wg.Go(func() {
			for range 200 {
				b.Status()
			}
		})
		wg.Wait()
		if held := m.Held(); !held.Empty() {
			t.Errorf("%s: units %v held in the end", row.Name, held)
		}
		if s := b.Status(); len(s.Jobs) != 0 || s.Reserved != 0 {
			t.Errorf("%s: %d jobs with %v left", row.Name, len(s.Jobs), s.Reserved)
		}
	}
}

// stress lets jobs live one after another. The policy may refuse some if it has its own rule.
func stress(t *testing.T, b *broker.Broker, n int, refuses bool) {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	for life := range 6 {
		j, err := b.Admit(share.Job{
			Name:  fmt.Sprintf("job-%d-%d", n, life),
			Share: share.Share{Memory: share.MiB, Compute: 0.1, Class: share.Class(r.IntN(3))},
		}, 0)
		if err != nil {
			if !refuses {
				t.Error(err)
			}
			return
		}
		watch := make(chan struct{})
		for range 40 {
			if err := oneTurn(j, r, watch); err != nil {
				t.Error(err)
			}
		}
		close(watch)
		j.End(nil)
	}
}

// oneTurn waits, perhaps for too long, renews, perhaps from a lease that was taken away, and gives
// back.
func oneTurn(j *broker.Job, r *rand.Rand, watch <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(4) == 0 {
		go cancel()
	}
	j.Arrive()
	defer j.Complete()
	lease, err := j.Acquire(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case <-watch:
	default:
		go lease.Revoked()
	}
	if err := j.Reserve(core.Ephemeral, share.KiB); err != nil {
		return err
	}
	defer func() { _ = j.Free(core.Ephemeral, share.KiB) }()
	j.BeginIteration()
	for range r.IntN(10) {
		if err := lease.Renew(ctx); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
	j.EndIteration()
	lease.Release()
	return nil
}
