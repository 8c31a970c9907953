package cpuinfo

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// Level is a set of vector instructions that kernels are written for. Levels are ordered: each includes those below it.
type Level int32

const (
	// Baseline is what the Go compiler emits for the target without asking.
	Baseline Level = iota
	// AVX2 is AVX2, FMA and F16C: 256-bit vectors with fused multiply-add and half-precision conversion.
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

var (
	supported = detect()
	// current is read on every kernel call, so it is one word and needs no lock; mu guards its writers.
	current = int32(supported)

	mu       sync.Mutex
	disabled [AVX512 + 1]int
)

func detect() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C:
		return Baseline
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ:
		return AVX512
	}
	return AVX2
}

// Supported returns the highest level that the processor and the operating system offer, whatever is disabled.
func Supported() Level { return supported }

// Current returns the highest level that kernels may use now: Supported, less what Disable took away.
func Current() Level { return Level(atomic.LoadInt32(&current)) }

// HasAVX2FMA reports whether kernels may use AVX2, FMA and F16C instructions.
func HasAVX2FMA() bool { return Current() >= AVX2 }

// HasAVX512 reports whether kernels may use AVX-512 F, BW, VL and DQ instructions.
func HasAVX512() bool { return Current() >= AVX512 }

// HasAVX512VNNI reports whether kernels may use the AVX-512 int8 and int16 dot products (VPDPBUSD, VPDPWSSD).
func HasAVX512VNNI() bool { return HasAVX512() && cpu.X86.HasAVX512VNNI }

// HasAVX512BF16 reports whether kernels may use the AVX-512 bfloat16 dot product and conversions (VDPBF16PS,
// VCVTNEPS2BF16, VCVTNE2PS2BF16).
func HasAVX512BF16() bool { return HasAVX512() && cpu.X86.HasAVX512BF16 }

// Disable makes level and every level above it absent until undo is called. It is for tests, which use it to reach the
// slower paths of a kernel. It acts on the whole process. Calls nest and their undos may come in any order; a second
// call of one undo does nothing. Disabling Baseline does what disabling AVX2 does.
func Disable(level Level) (undo func()) {
	level = min(max(level, AVX2), AVX512)
	change(level, 1)
	return sync.OnceFunc(func() { change(level, -1) })
}

func change(level Level, by int) {
	mu.Lock()
	defer mu.Unlock()
	disabled[level] += by
	top := Baseline
	for l := AVX2; l <= supported && disabled[l] == 0; l++ {
		top = l
	}
	atomic.StoreInt32(&current, int32(top))
}
