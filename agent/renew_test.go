package agent

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/wire"
)

// slowPolicy takes its time for the next decision, and holds a job's lock meanwhile.
type slowPolicy struct {
	share.Policy
	slow *job
}

// Decide implements share.Policy.
func (p *slowPolicy) Decide(s *share.Snapshot) share.Decision {
	if j := p.slow; j != nil {
		p.slow = nil
		j.mu.Lock()
		time.Sleep(2 * grace)
		j.mu.Unlock()
	}
	return p.Policy.Decide(s)
}

// TestLateRenewalLeavesTheGateOpen renews a lease so late that the gate is about to be closed, with
// whoever does so held up until the lease is there: a gate closed now would stay so, as nobody
// waits to whom the device could be given.
func TestLateRenewalLeavesTheGateOpen(t *testing.T) {
	h := newHost(t, "fair")
	defer h.close()
	p := &slowPolicy{}
	var err error
	if p.Policy, err = policy.New("fifo"); err != nil {
		t.Fatal(err)
	}
	h.dev.broker.Close()
	if h.dev.broker, err = broker.New(broker.Config{Config: core.Config{
		Device: h.dev.ID(), Units: 1, Memory: h.dev.Memory, Policy: p},
		Observer: &h.dev.byID}); err != nil {
		t.Fatal(err)
	}
	page, err := wire.NewPage()
	if err != nil {
		t.Skip(err)
	}
	bj, err := h.dev.broker.Admit(share.Job{Name: "alone", Share: share.Share{Memory: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	j := h.a.newJob(h.dev, bj, wire.Terms{}, page)
	lease, err := bj.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j.open(lease)
	for range 20 {
		p.slow = j
		if !j.renewOpen(lease) {
			t.Fatal("not renewed")
		}
		// Whoever was to close the gate has done so when the lock has been free for so long.
		time.Sleep(grace)
		j.mu.Lock()
		open := wire.IsOpen(page.Header().Gate.Load())
		j.mu.Unlock()
		if !open {
			t.Fatal("the gate is closed and the lease held")
		}
	}
	lease.Release()
	_ = page.Close()
}
