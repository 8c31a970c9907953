package tune

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/clock"
	"github.com/weirgpu/weir/plan"
)

// fakeKernel is a kernel that is never run.
type fakeKernel struct {
	compute.Kernel
	problem string
	ways    []string
	way     string
}

func (k *fakeKernel) Problem() string      { return k.problem }
func (k *fakeKernel) Algorithms() []string { return k.ways }
func (k *fakeKernel) Algorithm() string    { return k.way }
func (k *fakeKernel) Measured() bool       { return false }

// machine is a model of steps whose times are made up: cost tells that of a way in a round of the
// whole machine.
type machine struct {
	clock   clock.Manual
	steps   []fakeKernel
	cost    func(problem, way string, run int) time.Duration
	runs    int
	loaded  int // plans so far
	slow    int // the plan of this number, from 1 on, takes half as long again
	running int // plans loaded now
	most    int
	filled  bool
	fail    error // of run
}

func (m *machine) bench(t *testing.T) *bench {
	var done float64
	return &bench{clock: &m.clock, start: m.start, time: time.Second, progress: func(now float64) {
		if now < done || now > 1 {
			t.Errorf("progress from %g to %g", done, now)
		}
		done = now
	}}
}

func (m *machine) start(_ context.Context, c compute.Choices) (*running, error) {
	m.loaded++
	factor := time.Duration(2)
	if m.loaded == m.slow {
		factor = 3
	}
	m.running++
	m.most = max(m.most, m.running)
	steps := make([]plan.Step, len(m.steps))
	for i, k := range m.steps {
		if k.way = c[k.problem]; k.way == "" && len(k.ways) > 0 {
			k.way = k.ways[0]
		}
		steps[i] = plan.Step{Node: &graph.Node{Name: k.problem}, Kernel: &k}
	}
	return &running{
		fill: func() error { m.filled = true; return nil },
		stop: func() { m.running-- },
		run: func(_ context.Context, visit func(*plan.Step)) error {
			if !m.filled {
				return errors.New("run without inputs")
			}
			m.filled = false
			m.runs++
			for i := range steps {
				k := steps[i].Kernel.(*fakeKernel)
				m.clock.Advance(m.cost(k.problem, k.way, m.runs) * factor / 2)
				visit(&steps[i])
			}
			return m.fail
		},
	}, nil
}

var (
	two   = []string{"a", "b"}
	three = []string{"a", "b", "c"}
)

