package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// distant is the host's kernels, for memory that the host cannot address: they can be packed for
// and bound, and not run.
var distant = compute.WithFeatures(host, compute.Features{Remote: true})

// TestRemotePacking holds that weights packed piece by piece are those that Pack writes at once,
// whoever packs, and that no piece takes more of the host than was said.
func TestRemotePacking(t *testing.T) {
	mixed := 0
	for _, a := range small {
		g, err := zoo.New(a.name, a.options)
		if err != nil {
			t.Fatal(err)
		}
		p := compileAs(t, g, Options{Target: distant, Shapes: shapesOf(g, a.shape)})
		mixed += readsBeside(t, p)
		want := memory(t, p.PackedBytes)
		clear(want)
		if err := p.Pack(want, PackOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, pool := range []compute.Pool{nil, newPool(t)} {
			got, done := make([]byte, p.PackedBytes), 0
			staging := memory(t, p.StagingBytes())
			var populated atomic.Bool // of memory that the host cannot address
			err := p.PackTo(func(off int64, src []byte) error {
				copy(got[off:], src)
				return nil
			}, staging, PackOptions{Pool: pool, Progress: func(n, of int) { done++ },
				Populate: func(int64, int64) { populated.Store(true) }})
			if err != nil || !bytes.Equal(got, want) || done != len(p.Steps) ||
				populated.Load() {
				t.Errorf("%s: error %v, %d of %d steps, same bytes: %v, populated: %v", a.name, err,
					done, len(p.Steps), bytes.Equal(got, want), populated.Load())
			}
		}
		if p.StagingBytes() > 0 {
			if p.PackTo(nil, make([]byte, p.StagingBytes()-1), PackOptions{}) == nil {
				t.Errorf("%s: packed with a byte too few", a.name)
			}
		}
	}
	if mixed == 0 {
		t.Error("no kernel reads a constant beside those that it has packed")
	}
}

// readsBeside holds that each constant which a kernel reads, and has not packed, is on the device.
// It counts those of kernels that have packed another one.
func readsBeside(t *testing.T, p *Plan) (n int) {
	for i := range p.Steps {
		st := &p.Steps[i]
		k, ok := st.Kernel.(compute.Absorbing)
		for in, s := range st.In {
			if st.host || s < 0 || p.Slots[p.root(s)].Place != Constant ||
				ok && slices.Contains(k.Absorbed(), in) {
				continue
			}
			of := func(c constant) bool { return c.slot == p.root(s) }
			if !slices.ContainsFunc(p.consts, of) {
				t.Errorf("graph %q: %v: input %d is not on the device", p.Graph.Name, st.Node, in)
			}
			if ok && len(k.Absorbed()) > 0 {
				n++
			}
		}
	}
	return n
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

// TestRemoteConstantsGivenUp holds that constants which a device gets as they are end with the
// packing's context, and that whoever has their bytes is told that they are there.
func TestRemoteConstantsGivenUp(t *testing.T) {
	g := parse(t, `
		input %x: float32[64,64]
		const %k: float32[64,64] = {3`+strings.Repeat(", 4", 64*64-1)+`}
		const %l: float32[64,64] = {5`+strings.Repeat(", 6", 64*64-1)+`}
		%p: float32[64,64] = Mul@17 (%x, %k)
		%q: float32[64,64] = Add@17 (%p, %l)
		output %q`)
	p := compileAs(t, g, Options{Target: distant})
	copied, told := 0, map[*tensor.Tensor]int{}
	ctx, cancel := context.WithCancel(t.Context())
	count := func(int64, []byte) error {
		if copied++; copied == 3 {
			cancel()
		}
		return nil
	}
	o := PackOptions{Context: ctx, Packed: func(c *tensor.Tensor) { told[c]++ }}
	staging := memory(t, p.StagingBytes())
	if err := p.PackTo(count, staging, o); err != nil || copied != 2 || len(told) != 2 {
		t.Errorf("%d constants copied, %d told of, want 2: error %v", copied, len(told), err)
	}
	if err := p.PackTo(count, staging, o); !errors.Is(err, context.Canceled) || copied != 3 {
		t.Errorf("given up after the third copy: %d were made, error %v", copied, err)
	}
	dst := memory(t, p.PackedBytes)
	if err := p.Pack(dst, o); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before: error %v", err)
	}
}

// TestRemoteSamePacking holds that plans share constants on a device when those are the same bytes,
// and only then; that each is aligned; and that those which the host reads as well are counted on
// both sides.
func TestRemoteSamePacking(t *testing.T) {
	const table, odd = 64 * 64, 64*64 + 1 // elements; and the bytes of no whole number of lines
	spread := func(last string) *Plan {
		return compileAs(t, parse(t, fmt.Sprintf(`
			input %%x: float32[%d]
			const %%k: float32[%[1]d] = {3%[2]s, %[3]s}
			const %%m: float32[%[1]d] = {5%[2]s, 7}
			%%y: float32[%[1]d] = Mul@17 (%%x, %%k)
			%%z: float32[%[1]d] = Add@17 (%%y, %%m)
			output %%z
			output %%k`, odd, strings.Repeat(", 4", odd-2), last)), Options{Target: distant})
	}
	p, same, other := spread("1"), spread("1"), spread("2")
	if !p.SamePacking(same) || p.SamePacking(other) || other.SamePacking(p) {
		t.Errorf("shares the same constants: %v, others: %v", p.SamePacking(same),
			p.SamePacking(other))
	}
	if p.ConstBytes != 4*odd { // k, which is an output
		t.Errorf("%d bytes of constants on the host, want %d", p.ConstBytes, 4*odd)
	}
	if len(p.consts) != 2 || p.PackedBytes != 2*(4*table+Align) {
		t.Errorf("%d constants in %d bytes", len(p.consts), p.PackedBytes)
	}
	for _, k := range p.consts {
		if k.at.off%Align != 0 {
			t.Errorf("constant %q at %d", p.Slots[k.slot].Value.Name, k.at.off)
		}
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

// TestRemoteHostBytes holds that the host has a place for each value that passes through it, and
// none for what only the device's steps read and write.
func TestRemoteHostBytes(t *testing.T) {
	const line = 4 * 64 // bytes of a value
	for name, tc := range map[string]struct {
		body   string
		values int64
	}{
		"all on the device": {`%a = Exp@17 (%x)
			%b = Neg@17 (%a)
			%y = Exp@17 (%b)
			output %y`, 2},
		"a step on the host between": {`%a = Exp@17 (%x)
			%b = Neg@17 (%a)
			%s = Cast@17 (%b) {to=8}
			%c = Cast@17 (%s) {to=1}
			%d = Neg@17 (%c)
			%y = Exp@17 (%d)
			output %y`, 4},
	} {
		g := parse(t, "input %x: float32[64]\n"+tc.body)
		if err := g.InferTypes(); err != nil {
			t.Fatal(err)
		}
		o := unoptimised
		o.Target = distant
		p := compileAs(t, g, o)
		if p.HostBytes != tc.values*line {
			t.Errorf("%s: %d bytes on the host, want %d values", name, p.HostBytes, tc.values)
		}
	}
}
