package conv

import "github.com/weirgpu/weir/internal/cpuinfo"

// level is the instruction set that a kernel uses.
type level uint8

const (
	levelGo level = iota
	levelAVX2
	levelAVX512
	levelNEON
)

func currentLevel() level {
	switch {
	case cpuinfo.HasAVX512():
		return levelAVX512
	case cpuinfo.HasAVX2FMA():
		return levelAVX2
	case cpuinfo.HasNEON():
		return levelNEON
	}
	return levelGo
}
