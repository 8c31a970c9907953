package conformance

import (
	"os"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/plan"
)

// TestFar runs ONNX's cases, whole networks too, on a device whose memory the host cannot address:
// those pass that pass on any. With WEIR_LONG set, VGG-19 is one of them.
func TestFar(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of plain evaluation, which is the same whatever instructions there are")
	}
	cases := found(t, true)
	if os.Getenv("WEIR_LONG") == "" {
		cases = lighter(cases)
	}
	d, err := far.Open("far:0", far.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	t.Cleanup(func() {
		pool.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &Engine{Device: d, Pool: pool, Plan: plan.Options{Target: d.Target()}}
	compare(t, runAll(t, cases, e.Run))
}
