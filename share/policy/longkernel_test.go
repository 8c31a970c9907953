package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// TestGuaranteeBesideLongKernels: a job with a guarantee gets it, within two points over ten
// kernels of its neighbour, however long these are and whatever the neighbour's class.
func TestGuaranteeBesideLongKernels(t *testing.T) {
	for _, kernel := range []time.Duration{10 * ms, 100 * ms, 500 * ms, 2 * time.Second,
		10 * time.Second, time.Minute} {
		for _, row := range policy.All() {
			if !row.Honours.Guarantee {
				continue
			}
			for _, other := range []share.Share{
				{}, {Compute: 0.5}, {Class: share.Latency}, {Class: share.Latency, Compute: 0.5},
				{Class: share.Opportunistic, Compute: 0.5},
			} {
				besideLongKernel(t, row.Name, share.Share{Compute: 0.5}, other, kernel)
				besideLongKernel(t, row.Name, share.Share{Compute: 0.5, Class: share.Latency},
					other, kernel)
			}
		}
	}
}

func besideLongKernel(t *testing.T, policy string, own, other share.Share,
	kernel time.Duration) {
	t.Helper()
	long := job("long", other, kernel, always)
	long.Iteration.Mean = kernel
	res := run(t, policy, sim.Scenario{Duration: max(20*kernel, 4*time.Second), Jobs: []sim.Job{
		job("own", own, max(ms, kernel/200), always), long,
	}})
	what := fmt.Sprintf("%s, %v beside kernels of %v of %v", policy, own, kernel, other)
	if got := res.Jobs[0].Share; got < 0.48 {
		t.Errorf("%s: got %.3f of its 0.5", what, got)
	}
}
