package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share/policy"
)

// TestExamples: every scenario file of the examples says which publication it follows, on a device
// that can enforce its policy, and can be simulated under all policies: a job either works or was
// refused with a reason.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation is one goroutine: of it the race detector sees what " +
			"TestEveryPolicySimulated runs, and -short what that holds")
	}
	files, err := filepath.Glob("../examples/scenarios/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	cited := regexp.MustCompile(`(?s)^# .*\b20[012]\d\b.*section|^# .*(NVIDIA).*\b20[012]\d\b`)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !cited.Match(text) {
				t.Error("no comment with a publication and its year")
			}
			s, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Simulate(t.Context(), s, Options{Solo: true, Policies: []string{"all"}})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Results)+len(r.LeftOut) != len(policy.All()) {
				t.Errorf("%d results and %d left out", len(r.Results), len(r.LeftOut))
			}
			for _, p := range r.Phases {
				checkSimulated(t, &p)
			}
			shows := exampleShows[strings.TrimSuffix(filepath.Base(file), ".yaml")]
			if shows == nil {
				t.Fatal("nothing is known of what the scenario shows")
			}
			shows(claim{t, s, r})
			if r, err = Simulate(t.Context(), s, Options{}); err != nil {
				t.Fatal(err)
			}
			for _, j := range r.Jobs {
				if j.Status != StatusDone || j.Iterations == 0 {
					t.Errorf("under its own policy %s is %s after %d iterations: %s", j.Name,
						j.Status, j.Iterations, j.Error)
				}
			}
		})
	}
}

func checkSimulated(t *testing.T, p *Phase) {
	t.Helper()
	share := 0.0
	for _, j := range p.Jobs {
		share += j.DeviceShare
		if (j.Status == StatusDone) == (j.Error != "") {
			t.Errorf("%s %s: %s is %s: %q", p.Mode, p.Policy, j.Name, j.Status, j.Error)
		}
		if p.Mode == Solo && j.Iterations == 0 {
			t.Errorf("%s does nothing alone", j.Name)
		}
	}
	if p.Mode == Shared && share > 1.001 {
		t.Errorf("%s: the jobs' shares sum to %v", p.Policy, share)
	}
}

// claim is a scenario's result under all policies, and a test of what its file says that it shows.
type claim struct {
	*testing.T
	s *Scenario
	r *Result
}

// under returns the phase under a policy.
func (c claim) under(policy string) *Phase {
	c.Helper()
	for i := range c.r.Results {
		if p := &c.r.Results[i]; strings.Split(p.Policy, ":")[0] == policy {
			return p
		}
	}
	c.Fatalf("nothing under %s", policy)
	return nil
}

// within fails unless a figure is from lo to hi.
func (c claim) within(what string, got, lo, hi float64) {
	c.Helper()
	if !(got >= lo && got <= hi) {
		c.Errorf("%s is %.4g, want %.4g to %.4g", what, got, lo, hi)
	}
}

// slowed is how much slower than alone a job's median request is.
func slowed(p *Phase, job int) float64 {
	return p.Jobs[job].Latency.P50 / p.Jobs[job].SoloLatency.P50
}

// speed is how fast a job is against alone.
func speed(p *Phase, job int) float64 { return p.Jobs[job].IterationsPerS / p.Jobs[job].SoloPerS }

