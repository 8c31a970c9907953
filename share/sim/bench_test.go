package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// BenchmarkRun simulates jobs that always have work, with steps much shorter than slices, and tells
// how many events of the core pass a second.
func BenchmarkRun(b *testing.B) {
	for _, policy := range []string{"fair", "priority", "fifo", "mps"} {
		for _, n := range []int{2, 8, 64} {
			b.Run(fmt.Sprint(policy, "/", n), func(b *testing.B) {
				sc := sim.Scenario{Duration: 20 * time.Second / time.Duration(n), Seed: 1}
				sc.Device.Can = share.Can{Partition: true, Overlap: true}
				for i := range n {
					j := job(fmt.Sprint(i), ms, ms/10, sim.Arrival{Closed: 1})
					j.Share = share.Share{Compute: 1 / float64(n)}
					j.Iteration.Jitter = 0.5
					sc.Jobs = append(sc.Jobs, j)
				}
				events := 0
				for b.Loop() {
					events += run(b, policy, sc).Events
				}
				b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
