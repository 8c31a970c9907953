package train_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/internal/filelock"
	"github.com/weirgpu/weir/internal/fulldisk"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/checkpoint"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// TestFullDisk: a run for whose checkpoints there is no room goes on, says so, and keeps its end
// once there is room. Without any, it says what is lost.
func TestFullDisk(t *testing.T) {
	if fulldisk.Elsewhere(t) {
		return
	}
	want, err := open(t, short(t), 2, train.Options{}).Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, waits := range []bool{true, false} {
		r := short(t)
		r.Output = ""
		r.Checkpoint = recipe.Checkpoint{To: t.TempDir(), Steps: 5, Keep: 1}
		var log bytes.Buffer
		asked := 0
		o := train.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
		run := open(t, r, 2, o)
		if err := run.Resume(); err != nil {
			t.Fatal(err)
		}
		room := fulldisk.Full(t, 1000)
		if waits {
			run.SetRoom(func(err error) bool {
				if asked++; asked == 2 {
					room()
				}
				return errors.Is(err, syscall.EFBIG)
			})
		}
		res, err := run.Train(t.Context())
		room()
		if n := strings.Count(log.String(), "goes on without a checkpoint"); n != 2 {
			t.Errorf("said %d times, want 2: %s", n, &log)
		}
		if !waits {
			if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "1 to 12 are los") {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil || res.Digest != want.Digest {
			t.Fatalf("digest %s, want %s: %v", res.Digest, want.Digest, err)
		}
		again := open(t, r, 2, train.Options{})
		if err := again.Resume(); err != nil {
			t.Fatal(err)
		}
		if res, err := again.Train(t.Context()); err != nil || res.Digest != want.Digest {
			t.Errorf("from the last checkpoint: %s, want %s: %v", res.Digest, want.Digest, err)
		}
	}
}

// TestTwoInOneFolder: a folder of checkpoints is one run's at a time.
func TestTwoInOneFolder(t *testing.T) {
	r := short(t)
	r.Checkpoint.To = t.TempDir()
	one := beside(t, r, 1, train.Options{Steps: 2})
	if _, err := one.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	two := beside(t, r, 1, train.Options{})
	if err := two.Resume(); !errors.Is(err, filelock.ErrTaken) {
		t.Errorf("a second run: %v", err)
	}
	if _, err := beside(t, r, 1, train.Options{Anew: true}).Train(t.Context()); !errors.Is(err,
		filelock.ErrTaken) {
		t.Errorf("a second run from its begin: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := two.Resume(); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// TestOtherRecipe: a run does not go on with another model or other samples, and says what else is
// not as it was.
func TestOtherRecipe(t *testing.T) {
	r := short(t)
	r.Checkpoint.To = t.TempDir()
	resume := func() (string, error) {
		t.Helper()
		var log bytes.Buffer
		run := open(t, r, 1, train.Options{Steps: 2,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err := run.Resume(); err != nil {
			return log.String(), err
		}
		_, err := run.Train(t.Context())
		if e := run.Close(); e != nil {
			t.Error(e)
		}
		return log.String(), err
	}
	if _, err := resume(); err != nil {
		t.Fatal(err)
	}
	if log, err := resume(); err != nil || strings.Contains(log, "is not that of") {
		t.Errorf("the same: %v, %s", err, log)
	}
	r.Rate *= 2
	if log, err := resume(); err != nil || !strings.Contains(log, "differs=\"Rate: 0.004, now ") {
		t.Errorf("another rate: %v, %s", err, log)
	}
	r.Data.Divide = 4
	if _, err := resume(); !errors.Is(err, checkpoint.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "another data") {
		t.Errorf("other samples: %v", err)
	}
	r.Data.Divide = 16
	b, err := os.ReadFile(r.Model)
	if err != nil {
		t.Fatal(err)
	}
	r.Model = t.TempDir() + "/other.onnx"
	if err := os.WriteFile(r.Model, append(b, 0xa2, 0x06, 1, 'x'), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := resume(); !errors.Is(err, checkpoint.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "another model file") {
		t.Errorf("another model: %v", err)
	}
}

// TestHuge: weights that are finite and too large to go on from are not kept.
func TestHuge(t *testing.T) {
	for rate, says := range map[float64]string{1e19: "too large", 1e15: "comes next"} {
		r := short(t)
		r.Checkpoint = recipe.Checkpoint{To: t.TempDir(), Steps: 1, Keep: 1}
		r.Optimizer, r.Rate, r.Steps = step.Adam.Defaults(), rate, 1
		r.Data.Eval = recipe.Eval{}
		_, err := open(t, r, 2, train.Options{}).Train(t.Context())
		if !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), says) {
			t.Errorf("rate %g: %v, want %q", rate, err, says)
		}
		if left := kept(t, r); len(left) > 0 {
			t.Errorf("rate %g: kept %v", rate, left)
		}
	}
}
