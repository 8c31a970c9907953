//go:build amd64 && !noasm

package conv

import "math/bits"

//go:generate go -C _generate run . ..

// maxCall bounds the multiply-adds of one call of the depthwise kernel, so that it lasts well under
// 100 microseconds: the runtime cannot stop a goroutine inside assembly.
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
	case stride == 3 && v == levelAVX512:
		for i := 0; i < m; i += 16 {
			lanes := min(16, m-i)
			copyThirdAVX512(&dst[lo+i], width, &src[3*i], 0, plane, n, uint64(1)<<(3*lanes-2)-1,
				uint32(1)<<lanes-1)
		}
	case v == levelAVX2 && stride <= 2 && m > 16: // a panel of tiles has up to 32 columns
		gather(v, dst, width, lo, lo+m/2, src, plane, stride, n)
		gather(v, dst, width, lo+m/2, hi, src[m/2*stride:], plane, stride, n)
	case v == levelAVX2 && stride == 1 && m >= 8:
		copyLanesAVX2(&dst[lo], width, &src[0], plane, n, m)
	case v == levelAVX2 && stride == 2 && m >= 8:
		copyEvenAVX2(&dst[lo], width, &src[0], plane, n, m)
	case v == levelAVX2 && stride == 3 && m == width && m <= 8:
		gatherThird(dst, width, src, plane, n)
	default:
		gatherGo(dst, width, lo, hi, src, plane, stride, n)
	}
}

// gatherThird is gather of whole rows of at most 8 floats with AVX2 and a stride of 3. Each is
// stored as a vector, the next row over what is too much, and the last ones, after which there may
// be no room, float by float.
func gatherThird(dst []float32, width int, src []float32, plane, n int) {
	whole := max(0, n-7/width)
	if whole > 0 {
		copyThirdAVX2(&dst[0], width, &src[0], 0, plane, whole, 0x249249&(1<<(3*width)-1))
	}
	if whole < n {
		gatherGo(dst[whole*width:], width, 0, width, src[whole*plane:], plane, 3, n-whole)
	}
}

// hasMasks reports whether copyLanes has a kernel.
func hasMasks(v level) bool { return v != levelGo }

// copyLanes writes n rows of width floats, at most 32: lane i of row ch is
// src[ch*plane+at+i*stride] where lanes has bit i, and 0 elsewhere. The stride is 1 or 2, and the
// level one that hasMasks.
func copyLanes(v level, dst []float32, width int, src []float32, at, plane, stride, n int,
	lanes uint32) {
	if n == 0 || width == 0 {
		return
	}
	if lanes == 0 {
		clear(dst[:n*width])
		return
	}
	lo, hi := bits.TrailingZeros32(lanes), bits.Len32(lanes)-1
	_, _, _ = dst[n*width-1], src[at+lo*stride], src[(n-1)*plane+at+hi*stride]
	store := uint32(1)<<width - 1
	switch {
	case v == levelAVX2:
		copyVectors(dst, width, src, at, plane, stride, n, lanes)
	case stride == 1:
		copyLanesAVX512(&dst[0], width, &src[0], at, plane, n, lanes, store)
	default:
		copyEvenAVX512(&dst[0], width, &src[0], at, plane, n, bitRange(2*lo, 2*hi+1), store)
	}
}

// hasTapCopies reports whether runTapCopies has a kernel for panels of such a width. With AVX2 it
// stores two whole vectors.
func hasTapCopies(v level, width int) bool {
	return v == levelAVX512 && width <= 32 || v == levelAVX2 && width == 16
}

// runTapCopies computes c, for a stride of 1 or 2.
func runTapCopies(v level, c *tapCopies, stride int) {
	switch {
	case v == levelAVX512 && stride == 1:
		copyTapsS1AVX512(c)
	case v == levelAVX512:
		copyTapsS2AVX512(c)
	case stride == 1:
		copyTapsS1AVX2(c)
	default:
		copyTapsS2AVX2(c)
	}
}

// hasPairCopies reports whether runPairCopy has a kernel.
func hasPairCopies(v level) bool { return v == levelAVX2 }

// runPairCopy computes c, for a stride of 1 or 2.
func runPairCopy(c *pairCopy, stride int) {
	if stride == 1 {
		copyPairS1AVX2(c)
	} else {
		copyPairS2AVX2(c)
	}
}

