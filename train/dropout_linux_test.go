package train_test

import (
	"testing"

	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// TestDropoutShards: shards drop elements of their own, which are the same in one process and two.
func TestDropoutShards(t *testing.T) {
	of := func() *recipe.Recipe {
		r := sharded(t, 2)
		r.Dropout, r.Accumulate, r.Steps = dropped(t).Dropout, 2, 3
		return r
	}
	one, err := open(t, of(), 2, train.Options{}).Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := together(t, of(), 2, 1, train.Options{}, nil)
	if err != nil || two.Digest != one.Digest {
		t.Errorf("two processes: %+v, %v; one: %s", two, err, one.Digest)
	}
	var run *train.Run
	run = open(t, of(), 1, train.Options{Progress: func(e train.Event) {
		// the last of two batches of two shards
		if at := run.Drawn(); e.Eval == nil && at[1] != 4*e.Update-1 {
			t.Errorf("update %d draws by %v last, want %d", e.Update, at, 4*e.Update-1)
		}
	}})
	if _, err := run.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
}
