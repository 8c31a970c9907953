package cpuinfo

import "encoding/binary"

// armFeatures are the sets of instructions that the paths of arm64 differ in. A processor may have
// one without those of the paths below.
type armFeatures struct{ dot, i8mm, bf16 bool }

// path is the highest path of which there is everything.
func (f armFeatures) path() Path {
	switch {
	case !f.dot:
		return PathNEON
	case !f.i8mm:
		return PathDotProd
	case !f.bf16:
		return PathI8MM
	}
	return PathBF16
}

// The entries of Linux's auxiliary vector that tell features, and their bits on arm64 (getauxval(3)
// and the kernel's Documentation/arch/arm64/elf_hwcaps.rst).
const (
	auxHWCAP   = 16
	auxHWCAP2  = 26
	hwcapDot   = 1 << 20 // HWCAP_ASIMDDP
	hwcap2I8MM = 1 << 13
	hwcap2BF16 = 1 << 14
	auxEntry   = 16
	auxEnd     = 0
)

// auxFeatures reads features from an auxiliary vector of 64-bit words, lowest byte first, as
// /proc/self/auxv holds it. What it does not say is not there.
func auxFeatures(vector []byte) (f armFeatures) {
	for ; len(vector) >= auxEntry; vector = vector[auxEntry:] {
		value := binary.LittleEndian.Uint64(vector[8:])
		switch binary.LittleEndian.Uint64(vector) {
		case auxEnd:
			return f
		case auxHWCAP:
			f.dot = value&hwcapDot != 0
		case auxHWCAP2:
			f.i8mm, f.bf16 = value&hwcap2I8MM != 0, value&hwcap2BF16 != 0
		}
	}
	return f
}
