package core_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// span is a time in which a job has work, or holds a part of the device.
type span struct {
	job      share.JobID
	from, to time.Duration
	part     float64 // held; 0: has work
}

// history is what two jobs had to do and held.
type history []span

func (h *history) busy(job share.JobID, from, to time.Duration) {
	*h = append(*h, span{job, from, to, 0})
}

func (h *history) hold(job share.JobID, from, to time.Duration, part float64) {
	*h = append(*h, span{job, from, to, part})
}

// alternate lets the jobs 1 and 2 hold the device in turn.
func (h *history) alternate(from, to, first, second time.Duration) {
	for t := from; t < to; t += first + second {
		h.hold(1, t, min(to, t+first), 1)
		h.hold(2, min(to, t+first), min(to, t+first+second), 1)
	}
}

// tell makes a core with jobs of these shares live through a history.
func (h history) tell(t *testing.T, shares []share.Share, end time.Duration) *drive {
	var units int
	d := newDrive(t, core.Config{Needs: share.Can{Overlap: true},
		Policy: &scripted{decide: func(s *share.Snapshot) share.Decision {
			for _, j := range s.Jobs {
				if j.Phase == share.Waiting {
					return share.Decision{Set: []share.Terms{{Job: j.ID,
						Units: share.UnitRange(0, units), Until: share.Forever}}}
				}
			}
			return share.Decision{}
		}}})
	for i, s := range shares {
		d.admit(fmt.Sprint(i), s)
	}
	type edge struct {
		at   time.Duration
		ends bool
		span
	}
	var edges []edge
	for _, s := range h {
		if s.to > s.from {
			edges = append(edges, edge{s.from, false, s}, edge{s.to, true, s})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int {
		if a.at == b.at && a.ends != b.ends {
			return map[bool]int{true: -1, false: 1}[a.ends]
		}
		return cmp.Compare(a.at, b.at)
	})
	for _, e := range edges {
		d.now = e.at
		switch {
		case e.part == 0 && e.ends:
			d.do(e.job, core.Complete)
		case e.part == 0:
			d.do(e.job, core.Arrive)
		case e.ends:
			d.do(e.job, core.Release)
		default:
			units = int(math.Round(4 * e.part))
			d.do(e.job, core.Want)
		}
	}
	d.now = end
	d.do(1, core.Look)
	return d
}

// TestAccounts: histories whose errors and shares can be told by hand.
func TestAccounts(t *testing.T) {
	even := []share.Share{{Compute: 0.5}, {Compute: 0.5}}
	for _, tc := range []struct {
		name   string
		shares []share.Share
		feed   func(h *history)
		end    time.Duration
		errors [2]float64 // p95 expected, in points
		got    [2]float64 // mean share expected
	}{
		{"equal shares", even, func(h *history) {
			h.busy(1, 0, 10*sec)
			h.busy(2, 0, 10*sec)
			h.alternate(0, 10*sec, 5*ms, 5*ms)
		}, 10 * sec, [2]float64{0, 0}, [2]float64{0.5, 0.5}},
		{"one takes too much", even, func(h *history) {
			h.busy(1, 0, 10*sec)
			h.busy(2, 0, 10*sec)
			h.alternate(0, 10*sec, 7*ms, 3*ms)
		}, 10 * sec, [2]float64{20, 20}, [2]float64{0.7, 0.3}},
		{"the second comes late", even, func(h *history) {
			h.busy(1, 0, 10*sec)
			h.busy(2, 6*sec, 10*sec)
			h.hold(1, 0, 6*sec, 1)
			h.alternate(6*sec, 10*sec, 5*ms, 5*ms)
		}, 10 * sec, [2]float64{0, 0}, [2]float64{0.8, 0.44}},
		{"a request now and then, served at once", even, func(h *history) {
			h.busy(2, 0, 10*sec)
			for at := time.Duration(0); at < 10*sec; at += 100 * ms {
				h.busy(1, at, at+40*ms)
				h.hold(1, at, at+40*ms, 1)
				h.hold(2, at+40*ms, at+100*ms, 1)
			}
		}, 10 * sec, [2]float64{0, 0}, [2]float64{0.4, 0.6}},
		{"a hog with pauses", even, func(h *history) {
			h.busy(2, 0, 10*sec)
			for at := time.Duration(0); at < 10*sec; at += 100 * ms {
				h.busy(1, at, at+80*ms)
				h.hold(1, at, at+80*ms, 1)
				h.hold(2, at+80*ms, at+100*ms, 1)
			}
		}, 10 * sec, [2]float64{30, 30}, [2]float64{0.8, 0.2}},
		{"starved in the last tenth", even, func(h *history) {
			h.busy(1, 0, 10*sec)
			h.busy(2, 0, 10*sec)
			h.alternate(0, 9*sec, 5*ms, 5*ms)
			h.hold(1, 9*sec, 10*sec, 1)
		}, 10 * sec, [2]float64{30, 30}, [2]float64{0.53, 0.47}},
		{"limit on an idle device", []share.Share{{Limit: 0.3}, {}}, func(h *history) {
			h.busy(1, 0, 10*sec)
			for at := time.Duration(0); at < 10*sec; at += 10 * ms {
				h.hold(1, at, at+3*ms, 1)
			}
		}, 10 * sec, [2]float64{0, 0}, [2]float64{0.3, 0}},
		{"half of the units together", even, func(h *history) {
			h.busy(1, 0, 2*sec)
			h.busy(2, 0, 2*sec)
			h.hold(1, 0, 2*sec, 0.5)
			h.hold(2, 0, 2*sec, 0.5)
		}, 2 * sec, [2]float64{25, 25}, [2]float64{0.25, 0.25}},
		{"shorter than a window", even, func(h *history) {
			h.busy(1, 0, 250*ms)
			h.busy(2, 0, 250*ms)
			h.alternate(0, 250*ms, 3*ms, 2*ms)
		}, 250 * ms, [2]float64{10, 10}, [2]float64{0.6, 0.4}},
		{"nothing", even, func(*history) {}, sec, [2]float64{}, [2]float64{}},
		{"idle for two hours", even, func(h *history) {
			for _, at := range []time.Duration{0, 2 * time.Hour} {
				h.busy(1, at, at+5*sec)
				h.busy(2, at, at+5*sec)
				h.alternate(at, at+5*sec, 7*ms, 3*ms)
			}
		}, 2*time.Hour + 5*sec, [2]float64{20, 20}, [2]float64{0.637, 0.273}},
		{"one hold of three days", even, func(h *history) {
			h.busy(1, 0, 72*time.Hour)
			h.busy(2, 0, 72*time.Hour)
			h.hold(1, 0, 72*time.Hour, 0.75)
			h.hold(2, 0, 72*time.Hour, 0.25)
		}, 72 * time.Hour, [2]float64{12.5, 37.5}, [2]float64{0.625, 0.125}},
	} {
		var h history
		tc.feed(&h)
		d := h.tell(t, tc.shares, tc.end)
		for i := range tc.errors {
			a, _ := d.c.Account(share.JobID(i + 1))
			if math.Abs(a.ErrorP95-tc.errors[i]) > 0.6 || math.Abs(a.Got-tc.got[i]) > 0.012 {
				t.Errorf("%s: job %d: got %.3f of the device, error p95 %.2f points, want %.3f, "+
					"%.2f", tc.name, a.Job, a.Got, a.ErrorP95, tc.got[i], tc.errors[i])
			}
		}
	}
}

// TestAccountsByBruteForce compares accounts with what adding up slot by slot gives, on random
// histories with gaps of up to hours.
func TestAccountsByBruteForce(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		shares := []share.Share{{Compute: r.Float64() / 2}, {Limit: 0.1 + 0.9*r.Float64()},
			{Compute: r.Float64() / 4, Class: share.Opportunistic}}
		var h history
		at := time.Duration(0)
		for range 60 {
			long := time.Duration(1 + r.IntN(int(400*ms)))
			long *= []time.Duration{1, 1, 1, 12, 900}[r.IntN(5)]
			if r.IntN(3) > 0 {
				job := share.JobID(1 + r.IntN(3))
				h.hold(job, at, at+long, float64(1+r.IntN(4))/4)
			}
			for job := range share.JobID(3) {
				if r.IntN(2) == 0 {
					h.busy(job+1, at, at+time.Duration(r.Int64N(int64(long))))
				}
			}
			at += long
		}
		end := at + time.Duration(r.IntN(int(3*sec)))
		d := h.tell(t, shares, end)
		for i, want := range h.accounts(shares, end) {
			got, _ := d.c.Account(share.JobID(i + 1))
			near := func(a, b, by float64) bool { return math.Abs(a-b) <= by }
			if got.Windows != want.Windows || !near(got.Got, want.Got, 1e-6) ||
				!near(got.Entitled, want.Entitled, 1e-6) ||
				!near(got.ErrorMax, want.ErrorMax, 1e-6) ||
				!near(got.ErrorP95, want.ErrorP95, max(0.01, 0.011*want.ErrorP95)) {
				t.Fatalf("seed %d, job %d:\ngot  %+v\nwant %+v", seed, i+1, got, want)
			}
		}
	}
}

