package conformance

import (
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/plan"
)

// TestFar runs all of ONNX's cases, whole networks too, on a device whose memory the host cannot
// address: those pass that pass on any.
func TestFar(t *testing.T) {
	if testing.Short() {
		t.Skip("25 s of plain evaluation, which is the same whatever instructions there are")
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
	compare(t, runAll(t, found(t, true), e.Run))
}
