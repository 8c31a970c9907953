package train_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/dist"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/scale"
)

// normalised is a classifier of the digits with a batch normalisation.
const normalised = `graph "normalised" {
 opset "" 17
 input %image: float32[N,1,8,8]
 const %w: float32[4,1,3,3] = {W}
 const %gain: float32[4] = {1, 1.1, 0.9, 1}
 const %shift: float32[4] = {0, 0.1, 0, -0.1}
 const %mean: float32[4] = {0, 0, 0, 0}
 const %variance: float32[4] = {1, 1, 1, 1}
 const %shape: int64[2] = {0, 144}
 const %last: float32[144,10] = {L}
 %c = Conv@11 (%image, %w)
 %b = BatchNormalization@15 (%c, %gain, %shift, %mean, %variance)
 %r = Relu@14 (%b)
 %f = Reshape@14 (%r, %shape)
 %scores = MatMul@13 (%f, %last)
 output %scores
}`

// sharded is a recipe of few updates whose batches have so many shards.
func sharded(t *testing.T, shards int) *recipe.Recipe {
	r := short(t)
	r.Data.Batch, r.Shards, r.Steps, r.Output = 24, shards, 6, ""
	return r
}

// together follows a recipe by so many processes, each a goroutine of its own with so many
// threads. change, when set, changes the recipe of a worker.
func together(t *testing.T, r *recipe.Recipe, ranks, threads int, o train.Options,
	change func(rank int, r *recipe.Recipe)) (*train.Result, error) {
	t.Helper()
	links, err := dist.Pipe(ranks)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, ranks)
	for rank := 1; rank < ranks; rank++ {
		go func() {
			own := *r
			if change != nil {
				change(rank, &own)
			}
			errs <- member(t.Context(), links[rank], &own, threads, train.Options{},
				func(run *train.Run) error { return run.Work(t.Context()) })
		}()
	}
	var res *train.Result
	err = member(t.Context(), links[0], r, threads, o, func(run *train.Run) error {
		if r.Checkpoint.To != "" {
			if err := run.Resume(); err != nil {
				return err
			}
		}
		got, err := run.Train(t.Context())
		res = got
		return err
	})
	for range ranks - 1 {
		if e := <-errs; e != nil && err == nil {
			t.Errorf("a worker: %v", e)
		}
	}
	return res, err
}

// member opens a run of one process of a team.
func member(ctx context.Context, links *dist.Links, r *recipe.Recipe, threads int, o train.Options,
	do func(*train.Run) error) error {
	on, err := machine.Open("cpu:0", machine.Options{Threads: threads})
	if err != nil {
		return err
	}
	team, err := dist.NewTeam(links)
	if err == nil {
		o.Machine, o.Team = on, team
		var run *train.Run
		if run, err = train.Open(ctx, r, o); err == nil {
			err = errors.Join(do(run), run.Close())
		}
	}
	return errors.Join(err, on.Close())
}

// TestProcesses: however many processes share the shards of a batch, on however many threads, they
// come to the bits of one process: also with sums over batches, clipped gradients, averages,
// statistics of batches, and scaled losses in float16.
func TestProcesses(t *testing.T) {
	model := filepath.Join(t.TempDir(), "normalised.onnx")
	many := func(v string, n int) string { return v + strings.Repeat(", "+v, n-1) }
	g, err := graph.Parse(strings.NewReplacer("{W}", "{"+many("0.1", 36)+"}", "{L}",
		"{"+many("0.01", 1440)+"}").Replace(normalised))
	if err == nil {
		err = onnx.WriteFile(model, g, onnx.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *recipe.Recipe){
		"plain": func(*recipe.Recipe) {},
		"sums": func(r *recipe.Recipe) {
			r.Accumulate, r.Clip, r.Average, r.Data.Batch = 2, 0.1, 0.9, 12
		},
		"statistics": func(r *recipe.Recipe) { r.Model, r.Accumulate = model, 2 },
		"float16": func(r *recipe.Recipe) {
			r.Model, r.Precision = model, recipe.FP16
			r.Scale = scale.Options{Kind: scale.Auto, Init: 1 << 24}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, shards := range []int{2, 3, 4} {
				r := sharded(t, shards)
				change(r)
				want, err := open(t, r, 2, train.Options{}).Train(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for ranks := 2; ranks <= shards; ranks++ {
					got, err := together(t, r, ranks, 1+ranks%2, train.Options{}, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got.Digest != want.Digest || got.Processes != ranks {
						t.Errorf("%d shards: %d processes come to %s, one to %s", shards, ranks,
							got.Digest, want.Digest)
					}
				}
			}
		})
	}
}

// TestWorkerRefused: a worker that follows another recipe, or has other data or another model, is
// refused by name of what differs, and the leader does not begin.
func TestWorkerRefused(t *testing.T) {
	for what, change := range map[string]func(int, *recipe.Recipe){
		`recipe: Rate is "0.008", that of the leader "0.004"`: func(_ int, r *recipe.Recipe) {
			r.Rate *= 2
		},
		"recipe: Seed": func(_ int, r *recipe.Recipe) { r.Seed++ },
		"data":         func(_ int, r *recipe.Recipe) { r.Data.Eval = recipe.Eval{Part: 0.5} },
	} {
		_, err := together(t, sharded(t, 2), 2, 1, train.Options{}, change)
		if !errors.Is(err, dist.ErrPeer) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
