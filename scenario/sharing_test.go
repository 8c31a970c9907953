package scenario

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/zoo"
)

// TestWeightsOutliveAJob loads one plan for two jobs of a broker, the second like the first. When
// the first ends, what the broker shows is what the device holds, the second's cap still holds, and
// a third is admitted beside the second alone.
func TestWeightsOutliveAJob(t *testing.T) {
	g, err := zoo.New("mobilenetv2",
		zoo.Options{Layers: 1, Width: 0.25, Resolution: 32, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), g,
		plan.Options{Target: kernels.Target(device.Info{}), Threads: 1,
			Shapes: map[string][]int{"input": {1, 3, 32, 32}}})
	if err != nil {
		t.Fatal(err)
	}
	need := share.Bytes(p.PackedBytes)
	dev, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: 2 * p.PackedBytes})
	if err != nil {
		t.Fatal(err)
	}
	pol, err := policy.New("fair")
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 1,
		Memory: 2 * need, Policy: pol}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer pool.Close()
	load := func(name string, like *engine.Session) (*broker.Job, *engine.Session) {
		t.Helper()
		spec := closedJob(name, nil, 1).Job
		spec.Memory = need
		j, err := b.Admit(spec, need)
		if err != nil {
			t.Fatal(err)
		}
		s, err := engine.Load(p, engine.Options{Device: dev, Pool: pool, Like: like,
			Quota: seat.Weights(j)})
		if err != nil {
			t.Fatal(err)
		}
		return j, s
	}
	check := func(when string, want share.Bytes) {
		t.Helper()
		if got := b.Status().Reserved; got != want || share.Bytes(dev.Held()) != want {
			t.Errorf("%s: the broker shows %d bytes, the device holds %d, want %d", when, got,
				dev.Held(), want)
		}
	}
	one, first := load("one", nil)
	two, second := load("two", first)
	check("two jobs", 2*need)
	first.Close()
	one.End(nil)
	check("one has ended", need)
	if err := two.Reserve(core.Persistent, 1); !errors.Is(err, core.ErrOverCap) {
		t.Errorf("a byte over the cap of the job that is left: %v", err)
	}
	three, third := load("three", second)
	check("a third came", 2*need)
	second.Close()
	two.End(nil)
	third.Close()
	three.End(nil)
	check("all have ended", 0)
}
