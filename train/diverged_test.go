package train_test

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// TestDiverged: at a rate at which nothing can be trained a run ends with the update and a node or
// a weight that is not finite, and goes on from the newest checkpoint at a lower rate.
func TestDiverged(t *testing.T) {
	for _, every := range []int{1, 1000} {
		r := short(t)
		r.Checkpoint = recipe.Checkpoint{To: t.TempDir(), Steps: every, Keep: 1}
		r.Optimizer, r.Rate = step.SGD.Defaults(), 1e20
		if every == 1 { // a good checkpoint to fall back to
			r.Rate = math.MaxFloat64 // by which one update makes weights infinite
			good := *r
			good.Rate = 1e-3
			if _, err := open(t, &good, 2, train.Options{Steps: 2}).Train(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		run := open(t, r, 2, train.Options{})
		if err := run.Resume(); err != nil {
			t.Fatal(err)
		}
		_, err := run.Train(t.Context())
		if !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), "update ") ||
			!strings.Contains(err.Error(), "lower the rate") {
			t.Fatalf("%v", err)
		}
		if every > 1 {
			if !strings.Contains(err.Error(), "the first value that is not finite is of ") ||
				strings.Contains(err.Error(), "report it") {
				t.Errorf("no node: %v", err)
			}
			continue
		}
		if left, err := filepath.Glob(filepath.Join(r.Checkpoint.To, "step-*")); len(left) != 1 {
			t.Errorf("checkpoints %v, %v", left, err)
		}
		r.Rate = 1e-3
		again := open(t, r, 2, train.Options{})
		if err := again.Resume(); err != nil {
			t.Fatal(err)
		}
		res, err := again.Train(t.Context())
		if err != nil || math.IsNaN(res.Loss) || res.Steps != int64(r.Steps) {
			t.Errorf("from the newest checkpoint: %+v, %v", res, err)
		}
	}
}

// TestBlameWithin: what looks for the node holds no more than the run may hold, and where that is
// too little it says so and fails as before.
func TestBlameWithin(t *testing.T) {
	r := short(t)
	r.Accumulate, r.Steps = 2, 6
	r.Optimizer, r.Rate = step.SGD.Defaults(), 1e20
	quota := seat.NewCounted("run", 0)
	run := open(t, r, 2, train.Options{Quota: quota})
	limit := quota.Held()
	if err := quota.SetCap(limit); err != nil {
		t.Fatal(err)
	}
	_, err := run.Train(t.Context())
	if !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), "the first value") {
		t.Errorf("under the cap of the run: %v", err)
	}
	if held := quota.Peak(); held > limit {
		t.Errorf("held %v of %v", held, limit)
	}
	if _, err := run.Evaluate(t.Context()); !errors.Is(err, train.ErrDiverged) {
		t.Errorf("after the end: %v", err)
	}
}

// TestNothing: a recipe that leaves no weight to train is refused.
func TestNothing(t *testing.T) {
	r := short(t)
	r.Freeze = []string{"*"}
	on, err := machine.Open("cpu:0", machine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := train.Open(t.Context(), r, train.Options{Machine: on}); !errors.Is(err,
		step.ErrNothing) {
		t.Errorf("%v", err)
	}
	if err := on.Close(); err != nil {
		t.Error(err)
	}
}
