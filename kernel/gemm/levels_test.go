package gemm

import (
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// atLevels runs f once at each instruction level that the machine has.
func atLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	for l := cpuinfo.Supported(); l >= cpuinfo.Baseline; l-- {
		t.Run(l.String(), func(t *testing.T) {
			if l < cpuinfo.Supported() {
				defer cpuinfo.Disable(l + 1)()
			}
			f(t)
		})
	}
}
