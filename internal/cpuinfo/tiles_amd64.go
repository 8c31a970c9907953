package cpuinfo

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// processor is what tells of tiles, so that tests can have one that lies.
type processor struct {
	cpuid  func(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
	xgetbv func() (eax, edx uint32)
	// permit asks the system for the use of tiles in all threads of this process, later ones too.
	permit func() error
}

// Bits of what CPUID and XGETBV return (Intel, "Software Developer's Manual", volume 1, sections
// 13.3 and 18.2, and volume 2, CPUID).
const (
	leafTiles    = 0x1d
	bitOSXSAVE   = 1 << 27               // leaf 1, ECX
	stateTiles   = 1<<17 | 1<<18         // XCR0: the configuration of tiles and their data
	bitsTiles    = 1<<22 | 1<<24 | 1<<25 // leaf 7, EDX: AMX-BF16, AMX-TILE and AMX-INT8
	palette      = 1
	paletteBytes = 1024 // of a tile
	paletteRow   = 64   // bytes of a row
	paletteTiles = 8
	paletteRows  = 16
)

// tiles reports whether the processor has tiles of the sizes that kernels are written for, bfloat16
// and bytes, and whether the system keeps them. A hypervisor may hide one and not the other.
func (p processor) tiles() bool {
	if p.cpuid == nil {
		return false
	}
	most, _, _, _ := p.cpuid(0, 0)
	if most < leafTiles {
		return false
	}
	if _, _, c, _ := p.cpuid(1, 0); c&bitOSXSAVE == 0 {
		return false
	}
	if !p.kept() {
		return false
	}
	if _, _, _, d := p.cpuid(7, 0); d&bitsTiles != bitsTiles {
		return false
	}
	a, b, c, _ := p.cpuid(leafTiles, palette)
	return a>>16 == paletteBytes && b&0xffff == paletteRow && b>>16 >= paletteTiles &&
		c&0xffff == paletteRows
}

// TilesKept reports whether the system still keeps tiles, where HasTiles has said that there are
// any: what a program that is moved to a machine without them must know before each use, since
// their instructions end it there. It takes some ten cycles.
func TilesKept() bool { return theProcessor.kept() }

func (p processor) kept() bool {
	if p.xgetbv == nil {
		return false
	}
	a, _ := p.xgetbv()
	return a&stateTiles == stateTiles
}

// errNoTiles says that there is nothing to permit.
var errNoTiles = errors.New("the processor has no tiles, or the system does not keep them")

// permitted asks for tiles where there are any.
func (p processor) permitted() error {
	if !p.tiles() {
		return errNoTiles
	}
	if p.permit == nil {
		return fmt.Errorf("nobody is to be asked for the use of tiles on %s", runtime.GOOS)
	}
	if err := p.permit(); err != nil {
		return fmt.Errorf("the system permits no use of tiles: %w", err)
	}
	return nil
}

// PermitTiles asks the system, once, to let this process use tiles. Until then the first such
// instruction ends the process. From then on the system keeps 12 KB for each signal handler, so
// that it refuses alternative stacks for signals that are smaller; those of Go have 32 KiB. A
// process that this one starts asks anew.
func PermitTiles() error { return permission() }

var permission = sync.OnceValue(func() error { return theProcessor.permitted() })
