package scenario

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// TestCachedPlans runs jobs on a model file first without a kept plan and then from one: their
// memory is the same to the byte, and a cap of a byte less refuses them.
func TestCachedPlans(t *testing.T) {
	plans := keptPlans(t)
	job := func(name string, memory share.Bytes) Job {
		j := closedJob(name, nil, 3)
		j.Model, j.Memory = digits, memory
		return j
	}
	o := Options{Threads: 1, Plans: plans}
	var cold *JobResult
	for i := range 2 {
		s := &Scenario{Device: "cpu:0", Policy: "fair", Duration: 10 * time.Second,
			Jobs: []Job{job("one", 0), job("two", 0)}}
		r, err := newRun(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.jobs {
			if p.cached.Cached() != (i > 0) {
				t.Errorf("time %d: job %s: from the cache: %v", i+1, p.spec.Name, p.cached.Cached())
			}
		}
		res, err := r.all(t.Context())
		r.close()
		if err != nil {
			t.Fatal(err)
		}
		for k := range res.Jobs {
			j := &res.Jobs[k]
			if cold == nil {
				cold = j
			}
			if j.Status != StatusDone || j.MemoryPeakBytes != cold.MemoryPeakBytes ||
				j.PlanBytes != cold.PlanBytes || j.MemoryPeakBytes != j.PlanBytes {
				t.Errorf("time %d: job %s is %s (%s): held %d bytes, planned %d; the first held %d",
					i+1, j.Name, j.Status, j.Error, j.MemoryPeakBytes,
					j.PlanBytes, cold.MemoryPeakBytes)
			}
		}
	}
	var log strings.Builder
	other := job("half", 0)
	other.Shapes = map[string]feed.Shape{"image": {5, 1, 8, 8}}
	r, err := newRun(t.Context(), &Scenario{Device: "cpu:0", Policy: "fair",
		Duration: 10 * time.Second, Jobs: []Job{other}},
		Options{Threads: 1, Plans: plans, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	if !strings.Contains(log.String(), "it is for ") || !strings.Contains(log.String(), "half") {
		t.Errorf("of a plan for other shapes the log says %q", log.String())
	}
	p, err := prepare(t.Context(), job("small", share.Bytes(cold.PlanBytes-1)), plans,
		kernels.Target(cpu.Discover()), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := p.overCap(); !p.cached.Cached() || !errors.Is(err, core.ErrOverCap) {
		t.Errorf("from the cache: %v; a byte over the cap: error %v", p.cached.Cached(), err)
	}
}
