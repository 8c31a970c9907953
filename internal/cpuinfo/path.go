package cpuinfo

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// Path names a set of instructions that a generation of processors has and kernels have code for.
// Paths are ordered: each includes those below it. A path is finer than a [Level], which says only
// how wide vectors are.
type Path int32

const (
	// PathPlain is compiled Go: every architecture, and amd64 without AVX2.
	PathPlain Path = iota
	// PathAVX2 adds AVX2, FMA and F16C (Intel Haswell, AMD Zen).
	PathAVX2
	// PathAVX512 adds AVX-512 F, BW, VL and DQ, without dot products (Intel Skylake-SP).
	PathAVX512
	// PathAVX512VNNI adds the dot products of bytes (Intel Cascade Lake, Ice Lake).
	PathAVX512VNNI
	// PathAVX512BF16 adds the dot products of bfloat16 (Intel Cooper Lake, Sapphire Rapids, AMD Zen
	// 4).
	PathAVX512BF16
)

// PathVariable is the environment variable that holds the most that kernels may use, by the name of
// a path. It is read once, when the process starts, so that every program and every test can be run
// as an older processor would.
const PathVariable = "WEIR_ISA"

var pathNames = [...]string{"plain", "avx2", "avx512", "avx512-vnni", "avx512-bf16"}

// String returns the name of the path: plain, avx2, avx512, avx512-vnni or avx512-bf16.
func (p Path) String() string {
	if p < 0 || int(p) >= len(pathNames) {
		return "unknown"
	}
	return pathNames[p]
}

// level is the width of the path's vectors.
func (p Path) level() Level { return Level(min(p, PathAVX512)) }

// ParsePath returns the path of a name that String gives.
func ParsePath(name string) (Path, error) {
	for p, n := range pathNames {
		if n == name {
			return Path(p), nil
		}
	}
	return PathPlain, fmt.Errorf("instruction path %q: want one of %s", name,
		strings.Join(pathNames[:], ", "))
}

var (
	top, environmentErr = limited(detect(), os.Getenv(PathVariable))
	// current is read on every kernel call, so it is one word and needs no lock; mu guards its
	// writers.
	current = int32(top)

	mu     sync.Mutex
	capped [PathAVX512BF16 + 1]int // by path: how many undos that allow no more are outstanding
)

// detect returns the highest path that the processor and the operating system offer, and that the
// program was built with: the build tag noasm leaves only plain Go.
func detect() Path {
	if !assembly {
		return PathPlain
	}
	x := &cpu.X86
	return features{
		avx2:   x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasBMI2,
		avx512: x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512DQ,
		vnni:   x.HasAVX512VNNI,
		bf16:   x.HasAVX512BF16,
	}.path()
}

// features are the sets of instructions that paths differ in. A processor may have one without
// those of the paths below, in theory or because a hypervisor hides them.
type features struct{ avx2, avx512, vnni, bf16 bool }

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
	}
	return PathAVX512BF16
}

// limited lowers a path to the one that is named, if one is.
func limited(p Path, name string) (Path, error) {
	if name == "" {
		return p, nil
	}
	most, err := ParsePath(name)
	if err != nil {
		return p, fmt.Errorf("environment variable %s: %w", PathVariable, err)
	}
	return min(p, most), nil
}

// EnvironmentError returns what is wrong with the value of [PathVariable], which has no effect
// then; nil when nothing is.
func EnvironmentError() error { return environmentErr }

// SupportedPath returns the highest path that the processor and the operating system offer and the
// environment allows, whatever is disabled.
func SupportedPath() Path { return top }

// CurrentPath returns the path that kernels take now: SupportedPath, less what Limit and Disable
// took away.
func CurrentPath() Path { return Path(atomic.LoadInt32(&current)) }

// Limit lets kernels take no path above most until undo is called. It is for tests, which use it to
// reach the code for older processors. It acts on the whole process. Calls nest and their undos may
// come in any order; a second call of one undo does nothing. A path that the processor lacks cannot
// be reached: then the best one it has below is taken.
func Limit(most Path) (undo func()) {
	most = min(max(most, PathPlain), PathAVX512BF16)
	change(most, 1)
	return sync.OnceFunc(func() { change(most, -1) })
}

func change(most Path, by int) {
	mu.Lock()
	defer mu.Unlock()
	capped[most] += by
	p := PathPlain
	for p < top && capped[p] == 0 {
		p++
	}
	atomic.StoreInt32(&current, int32(p))
}
