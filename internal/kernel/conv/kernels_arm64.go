//go:build !noasm

package conv

//go:generate go -C _generate run . ..

// gather does what gatherGo does.
func gather(_ level, dst []float32, width, lo, hi int, src []float32, plane, stride, n int) {
	gatherGo(dst, width, lo, hi, src, plane, stride, n)
}

// hasMasks reports whether copyLanes has a kernel.
func hasMasks(level) bool { return false }

// copyLanes has no kernel.
func copyLanes(level, []float32, int, []float32, int, int, int, int, uint32) {
	panic("conv: no masks")
}

// hasTapCopies reports whether runTapCopies has a kernel for panels of such a width.
func hasTapCopies(v level, width int) bool { return v == levelNEON && width <= 16 }

// runTapCopies computes c, for a stride of 1 or 2.
func runTapCopies(_ level, c *tapCopies, stride int) {
	switch narrow := c.pitch <= 4*8; {
	case stride == 1 && narrow:
		copyTapsS1x2NEON(c)
	case stride == 1:
		copyTapsS1x4NEON(c)
	case narrow:
		copyTapsS2x2NEON(c)
	default:
		copyTapsS2x4NEON(c)
	}
}

// hasPairCopies reports whether runPairCopy has a kernel.
func hasPairCopies(level) bool { return false }

func runPairCopy(*pairCopy, int) { panic("conv: no copies of pairs") }

// hasWinograd reports whether winogradIn and winogradOut have kernels.
func hasWinograd(v level) bool { return v == levelNEON }

// winogradIn writes the transform of the tiles under rows, of which src holds the inputs of channel
// c, to v. Lanes without a tile get the transform of what tiles holds there.
func winogradIn(w *winograd, v []float32, c int, src []float32, rows []tileRow, tiles []float32,
	halves int) {
	to := v[c*w.width:]
	_, _, _ = to[(frequencies-1)*w.stepIn+(lanes/w.width-1)*w.panelStep+w.width-1],
		tiles[tilesLen-1], src[0]
	var line [80]float32
	winogradInNEON(&to[0], w.stepIn, &src[0], &rows[0], len(rows), &tiles[0], &line[0], halves,
		w.panelStep)
}

// winogradOut writes the transform of the frequencies m to the stage, with the epilogue of p but
// its map.
func winogradOut(w *winograd, s *stage, m []float32, p *Params, bias float32) {
	vectors := (s.last - s.first + 3) / 4
	_, _ = s.out[stagedLen-1], m[(frequencies-1)*w.stepOut+4*vectors-1]
	var from *float32
	if s.res != nil {
		from = &s.res[:stagedLen][0]
	}
	lo, hi := negInf, -negInf
	if p.Clamp {
		lo, hi = limits(p.Lo, p.Hi)
	}
	winogradOutNEON(&s.out[0], &m[0], w.stepOut, from, vectors, bias, lo, hi)
}

// winogradWeights does what winogradWeightsGo does.
func winogradWeights(_ level, dst, w []float32, n, channels int, at kernels) {
	winogradWeightsGo(dst, w, n, channels, at)
}

// storeRuns copies runs of outputs from the stage to the plane.
func storeRuns(_ level, plane, stage []float32, runs []stagedRun) {
	for _, r := range runs {
		copy(plane[r.plane:][:r.n], stage[r.stage:])
	}
}

// maxCall bounds the multiply-adds of one call of the depthwise kernel, so that it lasts well under
// 100 microseconds: the runtime cannot stop a goroutine inside assembly.
const maxCall = 1 << 17

// runRows computes t, in blocks of columns that are short enough for one call.
func runRows(v level, t *rows) {
	if v != levelNEON {
		rowsGo(t)
		return
	}
	_ = t.src[(t.n-1)*t.srcStride+t.reach+t.cols-1+slack]
	block := *t
	if block.lo, block.hi = limits(t.lo, t.hi); t.flags&flagClamp == 0 {
		block.lo, block.hi = negInf, -negInf
	}
	block.flags &= flagResidual
	step := max(maxCall/(t.n*len(t.offsets))&^15, 16)
	for x := 0; x < t.cols; x += step {
		block.cols = min(step, t.cols-x)
		block.src, block.dst = t.src[x:], t.dst[x:]
		if t.flags&flagResidual != 0 {
			block.res = t.res[x:]
		}
		callRowsNEON(&block)
	}
}

// padRows reports that there is no kernel.
func padRows(_ *depthwise, _, _ []float32, _, _, _ int) bool { return false }

// hasSmallPlanes reports whether runSmallPlanes has a kernel.
func hasSmallPlanes(v level) bool { return v == levelNEON }

// runSmallPlanes computes t.
func runSmallPlanes(_ level, t *smallPlanes) {
	t.limits()
	smallPlanesNEON(t)
}

// limits replaces limits that are NaN, which limit nothing, where the greater of a number and NaN
// is NaN.
func (t *planeRun) limits() { t.lo, t.hi = limits(t.lo, t.hi) }

func limits(lo, hi float32) (float32, float32) {
	if lo != lo {
		lo = negInf
	}
	if hi != hi {
		hi = -negInf
	}
	return lo, hi
}

// hasHalvedPlanes reports whether runHalvedPlanes has a kernel.
func hasHalvedPlanes(v level) bool { return v == levelNEON }

// runHalvedPlanes computes t.
func runHalvedPlanes(_ level, t *halvedPlanes) {
	t.limits()
	halvedPlanesNEON(t)
}

// hasPoolBand reports whether runPoolBand has a kernel.
func hasPoolBand(level) bool { return false }

func runPoolBand(*poolBand, PoolKind, int) { panic("conv: no pooling of bands") }

// hasSeparablePool reports whether runSeparablePool has kernels.
func hasSeparablePool(v level) bool { return v == levelNEON }

// runSeparablePool computes t for a kind of pooling and a stride of the columns of 1 or 2.
func runSeparablePool(t *separablePool, kind PoolKind, stride int) {
	if kind == MaxPool {
		poolMaxDownNEON(t)
	} else {
		poolMeanDownNEON(t)
	}
	switch {
	case kind == MaxPool && stride == 1:
		poolMaxAlongS1NEON(t)
	case kind == MaxPool:
		poolMaxAlongS2NEON(t)
	case stride == 1:
		poolMeanAlongS1NEON(t)
	default:
		poolMeanAlongS2NEON(t)
	}
}
