package scenario

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLatencyOfIsNearestRank compares with the definition: the least value that at least q of all
// values do not exceed.
func TestLatencyOfIsNearestRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		ds := make([]time.Duration, n)
		for i := range ds {
			ds[i] = time.Duration(rng.IntN(50)) * time.Millisecond
		}
		before := slices.Clone(ds)
		got := latencyOf(ds)
		if !slices.Equal(ds, before) {
			t.Fatal("the caller's slice was sorted")
		}
		want := Latency{P50: rank(ds, 50), P90: rank(ds, 90), P99: rank(ds, 99), Max: rank(ds, 100)}
		if got != want {
			t.Fatalf("%d values: got %+v, want %+v", n, got, want)
		}
	}
}

// rank is the q-th percentile by its definition, in whole numbers.
func rank(ds []time.Duration, q int) float64 {
	best := time.Duration(math.MaxInt64)
	for _, d := range ds {
		within := 0
		for _, e := range ds {
			if e <= d {
				within++
			}
		}
		if 100*within >= q*len(ds) {
			best = min(best, d)
		}
	}
	if len(ds) == 0 {
		return 0
	}
	return ms(best)
}

// TestMaxShareAgainstEveryWindow tries every start of a window on a grid that all holds lie on.
func TestMaxShareAgainstEveryWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		wall := 1 + rng.IntN(60)
		window := 1 + rng.IntN(70)
		busy := make([]bool, wall)
		var holds []Hold
		for at := 0; at < wall; {
			from := at + rng.IntN(5)
			to := from + rng.IntN(8)
			if to > wall {
				break
			}
			job := rng.IntN(2)
			holds = append(holds, Hold{Job: job, From: time.Duration(from), To: time.Duration(to),
				Fraction: 0.5})
			for k := from; job == 0 && k < to; k++ {
				busy[k] = true
			}
			at = to
		}
		w := min(window, wall)
		most := 0
		for start := 0; start+w <= wall; start++ {
			sum := 0
			for k := start; k < start+w; k++ {
				if busy[k] {
					sum++
				}
			}
			most = max(most, sum)
		}
		want := 0.5 * float64(most) / float64(w)
		if got := maxShare(holds, 0, time.Duration(window),
			time.Duration(wall)); math.Abs(got-want) > 1e-12 {
			t.Fatalf("window %d of %d: got %v, want %v in %v", window, wall, got, want, holds)
		}
	}
	if got := maxShare(nil, 0, time.Second, 0); got != 0 {
		t.Errorf("nothing held is a share of %v", got)
	}
}

// TestJoin adds up two parts of a job's time alone.
func TestJoin(t *testing.T) {
	part := func(n int64, seconds float64, held float64) *JobResult {
		d := time.Duration(seconds * float64(time.Second))
		return &JobResult{Name: "a", Status: StatusDone, Iterations: n, done: float64(n),
			elapsed: d, CompletionS: seconds, DeviceSeconds: held, DeviceShare: held / seconds,
			Latencies: []time.Duration{d}}
	}
	var j JobResult
	j.join(part(10, 1, 0.5))
	j.join(part(50, 3, 2.5))
	if j.Iterations != 60 || j.IterationsPerS != 15 || j.DeviceShare != 0.75 ||
		j.CompletionS != 4 || len(j.Latencies) != 2 || j.Latency.Max != 3000 {
		t.Errorf("joined to %+v", j)
	}
}
