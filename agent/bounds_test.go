package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// TestBoundsReachThePage has a policy bound what programs launch: their pages say so, until another
// policy decides.
func TestBoundsReachThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "gpushare:switch=150us")
		defer h.close()
		x, y := h.program(0, share.Share{}), h.program(1, share.Share{})
		x.launch(time.Second)
		h.watchers.Go(func() { y.launch(time.Millisecond) })
		synctest.Wait()
		free := func() time.Duration { return time.Duration(y.page.Header().FreeNS.Load()) }
		if !y.waits() || free() != 150*time.Microsecond {
			t.Errorf("waits: %v; kernels up to %v pass", y.waits(), free())
		}
		for range 2 {
			if err := h.dev.broker.SetPolicy("fair"); err != nil {
				t.Fatal(err)
			}
			if free() != 0 {
				t.Errorf("under another policy kernels up to %v pass", free())
			}
			if err := h.dev.broker.SetPolicy("gpushare:switch=50us"); err != nil {
				t.Fatal(err)
			}
			if free() != 50*time.Microsecond {
				t.Errorf("kernels up to %v pass", free())
			}
		}
		flying := func() time.Duration {
			return time.Duration(y.page.Header().InflightBoundNS.Load())
		}
		was := flying()
		for in, want := range map[time.Duration]time.Duration{time.Millisecond: time.Millisecond,
			time.Hour: was, 0: was} {
			h.dev.byID.Observe(core.Notice{Kind: core.Bounded, Job: y.j.bj.ID(),
				Terms: &share.Terms{InFlight: in}})
			if got := flying(); got != want {
				t.Errorf("bounded to %v, %v may be in flight, want %v", in, got, want)
			}
		}
	})
}
