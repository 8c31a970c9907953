package main

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// restless asks the device back before so many chunks more.
type restless struct {
	every   int64
	asked   atomic.Int64
	revoked atomic.Bool
	renewed atomic.Int64
}

func (g *restless) Revoked() bool {
	if g.asked.Add(1)%g.every == 0 {
		g.revoked.Store(true)
	}
	return g.revoked.Load()
}

func (g *restless) Renew(context.Context) error {
	g.renewed.Add(1)
	g.revoked.Store(false)
	return nil
}

// TestMixed: layers with a gradient of their own come to the same digest on one thread and on two,
// when the device is asked back within all of them, and in less memory.
func TestMixed(t *testing.T) {
	t.Chdir("../..")
	for _, precision := range []string{"fp32", "bf16"} {
		b := &bench{dir: t.TempDir()}
		model := b.dir + "/mixed.onnx"
		if err := writeMixed(model); err != nil {
			t.Fatal(err)
		}
		path, err := b.recipe(&subject{name: "mixed", optimizer: "adam: {rate: 1e-3}",
			precision: precision, batch: 512, epochs: 1}, model)
		if err != nil {
			t.Fatal(err)
		}
		digest := func(threads int, every, eighths int64) (string, int64) {
			r, err := recipe.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			r.Checkpoint.To = ""
			on, err := machine.Open("cpu:0", machine.Options{Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			defer on.Close()
			if precision == "bf16" && !on.Target.Features().BF16 {
				t.Skip("this processor multiplies no faster in bfloat16")
			}
			g := &restless{every: every}
			p, err := train.Prepare(t.Context(), r, on)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			run, err := p.Open(t.Context(), train.Options{Memory: p.Bytes() * eighths / 8,
				Device: func(_ context.Context, compute func(device.Gate) error) error {
					return compute(g)
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			res, err := run.Train(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return res.Digest, g.renewed.Load()
		}
		want, _ := digest(1, 1<<40, 0)
		for _, tc := range []struct {
			name           string
			threads        int
			every, eighths int64 // of the memory; 0 for all
		}{{"two threads", 2, 1 << 40, 0}, {"preempted, one thread", 1, 2, 0},
			{"preempted, two threads", 2, 3, 0}, {"less memory", 2, 1 << 40, 7}} {
			got, renewed := digest(tc.threads, tc.every, tc.eighths)
			if got != want {
				t.Errorf("%s, %s: digest %s, want %s", precision, tc.name, got, want)
			}
			if tc.every < 1<<40 && renewed < 100 {
				t.Errorf("%s, %s: preempted %d times, want 100 at least", precision, tc.name,
					renewed)
			}
			t.Logf("%s, %s: preempted %d times", precision, tc.name, renewed)
		}
	}
}
