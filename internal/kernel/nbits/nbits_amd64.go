//go:build amd64 && !noasm

package nbits

import "github.com/weirgpu/weir/internal/cpuinfo"

//go:generate go -C _generate run . ..

// run computes a tile.
func (w *Weights) run(p Format, t *tile) {
	switch {
	case w.level == cpuinfo.PathAVX512VNNI && p == Int8:
		bytesAVX512(t)
	case w.level == cpuinfo.PathAVX512VNNI:
		floatsAVX512(t)
	case w.level == cpuinfo.PathAVX2 && p == Int8:
		bytesAVX2(t)
	case w.level == cpuinfo.PathAVX2:
		floatsAVX2(t)
	case p == Int8:
		bytesGo(t)
	default:
		floatsGo(t)
	}
}

// widen computes a strip.
func (w *Weights) widen(x *strip) {
	switch w.level {
	case cpuinfo.PathAVX512VNNI:
		widenAVX512(x)
	case cpuinfo.PathAVX2:
		widenAVX2(x)
	default:
		widenGo(x)
	}
}

// quantise does what quantiseGo does.
func (w *Weights) quantise(dst []byte, x []float32, block int) {
	switch w.level {
	case cpuinfo.PathAVX512VNNI:
		quantiseAVX512(&dst[0], &x[0], block/16, len(x)/block)
	case cpuinfo.PathAVX2:
		quantiseAVX2(&dst[0], &x[0], block/8, len(x)/block)
	default:
		quantiseGo(dst, x, block)
	}
}
