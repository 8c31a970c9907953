package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Bounds.
const (
	leastRatio = 4
	mostGang   = 5.0 // seconds
	mostSwap   = 2.0 // seconds
	mostPoints = 0.3
)

// patience is how long a round may take.
const patience = 10 * time.Minute

// alike are nodes with eight devices each, for one kind of measurement.
func alike(kind string, n int) []machine {
	all := make([]machine, n)
	for i := range all {
		all[i] = machine{fmt.Sprintf("%s-%05d", kind, i), "H200", kind, 128000, 1 << 40, 8}
	}
	return all
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// rate measures how many fractional pods that wait are bound a second.
func (b *bench) rate(ctx context.Context) error { return b.compare(ctx, true) }

// arrivals measures the same while the pods are being made.
func (b *bench) arrivals(ctx context.Context) error { return b.compare(ctx, false) }

// pace is what a round came to.
type pace struct {
	Rate      float64 `json:"pods_per_s"`
	Scheduler float64 `json:"scheduler_ms_per_pod"` // of processors' time
	Server    float64 `json:"server_ms_per_pod"`
	// Requests are what the server was asked for, for each pod.
	Requests map[string]float64 `json:"requests_per_pod"`
}

// contender is a scheduler in a cluster.
type contender struct {
	what      string
	scheduler string
	early     bool // new claims have their finalizer
}

// contenders are who is compared: where there is a policy for finalizers, the stock scheduler is
// measured without it and with it, and ours with it.
func (b *bench) contenders() []contender {
	if b.early == "" {
		return []contender{{stocks, stocks, false}, {weirs, weirs, false}}
	}
	return []contender{{stocks, stocks, false}, {stocks + ", early finalizers", stocks, true},
		{weirs, weirs, true}}
}

// compare measures stock and ours by turns.
func (b *bench) compare(ctx context.Context, waiting bool) error {
	machines := alike("n", 500)
	if err := b.nodes(ctx, machines); err != nil {
		return err
	}
	if err := b.fill(ctx, machines); err != nil {
		return err
	}
	paces, all := map[string][]pace{}, b.contenders()
	for round := range b.rounds {
		for i, c := range all {
			if err := b.chart(ctx, c.early); err != nil {
				return err
			}
			p, err := b.round(ctx, fmt.Sprintf("r%d-%d", round, i), c.scheduler, waiting)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round, c.what, err)
			}
			b.say("round %d: %s binds %.1f pods a second; of processors' time a pod takes the "+
				"scheduler %.1f ms and the server %.1f ms", round, c.what, p.Rate, p.Scheduler,
				p.Server)
			paces[c.what] = append(paces[c.what], p)
		}
	}
	b.ratios(all, paces)
	return nil
}

// ratios compares the last contender with the others.
func (b *bench) ratios(all []contender, paces map[string][]pace) {
	ours := medianRate(paces[all[len(all)-1].what])
	b.result.Values["paces"] = paces
	ratio := map[string]float64{}
	for _, c := range all[:len(all)-1] {
		stock := medianRate(paces[c.what])
		ratio[c.what] = ours / stock
		b.must(ours >= leastRatio*stock, "%.1f pods a second, %s %.1f: %.2f times, want %d",
			ours, c.what, stock, ours/stock, leastRatio)
	}
	b.result.Values["times"] = ratio
}

func medianRate(all []pace) float64 {
	v := make([]float64, len(all))
	for i := range all {
		v[i] = all[i].Rate
	}
	return median(v)
}

