package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
)

// TestExchangeInVain: a job whose other plan cannot be loaded, after room was had for it, goes on
// with the plan and the share that it had, whether its memory is lent or not, and holds no more.
func TestExchangeInVain(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		a := bendable(t, "a")
		a.Elastic = elastic
		st, _, end := playing(t, &Scenario{Device: "cpu:0", Policy: "fair", Memory: 16 * share.MiB,
			Jobs: []Job{a}})
		job := st.tenants[0]
		before, was := job.admit.Spec().Share, job.p
		need := job.admit.Status().Memory.Need
		broken := *was
		broken.request += 64 << 10 // needs more
		broken.model = &cache.Model{}
		broken.cached = &cache.Compiled{Plan: was.plan, Weights: []byte("cut short")}
		next := st.shareOf(job)
		next.Memory += share.MiB
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := job.driver.do(ctx, func(context.Context) error {
			return st.exchange(ctx, job, &broken, next)
		})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "given 9 bytes") ||
			errors.As(err, new(ended)) {
			t.Errorf("elastic %t: %v", elastic, err)
		}
		served := func() int64 {
			n, _, _ := job.driver.recent()
			return n
		}
		for n, began := served(), time.Now(); served() < n+3; time.Sleep(time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("elastic %t: it serves no more", elastic)
			}
		}
		if now := job.admit.Spec().Share; now != before || job.p != was {
			t.Errorf("elastic %t: %+v in place of %+v", elastic, now, before)
		}
		if now := job.admit.Status().Memory.Need; now != need {
			t.Errorf("elastic %t: its plan is said to need %v, in place of %v", elastic, now, need)
		}
		end()
	}
}
