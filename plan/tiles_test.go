package plan

import (
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// TestPlansOnTiles runs whole plans with products on tiles, which their definition computes: those
// of bytes have the bits that they have without tiles, those of bfloat16 the same from run to run
// and on one worker and two.
func TestPlansOnTiles(t *testing.T) {
	pools := []*cpu.Pool{cpu.NewPool(cpu.PoolOptions{Threads: 1}), newPool(t)}
	t.Cleanup(pools[0].Close)
	eachSmall(t, func(t *testing.T, g, quantised *graph.Graph, shapes map[string][]int,
		in []*tensor.Tensor) {
		bytes := Options{Target: host, Shapes: shapes, Threads: threads}
		want := runPlan(t, pools[1], compileAs(t, quantised, bytes), in)
		cputest.OnTiles(t, func(t *testing.T) {
			got := runPlan(t, pools[1], compileAs(t, quantised, bytes), in)
			for i, w := range want {
				if !tensor.Equal(got[i], w) {
					t.Errorf("output %d of bytes has other bits than without tiles", i)
				}
			}
			sameBits(t, pools, g, Options{Target: host, Shapes: shapes,
				Passes: pass.Options{Precision: pass.BF16}}, in, "bf16")
		})
	})
}
