package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestRead: a model's figures are those of all its versions and accounts, and what came between two
// moments is their difference.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{})
		ask := func(version, account string, d time.Duration, err error) {
			q := r.Begin()
			q.For(r.Model("a", version, "a"), account)
			time.Sleep(d)
			q.End(err)
		}
		ask("1", "ann", time.Millisecond, nil)
		ask("2", "bob", 3*time.Millisecond, nil)
		ask("2", "ann", time.Hour, errors.New("no"))
		ask("2", "ann", time.Hour, context.Canceled)
		r.Model("b", "1", "b")
		if all, failed := r.Answered("a"); all != 4 || failed != 2 {
			t.Errorf("answered %d, failed %d", all, failed)
		}
		before := r.Latency("a")
		if before.Count != 2 || before.Sum != 4e6 {
			t.Errorf("latency %d, %d", before.Count, before.Sum)
		}
		for range 9 {
			ask("1", "bob", 10*time.Millisecond, nil)
		}
		now := r.Latency("a")
		late := now.Since(before)
		if p := late.Quantile(0.01) / 1e6; late.Count != 9 || late.Sum != 90e6 || p < 9.6 ||
			p > 10.4 {
			t.Errorf("since then %d, %d, the first percentile is %v", late.Count, late.Sum, p)
		}
		if again := before.Since(now); again.Count != 2 {
			t.Errorf("counts that began anew have %d", again.Count)
		}
		if c := r.Latency("b"); c.Count != 0 || c.Quantile(0.5) != 0 {
			t.Errorf("a model that nobody asked has %+v", c)
		}
		for _, r := range []*Recorder{r, nil} {
			if all, failed := r.Answered("c"); all+failed+r.Latency("c").Count != 0 {
				t.Errorf("no model: %d, %d", all, failed)
			}
		}
	})
}
