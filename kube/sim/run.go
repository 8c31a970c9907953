package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/kube/place"
)

// Options are how a trace is simulated.
type Options struct {
	Policy place.Policy
	Seed   int64
	Arrive float64 // units that all arrivals together ask for, as a part of all; 0 for 1.3
	// Times has the pods of the trace come and go at their own times, each once, in place of random
	// arrivals that stay.
	Times bool
	// Progress is called now and then with how many of how many events are done; it may be nil.
	Progress func(done, all int)
}

// Arrive is what the authors of FGD have arrive: 1.3 times what the devices have.
const Arrive = 1.3

// mostArrive bounds Options.Arrive, and with it the arrivals.
const mostArrive = 100

// Point is the state of a cluster at some time, all as parts of its units.
type Point struct {
	Arrived    float64 `json:"arrived"`    // of the pods until then, placed or not
	Allocation float64 `json:"allocation"` // taken
	Fragmented float64 `json:"fragmentation"`
}

// Result is how a policy did on a trace with one seed.
type Result struct {
	Seed       int64   `json:"seed"`
	Allocation float64 `json:"allocation"` // at the end; with Times on average over time
	// AtCapacity is the allocation when the pods until then asked for all units at most.
	AtCapacity    float64 `json:"allocation_at_capacity,omitempty"`
	Fragmentation float64 `json:"fragmentation"` // at the end; with Times on average over time
	Placed        int     `json:"placed"`
	Rejected      int     `json:"rejected"`
	Curve         []Point `json:"-"` // in steps of a hundredth of all units that arrived
}

// Run simulates a trace. A pod that fits is placed, one that does not is gone. The errors are of
// options that cannot be, and the context's.
func Run(ctx context.Context, t *Trace, o Options) (*Result, error) {
	if o.Arrive == 0 {
		o.Arrive = Arrive
	}
	if !(o.Arrive > 0 && o.Arrive <= mostArrive) {
		return nil, fmt.Errorf("arrivals of %v times all units: more than 0 and at most %d can be",
			o.Arrive, mostArrive)
	}
	if t.units() == 0 {
		return nil, fmt.Errorf("trace %s: its %d nodes have no device", t.Name, len(t.Nodes))
	}
	rng := rand.New(rand.NewSource(o.Seed))
	nodes, pods, workload := t.draw(o.Arrive, rng)
	c, err := place.NewCluster(nodes, place.Options{Policy: o.Policy, Workload: workload,
		Rand: rng})
	if err != nil {
		return nil, err
	}
	r := &run{Cluster: c, options: o, units: float64(t.units()), res: Result{Seed: o.Seed}}
	if o.Times {
		err = r.times(ctx, t)
	} else {
		err = r.inflate(ctx, pods)
	}
	if err != nil {
		return nil, err
	}
	return &r.res, nil
}

// Arrivals returns what [Run] simulates with a seed, for who runs the same elsewhere: nodes in the
// order in which the first wins among equals, requests in the order in which they come, which ask
// for a part of all units together, and the workload that policies expect.
func (t *Trace) Arrivals(part float64, seed int64) ([]place.Node, []place.Request,
	place.Workload) {
	return t.draw(part, rand.New(rand.NewSource(seed)))
}

func (t *Trace) draw(part float64, rng *rand.Rand) ([]place.Node, []place.Request,
	place.Workload) {
	pods := t.arrivals(part, rng)
	return t.ordered(rng), pods, place.Observe(t.requests())
}

func (t *Trace) requests() []place.Request {
	all := make([]place.Request, len(t.Pods))
	for i := range t.Pods {
		all[i] = t.Pods[i].Request
	}
	return all
}

// units returns the units of all devices.
func (t *Trace) units() (sum int64) {
	for i := range t.Nodes {
		sum += int64(len(t.Nodes[i].Devices)) * place.Whole
	}
	return sum
}

