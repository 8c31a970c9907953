package scenario

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/evict"
	"github.com/weirgpu/weir/tensor"
)

// TestScalarRequest runs a job with one element for a scalar.
func TestScalarRequest(t *testing.T) {
	g := parseGraph(t, `graph "scalar" {
  opset "" 17
  input %sr: int64[]
  %y: int64[] = Neg@13 "neg" (%sr)
  output %y
}`)
	job := closedJob("a", g, 2)
	job.Given = map[string]*tensor.Tensor{"sr": tensor.From([]int64{8000}, 1)}
	res := run1(t, &Scenario{Jobs: []Job{job}}, Options{})
	if r := res.Phases[0].Jobs[0]; r.Error != "" || r.Iterations != 2 {
		t.Errorf("got %+v", r)
	}
}

// TestPrepareNamesTheJob gives one job everything that makes a scenario impossible to run as
// written.
func TestPrepareNamesTheJob(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.onnx")
	if err := os.WriteFile(garbage, []byte("this is no model"), 0o666); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "dense.onnx")
	if err := onnx.WriteFile(good, denseGraph(t), onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		job  Job
		want []string
	}{
		"missing":       {Job{Model: filepath.Join(dir, "none.onnx")}, []string{"none.onnx"}},
		"garbage":       {Job{Model: garbage}, []string{garbage}},
		"unknown input": {Job{Model: good, Shapes: map[string]feed.Shape{"y": {1, 8}}}, []string{`"y"`}},
		"wrong rank": {Job{Model: good, Shapes: map[string]feed.Shape{"x": {8}}},
			[]string{`"x"`, "[8]"}},
		"wrong size": {Job{Model: good, Shapes: map[string]feed.Shape{"x": {1, 9}}},
			[]string{`"x"`, "9"}},
		"huge": {Job{Model: good, Shapes: map[string]feed.Shape{"x": {1 << 60, 8}}},
			[]string{`"x"`}},
		"missing npy": {Job{Model: good,
			Inputs: map[string]string{"x": filepath.Join(dir, "none.npy")}}, []string{"none.npy"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Job = share.Job{Name: "train-7", Iterations: 1}
			neighbour := closedJob("neighbour", denseGraph(t), 1)
			_, err := Run(t.Context(), &Scenario{Jobs: []Job{neighbour, c.job}}, Options{})
			if !errors.Is(err, ErrScenario) {
				t.Fatalf("got %v", err)
			}
			for _, part := range append(c.want, "job train-7") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
		})
	}
}

// TestFailedInstanceLeavesNothing gives an instance less memory than it needs, at every step of its
// loading.
func TestFailedInstanceLeavesNothing(t *testing.T) {
	r, err := newRun(context.Background(),
		&Scenario{Device: "cpu:0", Jobs: []Job{closedJob("a", vision(t, "resnet50"), 1)}},
		Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	p := r.jobs[0]
	plan, need := p.plan.PeakBytes(1), p.need()
	for _, limit := range []int64{1, p.plan.PackedBytes - 1, p.plan.PackedBytes, plan - 1, plan,
		need - 1} {
		q := seat.NewCounted("a", share.Bytes(limit))
		if _, _, err := p.instance(engine.Options{Device: r.Device, Pool: r.Pool,
			Quota: q}); !errors.Is(err, core.ErrOverCap) {
			t.Errorf("%d of %d bytes: got %v", limit, need, err)
		}
		if q.Held() != 0 || r.Device.Held() != 0 || int64(q.Peak()) > limit {
			t.Errorf("%d of %d bytes: quota %v, device %d held", limit, need, q.Held(),
				r.Device.Held())
		}
	}
	q := seat.NewCounted("a", share.Bytes(need))
	_, free, err := p.instance(engine.Options{Device: r.Device, Pool: r.Pool, Quota: q})
	if err != nil || r.Device.Held() != plan || int64(q.Peak()) != need {
		t.Fatalf("all %d bytes: held %d, peak %v, %v", need, r.Device.Held(), q.Peak(), err)
	}
	free()
	free()
	if q.Held() != 0 || r.Device.Held() != 0 {
		t.Errorf("freed twice: quota %v, device %d held", q.Held(), r.Device.Held())
	}
}

// TestFileWrittenDuringPhase holds that a job whose steps read its model's mapped file ends once
// that is written in place, and does not go on with what it reads.
func TestFileWrittenDuringPhase(t *testing.T) {
	g := parseGraph(t, `graph "words" {
		opset "" 17
		input %tokens: int64[1]
		const %words: float32[2,2] = {1, 2, 3, 4}
		%y: float32[1,2] = Gather@13 (%words, %tokens) {axis=0}
		output %y
	}`)
	path := filepath.Join(t.TempDir(), "words.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	j := closedJob("words", nil, 1)
	j.Model = path
	r, err := newRun(t.Context(), &Scenario{Device: "cpu:0", Jobs: []Job{j}}, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	it, free, err := r.jobs[0].instance(engine.Options{Device: r.Device, Pool: r.Pool,
		Quota: &seat.Counted{}})
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	if err := it(t.Context(), device.Open); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := it(t.Context(), device.Open); !errors.Is(err, onnx.ErrChanged) {
		t.Errorf("got %v", err)
	}
}

// slow is a policy that lets a byte a second of each job pass.
type slow struct{}

func (slow) Name() string { return "slow" }

func (slow) Decide(s *share.Snapshot) (d share.Decision) {
	for i := range s.Jobs {
		d.Set = append(d.Set, share.Terms{Job: s.Jobs[i].ID, Copy: 1})
	}
	return d
}

// TestLoadGivesUp: a job whose weights the policy holds back while it is loaded is not waited for
// when the run is over, and holds nothing.
func TestLoadGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Scenario{Policy: "fair", Jobs: []Job{closedJob("late", denseGraph(t), 1)}}
		r, err := newRun(t.Context(), s.valid(t), Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		stage, err := r.newStage(&Phase{}, Shared, "fair")
		if err != nil {
			t.Fatal(err)
		}
		stage.broker.Close()
		c := seat.Device("cpu:0", r.Machine)
		c.Policy, c.Eviction = slow{}, &evict.LRU{}
		if stage.broker, err = broker.New(broker.Config{Config: c}); err != nil {
			t.Fatal(err)
		}
		defer stage.close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		stage.add(ctx, r.jobs[0], 0)
		if took := time.Since(began); took != 3*time.Second || stage.tenants[0].driver != nil {
			t.Errorf("3 s before the end of the run it was waited for for %v: %+v", took,
				stage.tenants[0].result)
		}
		if n := r.Device.Held(); n != 0 {
			t.Errorf("%d bytes are held on the device", n)
		}
	})
}
