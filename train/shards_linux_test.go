package train_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
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

// writeNormalised writes the classifier with a batch normalisation.
func writeNormalised(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "normalised.onnx")
	many := func(v string, n int) string { return v + strings.Repeat(", "+v, n-1) }
	g, err := graph.Parse(strings.NewReplacer("{W}", "{"+many("0.1", 36)+"}", "{L}",
		"{"+many("0.01", 1440)+"}").Replace(normalised))
	if err == nil {
		err = onnx.WriteFile(path, g, onnx.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestShardsMean: the mean over shards of what they come to is what the whole batch does: a running
// mean, of the samples that each has, within rounding.
func TestShardsMean(t *testing.T) {
	means := map[int][]float32{}
	for _, shards := range []int{1, 4} {
		r := sharded(t, shards)
		r.Model, r.Steps, r.Output = writeNormalised(t), 1, filepath.Join(t.TempDir(), "m.onnx")
		if _, err := open(t, r, 1, train.Options{}).Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Open(r.Output, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range m.Graph.Constants() {
			if v.Name == "mean" {
				means[shards] = slices.Clone(tensor.As[float32](v.Const()))
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range means[1] {
		if got := means[4][i]; want == 0 || math.Abs(float64(got-want)) > 1e-5*math.Abs(
			float64(want)) {
			t.Errorf("mean %d of 4 shards is %v, of the whole batch %v", i, got, want)
		}
	}
	if len(means[1]) != 4 {
		t.Errorf("means %v", means)
	}
}

// TestProcesses: however many processes share the shards of a batch, on however many threads, they
// come to the bits of one process: also with sums over batches, clipped gradients, averages,
// statistics of batches, and scaled losses in float16.
func TestProcesses(t *testing.T) {
	model := writeNormalised(t)
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

// TestDisagree: a worker with other weights than the leader's ends the run at the next checkpoint,
// and nothing is kept of them.
func TestDisagree(t *testing.T) {
	r := sharded(t, 2)
	r.Checkpoint = recipe.Checkpoint{To: t.TempDir(), Steps: 3, Keep: 9}
	links, err := dist.Pipe(2)
	if err != nil {
		t.Fatal(err)
	}
	worker := make(chan error)
	go func() {
		var run *train.Run
		computed := 0
		spoils := func(_ context.Context, compute func(device.Gate) error) error {
			if computed++; computed == 2*3+2 { // a shard and what replaces weights, of update 4
				defer run.Spoil()
			}
			return compute(device.Open)
		}
		worker <- member(t.Context(), links[1], r, 1, train.Options{Device: spoils},
			func(it *train.Run) error { run = it; return run.Work(t.Context()) })
	}()
	err = member(t.Context(), links[0], r, 1, train.Options{}, func(run *train.Run) error {
		_, err := run.Train(t.Context())
		return err
	})
	<-worker
	if !errors.Is(err, dist.ErrPeer) || !strings.Contains(err.Error(), "weights of worker 1") {
		t.Errorf("a worker with other weights: %v", err)
	}
	if left := kept(t, r); len(left) != 1 {
		t.Errorf("%v are kept, want update 3 alone", left)
	}
}
