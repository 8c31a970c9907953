package cpuinfo

import (
	"errors"
	"strings"
	"testing"
)

// sapphire is a processor with tiles, and a system that permits their use.
func sapphire() (leaves map[uint32][4]uint32, state *uint32, p *processor) {
	leaves = map[uint32][4]uint32{
		0: {0x20, 0, 0, 0},
		1: {0x806f8, 0, bitOSXSAVE, 0},
		7: {2, 0, 0, bitsTiles},
		// palette 1: eight tiles of 1024 bytes, in 16 rows of 64
		leafTiles: {8192 | 1024<<16, 64 | 8<<16, 16, 0},
	}
	state = new(uint32)
	*state = 0x602e7
	return leaves, state, &processor{
		cpuid: func(leaf, sub uint32) (a, b, c, d uint32) {
			if leaf == leafTiles && sub != palette {
				return 1, 0, 0, 0
			}
			r := leaves[leaf]
			return r[0], r[1], r[2], r[3]
		},
		xgetbv: func() (a, d uint32) { return *state, 0 },
		permit: func() error { return nil },
	}
}

// TestTilesNeedEverything takes one thing at a time from a processor that has tiles: a hypervisor
// may hide any.
func TestTilesNeedEverything(t *testing.T) {
	if _, _, p := sapphire(); !p.tiles() || p.permitted() != nil {
		t.Fatalf("a processor with tiles: %v, %v", p.tiles(), p.permitted())
	}
	type parts struct {
		leaves map[uint32][4]uint32
		state  *uint32
		p      *processor
	}
	set := func(leaf uint32, reg int, x uint32) func(parts) {
		return func(m parts) {
			r := m.leaves[leaf]
			r[reg] = x
			m.leaves[leaf] = r
		}
	}
	for name, change := range map[string]func(parts){
		"no such leaf":            set(0, 0, leafTiles-1),
		"no XGETBV":               set(1, 2, ^uint32(bitOSXSAVE)),
		"no bfloat16":             set(7, 3, bitsTiles&^(1<<22)),
		"no tiles":                set(7, 3, bitsTiles&^(1<<24)),
		"no bytes":                set(7, 3, bitsTiles&^(1<<25)),
		"smaller tiles":           set(leafTiles, 0, 4096|512<<16),
		"shorter rows":            set(leafTiles, 1, 32|8<<16),
		"fewer tiles":             set(leafTiles, 1, 64|7<<16),
		"fewer rows":              set(leafTiles, 2, 8),
		"no data kept":            func(m parts) { *m.state &^= 1 << 18 },
		"no configuration kept":   func(m parts) { *m.state &^= 1 << 17 },
		"neither kept":            func(m parts) { *m.state = 7 },
		"no way to tell anything": func(m parts) { *m.p = processor{} },
	} {
		leaves, state, p := sapphire()
		change(parts{leaves, state, p})
		asked := false
		p.permit = func() error { asked = true; return nil }
		if p.tiles() || !errors.Is(p.permitted(), errNoTiles) || asked {
			t.Errorf("%s: tiles %v, %v, asked %v", name, p.tiles(), p.permitted(), asked)
		}
	}
}

// TestXGETBVIsNotRunUnlessItIsThere holds that the processor is asked what the system keeps only
// where that is no illegal instruction.
func TestXGETBVIsNotRunUnlessItIsThere(t *testing.T) {
	leaves, _, p := sapphire()
	leaves[1] = [4]uint32{}
	p.xgetbv = func() (a, d uint32) { t.Error("XGETBV has run"); return 0, 0 }
	if p.tiles() {
		t.Error("tiles")
	}
}

// TestTilesAreRefusedByTheSystem holds that a system that permits none says why.
func TestTilesAreRefusedByTheSystem(t *testing.T) {
	_, _, p := sapphire()
	denied := errors.New("operation not permitted")
	p.permit = func() error { return denied }
	if err := p.permitted(); !errors.Is(err, denied) || !strings.Contains(err.Error(), "tiles") {
		t.Errorf("denied: %v", err)
	}
	p.permit = nil
	if err := p.permitted(); err == nil {
		t.Error("nobody to ask, and permitted")
	}
}

// TestPermitTiles asks this machine.
func TestPermitTiles(t *testing.T) {
	err := PermitTiles()
	t.Logf("%v; %v", SupportedPath(), err)
	if err == nil && !theProcessor.tiles() ||
		SupportedPath() == PathAMX && errors.Is(err, errNoTiles) {
		t.Errorf("path %v, %v", SupportedPath(), err)
	}
}

// TestTilesAreTakenAway holds that tiles which differ are no path any more, and that this is told.
func TestTilesAreTakenAway(t *testing.T) {
	before, said := CurrentPath(), Doubt()
	defer func() {
		change(PathAMX-1, -1)
		doubt = said
	}()
	DistrustTiles(errors.New("element 3 is 5"))
	if capped[PathAMX-1] != 1 || HasTiles() || CurrentPath() != min(before, PathAVX512BF16) {
		t.Errorf("path %v after %v", CurrentPath(), before)
	}
	if got := Doubt(); !strings.Contains(got, "tiles are not used: element 3 is 5") && said == "" {
		t.Errorf("doubt %q", got)
	}
}

// TestTilesThatGo holds that a system which keeps tiles no more, or only half of their state, is
// seen, and that nothing is asked of a processor that cannot tell.
func TestTilesThatGo(t *testing.T) {
	_, state, p := sapphire()
	for bits, want := range map[uint32]bool{
		stateTiles | 7: true, 1<<17 | 7: false, 1<<18 | 7: false, 7: false,
	} {
		if *state = bits; p.kept() != want {
			t.Errorf("state %#x: kept %v", bits, p.kept())
		}
	}
	if (processor{}).kept() {
		t.Error("a processor that cannot tell keeps tiles")
	}
}

// TestTilesByDefinition holds that undos nest, and count once.
func TestTilesByDefinition(t *testing.T) {
	one, two := TilesByDefinition(), TilesByDefinition()
	one()
	one()
	if !TilesDefined() {
		t.Error("the second is undone by the first's undo")
	}
	two()
	if TilesDefined() {
		t.Error("in force after all undos")
	}
}
