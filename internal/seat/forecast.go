package seat

import (
	"math"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/plan"
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

// Forecast is what the iterations of a plan are expected to take of the whole machine with nobody
// beside, by the costs of its steps.
func Forecast(m *machine.Machine, p *plan.Plan) share.Forecast {
	cores := m.Pool.Threads()
	t, memory := p.Estimate(float64(cores)*CoreFlops, float64(cores)*CoreBytes)
	f := share.Forecast{Time: t, Bandwidth: min(1, memory), Ephemeral: share.Bytes(p.ArenaBytes)}
	if m.Host == nil { // the units of others are no cores
		f.Units = int(math.Round(p.Width(cores, CoreFlops, CoreBytes, handOut)))
		return f
	}
	f.Copied = share.Bytes(p.Copies())
	return f
}