// accounts finds by brute force what windows over whole slots give.
func (h history) accounts(shares []share.Share, end time.Duration) []core.Account {
	n := int(end / core.Slot)
	held, busy := make([][]float64, len(shares)), make([][]float64, len(shares))
	for i := range shares {
		held[i], busy[i] = make([]float64, n), make([]float64, n)
	}
	for _, s := range h {
		for k := int(s.from / core.Slot); k < n && time.Duration(k)*core.Slot < s.to; k++ {
			from := time.Duration(k) * core.Slot
			part := float64(min(s.to, from+core.Slot)-max(s.from, from)) / float64(core.Slot)
			held[s.job-1][k] += part * s.part
		}
	}
	h.work(busy)
	due := make([][]float64, len(shares))
	for i := range due {
		due[i] = make([]float64, n)
	}
	claims, out := make([]share.Claim, len(shares)), make([]float64, len(shares))
	for k := range n {
		for i, s := range shares {
			demand := held[i][k]
			if busy[i][k] >= 0.98 {
				demand = 1
			}
			claims[i] = share.ClaimOf(s, demand)
		}
		share.Entitle(claims, out)
		for i := range shares {
			due[i][k] = out[i]
		}
	}
	list := make([]core.Account, len(shares))
	for i := range shares {
		list[i] = windows(held[i], busy[i], due[i])
	}
	return list
}

