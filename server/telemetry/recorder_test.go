package telemetry

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// box is a server with a device that nothing holds.
type box struct {
	ready bool
	mu    sync.Mutex
	used  map[string]time.Duration
}

// use has a job use the device.
func (d *box) use(job string, t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used[job] += t
}

func (d *box) Ready() bool { return d.ready }

func (d *box) Kept() (answers int, bytes int64) { return 2, 300 }

func (d *box) Status() weir.HostStatus {
	st := weir.HostStatus{Device: "cpu:0", Policy: "fair", Memory: weir.GiB, Promised: 3 * weir.MiB,
		Held: 2 * weir.MiB}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, used := range d.used {
		st.Jobs = append(st.Jobs, weir.Usage{Name: name, Used: used, Memory: 2 * weir.MiB,
			Peak: 2 * weir.MiB, Share: weir.Share{Memory: 3 * weir.MiB}})
	}
	return st
}

// life has a request live through all phases, a millisecond longer in each than in that before.
func life(m *Model, account string, rows int, err error) {
	q := m.of.Begin()
	q.For(m, account)
	time.Sleep(1 * time.Millisecond)
	q.Ask(rows)
	time.Sleep(2 * time.Millisecond)
	q.Mark(Admitted)
	time.Sleep(3 * time.Millisecond)
	e := m.Execute(rows, q)
	e.Reached(weir.RunBegun)
	for at := weir.RunPlaced; at <= weir.RunComputed; at++ {
		time.Sleep(time.Duration(Formed+Phase(at)) * time.Millisecond)
		e.Reached(at)
	}
	time.Sleep(time.Duration(Answered) * time.Millisecond)
	e.End(err)
	if err == nil {
		time.Sleep(time.Duration(Encoded) * time.Millisecond)
		q.Mark(Encoded)
		time.Sleep(time.Duration(Sent) * time.Millisecond)
	}
	q.Bytes(100, 200)
	q.End(err)
}

// ms is a duration that so many milliseconds were counted for, once each of n times.
func ms(n, each uint64) oip.Duration { return oip.Duration{Count: n, NS: n * each * 1e6} }

// TestStatistics: durations are those between the phases, to the nanosecond; what failed counts as
// failed only.
func TestStatistics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		m := r.Model("digits", "3", "digits")
		began := time.Now()
		life(m, "", 2, nil)
		life(m, "", 2, nil)
		last := time.Now()
		life(m, "", 5, context.DeadlineExceeded)
		want := oip.Statistics{Name: "digits", Version: "3",
			LastInference: uint64(last.UnixMilli()), Inferences: 4, Executions: 2,
			Requests: oip.RequestStatistics{
				Success: ms(2, 3+4+5+6+7), Fail: ms(1, 3+4+5+6+7),
				Queue: ms(2, 3+5), Input: ms(2, 4), Infer: ms(2, 6), Output: ms(2, 7)},
			Batches: []oip.BatchStatistics{
				{Size: 2, Input: ms(2, 4), Infer: ms(2, 6), Output: ms(2, 7)}}}
		if got := m.Statistics(); !reflect.DeepEqual(got, want) {
			t.Errorf("after %v:\n got %+v\nwant %+v", time.Since(began), got, want)
		}
	})
}

// TestTogether: requests that run together are one execution, and each counts all of it; the queue
// has those that wait, also of those that give up.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		m := r.Model("m", "1", "m")
		var all []*Request
		for range 3 {
			q := r.Begin()
			q.For(m, "")
			q.Ask(2)
			q.Mark(Admitted)
			all = append(all, q)
		}
		if n := m.waiting.Load(); n != 3 {
			t.Errorf("%d wait, of 3", n)
		}
		time.Sleep(time.Millisecond)
		all[2].End(context.Canceled)
		if n := m.waiting.Load(); n != 2 {
			t.Errorf("%d wait, of 2", n)
		}
		e := m.Execute(4, all[:2]...)
		if n := m.waiting.Load(); n != 2 {
			t.Errorf("%d wait for others of their model to end, of 2", n)
		}
		e.Reached(weir.RunBegun)
		if n := m.waiting.Load(); n != 0 {
			t.Errorf("%d wait, of none", n)
		}
		time.Sleep(5 * time.Millisecond)
		e.Reached(weir.RunComputed)
		e.End(nil)
		all[0].End(nil)
		all[1].End(nil)
		if n := m.waiting.Load(); n != 0 {
			t.Errorf("%d wait, of none", n)
		}
		s := m.Statistics()
		if s.Executions != 1 || s.Inferences != 4 || s.Requests.Infer != ms(2, 5) ||
			s.Requests.Queue != ms(2, 1) || s.Requests.Fail != ms(1, 1) {
			t.Errorf("%+v", s)
		}
	})
}

