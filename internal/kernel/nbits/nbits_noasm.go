//go:build (!amd64 && !arm64) || noasm

package nbits

// run computes a tile.
func (w *Weights) run(p Format, t *tile) {
	if p == Int8 {
		bytesGo(t)
		return
	}
	floatsGo(t)
}

// widen computes a strip.
func (w *Weights) widen(x *strip) { widenGo(x) }

// quantise does what quantiseGo does.
func (w *Weights) quantise(dst []byte, x []float32, block int) { quantiseGo(dst, x, block) }
