package scenario

import "github.com/weirgpu/weir/share"

// What a core computes (operations) and moves (bytes) in a second, by order of magnitude: a current
// server core reaches some tens of GFLOP/s in single precision and its part of the memory's
// bandwidth. A factor common to all of a job's iterations does no harm, since the broker corrects
// forecasts by measured times.
const (
	CoreFlops = 40e9
	CoreBytes = 8e9
)

// forecast is what a job's iterations are expected to take of the whole device with nobody beside,
// by the costs of its plan's steps.
func (r *run) forecast(p *prepared) share.Forecast {
	units := float64(r.Pool.Threads())
	t, memory := p.plan.Estimate(units*CoreFlops, units*CoreBytes)
	f := share.Forecast{Time: t, Bandwidth: min(1, memory),
		Ephemeral: share.Bytes(p.plan.ArenaBytes), Target: p.spec.Target}
	if r.Host != nil {
		for _, slots := range [][]int{p.plan.Inputs, p.plan.Outputs} {
			for _, i := range slots {
				f.Copied += share.Bytes(p.plan.Slots[i].Bytes)
			}
		}
	}
	return f
}
