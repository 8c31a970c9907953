package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
)

// finished is when layers cut at these ends have all been computed.
func finished(b device.Bus, layers []Layer, ends []int) (done time.Duration) {
	bring, compute := sums(b, layers)
	from := 0
	for g, end := range ends {
		there := bring[end] + time.Duration(g+1)*b.PerTransfer
		done = max(done, there) + compute[end] - compute[from]
		from = end
	}
	return done
}

// TestPipeline compares the cuts of few random layers with all cuts there are.
func TestPipeline(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 3))
	for range 600 {
		b := device.Bus{BytesPerS: float64(1+r.IntN(20)) * 1e9,
			PerTransfer: time.Duration(r.IntN(3)*r.IntN(60)) * time.Microsecond}
		layers := make([]Layer, 1+r.IntN(9))
		for i := range layers {
			layers[i] = Layer{r.Int64N(4) * r.Int64N(1<<20),
				time.Duration(r.IntN(3)*r.IntN(200)) * time.Microsecond}
		}
		ends, got := Pipeline(b, layers)
		if !slices.IsSorted(ends) || len(slices.Compact(slices.Clone(ends))) != len(ends) ||
			ends[0] < 1 || ends[len(ends)-1] != len(layers) {
			t.Fatalf("ends %v of %d layers", ends, len(layers))
		}
		best, fewest := finished(b, layers, []int{len(layers)}), 1
		for cut := range 1 << (len(layers) - 1) {
			var all []int
			for i := range layers {
				if i == len(layers)-1 || cut>>i&1 == 1 {
					all = append(all, i+1)
				}
			}
			switch d := finished(b, layers, all); {
			case d < best:
				best, fewest = d, len(all)
			case d == best:
				fewest = min(fewest, len(all))
			}
		}
		own := finished(b, layers, ends)
		if own != best || got != own || len(ends) != fewest {
			t.Errorf("%+v over %+v: %v ends after %v, said %v; the best after %v in %d groups",
				layers, b, ends, own, got, best, fewest)
		}
	}
}

// TestPipelineLong cuts more layers than models have in no noticeable time.
func TestPipelineLong(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 7))
	layers := make([]Layer, 200)
	for i := range layers {
		layers[i] = Layer{1 + r.Int64N(8<<20), time.Duration(r.IntN(4000)) * time.Microsecond}
	}
	b := device.Bus{BytesPerS: 2e9, PerTransfer: 10 * time.Microsecond}
	ends, got := Pipeline(b, layers)
	each := make([]int, len(layers))
	for i := range each {
		each[i] = i + 1
	}
	for _, other := range [][]int{{len(layers)}, each} {
		if got > finished(b, layers, other) {
			t.Errorf("%d groups take %v, %d groups %v", len(ends), got, len(other),
				finished(b, layers, other))
		}
	}
	if ends, got := Pipeline(b, nil); ends != nil || got != 0 {
		t.Errorf("no layers: %v, %v", ends, got)
	}
}

// TestLayersOf: layers are what lies between the borders, and each step from the first that needs
// weights on is of one of them.
func TestLayersOf(t *testing.T) {
	some := false
	for seed := range uint64(20) {
		g, _ := grown(seed)
		p := compileAs(t, g, Options{Target: host, Threads: threads})
		var before, taken, computed time.Duration
		layers := p.LayersOf(func(*Step) time.Duration { taken++; return 1 })
		for i := range p.Steps {
			if p.Steps[i].needs > 0 {
				break
			}
			before++
		}
		var at int64
		var ends []int64
		for _, l := range layers {
			at += l.Bytes
			ends = append(ends, at)
			computed += l.Compute
		}
		if !slices.Equal(ends, p.Borders()) || taken != computed ||
			taken > 0 && int(taken+before) != len(p.Steps) {
			t.Errorf("seed %d: layers %v between borders %v, %d of %d steps, %d before them", seed,
				layers, p.Borders(), taken, len(p.Steps), before)
		}
		some = some || len(layers) > 1 && before > 0
	}
	if !some {
		t.Error("no graph has several layers and steps before them")
	}
}
