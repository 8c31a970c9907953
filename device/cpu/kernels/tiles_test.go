package kernels

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/conv"
)

// onTiles reports whether calls of an operator may multiply bytes or bfloat16.
func onTiles(key opKey) bool {
	for _, part := range []string{"MatMul", "Gemm", "Conv", "Attention", "LSTM", "GRU"} {
		if strings.Contains(key.name, part) {
			return true
		}
	}
	return false
}

// TestProductsOnTilesAgreeWithReference runs random calls of every operator with products, on tiles
// that their definition computes.
func TestProductsOnTilesAgreeWithReference(t *testing.T) {
	pools, operators, calls := testPools(t), 0, uint64(30)
	if testing.Short() { // the chunks are those of TestKernelsAgreeWithReference
		calls = 5
	}
	for _, key := range rows() {
		if !onTiles(key) {
			continue
		}
		operators++
		cputest.OnTiles(t, func(t *testing.T) {
			var seen [3]int
			var off steps
			for i := range calls {
				s := generator(key)(newSource(i, 18), key)
				seen[s.check(t, pools)]++
				off.join(s.steps)
			}
			kernel := pixelKernels[key] == nil || conv.HasNHWC()
			if err := off.check(); err != nil || kernel != (seen[served] > 0) {
				t.Errorf("%s%s: %d served; %v", key.domain, key.name, seen[served], err)
			}
		})
	}
	if operators < 10 {
		t.Errorf("%d operators with products", operators)
	}
}