// work fills in for each slot how much of it each job had work, which includes all that it held.
func (h history) work(busy [][]float64) {
	for i := range busy {
		var spans []span
		for _, s := range h {
			if int(s.job) == i+1 {
				spans = append(spans, s)
			}
		}
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		at := time.Duration(0)
		for _, s := range spans {
			for from := max(at, s.from); from < s.to; {
				k := int(from / core.Slot)
				to := min(s.to, time.Duration(k+1)*core.Slot)
				if k >= len(busy[i]) {
					break
				}
				busy[i][k] += float64(to-from) / float64(core.Slot)
				from = to
			}
			at = max(at, s.to)
		}
	}
}

// windows makes an account from slots.
func windows(held, busy, due []float64) core.Account {
	var a core.Account
	var errors []float64
	const slots = int(core.Window / core.Slot)
	for k := slots - 1; k < len(held); k++ {
		var got, work, entitled float64
		for x := k - slots + 1; x <= k; x++ {
			got += held[x] / float64(slots)
			work += busy[x]
			entitled += due[x] / float64(slots)
		}
		if work > 1e-12 {
			errors = append(errors, 100*math.Abs(got-entitled))
			a.Got += got
			a.Entitled += entitled
		}
	}
	if n := len(errors); n > 0 {
		slices.Sort(errors)
		a.Windows, a.Got, a.Entitled = int64(n), a.Got/float64(n), a.Entitled/float64(n)
		a.ErrorMax = errors[n-1]
		a.ErrorP95 = errors[int(math.Ceil(0.95*float64(n)))-1]
	}
	return a
}

