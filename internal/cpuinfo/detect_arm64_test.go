//go:build !noasm

package cpuinfo

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestInstructionsOfMissingPathsDoNotEndTheProcess runs the instructions of every path, whatever
// the processor has: what it lacks is an error.
func TestInstructionsOfMissingPathsDoNotEndTheProcess(t *testing.T) {
	if os.Getenv(PathVariable) != "" {
		t.Skip("not all that there is may be used")
	}
	for _, p := range Paths()[1:] {
		err := try(p)
		t.Logf("%v: %v", p, err)
		if (err == nil) != (p <= SupportedPath()) {
			t.Errorf("%v of a processor with %v: %v", p, SupportedPath(), err)
		}
	}
}

// TestWrongInstructionsAreNotUsed holds that a path whose instructions err is not taken, nor those
// above it, and that this is told.
func TestWrongInstructionsAreNotUsed(t *testing.T) {
	for _, bad := range Paths()[1:] {
		got, doubt := tried(PathBF16, func(p Path) error {
			if p == bad {
				return errors.New("SDOT gives 3")
			}
			return nil
		})
		if got != bad-1 || !strings.Contains(doubt, bad.String()) ||
			!strings.Contains(doubt, "SDOT gives 3") {
			t.Errorf("%v fails: path %v, %q", bad, got, doubt)
		}
	}
	if got, doubt := tried(PathI8MM, func(Path) error { return nil }); got != PathI8MM ||
		doubt != "" {
		t.Errorf("none fails: path %v, %q", got, doubt)
	}
}

// TestProbesFindWhatDiffers holds that an instruction which leaves its destination alone, as one
// that is skipped does, or is wrong in one bit, is found.
func TestProbesFindWhatDiffers(t *testing.T) {
	for p, all := range probes {
		for _, x := range all {
			right := probe{x.name, x.define, x.define}
			if err := tryAll([]probe{right}); err != nil {
				t.Errorf("%v: %v", p, err)
			}
			for _, wrong := range []func(d, n, m *vector){
				func(_, _, _ *vector) {},
				func(d, n, m *vector) { x.define(d, m, n); d[0] ^= 1 },
			} {
				if err := tryAll([]probe{{x.name, wrong, x.define}}); err == nil ||
					!strings.Contains(err.Error(), x.name) {
					t.Errorf("%v: a wrong %s gives %v", p, x.name, err)
				}
			}
		}
	}
}
