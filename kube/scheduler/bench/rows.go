package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

func alike(n int) []machine {
	all := make([]machine, n)
	for i := range all {
		all[i] = machine{fmt.Sprintf("n-%05d", i), "H200", 128000, 1 << 40, 8}
	}
	return all
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// rate measures fractional pods that are bound a second, stock and ours by turns.
func (b *bench) rate(ctx context.Context) error {
	if err := b.nodes(ctx, alike(500)); err != nil {
		return err
	}
	stop, err := b.start(ctx, map[string]any{})
	if err != nil {
		return err
	}
	defer stop()
	names := []string{"default-scheduler", "weir-scheduler"}
	rates := map[string][]float64{}
	for round := range b.rounds {
		for _, name := range names {
			r, err := b.round(ctx, fmt.Sprintf("r%d", round), name)
			if err != nil {
				return err
			}
			b.say("round %d: %s binds %.1f pods a second", round, name, r)
			rates[name] = append(rates[name], r)
		}
	}
	stock, ours := median(rates[names[0]]), median(rates[names[1]])
	b.result.Values["stock_pods_per_s"], b.result.Values["weir_pods_per_s"] = rates[names[0]],
		rates[names[1]]
	b.result.Values["ratio"] = ours / stock
	b.must(ours >= leastRatio*stock, "rate: %.1f pods a second, stock %.1f: %.2f times, want %d",
		ours, stock, ours/stock, leastRatio)
	return nil
}

// round makes pods of a quarter of a device, and returns how many are bound a second from the first
// that is made to the last that is bound.
func (b *bench) round(ctx context.Context, prefix, scheduler string) (float64, error) {
	s := &shape{cpu: 1000, memory: 1 << 30, devices: 1, units: 250, bytes: 20 << 30}
	template, err := b.template(ctx, s)
	if err != nil {
		return 0, err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.watch(watching)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = parallel(b.pods, workers, func(i int) error {
		return b.pod(ctx, fmt.Sprintf("%s-%s-%05d", prefix, scheduler, i), scheduler, template, s,
			nil)
	})
	if err != nil {
		return 0, err
	}
	err = seen.until(ctx, "all pods bound", patience, func() bool {
		return len(seen.bound) == b.pods
	})
	if err != nil {
		return 0, err
	}
	took := latest(seen.bound).Sub(begin)
	return float64(b.pods) / took.Seconds(), b.clear(ctx)
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
	if err := b.nodes(ctx, alike(size)); err != nil {
		return err
	}
	stop, err := b.start(ctx, map[string]any{})
	if err != nil {
		return err
	}
	defer stop()
	s := &shape{cpu: 1000, memory: 1 << 30, devices: 1, units: 1000, bytes: 80 << 30}
	template, err := b.template(ctx, s)
	if err != nil {
		return err
	}
	var fromFirst, fromLast []float64
	for round := range b.rounds {
		first, last, err := b.gangOnce(ctx, fmt.Sprint("g", round), template, s, size)
		if err != nil {
			return err
		}
		b.say("round %d: a gang of %d is bound %.2f s after its first pod was made, %.2f s after "+
			"its last", round, size, first, last)
		fromFirst, fromLast = append(fromFirst, first), append(fromLast, last)
	}
	b.result.Values["from_first_pod_s"], b.result.Values["from_last_pod_s"] = fromFirst, fromLast
	b.must(median(fromFirst) <= mostGang, "gang: %.2f s, want %.1f", median(fromFirst), mostGang)
	return nil
}

func (b *bench) gangOnce(ctx context.Context, name, template string, s *shape, size int) (first,
	last float64, err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.watch(watching)
	if err != nil {
		return 0, 0, err
	}
	member := func(p *v1.Pod) {
		p.Annotations = map[string]string{"weir.dev/gang": name,
			"weir.dev/gang-size": fmt.Sprint(size)}
	}
	begin := time.Now()
	err = parallel(size, workers, func(i int) error {
		return b.pod(ctx, fmt.Sprintf("%s-%05d", name, i), "weir-scheduler", template, s, member)
	})
	if err != nil {
		return 0, 0, err
	}
	made := time.Now()
	err = seen.until(ctx, "all of the gang bound", patience, func() bool {
		return len(seen.bound) == size
	})
	if err != nil {
		return 0, 0, err
	}
	end := latest(seen.bound)
	return end.Sub(begin).Seconds(), end.Sub(made).Seconds(), b.clear(ctx)
}

// preempt measures how long it takes from the end of an opportunistic pod to a pod of high priority
// that runs in its place, in a cluster that is full.
func (b *bench) preempt(ctx context.Context) error {
	if err := b.nodes(ctx, alike(10)); err != nil {
		return err
	}
	stop, err := b.start(ctx, map[string]any{})
	if err != nil {
		return err
	}
	defer stop()
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
	err = parallel(all, workers, func(i int) error {
		return b.pod(ctx, fmt.Sprintf("%s-low-%03d", prefix, i), "weir-scheduler", lows, low, nil)
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
	err = b.pod(ctx, name, "weir-scheduler", highs, &high, func(p *v1.Pod) {
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
