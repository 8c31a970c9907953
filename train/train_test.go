package train_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/recipe"
)

// digits is the recipe of the example, with nothing kept.
func digits(t *testing.T) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("../examples/digits/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.Checkpoint.To, r.Output = "", filepath.Join(t.TempDir(), "trained.onnx")
	return r
}

// last is the run that keeps its checkpoints in a folder.
var last = map[string]*train.Run{}

// open opens a run on so many threads, which the test closes, and closes the run before it that has
// its folder of checkpoints.
func open(t *testing.T, r *recipe.Recipe, threads int, o train.Options) *train.Run {
	t.Helper()
	if before := last[r.Checkpoint.To]; r.Checkpoint.To != "" && before != nil {
		if err := before.Close(); err != nil {
			t.Error(err)
		}
	}
	last[r.Checkpoint.To] = beside(t, r, threads, o)
	return last[r.Checkpoint.To]
}

// beside opens a run on so many threads, which the test closes.
func beside(t *testing.T, r *recipe.Recipe, threads int, o train.Options) *train.Run {
	t.Helper()
	on, err := machine.Open("cpu:0", machine.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	o.Machine = on
	run, err := train.Open(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
		if err := on.Close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

// TestDigits trains the digits classifier from random weights to 97 % of the images that it has not
// seen.
func TestDigits(t *testing.T) {
	run := open(t, digits(t), 2, train.Options{Progress: func(e train.Event) {
		if e.Eval != nil {
			t.Logf("epoch %d: loss %.4f, evaluation %.4f, %s %.4f", e.Epoch, e.Loss, e.Eval.Loss,
				e.Eval.Name, e.Eval.Metric)
		}
	}})
	res, err := run.Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", res)
	if res.Metric < 0.97 {
		t.Errorf("accuracy %v, want 0.97", res.Metric)
	}
}

// short is the recipe of the example, in few updates of small batches.
func short(t *testing.T) *recipe.Recipe {
	r := digits(t)
	r.Data.Batch, r.Epochs, r.Steps = 16, 1, 12
	return r
}

// epochs is the recipe of the example, in few updates, the last of which is of another epoch.
func epochs(t *testing.T) *recipe.Recipe {
	r := short(t)
	r.Data.Batch, r.Accumulate, r.Epochs, r.Average, r.Clip = 64, 2, 2, 0.9, 1
	return r
}

// TestSameBits: a run ends with the same bits on one thread and on several, and when it was
// interrupted and went on from a checkpoint.
func TestSameBits(t *testing.T) {
	ctx := t.Context()
	want := ""
	for _, threads := range []int{1, 2, 3} {
		res, err := open(t, epochs(t), threads, train.Options{}).Train(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = res.Digest
		}
		if res.Digest != want {
			t.Errorf("on %d threads the digest is %s, on one %s", threads, res.Digest, want)
		}
	}
	r := epochs(t)
	r.Checkpoint.To = t.TempDir()
	for _, until := range []int64{3, 11, 0} {
		run := open(t, r, 2, train.Options{Steps: until})
		if err := run.Resume(); err != nil {
			t.Fatal(err)
		}
		res, err := run.Train(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if same := res.Digest == want; same != (until == 0) {
			t.Errorf("until update %d: digest %s after %d updates, that of the whole run is %s",
				until, res.Digest, res.Steps, want)
		}
	}
}

// TestUnsound: weights that are no numbers are not kept, though the loss of the update that made
// them was one: the newest checkpoint stays good, and no model is written.
func TestUnsound(t *testing.T) {
	for _, to := range []string{t.TempDir(), ""} {
		r := short(t)
		r.Checkpoint = recipe.Checkpoint{To: to, Steps: 1, Keep: 1}
		r.Steps, r.Data.Eval = 1, recipe.Eval{}
		r.Rate = math.MaxFloat64
		_, err := open(t, r, 2, train.Options{}).Train(t.Context())
		if !errors.Is(err, train.ErrDiverged) {
			t.Errorf("weights that are not finite: %v", err)
		}
		if _, err := os.Stat(r.Output); err == nil {
			t.Error("a model of them is written")
		}
		if left := kept(t, r); to != "" && len(left) > 0 {
			t.Errorf("checkpoints of them: %v", left)
		}
	}
}

// kept lists the checkpoints of a recipe.
func kept(t *testing.T, r *recipe.Recipe) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(r.Checkpoint.To, "step-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestOtherSamples: a run does not go on with updates of other samples.
func TestOtherSamples(t *testing.T) {
	r := short(t)
	r.Checkpoint.To = t.TempDir()
	if _, err := open(t, r, 2, train.Options{Steps: 3}).Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Data.Batch *= 2
	if err := open(t, r, 2, train.Options{}).Resume(); !errors.Is(err, checkpoint.ErrCheckpoint) {
		t.Errorf("batches of another size: %v", err)
	}
	r.Data.Batch /= 2
	r.Seed++
	if err := open(t, r, 2, train.Options{}).Resume(); !errors.Is(err, checkpoint.ErrCheckpoint) {
		t.Errorf("another seed: %v", err)
	}
	r.Seed--
	r.Steps *= 2
	if err := open(t, r, 2, train.Options{}).Resume(); err != nil {
		t.Errorf("more updates: %v", err)
	}
}

// TestEnded: a run that is ended while it tries the model keeps what that comes to.
func TestEnded(t *testing.T) {
	want, err := open(t, short(t), 2, train.Options{}).Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := short(t)
	r.Checkpoint.To = t.TempDir()
	ctx, end := context.WithCancel(t.Context())
	run := open(t, r, 2, train.Options{Progress: func(e train.Event) {
		if e.Update == e.Updates && e.Eval == nil {
			end()
		}
	}})
	res, err := run.Train(ctx)
	if err != nil || res.Digest != want.Digest {
		t.Errorf("ended in the last evaluation: %v; digest %s, want %s", err, res.Digest,
			want.Digest)
	}
}

// TestPatience: a run ends when evaluations no longer get better, and goes on with more patience.
func TestPatience(t *testing.T) {
	r := short(t)
	r.Checkpoint.To = t.TempDir()
	r.Epochs, r.Steps, r.Patience, r.Data.Batch, r.Rate = 4, 0, 1, 512, 1e-30
	r.Freeze = []string{"bn*"} // whose statistics would move
	for _, want := range []int{2, 4} {
		run := open(t, r, 2, train.Options{})
		if err := run.Resume(); err != nil {
			t.Fatal(err)
		}
		res, err := run.Train(t.Context())
		if err != nil || len(res.Points) != want {
			t.Errorf("patience %d: %d epochs, want %d: %v", r.Patience, len(res.Points), want, err)
		}
		r.Patience = 10
	}
}

// TestUnwritable: a model that could not be written is not trained.
func TestUnwritable(t *testing.T) {
	for _, under := range []string{"", "more"} {
		r := short(t)
		r.Output = filepath.Join(r.Model, under)
		if under == "" {
			r.Output = t.TempDir()
		}
		made := 0
		run := open(t, r, 2, train.Options{Progress: func(train.Event) { made++ }})
		if _, err := run.Train(t.Context()); err == nil || made > 0 {
			t.Errorf("%s: %d updates, %v", r.Output, made, err)
		}
	}
}

// TestAccumulate: an update of several batches is that of one as large, in a layer behind which no
// moments of a batch are taken.
func TestAccumulate(t *testing.T) {
	var losses []float64
	for _, k := range []int{1, 4} {
		r := short(t)
		r.Data.Batch, r.Accumulate, r.Freeze = 32/k, k, []string{"bn*", "conv*"}
		res, err := open(t, r, 2, train.Options{}).Train(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, res.EvalLoss)
	}
	if math.Abs(losses[0]-losses[1]) > 1e-5*losses[0] {
		t.Errorf("in one batch the evaluation is %v, in four %v", losses[0], losses[1])
	}
}

// TestRates: what a run says of its speed is of all its updates, however many there are.
func TestRates(t *testing.T) {
	r := digits(t)
	run := open(t, r, 1, train.Options{})
	const updates, each = 1 << 18, time.Millisecond
	res := run.Took(updates, each, each/4)
	if want := float64(r.Data.Batch) / each.Seconds(); math.Abs(res.SamplesPerS/want-1) > 1e-6 ||
		math.Abs(res.PeerWaitShare-0.25) > 1e-6 || res.StepMS != 1 {
		t.Errorf("%v samples a second, want %v; %v of the time for others, want 0.25; %v ms",
			res.SamplesPerS, want, res.PeerWaitShare, res.StepMS)
	}
}
