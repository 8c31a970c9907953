package live

import "github.com/weirgpu/weir/kube/place"

// window is the requests that were seen last.
type window struct {
	last  []place.Request
	next  int // where the next one goes
	fresh int // how many came since they were made a workload
}

const (
	// mostSeen is how many requests the workload is made of.
	mostSeen = 8192
	// leastFresh is how many must have come before it is made anew: that costs as much as some
	// thousand choices.
	leastFresh = 256
)

// Saw tells what was asked for, whether it was placed or not, for the workload that policies
// expect. It is told once of each pod.
func (c *Cluster) Saw(r place.Request) {
	if c.options.Workload != nil {
		return
	}
	w := &c.seen
	if len(w.last) < mostSeen {
		w.last = append(w.last, r)
	} else {
		w.last[w.next] = r
		w.next = (w.next + 1) % mostSeen
	}
	if w.fresh++; w.fresh >= max(leastFresh, len(w.last)/4) {
		w.fresh = 0
		c.place = nil
	}
}

// workload is what they come to.
func (w *window) workload() place.Workload { return place.Observe(w.last) }
