package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// TestLanes: under every policy that does not divide the memory, jobs that share ephemeral memory
// are let in where there is not memory for them otherwise, and each that gets on without lanes gets
// on in them. The latency jobs leave a third of the device even where they run in turn.
func TestLanes(t *testing.T) {
	for _, row := range policy.All() {
		if row.Name == "mig" {
			continue // the memory of an instance is nobody else's
		}
		sc := sim.Scenario{Duration: 3 * time.Second, Device: sim.Device{Units: 8}}
		for i := range 6 {
			j := job(fmt.Sprint(i), share.Share{Memory: 350 * share.MiB}, ms, always)
			if j.Ephemeral = 300 * share.MiB; i%3 == 2 {
				j.Class, j.Limit = share.Latency, 0.3
				j.Arrival = sim.Arrival{Closed: 1, Think: 20 * ms}
			}
			sc.Jobs = append(sc.Jobs, j)
		}
		ample := run(t, row.Name, sc)
		sc.Device.Memory = share.GiB
		refused := 0
		for _, j := range run(t, row.Name, sc).Jobs {
			if j.Refused != nil {
				refused++
			}
		}
		for lanes := 1; lanes <= 2; lanes++ {
			sc.Device.Lanes = lanes
			res, a := watch(t, row.Name, sc, nil)
			checkAccounts(t, res, a)
			for i, j := range res.Jobs {
				was := &ample.Jobs[i]
				if j.Refused != nil && was.Refused == nil {
					t.Errorf("%s: %s: %v", row.Name, j.Name, j.Refused)
				} else if was.Iterations > 5 && j.Iterations == 0 {
					t.Errorf("%s, %d lanes: %s did nothing, without lanes %d iterations",
						row.Name, lanes, j.Name, was.Iterations)
				}
			}
		}
		if refused == 0 {
			t.Errorf("%s: all are let in without lanes", row.Name)
		}
	}
}
