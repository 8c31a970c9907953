package policy_test

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// TestOrionComplements: beside a service that is bound by compute, work that is bound by memory
// and fits on the units left over runs throughout; work bound by the same resource, or that needs
// the service's units, runs only in its pauses. The service's p99 stays within a sixth of alone, as
// in the paper, and all together do more than under priority.
func TestOrionComplements(t *testing.T) {
	for _, tc := range []struct {
		name      string
		service   sim.Job // Width and Bandwidth of it and of the other
		other     sim.Job
		alongside bool
	}{
		{"compute beside memory", sim.Job{Width: 7, Bandwidth: 0.2},
			sim.Job{Width: 3, Bandwidth: 0.7}, true},
		{"memory beside compute", sim.Job{Width: 3, Bandwidth: 0.7},
			sim.Job{Width: 7, Bandwidth: 0.2}, true},
		{"compute beside little of either", sim.Job{Width: 7, Bandwidth: 0.2},
			sim.Job{Width: 3, Bandwidth: 0.3}, true},
		{"bandwidth a tenth short", sim.Job{Width: 7, Bandwidth: 0.4},
			sim.Job{Width: 3, Bandwidth: 0.7}, true},
		{"memory beside memory", sim.Job{Width: 5, Bandwidth: 0.7},
			sim.Job{Width: 5, Bandwidth: 0.7}, false},
		{"complementary, but no units left", sim.Job{Width: 7, Bandwidth: 0.2},
			sim.Job{Width: 4, Bandwidth: 0.7}, false},
	} {
		service := job("service", share.Share{Class: share.Latency}, ms,
			sim.Arrival{Poisson: 50})
		service.Width, service.Bandwidth = tc.service.Width, tc.service.Bandwidth
		service.Foreknown = true
		sc := sim.Scenario{Duration: 30 * time.Second, Seed: 2, Device: sim.Device{Units: 10},
			Jobs: []sim.Job{service}}
		alone := run(t, "orion", sc).Jobs[0]
		other := job("other", share.Share{}, ms/2, always)
		other.Width, other.Bandwidth = tc.other.Width, tc.other.Bandwidth
		sc.Jobs = append(sc.Jobs, other)
		res, turns := run(t, "orion", sc), run(t, "priority", sc)
		p, q := alone.Latency(0.99), res.Jobs[0].Latency(0.99)
		if float64(q) > 1.16*float64(p) {
			t.Errorf("%s: p99 %v, alone %v", tc.name, q, p)
		}
		speed := float64(res.Jobs[1].Iterations) * float64(other.Iteration.Mean) /
			float64(sc.Duration)
		over := float64(res.Jobs[1].Iterations) / float64(turns.Jobs[1].Iterations)
		if tc.alongside && (speed < 0.95 || over < 1.5) {
			t.Errorf("%s: %.3f of its speed alone, %.2f times that under priority", tc.name, speed,
				over)
		}
		if !tc.alongside && (speed < 0.4 || speed > 0.55) {
			t.Errorf("%s: %.3f of its speed alone, want the half that is left over", tc.name, speed)
		}
	}
}