// arrivals returns the pods of a trace in a random order and then random ones of them, each as
// likely as any other, until together they ask for a part of all units; where the pods of the trace
// ask for more than that, random ones are left out. It draws what the authors' simulator draws.
func (t *Trace) arrivals(part float64, rng *rand.Rand) []place.Request {
	rng.Int() // for a line of their log
	pods := slices.Clone(t.Pods)
	sorting.By(pods, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	var asked int64
	all := make([]place.Request, len(pods))
	for i := range pods {
		all[i] = pods[i].Request
		asked += pods[i].TotalUnits()
	}
	most := part * float64(t.units())
	for float64(asked) > most {
		i := rng.Intn(len(all))
		asked -= all[i].TotalUnits()
		all = slices.Delete(all, i, i+1)
	}
	for asked > 0 && len(all) >= len(pods) {
		r := t.Pods[rng.Intn(len(t.Pods))].Request
		if float64(asked+int64(r.Units)) > most {
			return all
		}
		asked += r.TotalUnits()
		all = append(all, r)
	}
	return all
}

// drawn is how many numbers are drawn in the authors' simulator between the arrivals and the order
// of nodes: the stock scheduler that it runs starts as many watches, each with a random time.
const drawn = 10

// ordered returns the nodes in a random order, in which the first wins among equals.
func (t *Trace) ordered(rng *rand.Rand) []place.Node {
	for range drawn {
		rng.Float64()
	}
	nodes := slices.Clone(t.Nodes)
	sorting.By(nodes, func(a, b place.Node) int { return cmp.Compare(a.Name, b.Name) })
	ordered := make([]place.Node, len(nodes))
	for i, at := range rng.Perm(len(nodes)) {
		ordered[at] = nodes[i]
	}
	return ordered
}

// run is a simulation.
type run struct {
	*place.Cluster
	options Options
	units   float64
	asked   float64 // of pods that have come
	res     Result
}

// every is how many events lie between looks at the context and reports of progress.
const every = 256

func (r *run) report(ctx context.Context, done, all int) error {
	if done%every != 0 && done != all {
		return nil
	}
	if r.options.Progress != nil {
		r.options.Progress(done, all)
	}
	return ctx.Err()
}

// inflate has pods come that never go.
func (r *run) inflate(ctx context.Context, pods []place.Request) error {
	r.point()
	for i := range pods {
		if _, err := r.place(pods[i]); err != nil {
			return err
		}
		all, used := r.Units()
		r.res.Allocation = float64(used) / float64(all)
		if r.asked <= r.units {
			r.res.AtCapacity = r.res.Allocation
		}
		if last := r.res.Curve[len(r.res.Curve)-1]; r.asked/r.units >= last.Arrived+0.01 {
			r.point()
		}
		if err := r.report(ctx, i+1, len(pods)); err != nil {
			return err
		}
	}
	r.point()
	r.res.Fragmentation = r.res.Curve[len(r.res.Curve)-1].Fragmented
	return nil
}

func (r *run) point() {
	all, used := r.Units()
	r.res.Curve = append(r.res.Curve, Point{r.asked / r.units, float64(used) / float64(all),
		r.Fragmented() / float64(all)})
}

// place places a pod or counts that it fits nowhere; the ID is then 0.
func (r *run) place(q place.Request) (place.ID, error) {
	r.asked += float64(q.TotalUnits())
	p, err := r.Place(q)
	switch {
	case err == nil:
		r.res.Placed++
	case errors.Is(err, place.ErrNoRoom):
		r.res.Rejected++
	default:
		return 0, err
	}
	return p.ID, nil
}

// event is a pod that comes, or goes.
type event struct {
	at   int64
	pod  int
	goes bool
}

// events returns what happens at the times of a trace. At one time pods go before others come.
func (t *Trace) events() ([]event, error) {
	var all []event
	for i := range t.Pods {
		p := &t.Pods[i]
		if p.Deleted < p.Created || p.Deleted == 0 {
			return nil, fmt.Errorf("trace %s: pod %s comes at %d and goes at %d: it has no times "+
				"to be simulated at", t.Name, p.Name, p.Created, p.Deleted)
		}
		if p.Deleted > p.Created {
			all = append(all, event{p.Created, i, false}, event{p.Deleted, i, true})
		}
	}
	sorting.By(all, func(a, b event) int {
		if a.at != b.at || a.goes == b.goes {
			return cmp.Compare(a.at, b.at)
		}
		if a.goes {
			return -1
		}
		return 1
	})
	return all, nil
}

// times has the pods of a trace come and go at their times.
func (r *run) times(ctx context.Context, t *Trace) error {
	all, err := t.events()
	if err != nil {
		return err
	}
	ids := make([]place.ID, len(t.Pods))
	for i, e := range all {
		if !e.goes {
			ids[e.pod], err = r.place(t.Pods[e.pod].Request)
		} else if ids[e.pod] != 0 {
			err = r.Release(ids[e.pod])
		}
		if err == nil {
			err = r.report(ctx, i+1, len(all))
		}
		if err != nil {
			return err
		}
		if i+1 < len(all) {
			r.spend(float64(all[i+1].at-e.at) / float64(max(1, all[len(all)-1].at-all[0].at)))
		}
	}
	return nil
}

// spend has a part of all time pass.
func (r *run) spend(part float64) {
	if part == 0 {
		return
	}
	all, used := r.Units()
	r.res.Allocation += part * float64(used) / float64(all)
	r.res.Fragmentation += part * r.Fragmented() / float64(all)
}

// Summary is how a policy did on a trace, on average over seeds.
type Summary struct {
	Trace         string   `json:"trace"`
	Policy        string   `json:"policy"`
	Allocation    float64  `json:"allocation"`
	AtCapacity    float64  `json:"allocation_at_capacity,omitempty"`
	Fragmentation float64  `json:"fragmentation"`
	Placed        int      `json:"placed"`
	Rejected      int      `json:"rejected"`
	PerSecond     float64  `json:"decisions_per_s"`
	Runs          []Result `json:"runs"`
}

// Mean summarises runs that took so many seconds together.
func Mean(trace, policy string, runs []Result, seconds float64) Summary {
	s := Summary{Trace: trace, Policy: policy, Runs: runs}
	n := float64(max(1, len(runs)))
	decisions := 0
	for i := range runs {
		r := &runs[i]
		s.Allocation += r.Allocation / n
		s.AtCapacity += r.AtCapacity / n
		s.Fragmentation += r.Fragmentation / n
		decisions += r.Placed + r.Rejected
		s.Placed, s.Rejected = s.Placed+r.Placed, s.Rejected+r.Rejected
	}
	s.Placed = int(math.Round(float64(s.Placed) / n))
	s.Rejected = int(math.Round(float64(s.Rejected) / n))
	s.PerSecond = float64(decisions) / max(seconds, 1e-9)
	return s
}
