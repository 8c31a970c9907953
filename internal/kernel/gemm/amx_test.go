package gemm

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/generated"
	"github.com/weirgpu/weir/internal/refmath"
)

// TestProductsOnTilesAreTheirDefinition holds the order of sums on tiles, whatever blocks, panels,
// tails and epilogues a product has: that of refmath.DotTDPBF16PS, 32 elements along K at a time.
func TestProductsOnTilesAreTheirDefinition(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	r := rand.New(rand.NewPCG(18, 7))
	for range 60 {
		p := Params{M: 1 + r.IntN(70), N: 1 + r.IntN(70), K: 1 + r.IntN(100), Format: BF16,
			TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0, PackedA: r.IntN(2) == 0,
			PackedB: r.IntN(2) == 0}
		if r.IntN(4) == 0 {
			p.K, p.M = 2*tilesKC-20+r.IntN(60), 1+r.IntN(20) // two blocks or three
		}
		p.Part = p.M < streamRows // which keeps few rows on tiles
		args := dataFor(r, p)
		got := make([]float32, p.M*p.N)
		o, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		packed := args
		packed.C = got
		if p.PackedA {
			packed.A = make([]float32, BF16.PackedALen(p.M, p.K))
			BF16.PackA(packed.A, args.A, p.M, p.K, 0, p.TransA)
		}
		if p.PackedB {
			packed.B = make([]float32, BF16.PackedBLen(p.K, p.N))
			BF16.PackB(packed.B, args.B, p.K, p.N, 0, p.TransB)
		}
		scratch := make([]float32, o.ScratchLen())
		for c := range o.Chunks() {
			o.Run(c, &packed, scratch)
		}
		for i := range p.M {
			for j := range p.N {
				if w := wordsOf(p, args, i, j); math.Float32bits(got[i*p.N+j]) != w {
					t.Fatalf("%dx%dx%d: element %d, %d is %#x, want %#x", p.M, p.N, p.K, i, j,
						math.Float32bits(got[i*p.N+j]), w)
				}
			}
		}
	}
}

// wordsOf is element i, j of a product, straight from the operands.
func wordsOf(p Params, args Args, i, j int) uint32 {
	at := func(x []float32, row, col, rows, cols int, trans bool) uint32 {
		if trans {
			return uint32(toBF16(x[col*rows+row]))
		}
		return uint32(toBF16(x[row*cols+col]))
	}
	var sum float32
	for k0 := 0; k0 < p.K; k0 += 32 {
		a, b := make([]uint32, 16), make([]uint32, 16)
		for k := k0; k < min(k0+32, p.K); k++ {
			shift := 16 * (k & 1)
			a[(k-k0)/2] |= at(args.A, i, k, p.M, p.K, p.TransA) << shift
			b[(k-k0)/2] |= at(args.B, k, j, p.K, p.N, p.TransB) << shift
		}
		sum = refmath.DotTDPBF16PS(sum, a, b)
	}
	return math.Float32bits(sum)
}

// TestTilesThatAreGone holds that a call is its definition also where the system keeps no tiles,
// as here on most machines: the instructions would end the program.
func TestTilesThatAreGone(t *testing.T) {
	for _, v := range []level{levelTilesBF16, levelTilesU8S8, levelTilesS8U8} {
		c := tileCall{steps: 2, rows: 20, tiles: 1, ldc: tilesNR}
		a, b := make([]float32, 2*20*tileWords), make([]float32, 2*tileWords*tilesNR)
		state := uint32(v)
		scrambled(v, a, &state)
		scrambled(v, b, &state)
		got, want := make([]float32, 20*tilesNR), make([]float32, 20*tilesNR)
		if cpuinfo.TilesKept() && tilesDoubt() != nil {
			t.Skip("tiles that are kept, and not to be used")
		}
		c.multiply(v, a, b, got)
		c.model(v, a, b, want)
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("level %d, word %d: %#x, want %#x", v, i, math.Float32bits(got[i]),
					math.Float32bits(want[i]))
			}
		}
	}
}

// TestTilesFetchOn holds that what a call fetches ahead goes on where the one before has stopped.
func TestTilesFetchOn(t *testing.T) {
	defer cpuinfo.TilesByDefinition()()
	for _, cols := range []int{32, 7} {
		x := tile{a: make([]float32, 2*20*32), b: make([]float32, 32*32),
			c: make([]float32, 40*32), k: 32, rows: 20, cols: cols, ldc: 32, nextA: 4 * 20 * 32,
			nextC: 4 * 20 * 32, ahead: 1000, aheadStep: 3}
		x.onTiles(levelTilesU8S8, 2)
		if x.ahead != 1000+2*32*3 {
			t.Errorf("%d columns: ahead is %d", cols, x.ahead)
		}
	}
}

// scrambled makes up words.
func scrambled(v level, x []float32, state *uint32) {
	for i := range x {
		*state = *state*1664525 + 1013904223
		w := *state ^ *state>>13
		if v.pairs() {
			w = w&0x80ff80ff | 0x3f003f00
		}
		x[i] = math.Float32frombits(w)
	}
}

// TestAssemblyOfTilesDisassembles holds what amx_amd64.s has as bytes against binutils'
// disassembler and the text beside it.
func TestAssemblyOfTilesDisassembles(t *testing.T) {
	source, err := os.ReadFile("amx_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	for f, product := range map[string]string{"BF16": "tdpbf16ps", "U8S8": "tdpbusd",
		"S8U8": "tdpbsud"} {
		_, text, _ := strings.Cut(string(source), "TEXT ·tilesAMX"+f)
		text, _, _ = strings.Cut(text, "\tRET")
		if n := strings.Count(text, product+" %tmm"); n != 4 || strings.Count(text, "// tdp") != n {
			t.Errorf("tilesAMX%s has %d of %s", f, n, product)
		}
	}
	generated.Disassembles(t, "amx_amd64.s", 60)
}
