package conv

import "github.com/weirgpu/weir/internal/kernel/vec"

// rowsGo defines rows, and computes them where there is no assembly.
func rowsGo(t *rows) {
	for r := range t.n {
		t.rowGo(r)
	}
}

// rowGo computes row r, a block of sums at a time.
func (t *rows) rowGo(r int) {
	const block = 64
	for x0 := 0; x0 < t.cols; x0 += block {
		n := min(block, t.cols-x0)
		var buf [block]float32
		sum := buf[:n]
		vec.Fill(sum, t.bias)
		for k, off := range t.offsets {
			w := t.w[k]
			for x, v := range t.src[r*t.srcStride+off+x0:][:n] {
				sum[x] += w * v
			}
		}
		t.storeGo(sum, r*t.stride+x0)
	}
}

// storeGo applies the epilogue to sums and stores them at an offset of dst.
func (t *rows) storeGo(sum []float32, at int) {
	if t.flags&flagResidual != 0 {
		for x, v := range t.res[at:][:len(sum)] {
			sum[x] += v
		}
	}
	if t.flags&flagClamp != 0 {
		for x, v := range sum {
			sum[x] = clamp(v, t.lo, t.hi)
		}
	}
	copy(t.dst[at:], sum)
}
