//go:build arm64 && !noasm

package nbits

import "github.com/weirgpu/weir/internal/cpuinfo"

//go:generate go -C _generate run . ..

// run computes a tile.
func (w *Weights) run(p Format, t *tile) {
	switch {
	case p != Int8:
		floatsGo(t)
	case w.level != cpuinfo.PathDotProd:
		bytesGo(t)
	case t.rows == 1:
		bytesDot1(t)
	case t.rows == 2:
		bytesDot2(t)
	default:
		bytesDot3(t)
	}
}

// widen computes a strip.
func (w *Weights) widen(x *strip) {
	if w.level == cpuinfo.PathPlain {
		widenGo(x)
		return
	}
	widenNEON(x)
}

// quantise does what quantiseGo does.
func (w *Weights) quantise(dst []byte, x []float32, block int) { quantiseGo(dst, x, block) }
