package gemm

import (
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
)

// atLevels runs f once on each path of instructions that the machine has, and once on tiles that
// the definition computes.
func atLevels(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	cputest.EachPath(t, f)
	cputest.OnTiles(t, f)
}
