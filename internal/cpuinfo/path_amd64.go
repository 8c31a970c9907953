package cpuinfo

import "golang.org/x/sys/cpu"

var paths = []Path{PathPlain, PathAVX2, PathAVX512, PathAVX512VNNI, PathAVX512BF16,
	PathAMX}

// detect returns the highest path that the processor and the operating system offer, and that the
// program was built with: the build tag noasm leaves only plain Go. Nothing is in doubt: CPUID is
// the processor's own. Whether tiles may be used is asked later, when something wants them.
func detect() (p Path, doubt string) {
	if !assembly {
		return PathPlain, ""
	}
	x := &cpu.X86
	return features{
		avx2:   x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasBMI2,
		avx512: x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ,
		vnni:   x.HasAVX512VNNI,
		bf16:   x.HasAVX512BF16,
		tiles:  theProcessor.tiles(),
	}.path(), ""
}

// features are the sets of instructions that paths differ in. A processor may have one without
// those of the paths below, in theory or because a hypervisor hides them.
type features struct{ avx2, avx512, vnni, bf16, tiles bool }

func (f features) path() Path {
	switch {
	case !f.avx2:
		return PathPlain
	case !f.avx512:
		return PathAVX2
	case !f.vnni:
		return PathAVX512
	case !f.bf16:
		return PathAVX512VNNI
	case !f.tiles:
		return PathAVX512BF16
	}
	return PathAMX
}
