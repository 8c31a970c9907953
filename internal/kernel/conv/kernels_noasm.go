//go:build (!amd64 && !arm64) || noasm

package conv

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
func hasTapCopies(level, int) bool { return false }

func runTapCopies(level, *tapCopies, int) { panic("conv: no copies of taps") }

// hasPairCopies reports whether runPairCopy has a kernel.
func hasPairCopies(level) bool { return false }

func runPairCopy(*pairCopy, int) { panic("conv: no copies of pairs") }

// hasWinograd reports whether winogradIn and winogradOut have kernels.
func hasWinograd(level) bool { return false }

func winogradIn(*winograd, []float32, int, []float32, []tileRow, []float32, int) {
	panic("conv: no transform")
}

func winogradOut(*winograd, *stage, []float32, *Params, float32) { panic("conv: no transform") }

func winogradWeights(level, []float32, []float32, int, int, kernels) {
	panic("conv: no transform")
}

func storeRuns(level, []float32, []float32, []stagedRun) { panic("conv: no transform") }

// runRows computes t.
func runRows(_ level, t *rows) { rowsGo(t) }

// padRows reports that there is no kernel.
func padRows(_ *depthwise, _, _ []float32, _, _, _ int) bool { return false }

// hasSmallPlanes reports whether runSmallPlanes has a kernel.
func hasSmallPlanes(level) bool { return false }

func runSmallPlanes(level, *smallPlanes) { panic("conv: no small planes") }

// hasHalvedPlanes reports whether runHalvedPlanes has a kernel.
func hasHalvedPlanes(level) bool { return false }

func runHalvedPlanes(level, *halvedPlanes) { panic("conv: no halved planes") }

// hasPoolBand reports whether runPoolBand has a kernel.
func hasPoolBand(level) bool { return false }

func runPoolBand(*poolBand, PoolKind, int) { panic("conv: no pooling of bands") }

// hasSeparablePool reports whether runSeparablePool has kernels.
func hasSeparablePool(level) bool { return false }

func runSeparablePool(*separablePool, PoolKind, int) { panic("conv: no separable pooling") }
