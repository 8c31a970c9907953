//go:build amd64 && !noasm

package conv

//go:generate sh -c "cd _generate && go run ."

const haveAssembly = true

// maxCall bounds the multiply-adds of one call of the depthwise kernel, so that it lasts well under 100 microseconds: the
// runtime cannot stop a goroutine inside assembly.
const maxCall = 1 << 19

// gather does what gatherGo does.
func gather(v level, dst []float32, width, lo, hi int, src []float32, plane, stride, n int) {
	m := hi - lo
	if n == 0 || m == 0 {
		return
	}
	_, _ = dst[(n-1)*width+hi-1], src[(n-1)*plane+(m-1)*stride]
	switch {
	case stride == 1 && v == levelAVX512:
		lanes := uint32(1)<<m - 1
		copyLanesAVX512(&dst[lo], width, &src[0], 0, plane, n, lanes, lanes)
	case stride == 2 && v == levelAVX512:
		copyEvenAVX512(&dst[lo], width, &src[0], 0, plane, n, uint64(1)<<(2*m-1)-1, uint32(1)<<m-1)
	case stride == 1 && v == levelAVX2 && m >= 8:
		copyLanesAVX2(&dst[lo], width, &src[0], plane, n, m)
	case stride == 2 && v == levelAVX2 && m >= 8:
		copyEvenAVX2(&dst[lo], width, &src[0], plane, n, m)
	default:
		gatherGo(dst, width, lo, hi, src, plane, stride, n)
	}
}

// runRows computes t, in blocks of columns that are short enough for one call.
func runRows(v level, t *rows) {
	if v == levelGo {
		rowsGo(t)
		return
	}
	_ = t.src[(t.n-1)*t.srcStride+t.reach+t.cols-1+slack]
	block := *t
	step := max(maxCall/(t.n*len(t.offsets))&^15, 16)
	for x := 0; x < t.cols; x += step {
		block.cols = min(step, t.cols-x)
		block.src, block.dst = t.src[x:], t.dst[x:]
		if t.flags&flagResidual != 0 {
			block.res = t.res[x:]
		}
		if v == levelAVX512 {
			rowsAVX512(&block)
		} else {
			rowsAVX2(&block)
		}
	}
}

// padRows writes n rows of cols floats of src, each after lead zeros and before zeros to the end, into rows of
// stride*phase floats of dst, element q at (q mod stride)*phase + q/stride. It reports false when the level has no
// kernel for the stride.
func padRows(v level, dst, src []float32, n, cols, lead, stride, phase int) bool {
	if v != levelAVX512 || stride > 2 || phase%16 != 0 {
		return false
	}
	_, _ = dst[n*stride*phase-1], src[n*cols-1]
	for part := range stride {
		for q := 0; q < phase; q += 16 {
			at := q*stride + part - lead
			load := bits(-at, cols-at)
			to := &dst[part*phase+q]
			if stride == 1 {
				copyLanesAVX512(to, phase, &src[0], at, cols, n, uint32(load)&0xffff, 0xffff)
			} else {
				copyEvenAVX512(to, 2*phase, &src[0], at, cols, n, load&0xffffffff, 0xffff)
			}
		}
	}
	return true
}

// reduceRow does what reduceGo does.
func reduceRow(v level, kind PoolKind, dst, src []float32) {
	done := 0
	switch {
	case v == levelAVX512 && len(dst) >= 16:
		done = len(dst) &^ 15
		if kind == MaxPool {
			maxRowAVX512(&dst[0], &src[:done][0], done/16)
		} else {
			addRowAVX512(&dst[0], &src[:done][0], done/16)
		}
	case v == levelAVX2 && len(dst) >= 8:
		done = len(dst) &^ 7
		if kind == MaxPool {
			maxRowAVX2(&dst[0], &src[:done][0], done/8)
		} else {
			addRowAVX2(&dst[0], &src[:done][0], done/8)
		}
	}
	reduceGo(kind, dst[done:], src[done:])
}

// deinterleave does what deinterleaveGo does.
func deinterleave(v level, even, odd, src []float32, n int) {
	done := 0
	switch {
	case v == levelAVX512 && n >= 16:
		done = n &^ 15
		deinterleaveAVX512(&even[:done][0], &odd[:done][0], &src[:2*done][0], done/16)
	case v == levelAVX2 && n >= 8:
		done = n &^ 7
		deinterleaveAVX2(&even[:done][0], &odd[:done][0], &src[:2*done][0], done/8)
	}
	deinterleaveGo(even[done:], odd[done:], src[2*done:], n-done)
}

// bits returns a word with bits lo to hi set, as far as it has them.
func bits(lo, hi int) uint64 {
	lo, hi = min(max(lo, 0), 64), min(max(hi, 0), 64)
	if lo >= hi {
		return 0
	}
	return ^uint64(0) >> (64 - hi) &^ (1<<lo - 1)
}
