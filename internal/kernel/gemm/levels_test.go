package gemm

import (
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// atLevels runs f once on each path of instructions that the machine has.
func atLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	cputest.EachPath(t, f)
}
