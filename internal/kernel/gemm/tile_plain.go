//go:build (!amd64 && !arm64) || noasm

package gemm

// runTile computes t.
func runTile(v level, t *tile) { runTileGo(v, t) }
