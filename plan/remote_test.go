package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/zoo"
)

// distant is the host's kernels, for memory that the host cannot address: they can be packed for
// and bound, and not run.
var distant = compute.WithFeatures(host, compute.Features{Remote: true})

// TestRemotePacking holds that weights packed piece by piece are those that Pack writes at once,
// whoever packs, and that no piece takes more of the host than was said.
func TestRemotePacking(t *testing.T) {
	for _, a := range small {
		g, err := zoo.New(a.name, a.options)
		if err != nil {
			t.Fatal(err)
		}
		p := compileAs(t, g, Options{Target: distant, Shapes: shapesOf(g, a.shape)})
		want := memory(t, p.PackedBytes)
		clear(want)
		if err := p.Pack(want, PackOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, pool := range []compute.Pool{nil, newPool(t)} {
			got, done := make([]byte, p.PackedBytes), 0
			staging := memory(t, p.StagingBytes())
			err := p.PackTo(func(off int64, src []byte) error {
				copy(got[off:], src)
				return nil
			}, staging, PackOptions{Pool: pool, Progress: func(n, of int) { done++ }})
			if err != nil || !bytes.Equal(got, want) || done != len(p.Steps) {
				t.Errorf("%s: error %v, %d of %d steps, same bytes: %v", a.name, err, done,
					len(p.Steps), bytes.Equal(got, want))
			}
		}
		if p.StagingBytes() > 0 {
			if p.PackTo(nil, make([]byte, p.StagingBytes()-1), PackOptions{}) == nil {
				t.Errorf("%s: packed with a byte too few", a.name)
			}
		}
	}
}

// TestRemoteConstants holds that a device gets the constants that its kernels read at an address,
// and no others: none that is in packed weights already. Each is counted once, and the fingerprint
// tells where it is.
func TestRemoteConstants(t *testing.T) {
	g := parse(t, `
		input %x: float32[64,64]
		const %w: float32[64,64] = {1`+strings.Repeat(", 2", 64*64-1)+`}
		const %k: float32[64,64] = {3`+strings.Repeat(", 4", 64*64-1)+`}
		const %b: float32[] = {5}
		%p: float32[64,64] = MatMul@17 (%x, %w)
		%q: float32[64,64] = Mul@17 (%p, %k)
		%r: float32[64,64] = Sub@17 (%q, %b)
		output %r`)
	near := compileAs(t, g, Options{Target: host})
	p := compileAs(t, g, Options{Target: distant})
	const table = 4 * 64 * 64
	if p.PackedBytes != near.PackedBytes+table {
		t.Errorf("%d bytes packed for the device, %d for the host, want %d more", p.PackedBytes,
			near.PackedBytes, table)
	}
	if want := near.ConstBytes - table - 4; p.ConstBytes != want {
		t.Errorf("%d bytes of constants, want %d", p.ConstBytes, want)
	}
	i := slices.IndexFunc(p.consts, func(k constant) bool { return !k.arena })
	if len(p.consts) != 2 || i < 0 {
		t.Fatalf("constants on the device: %v", p.consts)
	}
	moved := *p
	moved.consts = slices.Clone(p.consts)
	moved.consts[i].at.off += Align
	if p.Fingerprint() == moved.Fingerprint() {
		t.Error("a constant elsewhere, the same fingerprint")
	}
	arena := make([]byte, p.ArenaBytes)
	err := p.Preset(func(off int64, src []byte) error {
		copy(arena[off:], src)
		return nil
	})
	own := p.consts[1-i]
	if want := p.Slots[own.slot].Value.Const().Data; err != nil ||
		!bytes.Equal(own.at.of(arena), want) {
		t.Errorf("the small constant is %v in an arena, error %v", own.at.of(arena), err)
	}
}

// TestBindRemoteRefuses binds a plan for the host, and to a byte too few of either memory.
func TestBindRemoteRefuses(t *testing.T) {
	g := parse(t, `
		input %x: float32[64,64]
		const %w: float32[64,64] = {1`+strings.Repeat(", 2", 64*64-1)+`}
		%p: float32[64,64] = MatMul@17 (%x, %w)
		output %p`)
	p, near := compileAs(t, g, Options{Target: distant}), compileAs(t, g, Options{Target: host})
	for name, tc := range map[string]struct {
		p             *Plan
		arena, packed int64
		fits          bool
	}{
		"as large as needed":    {p, p.ArenaBytes, p.PackedBytes, true},
		"a byte too few":        {p, p.ArenaBytes - 1, p.PackedBytes, false},
		"a packed byte too few": {p, p.ArenaBytes, p.PackedBytes - 1, false},
		"a plan for the host":   {near, near.ArenaBytes, near.PackedBytes, false},
	} {
		bound, err := tc.p.BindRemote(compute.Block{N: tc.arena}, compute.Block{N: tc.packed})
		if (err == nil) != tc.fits || (bound != nil) != tc.fits {
			t.Errorf("%s: program %v, error %v", name, bound != nil, err)
		}
	}
}
