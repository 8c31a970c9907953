package conformance

import (
	"testing"

	"github.com/weirgpu/weir/internal/conformance/archive"
)

// TestVersions holds old versions of operators, which the ONNX project's cases leave out, to ONNX
// Runtime's results and to NumPy's where it has none; peer/versions.py tells which.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	if err := archive.Unpack("testdata/versions.tar.xz", dir); err != nil {
		t.Fatal(err)
	}
	cases, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 90 {
		t.Errorf("%d cases, want at least 90", len(cases))
	}
	for way, run := range map[string]Runner{"reference": Reference,
		"engine": testEngine(t, 2).Run} {
		for _, r := range runAll(t, cases, run).Cases {
			if r.Status != Passed {
				t.Errorf("%s: %s: %s: %s", way, r.Name, r.Status, r.Detail)
			}
		}
	}
}
