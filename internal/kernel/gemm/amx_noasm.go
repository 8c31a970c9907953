//go:build !amd64 || noasm

package gemm

import "github.com/weirgpu/weir/internal/cpuinfo"

// run computes a call by its definition: there are no tiles.
func (c *tileCall) run(v level, a, b, out []float32) { c.model(v, a, b, out) }

// tilesDoubt says why tiles are not used.
func tilesDoubt() error { return cpuinfo.PermitTiles() }

// RunTilesPeak returns 0: there are no tiles.
func RunTilesPeak(Format, int) (flop int64) { return 0 }
