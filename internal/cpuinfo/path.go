package cpuinfo

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Path names a set of instructions that a generation of processors has and kernels have code for.
// The paths of one architecture, which are [Paths], are ordered: each includes those below it. A
// path is finer than a [Level], which says only how wide vectors are.
type Path int32

const (
	// PathPlain is compiled Go: every architecture, and amd64 without AVX2.
	PathPlain Path = iota
	// PathNEON is the 128-bit vectors of arm64, which each of its processors has, with fused
	// multiply-add of single precision.
	PathNEON
	// PathDotProd adds SDOT and UDOT, the dot products of bytes of one sign (Arm Neoverse N1, AWS
	// Graviton2, Apple M1).
	PathDotProd
	// PathI8MM adds products of 2x8 by 8x2 bytes, USMMLA among them (Arm Neoverse V1 and N2).
	PathI8MM
	// PathBF16 adds BFMMLA, the product of 2x4 by 4x2 bfloat16, and conversions to these (Arm
	// Neoverse V1 and N2, AWS Graviton3, NVIDIA Grace, Apple M2).
	PathBF16
	// PathAVX2 adds AVX2, FMA and F16C (Intel Haswell, AMD Zen).
	PathAVX2
	// PathAVX512 adds AVX-512 F, BW, VL and DQ, without dot products (Intel Skylake-SP).
	PathAVX512
	// PathAVX512VNNI adds the dot products of bytes (Intel Cascade Lake, Ice Lake).
	PathAVX512VNNI
	// PathAVX512BF16 adds the dot products of bfloat16 (Intel Cooper Lake, Sapphire Rapids, AMD Zen
	// 4).
	PathAVX512BF16
	// PathAMX adds tiles: products of 16x64 by 64x16 bytes, or 16x32 by 32x16 bfloat16 (Intel
	// Sapphire Rapids). Before one is used [PermitTiles] must have asked the system.
	PathAMX
)

// PathVariable is the environment variable that holds the most that kernels may use, by the name of
// a path. It is read once, when the process starts, so that every program and every test can be run
// as an older processor would.
const PathVariable = "WEIR_ISA"

var pathNames = [...]string{"plain", "neon", "dotprod", "i8mm", "bf16", "avx2", "avx512",
	"avx512-vnni", "avx512-bf16", "avx512-amx"}

// Paths returns those of this architecture, from the least on.
func Paths() []Path { return slices.Clone(paths) }

// String returns the name of the path: plain; neon, dotprod, i8mm or bf16; avx2, avx512,
// avx512-vnni, avx512-bf16 or avx512-amx.
func (p Path) String() string {
	if p < 0 || int(p) >= len(pathNames) {
		return "unknown"
	}
	return pathNames[p]
}

// level is the width of the path's vectors, as far as it is a level.
func (p Path) level() Level {
	switch {
	case p >= PathAVX512:
		return AVX512
	case p >= PathAVX2:
		return AVX2
	}
	return Baseline
}

// ParsePath returns the path of this architecture of a name that String gives.
func ParsePath(name string) (Path, error) {
	names := make([]string, len(paths))
	for i, p := range paths {
		if names[i] = p.String(); names[i] == name {
			return p, nil
		}
	}
	return PathPlain, fmt.Errorf("instruction path %q: want one of %s", name,
		strings.Join(names, ", "))
}

var (
	detected, doubt     = detect()
	top, environmentErr = limited(detected, os.Getenv(PathVariable))
	// current is read on every kernel call, so it is one word and needs no lock; mu guards its
	// writers.
	current = int32(top)

	mu     sync.Mutex
	capped [PathAMX + 1]int // by path: how many undos that allow no more are outstanding
)

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

// Doubt says, in a sentence without a full stop, why kernels may not use instructions that the
// system says the processor has, "" where that is not so: on arm64 those of each path are run when
// the process starts, and must give the bits that their definition does. Tiles are compared when
// they are first wanted: see [DistrustTiles].
func Doubt() string {
	mu.Lock()
	defer mu.Unlock()
	return doubt
}

// DistrustTiles takes the tiles that the processor says it has from all kernels, for good, because
// of what the system answered or they computed; Doubt says so from then on. Who asks for tiles
// calls it before anything is packed for them.
func DistrustTiles(why error) {
	mu.Lock()
	if doubt == "" {
		doubt = "tiles are not used: " + why.Error()
	}
	mu.Unlock()
	change(PathAMX-1, 1)
}

// tilesDefined counts the undos of TilesByDefinition that are outstanding, and definedSystem is the
// one of TilesOnAsking.
var (
	tilesDefined  atomic.Int32
	definedSystem atomic.Pointer[askedSystem]
)

// askedSystem is a system that is asked for tiles once.
type askedSystem struct {
	ask     func() error
	refused atomic.Bool
}

// TilesByDefinition has products computed as on tiles, by the definition of their instructions in
// plain Go, until undo is called, whatever the processor has. It is for tests, of all that is not
// the processor's own: how operands are packed, cut into blocks and results finished. It acts on
// the whole process, and lets nothing use the processor's tiles meanwhile. A second call of an undo
// does nothing.
func TilesByDefinition() (undo func()) {
	tilesDefined.Add(1)
	return sync.OnceFunc(func() { tilesDefined.Add(-1) })
}

// TilesOnAsking is TilesByDefinition on a system that gives tiles when it is asked, as PermitTiles
// asks, or refuses: what first wants tiles calls permit, once, and there are none from then on
// where it fails, the processor's own neither. It does not nest.
func TilesOnAsking(permit func() error) (undo func()) {
	s := &askedSystem{}
	s.ask = sync.OnceValue(func() error {
		err := permit()
		s.refused.Store(err != nil)
		return err
	})
	definedSystem.Store(s)
	undoTiles, undoLimit := TilesByDefinition(), Limit(PathAMX-1)
	return sync.OnceFunc(func() {
		undoTiles()
		undoLimit()
		definedSystem.Store(nil)
	})
}

// TilesDefined reports whether [TilesByDefinition] is in force, or [TilesOnAsking], which has not
// been refused. It asks nobody.
func TilesDefined() bool {
	s := definedSystem.Load()
	return tilesDefined.Load() > 0 && (s == nil || !s.refused.Load())
}

// WantDefinedTiles is TilesDefined of something that wants tiles: it asks.
func WantDefinedTiles() bool {
	s := definedSystem.Load()
	return tilesDefined.Load() > 0 && (s == nil || s.ask() == nil)
}

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
	for i := len(paths) - 1; i >= 0; i-- {
		if paths[i] <= most || i == 0 {
			most = paths[i]
			break
		}
	}
	change(most, 1)
	return sync.OnceFunc(func() { change(most, -1) })
}

func change(most Path, by int) {
	mu.Lock()
	defer mu.Unlock()
	capped[most] += by
	best := PathPlain
	for _, p := range paths {
		if best = p; p == top || capped[p] > 0 {
			break
		}
	}
	atomic.StoreInt32(&current, int32(best))
}
