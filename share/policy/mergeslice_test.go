package policy_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// TestMergeSlice: the shares of fair, over windows a tenth as long, where passing the device on
// costs time under fair: there the same slices lose a fifth of the device.
func TestMergeSlice(t *testing.T) {
	sc := spatial(8, job("three", share.Share{Compute: 0.3}, ms/10, always),
		job("seven", share.Share{Compute: 0.7}, ms/20, always))
	sc.Device.SwitchCost = ms / 2
	sc.Duration = 4*time.Second + ms/2
	merged, slices := run(t, "mergeslice", sc), run(t, "fair:slice=2ms,granularity=100us", sc)
	for i, want := range []float64{0.3, 0.7} {
		got, peak := merged.Jobs[i].Share, merged.Jobs[i].PeakShare(100*ms)
		if math.Abs(got-want) > 0.005 || peak > want+0.02 {
			t.Errorf("job %d: got %.4f of the device and up to %.4f over 100ms, want %.1f", i, got,
				peak, want)
		}
	}
	// 4 s of iterations of 1 ms and of 0.5 ms.
	if got := merged.Jobs[0].Iterations + merged.Jobs[1].Iterations/2; got < 3998 {
		t.Errorf("work of %d ms done in 4 s", got)
	}
	if got := slices.Jobs[0].Iterations + slices.Jobs[1].Iterations/2; got > 3500 {
		t.Errorf("work of %d ms done in 4 s although switches cost 0.5 ms each", got)
	}
	long := run(t, "fair", sc)
	if long.Jobs[0].PeakShare(100*ms) < merged.Jobs[0].PeakShare(100*ms) {
		t.Errorf("fair is as exact over 100 ms, with slices of 20 ms")
	}
	_, err := policy.New("mergeslice:slice=-1ms")
	if !errors.Is(err, share.ErrInvalid) || !strings.Contains(err.Error(), "mergeslice: slice") {
		t.Errorf("error is %v", err)
	}
}
