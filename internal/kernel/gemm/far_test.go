package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// The caches of a core of server processors of the two kinds.
var (
	zen4     = cpuinfo.Caches{L1D: 32 << 10, L2: 1 << 20, L3: 32 << 20}
	sapphire = cpuinfo.Caches{L1D: 48 << 10, L2: 2 << 20, L3: 105 << 20}
)

// withCaches has products planned for such caches.
func withCaches(c cpuinfo.Caches, f func()) {
	defer func(was cpuinfo.Caches) { caches = was }(caches)
	caches = c
	f()
}

// far are products of which one operand comes from behind the second cache.
var far = []struct {
	name                string
	p                   Params
	directB, aheadRowsA bool // where the third cache is far
}{
	{"weights of a transformer", Params{M: 128, N: 768, K: 768, PackedB: true}, false, false},
	{"image of many channels", Params{M: 64, N: 3136, K: 256, PackedA: true}, false, false},
	{"image of few channels", Params{M: 16, N: 12544, K: 32, PackedA: true}, true, false},
	{"small image", Params{M: 32, N: 784, K: 192, PackedA: true}, true, false},
	{"pixels", Params{M: 784, N: 256, K: 512, PackedB: true, TransA: true, TransC: true}, false,
		true},
	{"few pixels", Params{M: 49, N: 512, K: 2048, PackedB: true, TransA: true, TransC: true}, false,
		false},
}

// TestThirdCacheDecidesWhatIsFetched holds what is planned for either kind of processor: nothing
// changes where the third cache is near.
func TestThirdCacheDecidesWhatIsFetched(t *testing.T) {
	for _, e := range far {
		p := e.p
		p.setDefaults()
		withCaches(zen4, func() {
			b := plan(&p, levelAVX512)
			if b.aheadRows != aheadTiles(levelAVX512)*14 || b.aheadRowsA ||
				b.directB != !p.PackedB {
				t.Errorf("%s: near, tiles fetch from %d rows on, of A in place %v, B in place %v",
					e.name, b.aheadRows, b.aheadRowsA, b.directB)
			}
		})
		withCaches(sapphire, func() {
			b := plan(&p, levelAVX512)
			if b.aheadRows != b.mr || b.aheadRowsA != e.aheadRowsA || b.directB != e.directB {
				t.Errorf("%s: far, tiles fetch from %d rows on, of A in place %v, B in place %v",
					e.name, b.aheadRows, b.aheadRowsA, b.directB)
			}
			for _, v := range []level{levelAVX2, levelNEON, levelGo, levelAVX512BF16} {
				if v.comesFar(1 << 30) {
					t.Errorf("level %d fetches what comes from far", v)
				}
			}
		})
	}
}

// TestFarOperandsHaveTheSameBits holds that results do not depend on where the third cache is.
func TestFarOperandsHaveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	for _, e := range far {
		p := e.p
		p.M, p.N = p.M+1, p.N-3
		q := p
		q.setDefaults()
		_, _, size := q.extents()
		a := Args{A: random(r, p.M*p.K), B: random(r, p.N*p.K), C: make([]float32, size)}
		if p.PackedA {
			a.A = slices.Concat(a.A, make([]float32, F32.PackedALen(p.M, p.K)-len(a.A)))
		}
		if p.PackedB {
			a.B = slices.Concat(a.B, make([]float32, F32.PackedBLen(p.K, p.N)-len(a.B)))
		}
		withCaches(zen4, func() { runAll(t, p, &a) })
		want := slices.Clone(a.C)
		clear(a.C)
		withCaches(sapphire, func() { runAll(t, p, &a) })
		if !slices.Equal(a.C, want) {
			t.Errorf("%s: other bits where the third cache is far", e.name)
		}
	}
}

// TestRowsOfAAreFetchedInTheirOrder follows what the tiles of the first panel of columns fetch of
// rows that are read where they lie: each the last row of the tile below, and the last tile what
// all of them would have fetched of B.
func TestRowsOfAAreFetchedInTheirOrder(t *testing.T) {
	const ld, k, i0, i1, mr = 50, 4, 10, 43, 14
	o := &Product{blocking: blocking{mr: mr}}
	a := panels{data: make([]float32, ld*k), ld: ld}
	planned := onward{at: 12345, step: 8}
	var got []int
	for i := i0; i < i1; i += mr {
		x := tile{rows: min(mr, i1-i)}
		o.fetchRowsA(&x, a, window{i0: i0, i1: i1}, i, planned)
		if i+mr >= i1 {
			if x.ahead != planned.at || x.aheadStep != 3*planned.step {
				t.Errorf("the last tile fetches %d bytes a step from %d", x.aheadStep, x.ahead)
			}
			continue
		}
		if x.aheadStep != 4*ld {
			t.Errorf("the tile of row %d fetches %d bytes a step, want %d", i, x.aheadStep, 4*ld)
		}
		got = append(got, (int(x.ahead)-int(uintptr(unsafe.Pointer(&a.data[0]))))/4)
	}
	if want := []int{37, 42}; !slices.Equal(got, want) {
		t.Errorf("tiles fetch rows %v, want %v", got, want)
	}
}