// copyVectors is copyLanes with AVX2. Each row is stored as one or two vectors, the next row over
// what is too much, and the last rows, after which there may be no room, float by float.
func copyVectors(dst []float32, width int, src []float32, at, plane, stride, n int, lanes uint32) {
	vectors := (width + 7) / 8
	done := 0
	if vectors <= 2 {
		done = max(0, n-(8*vectors-1)/width)
	}
	if done > 0 {
		callCopy(dst, width, src, at, plane, stride, done, vectors, lanes)
	}
	for r := done; r < n; r++ {
		row := dst[r*width:][:width]
		for i := range row {
			row[i] = 0
			if lanes>>i&1 != 0 {
				row[i] = src[r*plane+at+i*stride]
			}
		}
	}
}

func callCopy(dst []float32, width int, src []float32, at, plane, stride, n, vectors int,
	lanes uint32) {
	// with a stride of 2, lanes have no gaps
	even := uint32(bitRange(2*bits.TrailingZeros32(lanes), 2*bits.Len32(lanes)-1))
	switch {
	case stride == 1 && vectors == 1:
		copyMasked1x1AVX2(&dst[0], width, &src[0], at, plane, n, lanes)
	case stride == 1:
		copyMasked1x2AVX2(&dst[0], width, &src[0], at, plane, n, lanes)
	case vectors == 1:
		copyMasked2x1AVX2(&dst[0], width, &src[0], at, plane, n, even)
	default:
		copyMasked2x2AVX2(&dst[0], width, &src[0], at, plane, n, even)
	}
}

// hasWinograd reports whether winogradIn and winogradOut have kernels.
func hasWinograd(v level) bool { return v != levelGo }

// winogradIn writes the transform of the tiles under rows, of which src holds the inputs of channel
// c, to v. Lanes without a tile get the transform of what tiles holds there.
func winogradIn(w *winograd, v []float32, c int, src []float32, rows []tileRow, tiles []float32,
	halves int) {
	to := v[c*w.width:]
	_, _, _ = to[(frequencies-1)*w.stepIn+(lanes/w.width-1)*w.panelStep+w.width-1],
		tiles[tilesLen-1], src[0]
	if w.level == levelAVX512 {
		winogradInAVX512(&to[0], w.stepIn, &src[0], &rows[0], len(rows), &tiles[0], halves)
	} else {
		winogradInAVX2(&to[0], w.stepIn, &src[0], &rows[0], len(rows), &tiles[0], halves,
			w.panelStep, len(src))
	}
}

// winogradOut writes the transform of the frequencies m to the stage, with the epilogue of p but
// its map.
func winogradOut(w *winograd, s *stage, m []float32, p *Params, bias float32) {
	halves := halves(s.last - s.first)
	_, _, _ = s.out[stagedLen-1], m[(frequencies-1)*w.stepOut+halves*halfLanes-1],
		s.tiles[tilesLen-1]
	var from *float32
	if s.res != nil {
		from = &s.res[:stagedLen][0]
	}
	clamp := 0
	if p.Clamp {
		clamp = 1
	}
	if w.level == levelAVX512 {
		winogradOutAVX512(&s.out[0], &m[0], w.stepOut, from, halves, clamp, bias, p.Lo, p.Hi)
	} else {
		winogradOutAVX2(&s.out[0], &m[0], w.stepOut, from, 2*halves, clamp, &s.tiles[0], bias, p.Lo,
			p.Hi)
	}
}

// winogradWeights does what winogradWeightsGo does.
func winogradWeights(v level, dst, w []float32, n, channels int, at kernels) {
	if v != levelAVX512 {
		winogradWeightsGo(dst, w, n, channels, at)
		return
	}
	step := n * packedChannels
	_, _ = dst[frequencies*step-1], w[(n-1)*at.row+(channels-1)*at.channel+8]
	for i := 0; i < n; i += 8 {
		from := w[i*at.row:]
		if at.tap < 0 {
			from = from[8:]
		}
		winogradWeightsAVX512(&dst[i], step, n, &from[0], at.row, at.channel, at.tap, channels,
			uint32(1)<<min(8, n-i)-1)
	}
}

