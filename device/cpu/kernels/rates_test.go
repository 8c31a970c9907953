package kernels

import (
	"runtime"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// TestRatesAreOfTheFastestRuns holds that one slow run, of either, changes no rate, and that runs
// take turns.
func TestRatesAreOfTheFastestRuns(t *testing.T) {
	var order []byte
	runs := func(name byte, took ...time.Duration) func() time.Duration {
		i := -1
		return func() time.Duration {
			order = append(order, name)
			i++
			return took[i]
		}
	}
	if r := rateOf(runs('a', 90, 30, 40), runs('b', 20, 90, 25), 2); r != 1.5 {
		t.Errorf("a rate of %v, want 1.5", r)
	}
	if string(order) != "ababab" {
		t.Errorf("the order is %s", order)
	}
	if r := rateOf(runs('a', 0, 0), runs('b', 0, 0), 1); r != 1 {
		t.Errorf("a clock that stands still: %v", r)
	}
}

// TestRateIsThatOfBFloat16 holds that less time in bfloat16 is a rate above 1.
func TestRateIsThatOfBFloat16(t *testing.T) {
	takes := map[gemm.Format]time.Duration{gemm.F32: 300, gemm.BF16: 100}
	if r := rateByTimes(func(f gemm.Format) func() time.Duration {
		return func() time.Duration { return takes[f] }
	}); r != 3 {
		t.Errorf("a rate of %v, want 3", r)
	}
}

// TestIntegersPay holds which integers each path multiplies so much faster than float32 that an
// image is rounded to them.
func TestIntegersPay(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		f, path := Target(device.Info{}).Features(), cpuinfo.CurrentPath()
		if f.FastBytes != cpuinfo.HasAVX2FMA() || f.FastWords != (path >= cpuinfo.PathAVX512VNNI) {
			t.Errorf("%v: bytes %v, words %v", path, f.FastBytes, f.FastWords)
		}
	})
}

// TestBF16RateOfEachPath holds that each path has a rate of its own, and always the same one.
func TestBF16RateOfEachPath(t *testing.T) {
	if !gemm.BF16.Fast() {
		t.Skip("no instructions for bfloat16")
	}
	rate := func() *compute.Rate { return Target(device.Info{}).Features().Costs.BF16Rate }
	first := rate()
	if r := first.Times(); r < 0.25 || rate() != first || rate().Times() != r {
		t.Errorf("a rate of %v, then %v", r, rate().Times())
	}
	t.Logf("%v times as fast as float32", first.Times())
	if short := Target(device.Info{}).Features().Costs.BF16Short; short == first ||
		short.Times() < 0.25 {
		t.Errorf("short products have a rate of %v", short.Times())
	}
	undo := cpuinfo.TilesByDefinition()
	if r := rate(); r == first || r.Times() != definedRate {
		t.Errorf("by definition %v", r.Times())
	}
	undo()
	undo = cpuinfo.Limit(cpuinfo.PathPlain)
	if r := bf16Rates(); r.long == first {
		t.Error("a path below has the rates of this one")
	}
	undo()
	if rate() != first {
		t.Error("other rates where the path is in force again")
	}
	defer cpuinfo.Limit(cpuinfo.PathAVX512VNNI)()
	if runtime.GOARCH == "amd64" && rate() != nil {
		t.Error("a rate where there are no instructions for bfloat16")
	}
}