// exampleShows holds for every example what the comment at its head says.
var exampleShows = map[string]func(claim){
	"antman": func(c claim) {
		p := c.under("antman")
		c.within("the guaranteed job's iteration", slowed(p, 0), 1, 1.01)
		c.within("the device time used", usedShare(p), 0.96, 1.001)
	},
	"baymax": func(c claim) {
		c.within("in time", *c.under("baymax").TargetsMet, 0.99, 1)
		c.within("in time in order of arrival", *c.under("fifo").TargetsMet, 0, 0.2)
		c.within("the device time used", usedShare(c.under("baymax")), 0.99, 1.001)
	},
	"fgpu": func(c claim) {
		p := c.under("fgpu")
		c.within("p99 of the task with a deadline", p.Jobs[0].Latency.P99, 37.5, 37.6)
		c.within("in time", *p.TargetsMet, 1, 1)
		c.within("in time under fair", *c.under("fair").TargetsMet, 0, 0.9)
		c.within("in time in order of arrival", *c.under("fifo").TargetsMet, 0, 0.1)
	},
	"fill": func(c claim) {
		p := c.under("fill")
		c.within("the owner's speed", speed(p, 0), 0.99, 1.001)
		c.within("the other's speed", speed(p, 1), 0.98, 1.001)
	},
	"gaia": func(c claim) {
		p := c.under("gaia")
		c.within("the share with a hard limit", p.Jobs[0].DeviceShare, 0.29, 0.301)
		c.within("the elastic share", p.Jobs[1].DeviceShare*15/9, 0.69, 0.701)
	},
	"gemini": func(c claim) {
		p := c.under("gemini")
		for i, there := range []float64{15, 15, 10} {
			j := &p.Jobs[i]
			c.within("the share of "+j.Name, j.DeviceShare*20/there, j.Compute, j.Limit+0.01)
		}
	},
	"gpushare": func(c claim) {
		c.within("p99 of short kernels", c.under("gpushare").LatencyVsSolo, 1, 1.05)
		c.within("the long ones' speed", speed(c.under("gpushare"), 1), 0.97, 1)
		c.within("p99 in turns", c.under("fair").LatencyVsSolo, 10, 1000)
	},
	"lithos": func(c claim) {
		p, own := c.under("steal"), c.under("fgpu")
		for i := range 2 {
			c.within("p99 over that on units of its own",
				p.Jobs[i].Latency.P99/own.Jobs[i].Latency.P99, 0.95, 1.1)
		}
		c.within("the training's speed", speed(p, 2), 2*speed(own, 2), 1)
	},
	"mig": func(c claim) {
		p := c.under("mig")
		for i, slices := range []float64{3, 2, 1, 1} {
			j := &p.Jobs[i]
			c.within("the share of "+j.Name, j.DeviceShare, 0, (slices+0.1)/7)
			if i != 1 { // the others' iterations are alike
				c.within("p99 over p50 of "+j.Name, j.Latency.P99/j.Latency.P50, 1, 1.001)
			}
		}
		c.within("what is lost", 1-usedShare(p), 0.1, 0.3)
	},
	"mps": func(c claim) {
		c.within("throughput at once", c.under("mps").ThroughputVsSolo, 3.5, 4)
		c.within("throughput in turns", c.under("timeslice").ThroughputVsSolo, 0.9, 1)
	},
	"orion": func(c claim) {
		p, turns := c.under("orion"), c.under("priority")
		c.within("p99 of inference", p.LatencyVsSolo, 1, 1.02)
		c.within("speed of what complements it", speed(p, 1), 2*speed(turns, 1), 1)
		c.within("throughput", p.ThroughputVsSolo, 1.2*turns.ThroughputVsSolo, 3)
	},
	"salus": func(c claim) {
		c.within("mean completion over that in order of arrival",
			c.under("srtf").MeanCompletionS/c.under("fifo").MeanCompletionS, 0.3, 0.55)
	},
	"tgs": func(c claim) {
		p := c.under("tgs")
		c.within("the production job's speed", speed(p, 0), 0.97, 1.001)
		c.within("the other's speed", speed(p, 1), 0.15, 0.25)
	},
	"vgpu": func(c claim) {
		c.within("a busy machine's share", c.under("vgpu").Jobs[0].DeviceShare, 0.33, 0.4)
		r, err := Simulate(c.Context(), c.s, Options{Policies: []string{"vgpu:mode=fixed-share"}})
		if err != nil {
			c.Fatal(err)
		}
		c.within("its fixed share", r.Jobs[0].DeviceShare, 0.24, 0.251)
	},
}

// usedShare is the part of the device's time that the jobs had.
func usedShare(p *Phase) float64 {
	sum := 0.0
	for i := range p.Jobs {
		sum += p.Jobs[i].DeviceShare
	}
	return sum
}