// storeRuns copies runs of outputs from the stage to the plane.
func storeRuns(v level, plane, stage []float32, runs []stagedRun) {
	last := runs[len(runs)-1]
	_, _ = plane[last.plane+last.n-1], stage[stagedLen-1]
	if v == levelAVX512 {
		storeRunsAVX512(&plane[0], &stage[0], &runs[0], len(runs))
	} else {
		storeRunsAVX2(&plane[0], &stage[0], &runs[0], len(runs))
	}
}

// runRows computes t, in blocks of columns that are short enough for one call.
func runRows(v level, t *rows) {
	if v == levelGo {
		rowsGo(t)
		return
	}
	_ = t.src[(t.n-1)*t.srcStride+t.reach+t.cols-1+slack]
	step := max(maxCall/(t.n*len(t.offsets))&^15, 16)
	if t.cols <= step {
		callRows(v, t)
		return
	}
	block := *t
	for x := 0; x < t.cols; x += step {
		block.cols = min(step, t.cols-x)
		block.src, block.dst = t.src[x:], t.dst[x:]
		if t.flags&flagResidual != 0 {
			block.res = t.res[x:]
		}
		callRows(v, &block)
	}
}

func callRows(v level, t *rows) {
	if v == levelAVX2 {
		callRowsAVX2(t)
	} else {
		callRowsAVX512(t)
	}
}

// padRows writes n rows of cols floats of src into n padded rows of dst as d describes them,
// element q, counted from lead before the first of src, at (q mod stride)*phase + q/stride and
// zeros in the rest. It reports false when the level has no kernel for the stride.
func padRows(d *depthwise, dst, src []float32, n, cols, lead int) bool {
	if d.level == levelGo || len(d.masks) == 0 {
		return false
	}
	_, _ = dst[n*d.pitch-1], src[n*cols-1]
	switch one := d.pitch == d.phase; {
	case one && d.level == levelAVX512:
		padRowsS1AVX512(&dst[0], &src[0], -lead, cols, n, len(d.masks), &d.masks[0])
	case one:
		padRowsS1AVX2(&dst[0], &src[0], -lead, cols, n, len(d.masks), &d.masks[0])
	case d.level == levelAVX512:
		padRowsS2AVX512(&dst[0], &src[0], -lead, cols, n, len(d.masks), &d.masks[0])
	default:
		padRowsS2AVX2(&dst[0], &src[0], -lead, cols, n, len(d.masks), &d.masks[0])
	}
	return true
}

// hasSmallPlanes reports whether runSmallPlanes has a kernel.
func hasSmallPlanes(v level) bool { return v != levelGo }

// runSmallPlanes computes t.
func runSmallPlanes(v level, t *smallPlanes) {
	if v == levelAVX512 {
		smallPlanesAVX512(t)
	} else {
		smallPlanesAVX2(t)
	}
}

// hasHalvedPlanes reports whether runHalvedPlanes has a kernel.
func hasHalvedPlanes(v level) bool { return v != levelGo }

// runHalvedPlanes computes t.
func runHalvedPlanes(v level, t *halvedPlanes) {
	if v == levelAVX512 {
		halvedPlanesAVX512(t)
	} else {
		halvedPlanesAVX2(t)
	}
}

// hasPoolBand reports whether runPoolBand has a kernel.
func hasPoolBand(v level) bool { return v == levelAVX512 }

// runPoolBand computes t for a kind of pooling and a stride of the columns of 1 or 2.
func runPoolBand(t *poolBand, kind PoolKind, stride int) {
	switch {
	case kind == MaxPool && stride == 1:
		poolMaxS1AVX512(t)
	case kind == MaxPool:
		poolMaxS2AVX512(t)
	case stride == 1:
		poolMeanS1AVX512(t)
	default:
		poolMeanS2AVX512(t)
	}
}

// hasSeparablePool reports whether runSeparablePool has kernels.
func hasSeparablePool(v level) bool { return v != levelGo }

// runSeparablePool computes t for a kind of pooling and a stride of the columns of 1 or 2.
func runSeparablePool(t *separablePool, kind PoolKind, stride int) {
	if kind == MaxPool {
		poolMaxDownAVX2(t)
	} else {
		poolMeanDownAVX2(t)
	}
	switch {
	case kind == MaxPool && stride == 1:
		poolMaxAlongS1AVX2(t)
	case kind == MaxPool:
		poolMaxAlongS2AVX2(t)
	case stride == 1:
		poolMeanAlongS1AVX2(t)
	default:
		poolMeanAlongS2AVX2(t)
	}
}
