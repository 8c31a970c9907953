package web_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/web"
)

// TestFigures: rates are of the last five seconds, percentiles of the last ten, linear within a
// bucket, and the charts have them all.
func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served("a")
		s.answer("a", 40, 0.003) // before the page is there
		at := open(t, s, web.Options{Figures: s}, nil)
		now := func() *web.Model {
			var got web.State
			at.ask("GET", "/v1/state", "", &got)
			return &got.Models[0]
		}
		if m := now(); m.Requests != 40 || m.Rate != 0 || *m.P50 != 3 {
			t.Errorf("at first %+v", *m)
		}
		time.Sleep(20100 * time.Millisecond) // apart from the page's looks
		if m := now(); m.P50 != nil || m.P99 != nil {
			t.Errorf("after silence p50 is %v", *m.P50)
		}
		s.answer("a", 50, 0.003)
		s.answer("a", 50, 0.0015)
		time.Sleep(700 * time.Millisecond)
		// half of them take 1 to 2 ms, half 2 to 4
		if m := now(); m.Rate != 20 || *m.P50 != 2 || *m.P99 != 3.96 || m.Requests != 140 {
			t.Errorf("then %+v, p50 %v, p99 %v", *m, *m.P50, *m.P99)
		}
		time.Sleep(6 * time.Second)
		if m := now(); m.Rate != 0 || *m.P50 != 2 {
			t.Errorf("six seconds later %+v", *m)
		}
		s.answer("a", 1, 1)
		time.Sleep(700 * time.Millisecond)
		if m := now(); *m.P99 != 4 {
			t.Errorf("p99 is %v", *m.P99)
		}
		s.answer("a", 1000, 1)
		time.Sleep(700 * time.Millisecond)
		if m := now(); *m.P99 != 8 {
			t.Errorf("p99 above all bounds is %v", *m.P99)
		}
		var h web.History
		if code := at.ask("GET", "/v1/models/a/history", "", &h); code != 200 {
			t.Fatal(code)
		}
		sum := uint32(0)
		for _, n := range h.Requests {
			sum += n
		}
		if n := len(h.Requests); sum != 1101 || n < 50 || len(h.P99) != n || h.P99[n-1] != 8 ||
			len(h.Held) != n || h.Held[n-1] != 1<<20 || h.Requests[n-1]+h.Requests[n-2] != 1000 {
			t.Errorf("%d requests in %d points: %+v", sum, n, h)
		}
		if code := at.ask("GET", "/v1/models/b/history", "", &h); code != 404 {
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
