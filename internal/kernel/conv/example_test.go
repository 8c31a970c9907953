package conv_test

import (
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/conv"
)

// A 3x3 box filter over a 4x4 image with one zero around it.
func Example() {
	op, err := conv.New(conv.Params{
		N: 1, C: 1, M: 1,
		Window: conv.Window{
			In: [3]int{1, 4, 4}, Kernel: [3]int{1, 3, 3},
			PadLo: [3]int{0, 1, 1}, PadHi: [3]int{0, 1, 1},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	weights := make([]float32, op.PackedLen())
	op.PackWeights(weights, []float32{1, 1, 1, 1, 1, 1, 1, 1, 1})
	x := make([]float32, 16)
	for i := range x {
		x[i] = 1
	}
	args := conv.Args{X: x, W: weights, Y: make([]float32, 16)}
	scratch := make([]float32, op.ScratchLen())
	for c := range op.Chunks() {
		op.Run(c, &args, scratch)
	}
	for row := range 4 {
		fmt.Println(args.Y[4*row : 4*row+4])
	}
	// Output:
	// [4 6 6 4]
	// [6 9 9 6]
	// [6 9 9 6]
	// [4 6 6 4]
}
