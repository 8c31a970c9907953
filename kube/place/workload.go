package place

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weirgpu/weir/internal/sorting"
)

// Typical is a shape of the workload and how often it comes.
type Typical struct {
	Request
	Weight int64 // of each 100 arrivals or of all: only what it is of the sum counts
}

// Workload is what usually arrives: fragmentation is measured against it, and so is only as good as
// it foretells the arrivals. Of a request CPU, Count, Units, DeviceMemory and Models count here;
// the host's memory and topology do not.
type Workload []Typical

// maxWeight bounds the weights of a workload together, so that sums of weights and units of a
// node stay exact in 64 bits.
const maxWeight = 1 << 40

// popular is how many of a hundred arrivals the typical ones stand for.
const popular = 95

// Observe makes a workload of requests as the authors of FGD do (GetTypicalPods in the simulator
// they published): the most frequent shapes that together are 95 % of the requests; of shapes
// equally frequent, the one with more CPU, units, devices and the later name of models first.
func Observe(requests []Request) Workload {
	count := map[Request]int64{}
	for _, r := range requests {
		r.Memory, r.Topology = 0, Anywhere
		count[r]++
	}
	w := make(Workload, 0, len(count))
	for r, n := range count {
		w = append(w, Typical{r, n})
	}
	sorting.By(w, func(a, b Typical) int {
		for _, d := range []int64{a.Weight - b.Weight, a.CPU - b.CPU, int64(a.Units - b.Units),
			int64(a.Count - b.Count), int64(strings.Compare(a.Models, b.Models)),
			a.DeviceMemory - b.DeviceMemory} {
			if d != 0 {
				return -cmp.Compare(d, 0)
			}
		}
		return 0
	})
	var sum int64
	for i := range w {
		if sum += w[i].Weight; sum*100 >= popular*int64(len(requests)) {
			return w[:i+1]
		}
	}
	return w
}

// check reports what of a workload cannot be.
func (w Workload) check() error {
	var sum int64
	for i := range w {
		if err := w[i].Check(); err != nil {
			return fmt.Errorf("the workload's shape %d: %w", i, err)
		}
		if w[i].Weight <= 0 || w[i].Weight > maxWeight {
			return fmt.Errorf("the workload's shape %d has the weight %d: 1 to %d can be given",
				i, w[i].Weight, int64(maxWeight))
		}
		sum += w[i].Weight
	}
	if sum > maxWeight {
		return fmt.Errorf("the workload's weights sum up to %d, more than %d", sum,
			int64(maxWeight))
	}
	return nil
}
