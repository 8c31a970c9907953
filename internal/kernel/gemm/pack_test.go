package gemm

import (
	"math/rand/v2"
	"testing"
)

func TestTranspose(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		v := currentLevel(F32)
		for _, stride := range []int{1, 2, 3, 4, 5, 6, 8, 14, 16, 32} {
			for rows := 1; rows <= stride; rows++ {
				for k := 1; k <= 35; k += 1 + r.IntN(3) {
					ld := k + r.IntN(4)
					src, _ := guarded(r, (rows-1)*ld+k)
					dst, check := guarded(r, (k-1)*stride+rows)
					want := append([]float32(nil), dst...)
					transposeBlock(v, dst, stride, src, ld, rows, k)
					check(t, "transpose")
					transposeGo(want, stride, src, ld, rows, k)
					compare(t, "transpose", dst, want, 0)
				}
			}
		}
	})
}

func TestCopyBlock(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 2))
		v := currentLevel(F32)
		for _, cols := range []int{1, 5, 8, 14, 16, 32} {
			for k := 1; k < 9; k++ {
				ld := cols + r.IntN(4)
				src, _ := guarded(r, (k-1)*ld+cols)
				dst, check := guarded(r, k*cols)
				want := append([]float32(nil), dst...)
				copyBlock(v, dst, cols, src, ld, cols, k)
				check(t, "copy")
				copyGo(want, cols, src, ld, cols, k)
				compare(t, "copy", dst, want, 0)
			}
		}
	})
}

func TestPadBlock(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 2))
		v := currentLevel(F32)
		for _, width := range []int{v.nr(), v.width(1)} {
			for cols := 1; cols <= width; cols++ {
				for _, k := range []int{1, 2, 7} {
					ld := cols + r.IntN(4)
					src, _ := guarded(r, (k-1)*ld+cols)
					dst, check := guarded(r, k*width)
					want := append([]float32(nil), dst...)
					padBlock(v, dst, width, src, ld, cols, k)
					check(t, "pad")
					padGo(want, width, src, ld, cols, k)
					compare(t, "pad", dst, want, 0)
				}
			}
		}
	})
}
