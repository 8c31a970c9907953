package broker_test

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// monitor checks that the events of a broker make sense: units granted never exceed those of the
// device, every hold ends once, and times do not go back.
type monitor struct {
	t     testing.TB
	units int
	held  int
	last  time.Duration
	jobs  map[share.JobID]*watched
	log   []core.Notice
	keep  bool
}

type watched struct {
	units int
	since time.Duration
	used  time.Duration // unit-time
	holds [][2]time.Duration
	ended bool
}

func (m *monitor) Observe(e core.Notice) {
	if m.keep {
		m.log = append(m.log, e)
	}
	if e.At < m.last || e.From > e.At {
		m.t.Errorf("%v of %s at %v from %v, after %v", e.Kind, e.Name, e.At, e.From, m.last)
	}
	m.last = e.At
	if e.Kind == core.Switched {
		return
	}
	w := m.jobs[e.Job]
	if e.Kind == core.Admitted {
		if w != nil {
			m.t.Errorf("job %d admitted twice", e.Job)
		}
		m.jobs[e.Job] = &watched{}
		return
	}
	if w == nil || w.ended {
		m.t.Errorf("%v of job %d, which is not here", e.Kind, e.Job)
		return
	}
	m.follow(w, e)
}

func (m *monitor) follow(w *watched, e core.Notice) {
	switch e.Kind {
	case core.Granted:
		if w.units != 0 {
			m.t.Errorf("%s granted %v over %d", e.Name, e.Units, w.units)
		}
		w.units, w.since = e.Units.Len(), e.At
		if m.held += w.units; w.units <= 0 || m.held > m.units {
			m.t.Errorf("%s granted %v: %d of %d held", e.Name, e.Units, m.held, m.units)
		}
	case core.Released:
		if w.units == 0 || w.units != e.Units.Len() || w.since != e.From {
			m.t.Errorf("%s released %v held from %v; it holds %d from %v", e.Name, e.Units,
				e.From, w.units, w.since)
		}
		m.held -= w.units
		w.used += (e.At - e.From) * time.Duration(w.units)
		w.holds = append(w.holds, [2]time.Duration{e.From, e.At})
		w.units = 0
	case core.Revoked:
		if w.units == 0 {
			m.t.Errorf("%s revoked while it holds nothing", e.Name)
		}
	case core.Ended:
		if w.units != 0 {
			m.t.Errorf("%s ended with %d units", e.Name, w.units)
		}
		w.ended = true
	}
}

// peak is the most device time that the job held in any window of this length.
func (w *watched) peak(window time.Duration) time.Duration {
	most := time.Duration(0)
	for i := range w.holds {
		end := w.holds[i][1]
		sum := time.Duration(0)
		for k := i; k >= 0 && w.holds[k][1] > end-window; k-- {
			sum += w.holds[k][1] - max(w.holds[k][0], end-window)
		}
		most = max(most, sum)
	}
	return most
}
