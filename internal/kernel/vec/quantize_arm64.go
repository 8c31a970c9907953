//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

// calls has assembly compute as much of n elements as it can, in calls of some microseconds, and
// returns how many those are. Call computes so many from an element on.
func calls(n int, call func(from, n int)) (done int) {
	if !cpuinfo.HasNEON() {
		return 0
	}
	for whole := n &^ 3; done < whole; {
		k := min(block, whole-done)
		call(done, k)
		done += k
	}
	return done
}

func requantizeInts(dst []byte, x []int32, p *Requantization) {
	n := calls(len(dst), func(i, n int) { requantizeIntsNEON(&dst[i], &x[i], n, p) })
	requantizeIntsRef(dst[n:], x[n:], p)
}

func requantizeFloats(dst []byte, x []float32, p *Requantization) {
	n := calls(len(dst), func(i, n int) { requantizeFloatsNEON(&dst[i], &x[i], n, p) })
	requantizeFloatsRef(dst[n:], x[n:], p)
}

func requantizeRows(dst []byte, ldd int, x []int32, ldx, cols int, p []Requantization) {
	for i := range p {
		requantizeInts(dst[i*ldd:][:cols], x[i*ldx:][:cols], &p[i])
	}
}

func requantizeFloatRows(dst []byte, ldd int, x []float32, ldx, cols int, p []Requantization) {
	for i := range p {
		requantizeFloats(dst[i*ldd:][:cols], x[i*ldx:][:cols], &p[i])
	}
}

func quantizeFloats(dst []byte, x []float32, p *Requantization) {
	n := calls(len(dst), func(i, n int) { quantizeFloatsNEON(&dst[i], &x[i], n, p) })
	quantizeFloatsRef(dst[n:], x[n:], p)
}

func rescaleUint8(dst []byte, x []uint8, p *Requantization) {
	n := calls(len(dst), func(i, n int) { rescaleUint8NEON(&dst[i], &x[i], n, p) })
	rescaleUint8Ref(dst[n:], x[n:], p)
}

func rescaleInt8(dst []byte, x []int8, p *Requantization) {
	n := calls(len(dst), func(i, n int) { rescaleInt8NEON(&dst[i], &x[i], n, p) })
	rescaleInt8Ref(dst[n:], x[n:], p)
}

func addUint8(dst []byte, x, y []uint8, p *Requantization) {
	n := calls(len(dst), func(i, n int) { addUint8NEON(&dst[i], &x[i], &y[i], n, p) })
	addUint8Ref(dst[n:], x[n:], y[n:], p)
}

func addInt8(dst []byte, x, y []int8, p *Requantization) {
	n := calls(len(dst), func(i, n int) { addInt8NEON(&dst[i], &x[i], &y[i], n, p) })
	addInt8Ref(dst[n:], x[n:], y[n:], p)
}

// addBlocksUint8 and addBlocksInt8 have no way of their own.
func addBlocksUint8(_, _, _ []byte, _ *Requantization) int { return 0 }

func addBlocksInt8(_, _, _ []byte, _ *Requantization) int { return 0 }

func lookup(dst, x []byte, table *[256]byte) { lookupRef(dst, x, table) }

func windows3(dst []byte, cols int, x []byte, pitch, stride, rows int, w *[3]uint32,
	p *Requantization) {
	windows3Ref(dst, cols, x, pitch, stride, rows, w, p)
}

func copyRows(dst []byte, ldd int, src []byte, lds, cols, rows int, flip uint32) {
	copyRowsRef(dst, ldd, src, lds, cols, rows, flip)
}
