package scenario

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// TestMemoryOfRandomScenarios is the evidence for what weir promises of memory: over a thousand
// random scenarios no job holds a byte more than its cap, a job is refused exactly when its plan
// needs more, what was predicted is what was held, and nothing is left.
func TestMemoryOfRandomScenarios(t *testing.T) {
	scenarios := 1000
	if testing.Short() {
		scenarios = 40
	}
	const workers = 2
	for w := range workers {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			t.Parallel()
			r := randomRun(t, uint64(w))
			defer r.close()
			rng := rand.New(rand.NewPCG(uint64(w), 42))
			all := r.jobs
			policies, _, err := enforceable(everyPolicy(), seat.Can(r.Machine), "cpu:0")
			if err != nil {
				t.Fatal(err)
			}
			var refused, ran int
			for n := range scenarios / workers {
				r.jobs = randomJobs(rng, all)
				name := policies[rng.IntN(len(policies))]
				a, b := checkMemory(t, r, name)
				refused, ran = refused+a, ran+b
				if t.Failed() {
					t.Fatalf("scenario %d of worker %d, policy %s", n, w, name)
				}
			}
			if refused < scenarios/20 || ran < scenarios/4 {
				t.Errorf("%d jobs refused and %d run in %d scenarios tell little", refused, ran,
					scenarios/workers)
			}
		})
	}
}

// randomRun compiles variants of the zoo's networks at several batch sizes, and random stacks of
// layers.
func randomRun(t *testing.T, seed uint64) *run {
	s := &Scenario{Device: "cpu:0", Policy: "fair", Seed: seed}
	for _, c := range []struct {
		arch  string
		o     zoo.Options
		input string
		shape feed.Shape
	}{
		{"resnet50", zoo.Options{Layers: 1, Width: 0.125, Resolution: 32, Classes: 10}, "", nil},
		{"mobilenetv2", zoo.Options{Layers: 1, Width: 0.25, Resolution: 32, Classes: 10}, "", nil},
		{"minilm-l6", zoo.Options{Layers: 1, Hidden: 64, Vocabulary: 50}, "input_ids",
			feed.Shape{2, 7}},
		{"gpt2", zoo.Options{Layers: 1, Hidden: 64, Vocabulary: 50}, "input_ids", feed.Shape{1, 5}},
	} {
		g, err := zoo.New(c.arch, c.o)
		if err != nil {
			t.Fatal(err)
		}
		j := closedJob(c.arch, g, 1)
		if c.input != "" {
			j.Shapes = map[string]feed.Shape{c.input: c.shape}
		}
		s.Jobs = append(s.Jobs, j)
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	for range 12 {
		j := closedJob("stack", stackGraph(t, rng), 1)
		j.Shapes = map[string]feed.Shape{"x": {1 + rng.IntN(64), 16}}
		s.Jobs = append(s.Jobs, j)
	}
	r, err := newRun(t.Context(), s, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stackGraph is up to five layers of random widths, some with a second way around.
func stackGraph(t *testing.T, rng *rand.Rand) *graph.Graph {
	width, last := 16, "x"
	consts, nodes := "", ""
	for l := range 1 + rng.IntN(5) {
		next := 1 + rng.IntN(96)
		if rng.IntN(3) == 0 {
			next = width
		}
		consts += fmt.Sprintf("  const %%w%d: float32[%d,%d] = {", l, width, next)
		for i := range width * next {
			if i > 0 {
				consts += ", "
			}
			consts += fmt.Sprint(rng.IntN(3) - 1)
		}
		consts += "}\n"
		nodes += fmt.Sprintf("  %%m%d: float32[N,%d] = MatMul@13 \"m%d\" (%%%s, %%w%d)\n", l, next,
			l, last, l)
		nodes += fmt.Sprintf("  %%r%d: float32[N,%d] = Tanh@13 \"r%d\" (%%m%d)\n", l, next, l, l)
		out := fmt.Sprintf("r%d", l)
		if next == width {
			nodes += fmt.Sprintf("  %%a%d: float32[N,%d] = Add@14 \"a%d\" (%%r%d, %%%s)\n", l, next,
				l, l, last)
			out = fmt.Sprintf("a%d", l)
		}
		last, width = out, next
	}
	return parseGraph(t,
		"graph \"stack\" {\n  opset \"\" 17\n  input %x: float32[N,16]\n"+
			consts+nodes+"  output %"+last+"\n}")
}

// randomJobs picks up to three compiled jobs and gives them caps, some of which are below what they
// need.
func randomJobs(rng *rand.Rand, all []*prepared) []*prepared {
	var jobs []*prepared
	for i := range 1 + rng.IntN(3) {
		p := *all[rng.IntN(len(all))]
		need := share.Bytes(p.need())
		p.spec.Name = fmt.Sprintf("job-%d", i)
		p.spec.Iterations = int64(1 + rng.IntN(2))
		p.spec.Class = share.Class(rng.IntN(3))
		p.spec.Compute = float64(rng.IntN(4)) / 10
		p.spec.Memory = []share.Bytes{0, 1, need / 2, need - 1, need, need + 1,
			2 * need}[rng.IntN(7)]
		p.spec.Arrival = []Arrival{{Closed: 1}, {Closed: 2}, {Poisson: 1e6}}[rng.IntN(3)]
		jobs = append(jobs, &p)
	}
	return jobs
}

// checkMemory runs one scenario and looks at the device, the quota and the prediction after every
// step.
func checkMemory(t *testing.T, r *run, policyName string) (refused, ran int) {
	ph := &Phase{Mode: Shared}
	s, err := r.newStage(ph, Shared, policyName)
	if err != nil {
		t.Fatal(err)
	}
	_, admits := mustPolicy(t, policyName).(share.Admitter)
	for i, p := range r.jobs {
		before := r.Device.Held()
		s.add(t.Context(), p, i)
		need, limit := p.need(), int64(p.spec.Memory)
		want := StatusDone
		got := s.tenants[i].result
		// A policy with a rule of its own for admission may refuse more.
		if limit > 0 && need > limit || admits && got.Status == StatusRefused {
			want = StatusRefused
			need = 0
		}
		if got.Status != want {
			t.Errorf("%s needs %d bytes of %d: %s: %s", p.spec.Name, p.need(), limit,
				got.Status, got.Error)
		}
		if held := r.Device.Held() - before; held != max(0, need-p.request) {
			t.Errorf("%s holds %d bytes of the device, the plan says %d", p.spec.Name, held, need)
		}
	}
	if err := s.play(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.report()
	for i, j := range ph.Jobs {
		limit, need := int64(r.jobs[i].spec.Memory), r.jobs[i].need()
		switch {
		case limit > 0 && j.MemoryPeakBytes > limit:
			t.Errorf("%s held %d bytes, cap %d", j.Name, j.MemoryPeakBytes, limit)
		case j.Status == StatusRefused && j.MemoryPeakBytes != 0:
			t.Errorf("%s was refused and held %d bytes", j.Name, j.MemoryPeakBytes)
		case j.Status == StatusDone &&
			(j.MemoryPeakBytes != need || j.Iterations != r.jobs[i].spec.Iterations):
			t.Errorf("%s held %d bytes, predicted %d, in %d iterations", j.Name, j.MemoryPeakBytes,
				need, j.Iterations)
		case j.Status == StatusFailed:
			t.Errorf("%s failed: %s", j.Name, j.Error)
		}
		if j.Status == StatusRefused {
			refused++
		} else {
			ran++
		}
	}
	s.close()
	if held := r.Device.Held(); held != 0 {
		t.Errorf("%d bytes of the device are left", held)
	}
	return refused, ran
}
