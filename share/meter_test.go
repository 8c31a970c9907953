package share_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// history is what a meter is fed, as data: alternating holds of two jobs.
type history struct {
	name   string
	shares [2]share.Share
	feed   func(m *share.Meter)
	errors [2]float64 // p95 expected, in points
	got    [2]float64 // mean share expected
}

// alternate lets the jobs 1 and 2 hold the device in turn.
func alternate(m *share.Meter, from, to, first, second time.Duration) {
	for t := from; t < to; t += first + second {
		m.Hold(1, t, min(to, t+first), 1)
		m.Hold(2, min(to, t+first), min(to, t+first+second), 1)
	}
}

func TestMeter(t *testing.T) {
	even := [2]share.Share{{Compute: 0.5}, {Compute: 0.5}}
	for _, tc := range []history{
		{"equal shares", even, func(m *share.Meter) {
			m.Busy(1, 0, 10*sec)
			m.Busy(2, 0, 10*sec)
			alternate(m, 0, 10*sec, 5*ms, 5*ms)
		}, [2]float64{0, 0}, [2]float64{0.5, 0.5}},
		{"one takes too much", even, func(m *share.Meter) {
			m.Busy(1, 0, 10*sec)
			m.Busy(2, 0, 10*sec)
			alternate(m, 0, 10*sec, 7*ms, 3*ms)
		}, [2]float64{20, 20}, [2]float64{0.7, 0.3}},
		{"the second comes late", even, func(m *share.Meter) {
			m.Busy(1, 0, 10*sec)
			m.Busy(2, 6*sec, 10*sec)
			m.Hold(1, 0, 6*sec, 1)
			alternate(m, 6*sec, 10*sec, 5*ms, 5*ms)
		}, [2]float64{0, 0}, [2]float64{0.8, 0.44}},
		{"a request now and then, served at once", even, func(m *share.Meter) {
			m.Busy(2, 0, 10*sec)
			for at := time.Duration(0); at < 10*sec; at += 100 * ms {
				m.Busy(1, at, at+40*ms)
				m.Hold(1, at, at+40*ms, 1)
				m.Hold(2, at+40*ms, at+100*ms, 1)
			}
		}, [2]float64{0, 0}, [2]float64{0.4, 0.6}},
		{"a hog with pauses", even, func(m *share.Meter) {
			m.Busy(2, 0, 10*sec)
			for at := time.Duration(0); at < 10*sec; at += 100 * ms {
				m.Busy(1, at, at+80*ms)
				m.Hold(1, at, at+80*ms, 1)
				m.Hold(2, at+80*ms, at+100*ms, 1)
			}
		}, [2]float64{30, 30}, [2]float64{0.8, 0.2}},
		{"starved in the last tenth", even, func(m *share.Meter) {
			m.Busy(1, 0, 10*sec)
			m.Busy(2, 0, 10*sec)
			alternate(m, 0, 9*sec, 5*ms, 5*ms)
			m.Hold(1, 9*sec, 10*sec, 1)
		}, [2]float64{30, 30}, [2]float64{0.53, 0.47}},
		{"limit on an idle device", [2]share.Share{{Limit: 0.3}, {}}, func(m *share.Meter) {
			m.Busy(1, 0, 10*sec)
			for at := time.Duration(0); at < 10*sec; at += 10 * ms {
				m.Hold(1, at, at+3*ms, 1)
			}
		}, [2]float64{0, 0}, [2]float64{0.3, 0}},
		{"half the units each", even, func(m *share.Meter) {
			m.Busy(1, 0, 2*sec)
			m.Busy(2, 0, 2*sec)
			m.Hold(1, 0, 2*sec, 0.5)
			m.Hold(2, 0, 2*sec, 0.5)
		}, [2]float64{0, 0}, [2]float64{0.5, 0.5}},
		{"shorter than a window", even, func(m *share.Meter) {
			m.Busy(1, 0, 250*ms)
			m.Busy(2, 0, 250*ms)
			alternate(m, 0, 250*ms, 3*ms, 2*ms)
		}, [2]float64{10, 10}, [2]float64{0.6, 0.4}},
		{"nothing", even, func(*share.Meter) {}, [2]float64{}, [2]float64{}},
	} {
		m := share.NewMeter()
		m.Add(1, tc.shares[0])
		m.Add(2, tc.shares[1])
		tc.feed(m)
		for i, a := range m.Accounts() {
			if math.Abs(a.ErrorP95()-tc.errors[i]) > 0.6 {
				t.Errorf("%s: job %d: error p95 %.2f points, want %.2f", tc.name, a.Job,
					a.ErrorP95(), tc.errors[i])
			}
			if math.Abs(a.Got-tc.got[i]) > 0.012 {
				t.Errorf("%s: job %d: got %.3f of the device, want %.3f", tc.name, a.Job, a.Got,
					tc.got[i])
			}
		}
	}
}

