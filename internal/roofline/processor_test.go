package roofline

import (
	"testing"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

func TestProcessorIsIdentified(t *testing.T) {
	p := Identify()
	if p.Name == "" || p.L1D <= 0 || p.L2 <= 0 || p.L3 <= 0 {
		t.Errorf("%+v: want a name and the sizes of caches", p)
	}
	if p.Path != cpuinfo.SupportedPath().String() {
		t.Errorf("path %q, want %q", p.Path, cpuinfo.SupportedPath())
	}
	for _, l := range []cpuinfo.Level{cpuinfo.AVX2, cpuinfo.AVX512} {
		if has, peak := cpuinfo.Current() >= l, p.Peak[l.String()]; has != (peak > 0) {
			t.Errorf("%s: a peak of %g GFLOP/s, on a processor that has it: %v", l, peak, has)
		}
	}
	if (p.AVX512 != "") != cpuinfo.HasAVX512() {
		t.Errorf("AVX-512 at %q, used: %v", p.AVX512, cpuinfo.HasAVX512())
	}
}

func TestRateOfAVX512(t *testing.T) {
	for _, e := range []struct {
		avx2, avx512 float64
		want         string
	}{{0, 0, ""}, {115, 0, ""}, {115, 115, "half rate"}, {115, 118, "half rate"},
		{145, 290, "full rate"}, {125, 210, "full rate"}} {
		if got := rate(map[string]float64{"avx2": e.avx2, "avx512": e.avx512}); got != e.want {
			t.Errorf("AVX2 %g, AVX-512 %g: %q, want %q", e.avx2, e.avx512, got, e.want)
		}
	}
}
