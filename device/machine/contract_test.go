package machine

import (
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/device/devicetest"
	"github.com/weirgpu/weir/device/far"
)

// TestContract holds every device that computes here to what all devices promise.
func TestContract(t *testing.T) {
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 2})
	t.Cleanup(pool.Close)
	t.Run("cpu", func(t *testing.T) {
		devicetest.Run(t, func(t testing.TB, limit int64) devicetest.Machine {
			d, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			return devicetest.Machine{Device: d, Target: kernels.Target(d.Info()), Pool: pool}
		})
	})
	t.Run("far", func(t *testing.T) {
		devicetest.Run(t, func(t testing.TB, limit int64) devicetest.Machine {
			d, err := far.Open("far:0", far.Options{MemoryBytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			return devicetest.Machine{Device: d, Target: d.Target(), Pool: pool}
		})
	})
}
