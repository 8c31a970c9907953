package cputest

import (
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// OnTiles runs f as a subtest once with products computed as on tiles, by their definition, on the
// best path that the machine has for all else. Neither t nor f may be parallel.
func OnTiles(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("tiles by definition", func(t *testing.T) {
		defer cpuinfo.TilesByDefinition()()
		f(t)
	})
}
