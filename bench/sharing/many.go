package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
)

// many: two to eight saturating jobs with shares of 1, 2, 3 ... parts under fair, every second one
// with kernels of up to 10 ms that nothing interrupts.
func many(r *results, d time.Duration) error {
	const kernel = 10 * time.Millisecond
	for _, n := range []int{2, 4, 8} {
		// A 95th percentile of windows of a second needs twenty of them.
		s := &scenario.Scenario{Policy: "fair", Duration: max(d, 20*time.Second), Seed: 1}
		for i := range n {
			part := share.Share{Compute: float64(i+1) / float64(n*(n+1)/2)}
			j, err := job(fmt.Sprint("job-", i), "mobilenetv2", part, scenario.Arrival{Closed: 1})
			if i%2 == 1 {
				j, err = long(fmt.Sprint("long-", i), kernel, part)
			}
			if err != nil {
				return err
			}
			s.Jobs = append(s.Jobs, j)
		}
		res, err := r.run(s, scenario.Options{})
		if err != nil {
			return err
		}
		worst := 0.0
		for _, j := range res.Jobs {
			worst = max(worst, j.ShareErrorP95)
		}
		r.Claims.Check(fmt.Sprintf("fair, %d jobs, kernels up to %v: worst share_error_p95, points",
			n, kernel), worst, 2, true)
	}
	return nil
}

// guarantee: a job with a guarantee of a half beside one whose every iteration is one kernel that
// nothing interrupts, over ten of those kernels.
func guarantee(r *results, _ time.Duration) error {
	return r.guarantees(100*time.Millisecond, 500*time.Millisecond, 2*time.Second)
}

// guaranteeLong: the same beside kernels of ten seconds.
func guaranteeLong(r *results, _ time.Duration) error { return r.guarantees(10 * time.Second) }

func (r *results) guarantees(kernels ...time.Duration) error {
	for _, policy := range []string{"fair", "priority"} {
		for _, kernel := range kernels {
			if err := r.guarantee(policy, kernel); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *results) guarantee(policy string, kernel time.Duration) error {
	a, err := job("guaranteed", "mobilenetv2", share.Share{Compute: 0.5},
		scenario.Arrival{Closed: 1})
	if err != nil {
		return err
	}
	class := share.Share{Compute: 0.5}
	if policy == "priority" {
		class = share.Share{Class: share.Opportunistic}
	}
	b, err := long("long", kernel, class)
	if err != nil {
		return err
	}
	// Eleven kernels and as much time beside them, should they be a third longer than aimed at.
	res, err := r.run(&scenario.Scenario{Policy: policy, Duration: 30 * kernel, Seed: 1,
		Jobs: []scenario.Job{a, b}}, scenario.Options{})
	if err != nil {
		return err
	}
	got := overTen(res)
	r.Claims.Check(fmt.Sprintf("%s, guarantee of 0.5 beside kernels of %v: missing, points", policy,
		kernel), 100*max(0, 0.5-got), 2, true)
	return nil
}

// overTen is the least share that the first job got from the start of one of the other's kernels to
// that of the tenth after it, or of the last where there are fewer: over ten kernels and what is
// paid back for each, of whatever length it was. Where the other hardly ran, it is the share over
// the phase.
func overTen(res *scenario.Result) float64 {
	var starts []time.Duration
	for _, h := range res.Holds {
		if h.Job == 1 { // a kernel is longer than a slice, and so a hold
			starts = append(starts, h.From)
		}
	}
	if len(starts) < 2 {
		return res.Jobs[0].DeviceShare
	}
	least := 1.0
	for i := range max(1, len(starts)-10) {
		from, to := starts[i], starts[min(i+10, len(starts)-1)]
		held := time.Duration(0)
		for _, h := range res.Holds {
			if h.Job == 0 {
				held += max(0, min(h.To, to)-max(h.From, from))
			}
		}
		least = min(least, float64(held)/float64(to-from))
	}
	return least
}

// long is a job whose every iteration is one kernel of about so long, which nothing interrupts: the
// determinant of a matrix, by Gauss's elimination on one thread.
func long(name string, kernel time.Duration, s share.Share) (scenario.Job, error) {
	const probe = 400
	j := determinant(name, probe, s)
	j.Iterations = 5
	res, err := scenario.Run(context.Background(),
		&scenario.Scenario{Seed: 1, Jobs: []scenario.Job{j}}, scenario.Options{})
	if err != nil {
		return j, err
	}
	took := res.Jobs[0].DeviceSeconds / float64(j.Iterations)
	// the operations are cubic in the size
	return determinant(name, int(probe*math.Cbrt(kernel.Seconds()/took)), s), nil
}

func determinant(name string, n int, s share.Share) scenario.Job {
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, n, n)}
	node := graph.NewNode("det", "Det", 11, nil, []*graph.Value{x}, "y")
	node.Out[0].Type = op.Concrete(tensor.Float32)
	return scenario.Job{
		Job:     share.Job{Name: name, Share: s},
		Model:   fmt.Sprintf("det-%d", n),
		Arrival: scenario.Arrival{Closed: 1},
		Graph: &graph.Graph{Name: "det", Inputs: []*graph.Value{x}, Outputs: node.Out,
			Nodes: []*graph.Node{node}, Opsets: map[string]int{"": 13}},
	}
}