// TestNothing: what is not followed costs nobody a case.
func TestNothing(t *testing.T) {
	var r *Recorder
	m := r.Model("m", "1", "m")
	q := r.Begin()
	q.For(m, "a")
	q.Ask(1)
	q.Mark(Admitted)
	e := m.Execute(1, q)
	e.Reached(weir.RunComputed)
	e.End(nil)
	q.Bytes(1, 2)
	q.End(nil)
	r.Forget("m", "1")
	if ctx := With(t.Context(), q); From(ctx) != nil {
		t.Error("a context carries a request that there is not")
	}
	real := New(Options{})
	f := real.Begin()
	if From(With(t.Context(), f)) != f {
		t.Error("a context loses its request")
	}
	// a model that is not counted, of a request that is
	real.Model("m", "1", "m").Execute(1, nil, f).End(nil)
}

// TestBoundedLabels: names beyond the bounds count under "other", those that are there for
// themselves, and what is forgotten makes room.
func TestBoundedLabels(t *testing.T) {
	r := New(Options{Models: 3, Accounts: 4})
	ask := func(m *Model, account string) {
		q := r.Begin()
		q.For(m, account)
		q.End(nil)
	}
	for i := range 10 {
		m := r.Model(fmt.Sprint("m", i), "1", "")
		for j := range 10 {
			ask(m, fmt.Sprint("a", j))
		}
	}
	text := string(r.AppendText(nil, &box{}))
	for line, want := range map[string]int{
		`weir_requests_total{model="m0",version="1",account="a0",outcome="ok"} 1` + "\n":            1,
		`weir_requests_total{model="m0",version="1",account="a3",outcome="ok"} 1` + "\n":            1,
		`weir_requests_total{model="m0",version="1",account="other",outcome="ok"} 6` + "\n":         1,
		`weir_requests_total{model="m2",version="1",account="other",outcome="ok"} 10` + "\n":        1,
		`weir_requests_total{model="other",version="other",account="other",outcome="ok"} 70` + "\n": 1,
		"weir_requests_total{": 8,
	} {
		if got := strings.Count(text, line); got != want {
			t.Errorf("%d times %s, want %d", got, line, want)
		}
	}
	r.Forget("m0", "1")
	m := r.Model("m10", "1", "")
	ask(m, "new")
	text = string(r.AppendText(nil, &box{}))
	if !strings.Contains(text, `{model="m10",version="1",account="new",outcome="ok"} 1`) ||
		strings.Contains(text, "m0") {
		t.Error("what was forgotten made no room")
	}
}

// TestFlatRecorder: a hundred thousand requests by as many accounts leave no more behind than the
// first thousand did.
func TestFlatRecorder(t *testing.T) {
	r := New(Options{Models: 2, Accounts: 20})
	m := r.Model("m", "1", "m")
	live := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			q := r.Begin()
			q.For(m, fmt.Sprint("account ", i))
			q.Ask(i)
			q.Mark(Admitted)
			m.Execute(i, q).End(nil)
			q.End(nil)
		}
		runtime.GC()
		runtime.GC()
		var st runtime.MemStats
		runtime.ReadMemStats(&st)
		return st.HeapAlloc
	}
	before := live(0, 1000)
	if after := live(1000, 101000); after > before+16<<10 {
		t.Errorf("after 100000 requests %d bytes are held, %d before", after, before)
	}
	runtime.KeepAlive(r)
}

// TestWatch: the load of a server is that of its models' jobs.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		m := r.Model("m", "1", "job")
		d := &box{used: map[string]time.Duration{}}
		r.Watch(d)
		defer r.Close()
		for range 200 {
			synctest.Wait()
			d.use("job", 250*time.Millisecond)
			q := r.Begin()
			q.For(m, "")
			q.Ask(5)
			m.Execute(5, q).End(nil)
			q.End(nil)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := r.Load(); math.Abs(got-0.25) > 0.001 {
			t.Errorf("a quarter of the device is a load of %v", got)
		}
	})
}

// TestRace: requests are counted, listed and forgotten by many at once; one that gives up is ended
// while what runs it marks it.
func TestRace(t *testing.T) {
	r := New(Options{Models: 2, Accounts: 3})
	d := &box{}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				m := r.Model("m", fmt.Sprint(i%3), "m")
				q := r.Begin()
				q.For(m, fmt.Sprint(g))
				q.Ask(1)
				q.Mark(Admitted)
				var run sync.WaitGroup
				run.Go(func() {
					e := m.Execute(1, q)
					e.Reached(weir.RunComputed)
					e.End(nil)
				})
				q.End(context.Canceled)
				run.Wait()
				if n := m.waiting.Load(); n < 0 {
					t.Errorf("%d wait", n)
				}
				if i%50 == 0 {
					r.Forget("m", fmt.Sprint(i%3))
					_ = r.AppendText(nil, d)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkRequest(b *testing.B) {
	r := New(Options{})
	m := r.Model("digits", "1", "digits")
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			q := From(With(ctx, r.Begin()))
			q.For(m, "account")
			q.Ask(1)
			q.Mark(Admitted)
			e := m.Execute(1, q)
			e.Reached(weir.RunBegun)
			e.Reached(weir.RunPlaced)
			e.Reached(weir.RunGranted)
			e.Reached(weir.RunComputed)
			e.End(nil)
			q.Mark(Encoded)
			q.Bytes(300, 200)
			q.End(nil)
		}
	})
}
