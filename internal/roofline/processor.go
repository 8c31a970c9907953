package roofline

import (
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// Processor is the kind of processor that figures were measured on. Figures from two kinds say
// nothing about each other.
type Processor struct {
	Name   string `json:"name"`   // as its maker gives it; a hypervisor may shorten it
	Vendor string `json:"vendor"` // as CPUID has it, "" where there is none, with family and model
	Family int    `json:"family"`
	Model  int    `json:"model"`
	Path   string `json:"instructions"` // the best path of kernels
	L1D    int    `json:"l1d_bytes"`
	L2     int    `json:"l2_bytes"`
	L3     int    `json:"l3_bytes"` // which other cores share, and other machines on the same host
	// Peak is the GFLOP/s of one core in multiply-adds of single precision between registers, by
	// the name of a level.
	Peak map[string]float64 `json:"core_peak_gflops_per_s"`
	// AVX512 is "full rate" where AVX-512 was measured to reach about twice what AVX2 does, "half
	// rate" where it computes in two halves, "" where kernels do not use it.
	AVX512 string `json:"avx512,omitempty"`
}

// peakRounds and tileRounds are how often loops between registers, and between tiles, run at a
// time, for some microseconds, and peakTime how long all that measure one level take.
const (
	peakRounds = 1000
	tileRounds = 200
	peakTime   = 5 * time.Millisecond
	// fullRate is the peak of AVX-512 over that of AVX2 from which it counts as twice: processors
	// may lower their clock for it.
	fullRate = 1.5
)

// Identify describes this machine's processor. The first call measures for about 0.01 s; the
// process keeps what it found. The map is the caller's to read only.
func Identify() Processor { return identify() }

var identify = sync.OnceValue(func() Processor {
	s, c := cpuinfo.Processor(), cpuinfo.CacheSizes()
	p := Processor{
		Name:   cpuinfo.ModelName(),
		Vendor: s.Vendor,
		Family: s.Family,
		Model:  s.Model,
		Path:   cpuinfo.SupportedPath().String(),
		L1D:    c.L1D,
		L2:     c.L2,
		L3:     c.L3,
		Peak:   map[string]float64{},
	}
	for _, l := range []cpuinfo.Level{cpuinfo.AVX2, cpuinfo.AVX512} {
		if v := corePeak(l); v > 0 {
			p.Peak[l.String()] = v
		}
	}
	p.AVX512 = rate(p.Peak)
	return p
})

// rate names how fast AVX-512 is beside AVX2.
func rate(peak map[string]float64) string {
	wide, narrow := peak[cpuinfo.AVX512.String()], peak[cpuinfo.AVX2.String()]
	switch {
	case wide == 0:
		return ""
	case wide >= fullRate*narrow:
		return "full rate"
	}
	return "half rate"
}

// corePeak is the GFLOP/s of a level on the calling goroutine, the best of many short loops; 0 for
// a level that is not there.
func corePeak(l cpuinfo.Level) (best float64) {
	for began := time.Now(); time.Since(began) < peakTime; {
		start := time.Now()
		flop := gemm.RunPeak(l, peakRounds)
		if flop == 0 {
			return 0
		}
		best = max(best, float64(flop)/float64(max(time.Since(start), 1)))
	}
	return best
}
