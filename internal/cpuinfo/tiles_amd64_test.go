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
		xgetbv:    func() (a, d uint32) { return *state, 0 },
		stamp:     func() uint64 { return 1 },
		permit:    func() error { return nil },
		permitted: func() (bool, error) { return true, nil },
	}
}

// TestTilesNeedEverything takes one thing at a time from a processor that has tiles: a hypervisor
// may hide any.
func TestTilesNeedEverything(t *testing.T) {
	if _, _, p := sapphire(); !p.tiles() || p.settle() != nil {
		t.Fatalf("a processor with tiles: %v, %v", p.tiles(), p.settle())
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
		"no way to tell anything": func(m parts) { m.p.cpuid, m.p.xgetbv = nil, nil },
	} {
		leaves, state, p := sapphire()
		change(parts{leaves, state, p})
		asked := false
		p.permit = func() error { asked = true; return nil }
		if p.tiles() || !errors.Is(p.settle(), errNoTiles) || asked {
			t.Errorf("%s: tiles %v, %v, asked %v", name, p.tiles(), p.settle(), asked)
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

// TestTilesAreRefusedByTheSystem holds that a system that permits none, says so and does not, or
// cannot be asked, says why.
func TestTilesAreRefusedByTheSystem(t *testing.T) {
	denied := errors.New("operation not permitted")
	gives := func() error { return nil }
	never := func() (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		permit    func() error
		permitted func() (bool, error)
		want      string
	}{
		"denied":      {func() error { return denied }, never, "no use of tiles: operation"},
		"two answers": {gives, never, "then denies"},
		"no answer": {gives, func() (bool, error) { return true, denied },
			"does not say"},
		"nobody to ask":  {nil, never, "nobody is to be asked"},
		"nobody to tell": {gives, nil, "nobody is to be asked"},
	} {
		_, _, p := sapphire()
		p.permit, p.permitted = c.permit, c.permitted
		err := p.settle()
		if err == nil || !strings.Contains(err.Error(), c.want) || p.usable() {
			t.Errorf("%s: %v, usable %v", name, err, p.usable())
		}
	}
}

// TestPermissionThatIsLost holds that a process that was stopped long enough to have been moved, or
// goes on with another count of cycles, asks whether it still may use tiles, asks anew for what it
// has lost, and uses none while that is refused; and that one that was not stopped asks nobody.
func TestPermissionThatIsLost(t *testing.T) {
	_, _, p := sapphire()
	var now uint64 = 5
	has, gives, told, asked := false, true, 0, 0
	p.stamp = func() uint64 { return now }
	p.permitted = func() (bool, error) { told++; return has, nil }
	p.permit = func() error {
		if asked++; !gives {
			return errors.New("refused")
		}
		has = true
		return nil
	}
	step := func(name string, usable bool, wantTold, wantAsked int) {
		t.Helper()
		told, asked = 0, 0
		if got := p.usable(); got != usable || told != wantTold || asked != wantAsked {
			t.Errorf("%s: usable %v, told %d times, asked %d", name, got, told, asked)
		}
	}
	step("never asked", true, 2, 1)
	now += askAgain - 1
	step("soon", true, 0, 0)
	now++
	step("later", true, 1, 0)
	step("soon after that", true, 0, 0)
	now, has = now+askAgain, false
	step("restored", true, 2, 1)
	now, has = 3, false
	step("on a machine that was started later", true, 2, 1)
	now, has, gives = now+2*askAgain, false, false
	step("where nobody gives it", false, 1, 1)
	step("and again", false, 1, 1)
	gives = true
	step("given at last", true, 2, 1)
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
	if (&processor{}).usable() {
		t.Error("a processor that cannot tell keeps tiles")
	}
	if *state = 7; p.usable() {
		t.Error("tiles that are not kept are usable")
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
