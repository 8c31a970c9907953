package engine

import (
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/plan"
)

// What the cost model of groups assumes, by order of magnitude; wrong by half, the groups are a
// little too large or too small. A core computes and moves as package seat assumes for its
// forecasts. The other rates are what bench/switch measures (its group rates), rounded: how fast a
// device that the host cannot address evaluates plainly, and below. What a transfer takes besides
// its bytes is not measured.
const (
	coreFlops, coreBytes       = 40e9, 8e9
	distantFlops, distantBytes = 6e9, 3e9
)

var (
	// mapped is how fast pages of a file in the system's cache are mapped, and repacked how fast
	// one core packs weights.
	mapped   = device.Bus{BytesPerS: 30e9, PerTransfer: 5 * time.Microsecond}
	repacked = device.Bus{BytesPerS: 2e9, PerTransfer: 20 * time.Microsecond}
)

// groups returns the offsets in the packed weights at which a transfer ends when they are brought
// (plan.Pipeline).
func (s *Session) groups() []int64 {
	ends := s.plan.Borders()
	layers := s.plan.Layers(distantFlops, distantBytes)
	if !s.plan.Remote() {
		cores := float64(s.plan.Threads)
		layers = s.plan.Layers(cores*coreFlops, cores*coreBytes)
	}
	cut, _ := plan.Pipeline(s.bus(), layers)
	groups := make([]int64, len(cut))
	for i, n := range cut {
		groups[i] = ends[n-1]
	}
	return groups
}

// bus is how fast the weights come.
func (s *Session) bus() device.Bus {
	if d, ok := s.opts.Device.(device.Bused); ok {
		if b, ok := d.Bus(); ok {
			return b
		}
	}
	if s.opts.Weights == nil {
		return repacked
	}
	return mapped
}