// TestBounded: what a core remembers does not grow with the jobs that have been, nor with time.
func TestBounded(t *testing.T) {
	n := 100_000
	if os.Getenv("WEIR_LONG") != "" {
		n = 10_000_000
	}
	for _, spec := range []string{"fair", "priority", "fifo", "timeslice"} {
		d := under(t, spec)
		stay := d.admit("stay", share.Share{Compute: 0.5})
		life := func() {
			id := d.admit("short", share.Share{Compute: 0.1, Memory: share.MiB})
			d.do(id, core.Arrive, core.Want, core.Begin)
			_ = d.step(core.Event{Kind: core.Reserve, Job: id, Bytes: share.MiB})
			d.now += 300 * ms
			d.do(stay, core.Arrive, core.Complete)
			d.do(id, core.Finish, core.Complete, core.Release, core.End)
			d.now += 700 * ms
		}
		for range n / 10 {
			life()
		}
		before := heap()
		for range n {
			life()
		}
		if grown := int64(heap()) - int64(before); grown > 64<<10 {
			t.Errorf("%s: %d KiB more after %d jobs", spec, grown>>10, n)
		}
		if a, ok := d.c.Account(stay); !ok || len(d.c.Status().Jobs) != 1 {
			t.Errorf("%s: the job that stayed: %+v", spec, a)
		}
	}
}

// heap is the memory in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMeasuredTime: what a job says that it used is told apart from what it held, is never more
// than that, and changes nothing of what it is charged; what it says that passed is bounded by the
// time.
func TestMeasuredTime(t *testing.T) {
	d := under(t, "fair")
	a, b := d.admit("a", share.Share{}), d.admit("b", share.Share{})
	d.do(a, core.Want)
	var held time.Duration
	for _, c := range []struct {
		pass, used, passed     time.Duration // since the measurement before, and what that says
		wantMeasured, wantPass time.Duration
	}{
		{30 * ms, 10 * ms, 0, 10 * ms, 0},
		{30 * ms, 0, 0, 10 * ms, 0},
		{0, math.MaxInt64, 0, 60 * ms, 0},
		{20 * ms, 15 * ms, 9 * ms, 75 * ms, 0}, // it held the device all the time
	} {
		d.now += c.pass
		held += c.pass
		e := core.Event{Kind: core.Measure, Job: a, Used: c.used, Passed: c.passed, Launches: 7}
		if err := d.step(e); err != nil {
			t.Fatal(err)
		}
		got, _ := d.c.Account(a)
		if got.Used != held || got.Measured != c.wantMeasured || got.Passed != c.wantPass {
			t.Errorf("at %v: held %v, measured %v, passed %v, want %v, %v, %v", d.now, got.Used,
				got.Measured, got.Passed, held, c.wantMeasured, c.wantPass)
		}
	}
	e := core.Event{Kind: core.Measure, Job: b, Used: ms, Passed: 30 * ms}
	for _, want := range []time.Duration{30 * ms, 60 * ms, 80 * ms} {
		if err := d.step(e); err != nil {
			t.Fatal(err)
		}
		if got, _ := d.c.Account(b); got.Used != 0 || got.Measured != 0 || got.Passed != want {
			t.Errorf("one that held nothing: %+v, want %v passed", got, want)
		}
	}
	if n := d.job(a).Launches; n != 28 {
		t.Errorf("%d launches, want 28", n)
	}
	e.Used = -1
	if err := d.step(e); !errors.Is(err, core.ErrEvent) {
		t.Errorf("a measurement below 0: %v", err)
	}
	if err := d.step(core.Event{Kind: core.End, Job: a}); err != nil {
		t.Fatal(err)
	}
	for _, n := range d.said {
		if n.Kind == core.Ended && n.Account.Measured != 75*ms {
			t.Errorf("after the end: %+v", n.Account)
		}
	}
}
