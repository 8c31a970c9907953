package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// TestSaysWhatItLacks holds the exit code and the reason where there are no tiles, none that may be
// used, or a path below is asked for.
func TestSaysWhatItLacks(t *testing.T) {
	denied := errors.New("the system permits no use of tiles")
	allow := func() error { return nil }
	for _, c := range []struct {
		path   cpuinfo.Path
		permit func() error
		want   string
	}{
		{cpuinfo.PathAMX, func() error { return denied }, "permits no use"},
		{cpuinfo.PathAVX512BF16, allow, "path avx512-bf16, not avx512-amx: see WEIR_ISA"},
	} {
		var out strings.Builder
		err := lacks(c.path, c.permit)
		if code := run(&out, 0, err); code != exitLacks || !strings.Contains(out.String(), c.want) {
			t.Errorf("exit code %d: %s", code, out.String())
		}
	}
	if err := lacks(cpuinfo.PathAMX, allow); err != nil {
		t.Errorf("nothing is lacking: %v", err)
	}
}
