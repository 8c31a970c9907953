//go:build amd64 && !noasm

package gemm

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// BenchmarkPeak is the ceiling: independent fused multiply-adds from registers.
func BenchmarkPeak(b *testing.B) {
	const n = 1000
	peaks := []struct {
		level cpuinfo.Level
		run   func(int)
		flop  float64
	}{{cpuinfo.AVX2, peakAVX2, peakAVX2FLOP}, {cpuinfo.AVX512, peakAVX512, peakAVX512FLOP}}
	for _, p := range peaks {
		b.Run(p.level.String(), func(b *testing.B) {
			if cpuinfo.Current() < p.level {
				b.Skip("not on this machine")
			}
			for b.Loop() {
				p.run(n)
			}
			b.ReportMetric(n*p.flop*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}

// TestPeakOfTiles holds that the loop between registers is counted as it is: no product, whose
// operands come from memory, is faster.
func TestPeakOfTiles(t *testing.T) {
	for _, p := range []Format{BF16, U8S8} {
		const n = 500
		flop := RunTilesPeak(p, n)
		if !p.OnTiles() || cpuinfo.TilesDefined() {
			if flop != 0 {
				t.Errorf("format %d: %d operations without tiles", p, flop)
			}
			continue
		}
		if perStep := flop / n; perStep != 4*16*16*16*map[Format]int64{BF16: 4, U8S8: 8}[p] {
			t.Errorf("format %d: %d operations a round of four products", p, perStep)
		}
		best := time.Hour
		for range 100 {
			began := time.Now()
			RunTilesPeak(p, n)
			best = min(best, time.Since(began))
		}
		// a product takes 16 cycles, of which there are less than six a nanosecond
		if least := time.Duration(n * 4 * 16 / 6); best < least {
			t.Errorf("format %d: %v for %d products, want %v at least", p, best, 4*n, least)
		}
		t.Logf("format %d: %.0f G operations a second", p, float64(flop)/float64(best))
	}
}
