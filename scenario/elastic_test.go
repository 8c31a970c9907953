package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// TestElasticJobs: models whose sum is several times the device are all served, and all together
// never hold more than the device; without keep most of them are refused.
func TestElasticJobs(t *testing.T) {
	g, err := zoo.New("minilm-l6", zoo.Options{Layers: 1, Hidden: 64, Vocabulary: 500})
	if err != nil {
		t.Fatal(err)
	}
	const models, fit, requests = 8, 3, 4
	for _, rule := range []string{"lru", "greedydual"} {
		s := &Scenario{Policy: "fair", Eviction: rule}
		for i := range models {
			j := closedJob(fmt.Sprint("m", i), g, requests)
			j.Shapes = map[string]Shape{"input_ids": {1, 4}}
			j.Elastic = true
			s.Jobs = append(s.Jobs, j)
		}
		p, err := newRun(t.Context(), s.valid(t), Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		need, packed := p.jobs[0].need(), p.jobs[0].plan.PackedBytes
		p.close()
		s.Memory = share.Bytes(models*(need-packed) + fit*packed)
		res := run1(t, s, Options{Threads: 1})
		evictions := int64(0)
		for _, j := range res.Phase.Jobs {
			if j.Status != StatusDone || j.Iterations != requests {
				t.Errorf("%s: %s did %d iterations, %s: %s", rule, j.Name, j.Iterations, j.Status,
					j.Error)
			}
			evictions += j.Evictions
		}
		if least := int64(models - fit); evictions < least {
			t.Errorf("%s: %d evictions, want %d at least", rule, evictions, least)
		}
		for _, span := range res.Phase.Memory {
			sum := share.Bytes(0)
			for _, held := range span.Held {
				sum += held
			}
			if sum > s.Memory {
				t.Errorf("%s: %v held of %v", rule, sum, s.Memory)
			}
		}
		for i := range s.Jobs {
			s.Jobs[i].Elastic = false
		}
		refused := 0
		for _, j := range run1(t, s, Options{Threads: 1}).Phase.Jobs {
			if j.Status == StatusRefused {
				refused++
			}
		}
		if refused < models-fit-1 {
			t.Errorf("%d of %d refused that keep all of their memory", refused, models)
		}
	}
}

func (s *Scenario) valid(t *testing.T) *Scenario {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMemoryKeys: a cap alone is kept; with keep only so much of it is.
func TestMemoryKeys(t *testing.T) {
	s, err := Parse(strings.NewReader(`
memory: 300MiB
eviction: greedydual
duration: 1s
jobs:
  - {name: a, model: a.onnx, memory: 1GiB}
  - {name: b, model: a.onnx, memory: {cap: 2GiB, keep: 500MiB}}
  - {name: c, model: a.onnx, memory: {keep: 0}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []share.Share{{Memory: share.GiB},
		{Memory: 2 * share.GiB, Elastic: true, Keep: 500 * share.MiB}, {Elastic: true}}
	for i, w := range want {
		if s.Jobs[i].Share != w {
			t.Errorf("job %s: %+v, want %+v", s.Jobs[i].Name, s.Jobs[i].Share, w)
		}
	}
	if s.Memory != 300*share.MiB || s.Eviction != "greedydual" {
		t.Errorf("memory %v, eviction %s", s.Memory, s.Eviction)
	}
	for text, says := range map[string]string{
		"{cap: 1GiB, floor: 1B}":      `line 4: memory: unknown key "floor": want cap, keep`,
		"{cap: 1GiB, keep: 2GiB}":     "keep is 2GiB, must be from 0 to memory, 1GiB",
		"{keep: 5}":                   `size "5" has no unit`,
		"1GiB\neviction: random":      `no such eviction rule: choose one of lru, greedydual`,
		"{cap: 1GiB}\nmemory: [1GiB]": "want one value",
	} {
		job, rest, _ := strings.Cut(text, "\n")
		_, err := Parse(strings.NewReader("duration: 1s\njobs:\n- name: a\n  memory: " + job +
			"\n  model: a.onnx\n" + rest))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
