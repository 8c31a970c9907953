package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
)

var digits = filepath.Join("..", "examples", "digits", "digits.onnx")

// keptPlans opens a cache for plans of the example model.
func keptPlans(t *testing.T) *cache.Cache {
	t.Helper()
	if info, err := os.Stat(digits); err != nil {
		t.Fatal(err)
	} else if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago, and plans of such are not kept")
	}
	plans, err := cache.Open(cache.Options{Dir: filepath.Join(t.TempDir(), "plans")})
	if err != nil {
		t.Fatal(err)
	}
	return plans
}

// sharing is a job of the example model.
func sharing(name string, batch int, requests int64) Job {
	j := closedJob(name, nil, requests)
	j.Model, j.Shapes = digits, map[string]feed.Shape{"image": {batch, 1, 8, 8}}
	return j
}

// TestJobsShareWeights: jobs of one model hold its weights once on the device, which has no room
// for them twice, and each job's figures say what it uses. What one has leaves not with its end.
func TestJobsShareWeights(t *testing.T) {
	plans := keptPlans(t)
	o := Options{Threads: 1, Plans: plans}
	for _, elastic := range []bool{false, true} {
		s := &Scenario{Device: "cpu:0", Policy: "fair"}
		for i := range 3 {
			j := sharing(fmt.Sprint("j", i), 1, int64(1+5*i))
			j.Elastic = elastic
			s.Jobs = append(s.Jobs, j)
		}
		r, err := newRun(t.Context(), s.valid(t), o)
		if err != nil {
			t.Fatal(err)
		}
		p := r.jobs[0]
		need, packed := p.need(), p.plan.PackedBytes
		s.Memory = share.Bytes(3*(need-packed) + packed) // to the byte
		res, err := r.all(t.Context())
		r.close()
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range res.Jobs {
			if j.Status != StatusDone || j.Iterations != int64(1+5*i) || j.SharedBytes != packed ||
				j.MemoryPeakBytes != need || j.MemoryCapBytes != need {
				t.Errorf("elastic %v: job %s is %s (%s) after %d requests: %+v", elastic, j.Name,
					j.Status, j.Error, j.Iterations, j)
			}
		}
		weights, _ := Weights(res.Jobs)
		if held := Held(res.Jobs); res.Jobs[0].SharedWeights == "" || held != int64(s.Memory) ||
			elastic && weights != packed {
			t.Errorf("elastic %v: %d bytes of %q, and %d of weights, want %d and %d", elastic, held,
				res.Jobs[0].SharedWeights, weights, s.Memory, packed)
		}
		s.Memory = 0
		s.Jobs[0].Shapes = map[string]feed.Shape{"image": {2, 1, 8, 8}}
		if res := run1(t, s, o); res.Jobs[0].SharedBytes != 0 || res.Jobs[1].SharedBytes != packed {
			t.Errorf("of unlike plans %d and %d bytes are shared", res.Jobs[0].SharedBytes,
				res.Jobs[1].SharedBytes)
		}
	}
}

// TestSharedWeightsLeaveLast: with room for the weights of two models of three, those that two jobs
// use come back no oftener than the others, which make room for each other; with room for one they
// come back too. That none leaves while another can is core's: here it takes time to make room, and
// of two that each wait with their weights there neither can.
func TestSharedWeightsLeaveLast(t *testing.T) {
	plans := keptPlans(t)
	s := &Scenario{Device: "cpu:0", Policy: "fair", Eviction: "lru"}
	for i, batch := range []int{1, 2, 3, 1} {
		j := sharing(fmt.Sprint("j", i), batch, 40)
		j.Elastic = true
		s.Jobs = append(s.Jobs, j)
	}
	o := Options{Threads: 1, Plans: plans}
	r, err := newRun(t.Context(), s.valid(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	packed, kept := int64(0), int64(0)
	for _, p := range r.jobs {
		packed, kept = p.plan.PackedBytes, kept+p.need()-p.plan.PackedBytes
	}
	for _, room := range []int64{2, 1} {
		s.Memory = share.Bytes(kept + room*packed)
		res, err := r.all(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		returned := map[string]int64{}
		for _, j := range res.Jobs {
			if j.Status != StatusDone || j.Iterations != 40 {
				t.Errorf("room for %d: job %s is %s after %d requests: %s", room, j.Name, j.Status,
					j.Iterations, j.Error)
			}
			returned[j.Name] = j.ReturnedBytes
		}
		shared, others := returned["j0"], returned["j1"]+returned["j2"]
		if shared != returned["j3"] || others == 0 || room == 1 && shared == 0 || shared > others {
			t.Errorf("room for %d: so many bytes came back: %v", room, returned)
		}
		for _, span := range res.Phase.Memory {
			sum := share.Bytes(0)
			for _, held := range span.Held {
				sum += held
			}
			if sum > s.Memory {
				t.Errorf("%v held of %v", sum, s.Memory)
			}
		}
	}
}
