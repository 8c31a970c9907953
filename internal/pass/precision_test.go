package pass_test

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/pass"
)

// TestPrecision holds what each name means on processors with bfloat16 and without: the empty name
// is fp32, auto falls back to it, and bf16 is refused where there is none.
func TestPrecision(t *testing.T) {
	target := kernels.Target(device.Info{ID: "cpu:0"})
	cputest.EachPath(t, func(t *testing.T) {
		half := slices.Contains([]cpuinfo.Path{cpuinfo.PathBF16, cpuinfo.PathAVX512BF16,
			cpuinfo.PathAMX}, cpuinfo.CurrentPath())
		for _, tc := range []struct {
			name        string
			half, plain pass.Precision // "" is an error
		}{
			{"", pass.FP32, pass.FP32},
			{"fp32", pass.FP32, pass.FP32},
			{"auto", pass.Auto, pass.FP32},
			{"bf16", pass.BF16, ""},
			{"fp8", "", ""},
		} {
			want := tc.plain
			if half {
				want = tc.half
			}
			got, err := pass.PrecisionOn(target, pass.Precision(tc.name))
			if got != want || (err != nil) != (want == "") {
				t.Errorf("%q: got %q and error %v, want %q", tc.name, string(got), err,
					string(want))
			}
		}
	})
	if s := pass.Precision("").String(); s != "fp32" {
		t.Errorf("the empty name reads %q, want fp32", s)
	}
}
