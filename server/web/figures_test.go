package web_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
	"github.com/weirgpu/weir/server/web"
)

// about reports whether two values are the same to a part of 1/32, as histograms know them.
func about(v *float64, want float64) bool {
	return v != nil && *v > want*31/32 && *v < want*33/32
}

// TestFigures: rates are of the last five seconds, percentiles of the last ten, and the charts have
// them all.
func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New(telemetry.Options{})
		// answer answers n requests at once that took so long each
		answer := func(n int, took time.Duration, err error) {
			var all []*telemetry.Request
			for range n {
				q := r.Begin()
				q.For(r.Model("a", "1", "a"), "")
				all = append(all, q)
			}
			time.Sleep(took)
			for _, q := range all {
				q.End(err)
			}
		}
		answer(40, 3*time.Millisecond, nil) // before the page is there
		at := open(t, served("a", "b"), web.Options{Figures: r}, nil)
		now := func() *web.Model {
			var got web.State
			at.ask("GET", "/v1/state", "", &got)
			return model(&got, "a")
		}
		if m := now(); m.Requests != 40 || m.Rate != 0 || !about(m.P50, 3) {
			t.Errorf("at first %+v", *m)
		}
		time.Sleep(13100 * time.Millisecond) // apart from the page's looks
		if m := now(); m.P50 != nil || m.P99 != nil || m.Requests != 40 {
			t.Errorf("after silence p50 is %v", *m.P50)
		}
		answer(90, time.Millisecond, nil)
		answer(10, 20*time.Millisecond, nil)
		answer(5, time.Millisecond, errors.New("no"))
		time.Sleep(700 * time.Millisecond)
		if m := now(); m.Rate != 21 || !about(m.P50, 1) || !about(m.P99, 20) ||
			m.Requests != 145 || m.Errors != 5 {
			t.Errorf("then %+v", *m)
		}
		time.Sleep(6 * time.Second)
		if m := now(); m.Rate != 0 || !about(m.P50, 1) {
			t.Errorf("six seconds later %+v", *m)
		}
		answer(1000, 8*time.Millisecond, nil)
		time.Sleep(700 * time.Millisecond)
		if m := now(); !about(m.P50, 8) {
			t.Errorf("in the end %+v", *m)
		}
		var h web.History
		if code := at.ask("GET", "/v1/models/a/history", "", &h); code != 200 {
			t.Fatal(code)
		}
		sum := uint32(0)
		for _, n := range h.Requests {
			sum += n
		}
		if n := len(h.Requests); sum != 1105 || n < 40 || len(h.P99) != n ||
			!about(&h.P50[n-1], 8) || len(h.Held) != n || h.Held[n-1] != 1<<20 ||
			h.Requests[n-1]+h.Requests[n-2] != 1000 {
			t.Errorf("%d requests in %d points: %+v", sum, n, h)
		}
		if code := at.ask("GET", "/v1/models/c/history", "", &h); code != 404 {
			t.Errorf("charts of no model: %d", code)
		}
	})
}

// TestFiguresAnew: counts that begin anew, such as those of a model that was loaded again, are no
// negative rates.
func TestFiguresAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		s.change("a", func(u *weir.Usage) { u.Runs, u.Used = 1000, time.Hour })
		at := open(t, s, web.Options{}, nil)
		s.change("a", func(u *weir.Usage) { u.Runs, u.Used = 5, 100*time.Millisecond })
		time.Sleep(700 * time.Millisecond)
		var got web.State
		at.ask("GET", "/v1/state", "", &got)
		if m := got.Models[0]; m.Rate != 1 || m.Used != 0.2 {
			t.Errorf("rate %v, part %v", m.Rate, m.Used)
		}
	})
}

// TestVersions: a model's row has what the jobs of all its versions have, the share of the newest
// that answers, and the device time of a version that ends is no part of what comes after it.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		s.index = append(s.index, oip.IndexEntry{Name: "a", Version: "2", State: "READY"},
			oip.IndexEntry{Name: "a", Version: "10", State: "UNAVAILABLE", Reason: "broken"})
		s.status.Jobs = append(s.status.Jobs, weir.Usage{Name: "a/2~2", Memory: weir.MiB,
			Used: time.Hour, Share: weir.Share{Memory: weir.MiB, Class: weir.Latency}})
		at := open(t, s, web.Options{}, nil)
		var got web.State
		at.ask("GET", "/v1/state", "", &got)
		if m := got.Models[0]; len(got.Models) != 1 || m.Version != "2" || m.Class != "latency" ||
			m.Held != 2<<20 || m.Cap != 9<<20 || len(m.Versions) != 3 || m.State != "READY" ||
			m.Versions[2].Version != "10" || m.Versions[2].Reason != "broken" {
			t.Errorf("%+v", got.Models)
		}
		s.change("a", func(u *weir.Usage) { u.Used += 100 * time.Millisecond })
		s.mu.Lock()
		s.status.Jobs = s.status.Jobs[:1]
		s.mu.Unlock()
		time.Sleep(700 * time.Millisecond)
		at.ask("GET", "/v1/state", "", &got)
		if m := got.Models[0]; m.Used != 0.2 {
			t.Errorf("part %v", m.Used)
		}
	})
}