// TestMeterOrder: intervals may come in any order and cut anywhere.
func TestMeterOrder(t *testing.T) {
	whole, pieces := share.NewMeter(), share.NewMeter()
	for _, m := range []*share.Meter{whole, pieces} {
		m.Add(2, share.Share{Compute: 0.3})
		m.Add(1, share.Share{Compute: 0.7})
	}
	whole.Busy(1, 0, 3*sec)
	whole.Busy(2, 0, 3*sec)
	whole.Hold(1, 0, 3*sec, 1)
	for _, at := range []time.Duration{2, 0, 1} {
		pieces.Busy(2, at*sec, (at+1)*sec)
		pieces.Busy(1, at*sec, at*sec+130*ms)
		pieces.Busy(1, at*sec+130*ms, (at+1)*sec)
		pieces.Hold(1, at*sec, at*sec+777*ms, 1)
		pieces.Hold(1, at*sec+777*ms, (at+1)*sec, 1)
	}
	a, b := whole.Accounts(), pieces.Accounts()
	for i := range a {
		if a[i].Job != b[i].Job || a[i].Used != b[i].Used ||
			math.Abs(a[i].ErrorP95()-b[i].ErrorP95()) > 1e-9 {
			t.Errorf("whole %+v, in pieces %+v", a[i], b[i])
		}
	}
	if a[0].Job != 1 || math.Abs(a[0].ErrorP95()-30) > 1e-9 {
		t.Errorf("job %d: error %.3f, want job 1 with 30", a[0].Job, a[0].ErrorP95())
	}
}

func TestMeterIgnoresUnknownJobs(t *testing.T) {
	m := share.NewMeter()
	m.Hold(7, 0, sec, 1)
	m.Busy(7, 0, sec)
	if a := m.Accounts(); len(a) != 0 {
		t.Errorf("accounts of jobs never added: %+v", a)
	}
}

// TestMeterForgets: a meter that runs for days keeps a bounded record, and the windows it keeps are
// still right.
func TestMeterForgets(t *testing.T) {
	m := share.NewMeter()
	m.Add(1, share.Share{Compute: 0.5})
	m.Add(2, share.Share{Compute: 0.5})
	m.Add(3, share.Share{Compute: 0.5})
	m.Busy(3, 0, sec)
	m.Hold(3, 0, sec, 1)
	const days = 72 * time.Hour
	for at := sec; at < days; at += 10 * sec {
		m.Busy(1, at, at+10*sec)
		m.Busy(2, at, at+10*sec)
		m.Hold(1, at, at+10*sec, 0.75)
		m.Hold(2, at, at+10*sec, 0.25)
	}
	accounts := m.Accounts()
	if len(accounts) != 2 {
		t.Fatalf("%d jobs remembered, want the 2 of late", len(accounts))
	}
	for _, a := range accounts {
		if len(a.Errors) > 80000 || math.Abs(a.ErrorP95()-25) > 1e-6 {
			t.Errorf("job %d: %d windows, error %.3f, want 25", a.Job, len(a.Errors), a.ErrorP95())
		}
	}
}
