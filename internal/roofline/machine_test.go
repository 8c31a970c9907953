package roofline

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/plan"
)

var simple = Machine{Threads: 1, Peak: map[Format]float64{FP32: 100, BF16: 200},
	Read: []Rate{{1 << 10, 400}, {1 << 20, 40}, {1 << 26, 10}}}

// TestLimit holds the roofline of a machine with round numbers.
func TestLimit(t *testing.T) {
	for _, tc := range []struct {
		name         string
		p            Format
		flops, bytes int64
		ms           float64
		compute      bool
	}{
		{"arithmetic", FP32, 1e8, 1 << 10, 1, true},
		{"arithmetic in bfloat16", BF16, 1e8, 1 << 10, 0.5, true},
		{"arithmetic without a peak of its own", Int8, 1e8, 1 << 10, 1, true},
		{"smaller than the smallest working set", FP32, 0, 1 << 9, 512. / 400e6, false},
		{"between two working sets", FP32, 1000, 4 << 20, 4 * (1 << 20) / 40e6, false},
		{"larger than the largest", FP32, 1000, 1 << 30, (1 << 30) / 10e6, false},
		{"nothing", FP32, 0, 0, 0, true},
	} {
		ms, compute := simple.leastMS(tc.p, tc.flops, tc.bytes)
		if math.Abs(ms-tc.ms) > 1e-9*tc.ms || compute != tc.compute {
			t.Errorf("%s: %g ms, by arithmetic %v; want %g, %v", tc.name, ms, compute, tc.ms,
				tc.compute)
		}
	}
}

var target = kernels.Target(device.Info{ID: "cpu:0"})

// TestMeasureElsewhere holds that no limits are told of a device that is not the host: those of the
// host say nothing about it.
func TestMeasureElsewhere(t *testing.T) {
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer pool.Close()
	away := compute.WithFeatures(kernels.Target(device.Info{ID: "far:0", Units: 3}),
		compute.Features{Remote: true})
	m, err := Measure(context.Background(), away, pool)
	if err != nil || m.Known() || m.Device != "far:0" || m.Threads != 3 || m.Processor.Name != "" {
		t.Fatalf("measured %+v, error %v", m, err)
	}
	node := &graph.Node{Type: "Add"}
	r := record{step: &plan.Step{Node: node, Kernel: compute.Reference(&op.Op{}, &op.Call{})},
		cost: plan.Cost{Flops: 1e6, Bytes: 1e6}, times: []time.Duration{time.Millisecond}}
	if s := r.row(m); s.MS != 1 || s.LimitedBy != "" || s.LeastMS != 0 || s.LimitGFlopsPerS != 0 {
		t.Errorf("a step: %+v", s)
	}
	var page strings.Builder
	table := &Table{Machine: *m, Runs: 1, Steps: []Step{r.row(m)}}
	if err := table.HTML(&page, "title", time.Time{}); err != nil ||
		!strings.Contains(page.String(), "far:0, 3 threads; its limits are not known") ||
		!strings.Contains(page.String(), `<td data-label="of limit">-</td>`) ||
		strings.Contains(page.String(), `limit">0 %`) {
		t.Errorf("the page does not say that limits are not known, or error %v", err)
	}
}

// TestMeasure holds what must be true of any machine: everything has a rate, narrower numbers
// multiply no slower by much, and the process measures once.
func TestMeasure(t *testing.T) {
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer pool.Close()
	m, err := Measure(context.Background(), target, pool)
	if err != nil {
		t.Fatal(err)
	}
	for p, v := range m.Peak {
		if !(v > 0) || math.IsInf(v, 0) {
			t.Errorf("%s: %g GFLOP/s", p, v)
		}
	}
	if m.Peak[FP32] == 0 || len(m.Read) != len(workingSets) || m.TookMS <= 0 || m.Threads != 1 {
		t.Errorf("measured %+v", m)
	}
	for i, r := range m.Read {
		if r.GBPerS <= 0 || r.Bytes <= 0 || i > 0 && r.Bytes <= m.Read[i-1].Bytes {
			t.Errorf("reading %+v", m.Read)
		}
	}
	again, err := Measure(context.Background(), target, pool)
	if err != nil || again != m {
		t.Errorf("measured again: %v, %v", again, err)
	}
	m.Peak[FP32] *= 100 // as on a machine that was left alone then
	higher, err := Again(context.Background(), target, pool)
	if err != nil || higher.Peak[FP32] != m.Peak[FP32] || higher.TookMS <= m.TookMS {
		t.Fatalf("%+v, then %+v, error %v", m, higher, err)
	}
	for i, r := range higher.Read {
		if r.GBPerS < m.Read[i].GBPerS {
			t.Errorf("reading %+v, then %+v", m.Read, higher.Read)
		}
	}
	m, err = Measure(context.Background(), target, pool)
	if err != nil || m != higher {
		t.Errorf("the process keeps %+v, error %v", m, err)
	}
	m.Peak[FP32] /= 100
}

func TestMeasureStops(t *testing.T) {
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 2})
	defer pool.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Measure(ctx, target, pool); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
