package main

import (
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weirgpu/weir/kube/place"
	"github.com/weirgpu/weir/kube/sim"
)

// rate is how many requests a policy places a second.
type rate struct {
	Policy  string  `json:"policy"`
	Nodes   int     `json:"nodes"`
	Filling float64 `json:"filling_per_s"`
	Full    float64 `json:"full_per_s"`
}

const (
	nodes     = 10000
	perSecond = 50000 // placements a second that are wanted
	timed     = 50000 // placements on a full cluster
)

func (r *results) rates(dir string) error {
	t, err := sim.Open(filepath.Join(dir, "csv", "openb_pod_list_default.csv"), "")
	if err != nil {
		return err
	}
	for _, p := range place.Policies() {
		w, err := measureRate(t, p)
		if err != nil {
			return err
		}
		r.Rates = append(r.Rates, w)
		if least := min(w.Filling, w.Full); p.Name == "prices" && least < perSecond {
			r.Missed = append(r.Missed, fmt.Sprintf("prices places %.0f requests a second, "+
				"wanted are %d", least, perSecond))
		}
	}
	return nil
}

// measureRate fills a cluster with random pods of a trace, and then replaces random ones.
func measureRate(t *sim.Trace, p place.Policy) (rate, error) {
	rng := rand.New(rand.NewSource(1))
	var some []place.Request
	for i := range t.Pods {
		some = append(some, t.Pods[i].Request)
	}
	c, err := place.NewCluster(many(t.Nodes), place.Options{Policy: p, Rand: rng,
		Workload: place.Observe(some)})
	if err != nil {
		return rate{}, err
	}
	var live []place.ID
	start, refused := spent(), 0
	for refused < 10 {
		if refused, err = put(c, some[rng.Intn(len(some))], &live, refused); err != nil {
			return rate{}, err
		}
	}
	filled := len(live)
	w := rate{Policy: p.Name, Nodes: nodes, Filling: float64(filled) / (spent() - start)}
	start = spent()
	for placed := 0; placed < timed; {
		i := rng.Intn(len(live))
		if err := c.Release(live[i]); err != nil {
			return rate{}, err
		}
		live[i] = live[len(live)-1]
		live = live[:len(live)-1]
		before := len(live)
		if _, err := put(c, some[rng.Intn(len(some))], &live, 0); err != nil {
			return rate{}, err
		}
		placed += len(live) - before
	}
	w.Full = timed / (spent() - start)
	return w, nil
}

// spent returns the processor time in seconds that this process has taken: what others take
// meanwhile does not count, but for what they cost in caches.
func spent() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return float64(time.Now().UnixNano()) / 1e9
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// put places a request and counts those that were refused.
func put(c *place.Cluster, r place.Request, live *[]place.ID, refused int) (int, error) {
	p, err := c.Place(r)
	if errors.Is(err, place.ErrNoRoom) {
		return refused + 1, nil
	}
	if err == nil {
		*live = append(*live, p.ID)
	}
	return refused, err
}

// many repeats nodes until there are as many as are measured.
func many(some []place.Node) []place.Node {
	all := make([]place.Node, nodes)
	for i := range all {
		all[i] = some[i%len(some)]
		all[i].Name = fmt.Sprint(all[i].Name, "-", i)
	}
	return all
}
