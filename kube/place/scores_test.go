package place

import (
	"math"
	"testing"
)

// left is a node with so much free CPU and, of each device, so many units; no device has memory.
func left(cpu int64, units ...int) *node {
	n := newNode(&Node{CPU: cpu, Devices: make([]Device, len(units))}, 0)
	n.units, n.idle = 0, 0
	for i, u := range units {
		n.free[i].units = int32(u)
		n.units += int64(u)
		if u == Whole {
			n.idle++
		}
	}
	return n
}

// some repeats a number.
func some(count, units int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = units
	}
	return all
}

// of is the request for a part of one device, or for several of them.
func of(cpu int64, count, units int) *shape {
	return newShape(Request{CPU: cpu, Count: count, Units: units}, []string{""})
}

// TestScoresOfThePublishedPolicies holds scores that were computed by hand from the definitions: a
// cluster that places well by accident of two wrong terms does not pass.
func TestScoresOfThePublishedPolicies(t *testing.T) {
	gathered := func(kind, mixed int) *node {
		n := left(64000, some(4, Whole)...)
		n.pods[kind], n.mixed = 1, mixed
		return n
	}
	const part, one = 1, 2 // kinds
	for _, test := range []struct {
		what   string
		policy Policy
		n      *node
		s      *shape
		score  int64
		set    Set
	}{
		// 1 - (32/128 + 3500/8000) / 2
		{"bestfit", bestFit, left(64000, some(4, Whole)...), of(32000, 1, 500), 65, 1},
		{"bestfit on a large node", bestFit, left(64000, some(20, Whole)...), of(0, 1, 500), 0, 1},
		// 1 - (64/128 x 32/128 + 4000/8000 x 500/8000) / 2
		{"dotprod", dotProd, left(64000, some(4, Whole)...), of(32000, 1, 500), 92, 1},
		{"no device", clustering, gathered(part, 1), of(1, 0, 0), 0, 0},
		{"an empty node", clustering, gathered(one, 0), of(0, 1, 500), 12 + 25, 1},
		{"of one kind", clustering, gathered(part, 1), of(0, 1, 500), 12 + 75, 1},
		{"of two kinds", clustering, gathered(part, 2), of(0, 1, 500), 12 + 50, 1},
		{"of another kind", clustering, gathered(one, 1), of(0, 1, 500), 12, 1},
		{"no device", packing, left(0, Whole), of(1, 0, 0), 0, 0},
		{"an idle node", packing, left(0, some(4, Whole)...), of(0, 1, 500), 33 - 4, 1},
		{"a large idle node", packing, left(0, some(20, Whole)...), of(0, 1, 500), 20, 1},
		{"a device in use", packing, left(0, Whole, 300), of(0, 1, 200), 100 - 3, 2},
		{"two in use", packing, left(0, 900, 900, Whole), of(0, 2, 600), 100 - 18, 3},
		{"six in use", packing, left(0, append(some(6, 900), Whole)...), of(0, 6, 600), 50, 63},
		{"idle ones of a node in use", packing, left(0, 300, Whole, Whole), of(0, 2, Whole),
			50 - 2, 6},
		{"many of them", packing, left(0, append([]int{300}, some(20, Whole)...)...),
			of(0, 20, Whole), 33, 1<<21 - 2},
	} {
		got, set := test.policy.score(nil, test.n, test.s)
		if got != test.score || set != test.set {
			t.Errorf("%s, %s: %d with devices %b, want %d with %b", test.policy.Name, test.what,
				got, set, test.score, test.set)
		}
	}
}

// halves is a workload of pods that want half a device and one core.
var halves = Workload{{Request{CPU: 1000, Count: 1, Units: 500}, 3}}

// TestScoresByFragments does the same for those policies that know the workload, which wants halves
// of devices.
func TestScoresByFragments(t *testing.T) {
	f := newFragments(halves, []string{""})
	const even = maxScore / 2
	for _, test := range []struct {
		what   string
		policy Policy
		n      *node
		s      *shape
		score  int64
		set    Set
	}{
		{"nothing is lost", fgd, left(9000, Whole), of(0, 1, 300), 50, 1},
		// 400 units are lost: 1 / (1 + e^0.4)
		{"a fragment comes", fgd, left(9000, Whole), of(0, 1, 600), 40, 1},
		{"one device is spoilt", fgd, left(9000, 600, Whole), of(0, 1, 200), 50, 2},
		// 300 were lost and 100 are: 1 / (1 + e^-0.2)
		{"a fragment goes", fgd, left(9000, Whole, 300), of(0, 1, 200), 54, 2},
		// 2000 units that no core is left for: 1 / (1 + e^1)
		{"no CPU is left", fgd, left(1000, Whole, Whole, Whole), of(1000, 2, Whole), 26, 3},
		// A device is worth two halves; 700 of it one. Half a device is lost, which counts twice.
		{"worth is lost", prices, left(9000, Whole), of(1000, 1, 300), even - 1000*1000, 1},
		// And the 700 are a fragment, as no core is left. Of 1000 the CPU reached for 500 before,
		// of 500 for none after: as much is short.
		{"no CPU is left", prices, left(1000, Whole), of(1000, 1, 300), even - 1700*1000, 1},
		// The CPU is 250 units short before and not after, which counts twice.
		{"what is short", prices, left(1500, Whole), of(0, 1, 500), even - 500*1000, 1},
		{"one device is spoilt", prices, left(9000, 500, Whole), of(0, 1, 200),
			even - 1000*1000, 2},
		{"a fragment goes", prices, left(9000, Whole, 300), of(0, 1, 200), even + 200*1000, 2},
		{"whole devices", prices, left(9000, 400, Whole), of(0, 1, Whole), even - 2000*1000, 2},
	} {
		got, set := test.policy.score(f, test.n, test.s)
		if got != test.score || set != test.set {
			t.Errorf("%s, %s: %d with devices %b, want %d with %b", test.policy.Name, test.what,
				got, set, test.score, test.set)
		}
	}
}

// TestWhatIsShortOfCPU has two shapes: one needs a core for each half device, one half a core for a
// whole one; one core for a device on average, so that by the fourth root of 2 more and less of a
// device goes with a core.
func TestWhatIsShortOfCPU(t *testing.T) {
	l := newPriceList(append(Workload{{Request{CPU: 500, Count: 1, Units: Whole}, 3},
		{Request{CPU: 1 << 20}, 9}}, halves...))
	root := math.Sqrt(math.Sqrt(2))
	for cpu, want := range map[int64]float64{
		1200: 0,
		1000: (1000 - 1000/root) / 3,
		500:  (1000-500/root)/3 + (1000-500*root)*2/3,
		0:    1000,
	} {
		if got := l.short(1000, cpu); math.Abs(got-want) > 1e-6 {
			t.Errorf("with %d thousandths of a core %v is short, want %v", cpu, got, want)
		}
	}
}

// TestMemoryBoundsWorth prices a device of which less memory than units is free by its memory.
func TestMemoryBoundsWorth(t *testing.T) {
	f := newFragments(halves, []string{""})
	n := newNode(&Node{Devices: []Device{{Memory: 16 * gib}}}, 0)
	for free, want := range map[int64]float64{16 * gib: 1000, 8 * gib: 500, 8*gib - 1: 0} {
		n.free[0].mem = free
		if got := f.worth(n); got != want {
			t.Errorf("with %d bytes free it is worth %v, want %v", free, got, want)
		}
	}
}
