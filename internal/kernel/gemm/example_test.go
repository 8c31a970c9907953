package gemm_test

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// A fully connected layer with a Relu: the weights are packed once, the bias and the Relu are part
// of the product.
func Example() {
	weights := []float32{ // 3 inputs x 2 outputs
		1, -1,
		2, -2,
		3, -3,
	}
	packed := make([]float32, gemm.F32.PackedBLen(3, 2))
	gemm.F32.PackB(packed, weights, 3, 2, 0, false)

	op, err := gemm.New(gemm.Params{
		M: 2, K: 3, N: 2, PackedB: true,
		Epilogue: gemm.Epilogue{Bias: gemm.BiasPerCol, Clamp: true, Hi: float32(math.Inf(1))},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	y := make([]float32, 4)
	args := gemm.Args{A: []float32{1, 1, 1, 0, 0, 2}, B: packed, C: y, Bias: []float32{0.5, 10}}
	scratch := make([]float32, op.ScratchLen())
	for c := range op.Chunks() {
		op.Run(c, &args, scratch)
	}
	fmt.Println(y)
	// Output: [6.5 4 6.5 4]
}
