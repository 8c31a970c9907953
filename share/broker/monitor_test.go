package broker_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/core/coretest"
)

// monitor checks that what a broker tells makes sense, and keeps it if asked to.
type monitor struct {
	*coretest.Auditor
	log  []core.Notice
	keep bool
}

func (m *monitor) Observe(e core.Notice) {
	if m.keep {
		m.log = append(m.log, e)
	}
	m.Auditor.Observe(e)
}

// used is the device time that holds of a job used between two times.
func used(holds []coretest.Hold, from, to time.Duration) float64 {
	sum := 0.0
	for _, h := range holds {
		sum += float64(max(0, min(h.To, to)-max(h.From, from))) * float64(h.Units.Len()) / units
	}
	return sum
}

// peak is the most device time that holds of a job used in any window of this length.
func peak(holds []coretest.Hold, window time.Duration) time.Duration {
	most := 0.0
	for i := range holds {
		first := i
		for first > 0 && holds[first-1].To > holds[i].To-window {
			first--
		}
		most = max(most, used(holds[first:i+1], holds[i].To-window, holds[i].To))
	}
	return time.Duration(most)
}

// inUse is the time between two times in which any job held units.
func (m *monitor) inUse(jobs []share.JobID, from, to time.Duration) time.Duration {
	var all []coretest.Hold
	for _, id := range jobs {
		all = append(all, m.Job(id).Holds...)
	}
	slices.SortFunc(all, func(a, b coretest.Hold) int { return cmp.Compare(a.From, b.From) })
	sum, at := time.Duration(0), from
	for _, h := range all {
		sum += max(0, min(h.To, to)-max(h.From, at))
		at = max(at, h.To)
	}
	return sum
}
