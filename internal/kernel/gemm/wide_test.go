package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
)

// TestConversionsOfOperands compares the conversions of packed operands with their definitions, bit
// for bit but for the payload of a NaN.
func TestConversionsOfOperands(t *testing.T) {
	same := func(t *testing.T, what string, got, want []float32) {
		t.Helper()
		for i := range want {
			g, w := math.Float32bits(got[i]), math.Float32bits(want[i])
			if g != w {
				t.Fatalf("%s: word %d of %d is %#08x, want %#08x", what, i, len(want), g, w)
			}
		}
	}
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		for n := range 70 {
			if n == 69 {
				n = 2*maxCallOfTests + 13
			}
			src, _ := guarded(r, n)
			for i, w := range words(r, n) {
				src[i] = w
				if r.IntN(9) == 0 {
					src[i] = []float32{inf, -inf, float32(math.NaN()), 1e-42,
						math.MaxFloat32}[r.IntN(5)]
				}
			}
			want := make([]float32, 2*n)
			for _, signed := range []bool{false, true} {
				got, check := guarded(r, 2*n)
				widenAll(got, src, signed)
				widenGo(want, src, signed)
				check(t, "widen")
				same(t, "widen", got, want)
			}
		}
	})
}

// maxCallOfTests is more than a call of assembly handles at most.
const maxCallOfTests = 8192

func TestJoinPairs(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(43, 44))
		v := currentLevel(BF16)
		if v.matrix() {
			return // whose order TestQuadsArePackedAsDefined holds
		}
		for _, cols := range []int{1, 3, 6, 7, 8, 9, 14, 15, 16, 17, 32} {
			for k := 1; k < 12; k++ {
				ld := cols + k%3*17
				src, _ := guarded(r, (k-1)*ld+cols)
				for i := range src {
					if r.IntN(5) == 0 {
						// no denormal number, which VCVTNE2PS2BF16 takes for zero
						src[i] = math.Float32frombits(r.Uint32() &^ (1 << 23))
					}
				}
				got, check := guarded(r, (k+1)/2*cols)
				want := make([]float32, len(got))
				joinPairs(v, got, src, ld, cols, k)
				joinGo(want, src, ld, cols, k)
				check(t, "join")
				for i := range want {
					for shift := 0; shift < 32; shift += 16 {
						g := math.Float32frombits(math.Float32bits(got[i]) >> shift << 16)
						w := math.Float32frombits(math.Float32bits(want[i]) >> shift << 16)
						if g != w && !isNaN(g) && !isNaN(w) && math.Abs(float64(w)) >= 0x1p-126 {
							t.Fatalf("%d columns, %d rows %d apart: pair %d is %g, want %g", cols,
								k, ld, i, g, w)
						}
					}
				}
			}
		}
	})
}

func TestJoinAlong(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(45, 46))
		for k := 1; k < 140; k++ {
			src, _ := guarded(r, k)
			got, check := guarded(r, (k+1)/2)
			want := make([]float32, len(got))
			joinAlong(currentLevel(BF16), got, src, k)
			joinGo(want, src, 1, 1, k)
			check(t, "join along")
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d floats: pair %d is %#x, want %#x", k, i, math.Float32bits(got[i]),
						math.Float32bits(want[i]))
				}
			}
		}
	})
}

// TestLevelsOfPaths holds which instructions each path multiplies with.
func TestLevelsOfPaths(t *testing.T) {
	want := map[cpuinfo.Path][4]level{
		cpuinfo.PathPlain:      {levelGo, levelGoBF16, levelGoU8S8, levelGoS8U8},
		cpuinfo.PathNEON:       {levelNEON, levelNEONBF16, levelNEONU8S8, levelNEONS8U8},
		cpuinfo.PathDotProd:    {levelNEON, levelNEONBF16, levelDotU8S8, levelDotS8U8},
		cpuinfo.PathI8MM:       {levelNEON, levelNEONBF16, levelMatrixU8S8, levelMatrixS8U8},
		cpuinfo.PathBF16:       {levelNEON, levelMatrixBF16, levelMatrixU8S8, levelMatrixS8U8},
		cpuinfo.PathAVX2:       {levelAVX2, levelAVX2BF16, levelAVX2U8S8, levelAVX2S8U8},
		cpuinfo.PathAVX512:     {levelAVX512, levelWideBF16, levelWideU8S8, levelWideS8U8},
		cpuinfo.PathAVX512VNNI: {levelAVX512, levelWideBF16, levelAVX512U8S8, levelAVX512S8U8},
		cpuinfo.PathAVX512BF16: {levelAVX512, levelAVX512BF16, levelAVX512U8S8, levelAVX512S8U8},
		cpuinfo.PathAMX:        {levelAVX512, levelTilesBF16, levelTilesU8S8, levelTilesS8U8},
	}
	if tilesDoubt() != nil {
		want[cpuinfo.PathAMX] = want[cpuinfo.PathAVX512BF16]
	}
	cputest.EachPath(t, func(t *testing.T) {
		path := cpuinfo.CurrentPath()
		for p := F32; p <= S8U8; p++ {
			if got := currentLevel(p); got != want[path][p] {
				t.Errorf("format %d on %v: level %d, want %d", p, path, got, want[path][p])
			}
		}
	})
}

// TestFormatsPay holds which formats are faster than float32 on each path: bfloat16 is worth
// rounding operands for only where there are dot products.
func TestFormatsPay(t *testing.T) {
	cputest.EachPath(t, func(t *testing.T) {
		v, path := currentLevel(F32), cpuinfo.CurrentPath()
		if got, want := BF16.Fast(), path >= cpuinfo.PathAVX512BF16 ||
			path == cpuinfo.PathBF16; got != want {
			t.Errorf("BF16.Fast() = %v on %v, want %v", got, path, want)
		}
		if got, want := U8S8.Fast(), path >= cpuinfo.PathDotProd; got != want {
			t.Errorf("U8S8.Fast() = %v on %v, want %v", got, path, want)
		}
		for p := F32; p <= S8U8; p++ {
			if currentLevel(p).format() != p || p.PanelRows() != F32.PanelRows() &&
				!currentLevel(p).tiles() || p.PanelColumns() != F32.PanelColumns() {
				t.Errorf("format %d at level %d: tiles of %d x %d", p, v, p.PanelRows(),
					p.PanelColumns())
			}
		}
	})
}

func isNaN(x float32) bool { return x != x }
