package scenario

import (
	"math"
	"time"

	"github.com/weirgpu/weir/share"
)

// What a core computes (operations) and moves (bytes) in a second, by order of magnitude: a current
// server core reaches some tens of GFLOP/s in single precision and its part of the memory's
// bandwidth. A factor common to all of a job's iterations does no harm, since the broker corrects
// forecasts by measured times.
const (
	CoreFlops = 40e9
	CoreBytes = 8e9
	// handOut is what it costs to let other cores help with a step, by order of magnitude:
	// BenchmarkRegion of device/cpu.
	handOut = 10 * time.Microsecond
)

// forecast is what a job's iterations are expected to take of the whole device with nobody beside,
// by the costs of its plan's steps.
func (r *run) forecast(p *prepared) share.Forecast {
	cores := r.Pool.Threads()
	t, memory := p.plan.Estimate(float64(cores)*CoreFlops, float64(cores)*CoreBytes)
	f := share.Forecast{Time: t, Bandwidth: min(1, memory),
		Ephemeral: share.Bytes(p.plan.ArenaBytes), Target: p.spec.Target}
	if r.Host != nil {
		for _, slots := range [][]int{p.plan.Inputs, p.plan.Outputs} {
			for _, i := range slots {
				f.Copied += share.Bytes(p.plan.Slots[i].Bytes)
			}
		}
	} else { // the units of others are no cores
		f.Units = int(math.Round(p.plan.Width(cores, CoreFlops, CoreBytes, handOut)))
	}
	return f
}
