package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// bendable is a job whose plan keeps a value of 256 KiB that a smaller one computes again.
func bendable(t *testing.T, name string) Job {
	t.Helper()
	g, err := graph.Parse(`graph "wide" {
		opset "" 17
		input %x: float32[1,256]
		const %to: int64[2] = {256, 256}
		%a = Expand@13 (%x, %to)
		%b = Softmax@13 (%a) {axis=0}
		%c = Softmax@13 (%b) {axis=1}
		%d = MatMul@13 (%c, %b)
		%y = Add@14 (%d, %a)
		output %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	return closedJob(name, g, 1<<40)
}

// playing has jobs run until the function that it returns is called.
func playing(t *testing.T, s *Scenario) (st *stage, c *Control, end func()) {
	t.Helper()
	return playingWith(t, s, Options{Threads: 1})
}

// playingWith is playing with other options.
func playingWith(t *testing.T, s *Scenario, o Options) (st *stage, c *Control, end func()) {
	t.Helper()
	c = &Control{}
	o.Control = c
	r, err := newRun(t.Context(), s.valid(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if st, err = r.newStage(&Phase{Device: s.Device, Mode: Shared}, Shared, s.Policy); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for _, i := range r.indices() {
		st.add(ctx, r.jobs[i], i)
	}
	played := make(chan error, 1)
	go func() { played <- st.play(ctx) }()
	for {
		if _, err := c.Set(ctx, "nobody", nil); !errors.Is(err, ErrNotRunning) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return st, c, func() {
		cancel()
		if err := <-played; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		st.report()
		st.close()
		r.close()
	}
}

// TestCapWhileItRuns: a cap below what a job's plan takes has it go on with a smaller one, whether
// its memory is lent or not, and with the larger one once the cap is raised; what no plan fits, and
// what others are promised, is refused with both numbers, and changes nothing.
func TestCapWhileItRuns(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		a, b := bendable(t, "a"), bendable(t, "b")
		a.Elastic = elastic
		b.Memory = 8 * share.MiB
		st, c, end := playing(t, &Scenario{Device: "cpu:0", Policy: "fair", Memory: 16 * share.MiB,
			Jobs: []Job{a, b}})
		job := st.tenants[0]
		one := share.Bytes(job.p.need())
		served := func() int64 {
			n, _, _ := job.driver.recent()
			return n
		}
		set := func(memory share.Bytes) (share.Share, error) {
			return c.Set(t.Context(), "a", func(s *share.Share) { s.Memory = memory })
		}
		for _, tc := range []struct {
			cap share.Bytes
			err error
		}{
			{one + share.MiB, nil}, {one - 200*share.KiB, nil}, {one - 190*share.KiB, nil},
			{one / 4, core.ErrOverCap}, {20 * share.MiB, core.ErrNoMemory},
			{one - 210*share.KiB, nil}, {20 * share.MiB, core.ErrNoMemory}, {one, nil},
		} {
			before := job.admit.Spec().Memory
			got, err := set(tc.cap)
			if tc.err == nil && (err != nil || got.Memory != tc.cap) {
				t.Fatalf("elastic %t: cap %v: %v, %v", elastic, tc.cap, got.Memory, err)
			}
			text := tc.cap.About()
			if tc.err == core.ErrNoMemory {
				text = "16MiB"
			}
			if tc.err != nil && (!errors.Is(err, tc.err) || !strings.Contains(err.Error(), text)) {
				t.Errorf("elastic %t: cap %v: %v", elastic, tc.cap, err)
			}
			if now := job.admit.Spec().Memory; tc.err != nil && now != before {
				t.Errorf("elastic %t: refused %v, and the cap is %v in place of %v", elastic,
					tc.cap, now, before)
			}
			for n := served(); served() < n+3; {
				time.Sleep(time.Millisecond)
			}
			st := job.admit.Status()
			if st.Memory.Resident() > st.Memory.Cap {
				t.Errorf("elastic %t: %v is held under a cap of %v", elastic, st.Memory.Resident(),
					st.Memory.Cap)
			}
		}
		if job.p != st.run.jobs[0] {
			t.Errorf("elastic %t: with its cap of before it has a smaller plan", elastic)
		}
		end()
		if job.result.MemoryCapBytes != int64(one) || job.result.Status != StatusDone {
			t.Errorf("elastic %t: %+v", elastic, job.result)
		}
	}
}

// TestSetRefuses: who is no job, waits, or has ended is refused with the reason, and so is a share
// that is none.
func TestSetRefuses(t *testing.T) {
	a, b, over := bendable(t, "a"), bendable(t, "b"), bendable(t, "over")
	b.Wait, a.Memory, b.Memory, over.Iterations = true, 9*share.MiB, 9*share.MiB, 1
	st, c, end := playing(t, &Scenario{Device: "cpu:0", Policy: "fair", Memory: 16 * share.MiB,
		Jobs: []Job{over, a, b}})
	for open := true; open; {
		select {
		case <-st.tenants[0].driver.over:
			open = false
		case <-time.After(time.Minute):
			t.Fatal("the job that has one request does not end")
		}
	}
	small := func(sh *share.Share) {
		sh.Memory = share.Bytes(st.tenants[0].p.need()) - 200*share.KiB // takes another plan
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Set(ctx, "over", small); !errors.Is(err, core.ErrEnded) {
		t.Errorf("a job that has ended: %v", err)
	}
	for _, tc := range []struct {
		job    string
		change func(*share.Share)
		kind   error
		text   string
	}{
		{"none", nil, ErrNoJob, "none"},
		{"b", nil, ErrNotRunning, "waits at place 1"},
		{"a", func(s *share.Share) { s.Compute = 2 }, share.ErrInvalid, "compute"},
		{"a", func(s *share.Share) { s.Memory = -1 }, share.ErrInvalid, "memory"},
	} {
		if _, err := c.Set(t.Context(), tc.job, tc.change); !errors.Is(err, tc.kind) ||
			!strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.job, err)
		}
	}
	got, err := c.Set(t.Context(), "a", func(s *share.Share) {
		s.Class, s.Compute, s.Limit = share.Latency, 0.25, 0.5
	})
	if err != nil || got.Class != share.Latency || got.Compute != 0.25 || got.Cap() != 0.5 ||
		got.Memory != 9*share.MiB {
		t.Errorf("%+v, %v", got, err)
	}
	end()
	if _, err := c.Set(t.Context(), "a", nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSetKeeps: a cap that is set counts the weights that a job shares, of which its own part of
// the device has none; and of one whose memory is lent all stays that is not weights, and as much
// more as it was told to keep, until it is told otherwise.
func TestSetKeeps(t *testing.T) {
	plans := keptPlans(t)
	for _, c := range []struct{ elastic, shared bool }{{false, true}, {true, true}, {true, false}} {
		s := &Scenario{Device: "cpu:0", Policy: "fair", Memory: 64 * share.MiB}
		for i := range 2 {
			j := sharing(fmt.Sprint("j", i), 1, 1<<40)
			j.Elastic = c.elastic
			s.Jobs = append(s.Jobs, j)
			if !c.shared {
				break
			}
		}
		st, control, end := playingWith(t, s, Options{Threads: 1, Plans: plans})
		job := st.tenants[0]
		need, weights := share.Bytes(job.p.need()), share.Bytes(job.p.plan.PackedBytes)
		common := share.Bytes(0)
		if c.shared {
			common = weights
		}
		check := func(memory, keep share.Bytes, got share.Share, err error) {
			t.Helper()
			own, rest := job.admit.Spec().Share, share.Bytes(0)
			if c.elastic {
				rest = min(own.Memory, max(keep, need-weights))
			}
			if err != nil || got.Memory != memory || own.Memory != memory-common ||
				got.Keep != keep || own.Keep != rest {
				t.Errorf("%+v: set to %v, keep %v: %+v, itself %+v: %v", c, memory, keep, got, own,
					err)
			}
		}
		set := func(change func(*share.Share)) (share.Share, error) {
			return control.Set(t.Context(), "j0", change)
		}
		more, keep := need+share.MiB, share.Bytes(0)
		got, err := set(func(s *share.Share) { s.Memory = more })
		check(more, keep, got, err)
		if c.elastic {
			keep = need - weights + share.KiB
			got, err = set(func(s *share.Share) { s.Keep = keep })
			check(more, keep, got, err)
		}
		got, err = set(func(s *share.Share) { s.Limit = 0.9 })
		check(more, keep, got, err)
		if got, err = set(func(s *share.Share) { s.Memory = need - 1 }); c.shared &&
			!errors.Is(err, core.ErrOverCap) {
			t.Errorf("%+v: a byte too few: %+v, %v", c, got, err)
		} else if c.shared {
			check(more, keep, got, nil)
		}
		got, err = set(func(s *share.Share) { s.Memory = need })
		check(need, keep, got, err)
		end()
	}
}