// TestTune holds what is chosen of made-up times.
func TestTune(t *testing.T) {
	flat := map[string]float64{
		"p a": 1,
		"p b": 0.9,
		"q a": 2,
		"q b": 2.5,
		"q c": 1.5,
		"r a": 1,
		"r b": 0.98,
		"s":   3,
	}
	steps := []fakeKernel{
		{problem: "p", ways: two},
		{problem: "q", ways: three},
		{problem: "r", ways: two},
		{problem: "s"},
		{problem: "p", ways: two},
	}
	at := func(problem, way string) time.Duration {
		return time.Duration(flat[strings.TrimSpace(problem+" "+way)] * float64(time.Millisecond))
	}
	for _, tc := range []struct {
		name string
		cost func(problem, way string, run int) time.Duration
		want compute.Choices
	}{
		{"steady", func(p, w string, _ int) time.Duration {
			return at(p, w)
		}, compute.Choices{"p": "b", "q": "c", "r": "a"}},
		{"everything slows down for a while", func(p, w string, run int) time.Duration {
			return at(p, w) * time.Duration(1+run/20%3)
		}, compute.Choices{"p": "b", "q": "c", "r": "a"}},
		{"faster in a few runs only", func(p, w string, run int) time.Duration {
			if p == "p" && w == "b" && run%8 != 0 {
				return at(p, "a")
			}
			return at(p, w)
		}, compute.Choices{"p": "a", "q": "c", "r": "a"}},
		{"faster but for its best time", func(p, w string, run int) time.Duration {
			if p == "q" && w == "a" && run%16 < 4 {
				return at(p, "c")
			}
			return at(p, w)
		}, compute.Choices{"p": "b", "q": "a", "r": "a"}},
		{"not borne out", func(p, w string, run int) time.Duration {
			if p == "p" && run > 140 {
				return at(p, "a")
			}
			return at(p, w)
		}, compute.Choices{"p": "a", "q": "c", "r": "a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &machine{steps: steps, cost: tc.cost}
			r, err := m.bench(t).tune(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for problem, want := range tc.want {
				if got := r.Choices[problem]; got != want {
					t.Errorf("%s: %s, want %s: %+v", problem, got, want, r.Problems)
				}
			}
			if len(r.Choices) != len(tc.want) || m.running != 0 || m.most != 3 {
				t.Errorf("%v; %d plans are left, %d at once", r.Choices, m.running, m.most)
			}
			if r.Rounds < MinRounds || r.Confirming < MinRounds || r.AfterMS >= r.BeforeMS {
				t.Errorf("%d and %d rounds, from %g ms to %g", r.Rounds, r.Confirming, r.BeforeMS,
					r.AfterMS)
			}
		})
	}
}

// TestResult holds the figures of a result.
func TestResult(t *testing.T) {
	m := &machine{
		steps: []fakeKernel{
			{problem: "fast", ways: two},
			{problem: "slow", ways: three},
			{problem: "fast", ways: two},
			{problem: "one", ways: two[:1]},
		},
		cost: func(p, w string, _ int) time.Duration {
			return map[string]time.Duration{"fast a": 1, "fast b": 2, "slow a": 8, "slow b": 4,
				"slow c": 6, "one a": 5}[p+" "+w] * time.Millisecond
		},
	}
	r, err := m.bench(t).tune(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Problem{
		{
			Problem:    "slow",
			Steps:      []string{"slow"},
			Candidates: []Candidate{{"a", 8}, {"b", 4}, {"c", 6}},
			Chosen:     "b",
			Promised:   0.5,
			Gain:       0.5,
			fastest:    1,
		},
		{
			Problem:    "fast",
			Steps:      []string{"fast", "fast"},
			Candidates: []Candidate{{"a", 2}, {"b", 4}},
			Chosen:     "a",
		},
	}
	same := func(p, q Problem) bool {
		return p.Problem == q.Problem && slices.Equal(p.Steps, q.Steps) &&
			slices.Equal(p.Candidates, q.Candidates) &&
			p.Chosen == q.Chosen &&
			math.Abs(p.Gain-q.Gain) < 1e-9 &&
			math.Abs(p.Promised-q.Promised) < 1e-9
	}
	if !slices.EqualFunc(r.Problems, want, same) {
		t.Errorf("got  %+v\nwant %+v", r.Problems, want)
	}
	if r.BeforeMS != 15 || r.AfterMS != 11 {
		t.Errorf("from %g ms to %g, want 15 and 11", r.BeforeMS, r.AfterMS)
	}
	// Three plans that take turns, each run twice, of 15, 15 and 15 ms or so, for a second.
	if r.Rounds < 8 || r.Rounds > 16 {
		t.Errorf("%d rounds in a second", r.Rounds)
	}
}

// TestFewRounds holds the bounds of the rounds: of a model that takes longer than the time, and of
// one that takes none.
func TestFewRounds(t *testing.T) {
	for took, want := range map[time.Duration]int{time.Minute: MinRounds, 0: MaxRounds} {
		m := &machine{
			steps: []fakeKernel{{problem: "p", ways: two}},
			cost:  func(string, string, int) time.Duration { return took },
		}
		r, err := m.bench(t).tune(t.Context())
		if err != nil || r.Rounds != want || r.Confirming != 0 || r.Choices["p"] != "a" {
			t.Errorf("%v a run: %+v, %v; want %d rounds", took, r, err, want)
		}
	}
}

// TestPlacement holds that a plan which came to lie badly in memory makes no way look fast, nor,
// where the gain is large, slow.
func TestPlacement(t *testing.T) {
	for slow := 1; slow <= 4; slow++ {
		m := &machine{
			steps: []fakeKernel{{problem: "p", ways: two}},
			slow:  slow,
			cost:  func(string, string, int) time.Duration { return time.Millisecond },
		}
		r, err := m.bench(t).tune(t.Context())
		if err != nil || r.Choices["p"] != "a" || r.AfterMS != r.BeforeMS {
			t.Errorf("plan %d is slow: %+v, %v", slow, r, err)
		}
		m = &machine{steps: m.steps, slow: slow, cost: func(_, way string, _ int) time.Duration {
			return map[string]time.Duration{"a": 4, "b": 2}[way] * time.Millisecond
		}}
		if r, err = m.bench(t).tune(t.Context()); err != nil || r.Choices["p"] != "b" {
			t.Errorf("plan %d is slow: %+v, %v", slow, r, err)
		}
	}
}

func TestNothingToChoose(t *testing.T) {
	m := &machine{
		steps: []fakeKernel{{problem: "p", ways: two[:1]}},
		cost:  func(string, string, int) time.Duration { return 1 },
	}
	r, err := m.bench(t).tune(t.Context())
	if err != nil || len(r.Problems) > 0 || len(r.Choices) > 0 || m.runs != 1 || m.running != 0 {
		t.Errorf("%+v, %v after %d runs", r, err, m.runs)
	}
}

func TestFailedRun(t *testing.T) {
	m := &machine{
		steps: []fakeKernel{{problem: "p", ways: two}},
		cost:  func(string, string, int) time.Duration { return 1 },
		fail:  errors.New("broken"),
	}
	if _, err := m.bench(t).tune(t.Context()); !errors.Is(err, m.fail) || m.running != 0 {
		t.Errorf("%v, %d plans are left", err, m.running)
	}
}

// TestGain holds it for series of times that do not match.
func TestGain(t *testing.T) {
	ms := func(v ...time.Duration) []time.Duration { return v }
	for _, tc := range []struct {
		name        string
		base, other []time.Duration
		want        float64
	}{
		{"none", nil, nil, 0},
		{"too few", ms(2, 2, 2, 2), ms(1, 1, 1, 1), 0},
		{"enough", ms(2, 2, 2, 2, 2), ms(1, 1, 1, 1, 1), 0.5},
		{"of rounds that both have", ms(2, 0, 2, 2, 2, 2, 2), ms(1, 1, 1, 1, 1, 1), 0.5},
		{"slower", ms(1, 1, 1, 1, 1), ms(2, 2, 2, 2, 2), -1},
	} {
		if got := gain(tc.base, tc.other); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", tc.name, got, tc.want)
		}
	}
}