// round makes pods of a quarter of a device, and returns how many are bound a second: if they wait,
// from when the scheduler may look at them to the last that is bound; else from the first that is
// made.
func (b *bench) round(ctx context.Context, prefix, name string, waiting bool) (pace, error) {
	s := &shape{cpu: 1000, memory: 1 << 30, devices: 1, units: 250, bytes: 20 << 30}
	template, err := b.template(ctx, s)
	if err != nil {
		return pace{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.watch(ctx)
	if err != nil {
		return pace{}, err
	}
	start := func() (*process, error) {
		if name == stocks {
			return b.startStock(ctx)
		}
		return b.start(ctx, map[string]any{})
	}
	create := func(from, to int) error {
		return parallel(to-from, workers, func(i int) error {
			return b.pod(ctx, fmt.Sprintf("%s-%s-%05d", prefix, name, from+i), name, template, s,
				nil)
		})
	}
	r := racer{b, seen, start, create}
	p, err := r.race(ctx, waiting)
	if err != nil {
		return p, err
	}
	return p, b.clear(ctx)
}

// racer is a scheduler's turn.
type racer struct {
	*bench
	seen   *seen
	start  func() (*process, error)
	create func(from, to int) error
}

// warm is how many pods are bound before pods are made that count: then the scheduler runs, and
// knows what there is.
const warm = 10

// race lets a scheduler bind pods. One that is to find them waiting is stopped while they are made.
func (r *racer) race(ctx context.Context, waiting bool) (pace, error) {
	p, err := r.start()
	if err != nil {
		return pace{}, err
	}
	defer p.stop()
	if err := errors.Join(r.create(0, warm), r.bound(ctx, warm)); err != nil {
		return pace{}, err
	}
	if waiting {
		if err := r.make(ctx, p); err != nil {
			return pace{}, err
		}
	}
	before, err := r.read(ctx, p)
	if err != nil {
		return pace{}, err
	}
	began := time.Now()
	if waiting {
		err = p.signal(syscall.SIGCONT)
	} else {
		err = r.create(warm, r.pods)
	}
	if err := errors.Join(err, r.bound(ctx, r.pods)); err != nil {
		return pace{}, err
	}
	after, err := r.read(ctx, p)
	n := float64(r.pods - warm)
	return pace{Rate: n / latest(r.seen.bound).Sub(began).Seconds(),
		Scheduler: (after.scheduler - before.scheduler).Seconds() * 1e3 / n,
		Server:    (after.server - before.server).Seconds() * 1e3 / n,
		Requests:  perPod(before.asked, after.asked, n)}, err
}

// reading is what scheduler and server had done at a time.
type reading struct {
	scheduler, server time.Duration // of processors
	asked             map[string]float64
}

func (r *racer) read(ctx context.Context, p *process) (to reading, err error) {
	var errs [3]error
	to.scheduler, errs[0] = p.spent()
	to.server, errs[1] = r.serverSpent()
	to.asked, errs[2] = r.requests(ctx)
	return to, errors.Join(errs[:]...)
}

// make makes pods with their claims while the scheduler is stopped, and leaves it so.
func (r *racer) make(ctx context.Context, p *process) error {
	return errors.Join(p.signal(syscall.SIGSTOP), r.create(warm, r.pods),
		r.seen.until(ctx, "claims of all pods", patience, func() bool {
			return len(r.seen.claimed) == r.pods
		}))
}

// bound waits until so many pods are.
func (r *racer) bound(ctx context.Context, n int) error {
	err := r.seen.until(ctx, fmt.Sprint(n, " pods bound"), patience, func() bool {
		return len(r.seen.bound) >= n
	})
	if err != nil {
		return r.seen.waits(err)
	}
	return nil
}

func latest(at map[string]time.Time) (t time.Time) {
	for _, v := range at {
		if v.After(t) {
			t = v
		}
	}
	return t
}

// gang measures how long a gang takes that fills 512 nodes to an eighth.
func (b *bench) gang(ctx context.Context) error {
	const size = 512
	if err := b.nodes(ctx, alike("n", size)); err != nil {
		return err
	}
	p, err := b.start(ctx, map[string]any{})
	if err != nil {
		return err
	}
	defer p.stop()
	s := &shape{cpu: 1000, memory: 1 << 30, devices: 1, units: 1000, bytes: 80 << 30}
	template, err := b.template(ctx, s)
	if err != nil {
		return err
	}
	took := map[string][]float64{}
	for round := range b.rounds {
		t, err := b.gangOnce(ctx, fmt.Sprint("g", round), template, s, size)
		if err != nil {
			return err
		}
		b.say("round %d: a gang of %d is bound so long after: %v", round, size, t)
		for what, v := range t {
			took[what] = append(took[what], v)
		}
	}
	b.result.Values["seconds_after"] = took
	v := median(took[firstMade])
	b.must(v <= mostGang, "gang: %.2f s, want %.1f", v, mostGang)
	return nil
}

// What a gang's time is measured from.
const (
	firstMade   = "its first pod was made"
	lastMade    = "its last pod was made"
	lastClaimed = "its last claim was made"
)

func (b *bench) gangOnce(ctx context.Context, name, template string, s *shape,
	size int) (map[string]float64, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.watch(watching)
	if err != nil {
		return nil, err
	}
	member := func(p *v1.Pod) {
		p.Annotations = map[string]string{"weir.dev/gang": name,
			"weir.dev/gang-size": fmt.Sprint(size)}
	}
	begin := time.Now()
	err = parallel(size, workers, func(i int) error {
		return b.pod(ctx, fmt.Sprintf("%s-%05d", name, i), weirs, template, s, member)
	})
	if err != nil {
		return nil, err
	}
	made := time.Now()
	err = seen.until(ctx, "all of the gang bound", patience, func() bool {
		return len(seen.bound) == size
	})
	if err != nil {
		return nil, seen.waits(err)
	}
	end := latest(seen.bound)
	return map[string]float64{firstMade: end.Sub(begin).Seconds(),
		lastMade:    end.Sub(made).Seconds(),
		lastClaimed: end.Sub(latest(seen.claimed)).Seconds()}, b.clear(ctx)
}

// preempt measures how long it takes from the end of an opportunistic pod to a pod of high priority
// that runs in its place, in a cluster that is full.
func (b *bench) preempt(ctx context.Context) error {
	if err := b.nodes(ctx, alike(few, 10)); err != nil {
		return err
	}
	p, err := b.start(ctx, map[string]any{})
	if err != nil {
		return err
	}
	defer p.stop()
	var fromGone, fromMade []float64
	for round := range b.rounds {
		gone, made, err := b.swap(ctx, fmt.Sprint("s", round))
		if err != nil {
			return err
		}
		b.say("round %d: runs %.2f s after the victim has gone, %.2f s after it was made", round,
			gone, made)
		fromGone, fromMade = append(fromGone, gone), append(fromMade, made)
	}
	b.result.Values["from_victim_gone_s"], b.result.Values["from_made_s"] = fromGone, fromMade
	b.must(median(fromGone) <= mostSwap, "preempt: %.2f s, want %.1f", median(fromGone), mostSwap)
	return nil
}

// few are the nodes of preempt, which others may not fill.
const few = "few"

func (b *bench) swap(ctx context.Context, prefix string) (gone, made float64, err error) {
	low := &shape{cpu: 1000, memory: 1 << 30, devices: 1, units: 1000, bytes: 80 << 30,
		class: "opportunistic"}
	high := *low
	high.class = ""
	lows, err := b.template(ctx, low)
	if err != nil {
		return 0, 0, err
	}
	highs, err := b.template(ctx, &high)
	if err != nil {
		return 0, 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.watch(watching)
	if err != nil {
		return 0, 0, err
	}
	const all = 10 * 8
	among := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{kindLabel: few} }
	err = parallel(all, workers, func(i int) error {
		return b.pod(ctx, fmt.Sprintf("%s-low-%03d", prefix, i), weirs, lows, low, among)
	})
	if err == nil {
		err = seen.until(ctx, "a full cluster", patience, func() bool {
			return len(seen.running) == all
		})
	}
	if err != nil {
		return 0, 0, err
	}
	name, begin := prefix+"-high", time.Now()
	err = b.pod(ctx, name, weirs, highs, &high, func(p *v1.Pod) {
		among(p)
		p.Spec.PriorityClassName = "system-cluster-critical"
		p.Spec.PreemptionPolicy = ptr.To(v1.PreemptLowerPriority)
	})
	if err != nil {
		return 0, 0, err
	}
	err = seen.until(ctx, "the high one runs", patience, func() bool {
		return !seen.running[name].IsZero()
	})
	if err != nil {
		return 0, 0, err
	}
	end := seen.running[name]
	return end.Sub(latest(seen.gone)).Seconds(), end.Sub(begin).Seconds(), b.clear(ctx)
}

// quoted is "A|B" as a list in CEL.
func quoted(models string) string {
	return `["` + strings.Join(strings.Split(models, "|"), `", "`) + `"]`
}
