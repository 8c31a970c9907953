package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weirgpu/weir/share/policy"
)

// TestExamples: every scenario file of the examples says which publication it follows, on a device
// that can enforce its policy, and can be simulated under all policies: a job either works or was
// refused with a reason.
func TestExamples(t *testing.T) {
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
