package roofline_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/zoo"
)

var machine = roofline.Machine{
	Threads: 1,
	Peak:    map[roofline.Format]float64{roofline.FP32: 100, roofline.BF16: 200},
	Read:    []roofline.Rate{{Bytes: 1 << 18, GBPerS: 50}},
}

// rated is this machine's CPU, whose products of bfloat16 are taken to be fast where it has them:
// how fast they are is measured, and an emulator's are not.
type rated struct{ compute.Target }

func (r rated) Features() compute.Features {
	f := r.Target.Features()
	f.Costs.BF16Rate, f.Costs.BF16Short = nil, nil
	return f
}

// profile profiles a small image network.
func profile(t *testing.T, runs int, o pass.Options) (*roofline.Table, *plan.Plan) {
	t.Helper()
	g, err := zoo.New("resnet50", zoo.Options{Layers: 1, Width: 0.25, Resolution: 64, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(
		context.Background(),
		g,
		plan.Options{Target: rated{kernels.Target(device.Info{})},
			Shapes:  map[string][]int{g.Inputs[0].Name: {1, 3, 64, 64}},
			Threads: 1,
			Passes:  o,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	s, err := engine.Load(p, engine.Options{Device: dev, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Put(); s.Close(); pool.Close(); _ = dev.Close() })
	fills := 0
	table, err := roofline.Profile(context.Background(), &machine, i,
		func() error { fills++; return nil }, runs)
	if err != nil {
		t.Fatal(err)
	}
	if fills != max(runs, 1) || table.Runs != fills {
		t.Errorf("inputs filled %d times for %d runs", fills, runs)
	}
	return table, p
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// TestProfileAddsUp holds the figures of a table against each other and against the plan.
func TestProfileAddsUp(t *testing.T) {
	table, p := profile(t, 3, pass.Options{})
	if len(table.Steps) != len(p.Steps) || table.Total.Flops != p.Flops {
		t.Fatalf("%d steps with %d operations, planned %d with %d", len(table.Steps),
			table.Total.Flops, len(p.Steps), p.Flops)
	}
	var share float64
	for i, s := range table.Steps {
		share += s.Share
		if s.Node != p.Steps[i].Node.Name || s.MS <= 0 || s.Bytes <= 0 || s.Flops <= 0 ||
			s.Format != roofline.FP32 {
			t.Errorf("step %d is %+v", i, s)
		}
		peak := 100.0
		if s.Taken > 0 {
			peak *= float64(s.Flops) / float64(s.Taken)
		}
		want := min(peak, 50*s.Intensity)
		if !near(s.LimitGFlopsPerS, want) || !near(s.OfLimit, s.GFlopsPerS/want) ||
			(s.LimitedBy == roofline.ByCompute) != (want == peak) {
			t.Errorf("%s: %g GFLOP/s is %g of a limit of %g by %s", s.Node, s.GFlopsPerS, s.OfLimit,
				s.LimitGFlopsPerS, s.LimitedBy)
		}
	}
	if !near(share, 1) || !near(table.Total.Share, 1) {
		t.Errorf("shares add up to %g, of all steps %g", share, table.Total.Share)
	}
	for _, groups := range [][]roofline.Group{table.Operators, table.Kernels} {
		steps, ms := 0, 0.0
		for _, g := range groups {
			steps, ms = steps+g.Steps, ms+g.MS
		}
		if steps != len(table.Steps) || !near(ms, table.Total.MS) {
			t.Errorf("groups have %d steps in %g ms, all are %d in %g", steps, ms, len(table.Steps),
				table.Total.MS)
		}
	}
}

// TestTransformedTilesAreWithinTheirLimit holds that a convolution in transformed tiles is shown
// beside the time of the operations that it takes, and says how many those are; and that a table
// may be shown against other limits.
func TestTransformedTilesAreWithinTheirLimit(t *testing.T) {
	table, _ := profile(t, 1, pass.Options{})
	found := false
	for i := range table.Steps {
		s := &table.Steps[i]
		if strings.HasPrefix(s.Kernel, "conv.winograd") != (s.Taken > 0) {
			t.Errorf("%s takes %d of %d operations", s.Kernel, s.Taken, s.Flops)
		}
		if s.Taken == 0 {
			continue
		}
		found = true
		least := max(float64(s.Taken)/100e6, float64(s.Bytes)/50e6)
		if s.Taken*2 > s.Flops || s.Taken*5 < s.Flops || !near(s.LeastMS, least) ||
			!strings.HasSuffix(s.Way(), "% of FLOP)") {
			t.Errorf("%s: %d of %d operations, at least %g ms, want %g", s.Way(), s.Taken, s.Flops,
				s.LeastMS, least)
		}
	}
	if cpuinfo.HasAVX512() && !found {
		t.Error("no convolution in tiles")
	}
	faster := machine
	faster.Peak = map[roofline.Format]float64{roofline.FP32: 1e9}
	faster.Read = []roofline.Rate{{Bytes: 1, GBPerS: 500}}
	before := table.Total
	table.Against(&faster)
	if !near(table.Total.MS, before.MS) || table.Total.Flops != before.Flops ||
		table.Total.LeastMS >= before.LeastMS || table.Machine.Peak[roofline.FP32] != 1e9 {
		t.Errorf("against other limits %+v, before %+v", table.Total, before)
	}
	for _, s := range table.Steps {
		if s.LimitedBy != roofline.ByMemory || !near(s.LeastMS, float64(s.Bytes)/500e6) {
			t.Errorf("%s is limited by %s to %g ms", s.Node, s.LimitedBy, s.LeastMS)
		}
	}
}

// TestProfilePrinted: the first line is all of a profile, and the others add up to it.
func TestProfilePrinted(t *testing.T) {
	table, p := profile(t, 1, pass.Options{})
	var text strings.Builder
	table.Print(&text)
	first, rest, _ := strings.Cut(text.String(), "\n")
	if !strings.HasSuffix(first, fmt.Sprintf("%d x all", len(p.Steps))) {
		t.Errorf("it begins with %q", first)
	}
	sum := 0
	for line := range strings.Lines(rest) {
		var ms, mb float64
		var n int
		if _, err := fmt.Sscanf(line, "%f ms %f MB %d x", &ms, &mb, &n); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		sum += n
	}
	if sum != len(p.Steps) {
		t.Errorf("%d steps by kernel, %d in all", sum, len(p.Steps))
	}
}

// TestProfileSorted holds the orders.
func TestProfileSorted(t *testing.T) {
	table, _ := profile(t, 1, pass.Options{})
	for o, key := range map[roofline.Order]func(s roofline.Step) float64{
		roofline.ByTime: func(s roofline.Step) float64 { return s.MS },
		roofline.ByLoss: func(s roofline.Step) float64 { return s.MS - s.LeastMS },
	} {
		list := table.Sorted(o)
		if len(list) != len(table.Steps) ||
			!slices.IsSortedFunc(list, func(a, b roofline.Step) int {
				if key(a) > key(b) {
					return -1
				}
				return 1
			}) {
			t.Errorf("by %s: %v", o, list)
		}
	}
	if list := table.Sorted(roofline.ByOrder); !slices.Equal(list, table.Steps) {
		t.Errorf("in order: %v", list)
	}
}

// TestProfilePrecision holds that products in bfloat16 are measured against its peak.
func TestProfilePrecision(t *testing.T) {
	if !kernels.Target(device.Info{}).Features().BF16 {
		t.Skip("this processor does not multiply bfloat16")
	}
	table, _ := profile(t, 1, pass.Options{Precision: pass.BF16})
	found := false
	for _, s := range table.Steps {
		if s.Format == roofline.BF16 {
			found = true
			if !near(s.LimitGFlopsPerS, min(200, 50*s.Intensity)) {
				t.Errorf("%s: limit %g at %g operations a byte", s.Node, s.LimitGFlopsPerS,
					s.Intensity)
			}
		}
	}
	if !found {
		t.Error("no step in bfloat16")
	}
}

// TestPage holds that names from a model cannot become markup or script.
func TestPage(t *testing.T) {
	table, _ := profile(t, 1, pass.Options{})
	table.Steps[0].Node = `</script><b id="evil">`
	var b strings.Builder
	if err := table.HTML(&b, "a & b", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	own := b.String()
	if strings.Contains(own, `<b id`) || !strings.Contains(own, "a &amp; b") ||
		strings.Contains(own, "script>") {
		t.Error("a name has become markup")
	}
	for _, want := range []string{"2 January 2026", "&lt;b id=", table.Steps[1].Node} {
		if !strings.Contains(own, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !strings.Contains(own, `<svg class="chart wide"`) ||
		strings.Count(own, ">"+table.Operators[0].Name+"</text>") != 2 {
		t.Error("the page draws no operator")
	}
}
