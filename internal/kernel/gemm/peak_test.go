//go:build amd64 && !noasm

package gemm

import (
	"testing"

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
