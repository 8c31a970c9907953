package conformance

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/internal/conformance/archive"
)

// mlCases unpacks the cases of ai.onnx.ml: models that peer/ml.py drew or had trained, with the
// outputs that ONNX Runtime gave.
func mlCases(t *testing.T) []*Case {
	t.Helper()
	dir := t.TempDir()
	if err := archive.Unpack(filepath.Join("testdata", "ml.tar.xz"), dir); err != nil {
		t.Fatal(err)
	}
	cases, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestMLAgreesWithPeer holds the plain evaluations and the engine against ONNX Runtime, and every
// case in random ways of running that must not change its results.
func TestMLAgreesWithPeer(t *testing.T) {
	cases := mlCases(t)
	for name, run := range map[string]Runner{"plain": Reference, "engine": testEngine(t, 2).Run} {
		t.Run(name, func(t *testing.T) { allPass(t, runAll(t, cases, run)) })
	}
	t.Run("metamorphic", func(t *testing.T) {
		s := newTester(t)
		for _, c := range cases {
			if err := s.run(context.Background(), c); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	})
}

func allPass(t *testing.T, r *Report) {
	t.Helper()
	for _, c := range r.Cases {
		if c.Status != Passed {
			t.Errorf("%s: %s: %s", c.Name, c.Status, c.Detail)
		}
	}
}
