//go:build (!amd64 && !arm64) || noasm

package gemm

// runTile computes t.
func runTile(v level, t *tile) { runTileGo(v, t) }

// quadsVectors and quadsAlongVectors do nothing.
func quadsVectors(level, []float32, []float32, int, int, int) (done int) { return 0 }

func quadsAlongVectors(level, []float32, int, []float32) (done int) { return 0 }
