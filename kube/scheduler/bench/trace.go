package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirgpu/weir/kube/place"
	"github.com/weirgpu/weir/kube/sim"
)

// policy has the pods of openb's default trace come to the scheduler as they come in the
// simulation, with seed 42, and compares the allocations at the end.
func (b *bench) policy(ctx context.Context) error {
	t, err := sim.Open(filepath.Join(b.trace, "openb_pod_list_default.csv"), "")
	if err != nil {
		return err
	}
	p, _ := place.Named("prices")
	const seed = 42
	want, err := sim.Run(ctx, t, sim.Options{Policy: p, Seed: seed})
	if err != nil {
		return err
	}
	nodes, pods, workload := t.Arrivals(sim.Arrive, seed)
	machines := make([]machine, len(nodes))
	for i, n := range nodes {
		machines[i] = machine{fmt.Sprintf("openb-%05d", i), n.Model, "openb", n.CPU, n.Memory,
			len(n.Devices)}
	}
	if err := b.alone(ctx, "openb"); err != nil {
		return err
	}
	if err := b.nodes(ctx, machines); err != nil {
		return err
	}
	run, err := b.start(ctx, map[string]any{"workload": typical(workload)})
	if err != nil {
		return err
	}
	defer run.stop()
	got, err := b.replay(ctx, nodes, pods)
	if err != nil {
		return err
	}
	b.result.Values["simulated_allocation"], b.result.Values["allocation"] = want.Allocation, got
	points := 100 * (got - want.Allocation)
	b.result.Values["points"] = points
	b.must(max(points, -points) <= mostPoints, "policy: %.2f points from the simulation, want %.1f",
		points, mostPoints)
	return nil
}

// alone is an error where there are nodes of another measurement, which pods would go to.
func (b *bench) alone(ctx context.Context, kind string) error {
	n, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1,
		LabelSelector: kindLabel + "!=" + kind})
	if err == nil && len(n.Items) > 0 {
		err = fmt.Errorf("node %s is of another measurement: want a cluster of its own",
			n.Items[0].Name)
	}
	return err
}

func typical(w place.Workload) (all []map[string]any) {
	for i := range w {
		all = append(all, map[string]any{"cpu": w[i].CPU, "count": w[i].Count, "units": w[i].Units,
			"models": w[i].Models, "weight": w[i].Weight})
	}
	return all
}

// ahead is how many pods may wait for the scheduler at a time, so that they come to it in their
// order but for some.
const ahead = 8

// replay makes pods one after the other, deletes those that have no place, and returns which part
// of all devices is given away at the end.
func (b *bench) replay(ctx context.Context, nodes []place.Node, pods []place.Request) (float64,
	error) {
	seen, err := b.watch(ctx)
	if err != nil {
		return 0, err
	}
	units, given := 0.0, 0.0
	for i := range nodes {
		units += float64(len(nodes[i].Devices)) * place.Whole
	}
	settle := func(i int) error {
		n, err := b.settled(ctx, seen, podName(i), &pods[i])
		given += n
		return err
	}
	for i := range pods {
		if err := b.arrive(ctx, i, &pods[i]); err != nil {
			return 0, err
		}
		if i >= ahead {
			if err := settle(i - ahead); err != nil {
				return 0, err
			}
		}
		if i%500 == 499 {
			b.say("%d of %d pods", i+1, len(pods))
		}
	}
	for i := max(0, len(pods)-ahead); i < len(pods); i++ {
		if err := settle(i); err != nil {
			return 0, err
		}
	}
	return given / units, nil
}

// settled waits until a pod has its place, or has none, and returns how many units it was given.
// One that has none goes, as it does in the simulation: none that comes later makes room for it.
func (b *bench) settled(ctx context.Context, seen *seen, name string, r *place.Request) (float64,
	error) {
	placed := false
	err := seen.until(ctx, name+" settled", time.Minute, func() bool {
		p := seen.pods[name]
		placed = p != nil && p.Spec.NodeName != ""
		return placed || p != nil && unschedulable(p)
	})
	if err != nil || placed {
		return float64(r.TotalUnits()), err
	}
	return 0, b.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{})
}

func podName(i int) string { return fmt.Sprintf("p-%06d", i) }

func unschedulable(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// arrive makes a pod.
func (b *bench) arrive(ctx context.Context, i int, r *place.Request) error {
	s := &shape{cpu: r.CPU, memory: r.Memory, devices: r.Count, units: r.Units, bytes: 1 << 20,
		models: r.Models}
	if r.Units == place.Whole {
		s.bytes = 80 << 30
	}
	template := ""
	if r.Count > 0 {
		var err error
		if template, err = b.template(ctx, s); err != nil {
			return err
		}
	}
	err := b.pod(ctx, podName(i), weirs, template, s, nil)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w: the cluster is to have no pods", err)
	}
	return err
}
