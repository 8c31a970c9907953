package cpuinfo

import "golang.org/x/sys/cpu"

// Level is a width of vectors that kernels are written for. Levels are ordered: each includes those
// below it.
type Level int32

const (
	// Baseline is what the Go compiler emits for the target without asking.
	Baseline Level = iota
	// AVX2 is AVX2, FMA and F16C: 256-bit vectors with fused multiply-add and half-precision
	// conversion.
	AVX2
	// AVX512 is AVX-512 F, BW, VL and DQ: 512-bit vectors with masks.
	AVX512
)

// String names the level as reports print it.
func (l Level) String() string {
	switch l {
	case Baseline:
		return "baseline"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return "unknown"
}

// Supported returns the highest level that the processor and the operating system offer and the
// environment allows, whatever is disabled.
func Supported() Level { return SupportedPath().level() }

// Current returns the highest level that kernels may use now: Supported, less what Disable and
// Limit took away.
func Current() Level { return CurrentPath().level() }

// HasNEON reports whether kernels may use the vectors of arm64.
func HasNEON() bool { return onArm(PathNEON) }

// HasDotProd reports whether kernels may use SDOT and UDOT.
func HasDotProd() bool { return onArm(PathDotProd) }

// HasI8MM reports whether kernels may use USMMLA and USDOT.
func HasI8MM() bool { return onArm(PathI8MM) }

// HasBF16 reports whether kernels may use BFMMLA and BFCVTN of arm64.
func HasBF16() bool { return onArm(PathBF16) }

// onArm reports whether the path in force is one of arm64, and that or a later one.
func onArm(p Path) bool {
	now := CurrentPath()
	return now >= p && now <= PathBF16
}

// HasAVX2FMA reports whether kernels may use AVX2, FMA and F16C instructions.
func HasAVX2FMA() bool { return CurrentPath() >= PathAVX2 }

// HasAVX512 reports whether kernels may use AVX-512 F, BW, VL and DQ instructions.
func HasAVX512() bool { return CurrentPath() >= PathAVX512 }

// HasAVX512VNNI reports whether kernels may use the AVX-512 int8 and int16 dot products (VPDPBUSD,
// VPDPWSSD).
func HasAVX512VNNI() bool { return CurrentPath() >= PathAVX512VNNI }

// HasAVX512VBMI reports whether kernels that may use AVX-512 VNNI may also permute bytes across a
// vector (VPERMI2B), which Cascade Lake and Cooper Lake cannot.
func HasAVX512VBMI() bool { return HasAVX512VNNI() && cpu.X86.HasAVX512VBMI }

// HasAVX512BF16 reports whether kernels may use the AVX-512 bfloat16 dot product and conversions
// (VDPBF16PS, VCVTNEPS2BF16, VCVTNE2PS2BF16).
func HasAVX512BF16() bool { return CurrentPath() >= PathAVX512BF16 }

// HasTiles reports whether the processor has tiles that kernels may use once [PermitTiles] has
// asked the system.
func HasTiles() bool { return CurrentPath() >= PathAMX }

// Disable makes level and every level above it absent until undo is called: it is [Limit] to the
// best path below. Disabling Baseline does what disabling AVX2 does, and takes nothing from arm64.
func Disable(level Level) (undo func()) {
	if level >= AVX512 {
		return Limit(PathAVX2)
	}
	return Limit(PathBF16)
}
