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

// TestIdentities holds that plans which were kept for one device serve no other.
func TestIdentities(t *testing.T) {
	of := map[string]string{}
	for _, id := range []string{"cpu:0", "far:0"} {
		m, err := Open(id, Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if other := of[m.Target.Identity()]; other != "" || m.Target.Info().ID != id {
			t.Errorf("%s and %q: identity %q", id, other, m.Target.Identity())
		}
		of[m.Target.Identity()] = id
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
