package cpuinfo

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// processor is what tells of tiles, so that tests can have one that lies.
type processor struct {
	cpuid  func(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
	xgetbv func() (eax, edx uint32)
	// stamp counts cycles from when the machine was started.
	stamp func() uint64
	// permit asks the system for the use of tiles in all threads of this process, later ones too,
	// and permitted whether it has given that.
	permit    func() error
	permitted func() (bool, error)
	// asked is the stamp at which the process was last known to have the permission, 0 before.
	asked atomic.Uint64
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
func (p *processor) tiles() bool {
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

// askAgain is the number of cycles after which a process may have been stopped, and continued on
// another machine or from a file: that takes longer, and starts from another stamp. It is about a
// millisecond of the processors that have tiles.
const askAgain = 1 << 21

// TilesKept reports whether this process may use tiles now, where HasTiles has said that there are
// any: what a program that is moved, or restored from a checkpoint, must know before each use,
// since their instructions end it where the system keeps no tiles or has not permitted them. It
// takes some tens of cycles, and a system call of a tenth of a microsecond when it has not been
// asked for a millisecond; a process that has lost the permission asks for it anew.
func TilesKept() bool { return HasTiles() && theProcessor.usable() }

func (p *processor) kept() bool {
	if p.xgetbv == nil {
		return false
	}
	a, _ := p.xgetbv()
	return a&stateTiles == stateTiles
}

// usable is TilesKept of a processor with tiles.
func (p *processor) usable() bool {
	if !p.kept() || p.stamp == nil {
		return false
	}
	now, last := p.stamp(), p.asked.Load()
	if last != 0 && now-last < askAgain { // wraps, and is large, where the stamp went back
		return true
	}
	return p.granted(now) == nil
}

// granted holds that the process has the permission for tiles, asking for it if need be, and notes
// the stamp of when it asked.
func (p *processor) granted(now uint64) error {
	if p.permit == nil || p.permitted == nil {
		return fmt.Errorf("nobody is to be asked for the use of tiles on %s", runtime.GOOS)
	}
	if has, err := p.permitted(); err == nil && has {
		p.asked.Store(now)
		return nil
	}
	if err := p.permit(); err != nil {
		return fmt.Errorf("the system permits no use of tiles: %w", err)
	}
	switch has, err := p.permitted(); {
	case err != nil:
		return fmt.Errorf("the system does not say whether tiles may be used: %w", err)
	case !has:
		return errors.New("the system permits the use of tiles, and then denies that it has")
	}
	p.asked.Store(now)
	return nil
}

// errNoTiles says that there is nothing to permit.
var errNoTiles = errors.New("the processor has no tiles, or the system does not keep them")

// settle asks for tiles where there are any.
func (p *processor) settle() error {
	if !p.tiles() {
		return errNoTiles
	}
	return p.granted(p.stamp())
}

// PermitTiles asks the system, once, to let this process use tiles, which a program does when
// something first wants them. Until then the first such instruction ends the process. From then on
// the system keeps 12 KB for each signal handler, so that it refuses alternative stacks for signals
// that are smaller; those of Go have 32 KiB. A process that this one starts asks anew.
func PermitTiles() error { return permission() }

var permission = sync.OnceValue(func() error { return theProcessor.settle() })
