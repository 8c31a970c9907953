package vec

import "math"

// toByte is the definition of a Requantization of a scaled number.
func (r *Requantization) toByte(x float32) byte {
	x = onGrid(x, r.lo, r.hi)
	if r.twice == 0 {
		return byte(int32(x) + r.zero)
	}
	x = float32(int32(x) + r.zero)
	return byte(int32(onGrid(fusedRef(x, r.thenScale, r.thenBias), r.thenLo, r.thenHi)) +
		r.thenZero)
}

// onGrid limits x and rounds it.
func onGrid(x, lo, hi float32) float32 {
	if !(x > lo) {
		x = lo
	}
	return float32(math.RoundToEven(float64(min(x, hi))))
}

func requantizeIntsRef(dst []byte, x []int32, r *Requantization) {
	for i, v := range x {
		dst[i] = r.toByte(float32(v+int32(r.add)) * r.scale)
	}
}

func requantizeFloatsRef(dst []byte, x []float32, r *Requantization) {
	for i, v := range x {
		dst[i] = r.toByte(float32(int32(v)+int32(r.add)) * r.scale)
	}
}

func quantizeFloatsRef(dst []byte, x []float32, r *Requantization) {
	for i, v := range x {
		dst[i] = r.toByte(v / r.scale)
	}
}

func rescaleUint8Ref(dst []byte, x []uint8, r *Requantization) { rescaleRef(dst, x, r) }
func rescaleInt8Ref(dst []byte, x []int8, r *Requantization)   { rescaleRef(dst, x, r) }

func rescaleRef[T ~uint8 | ~int8](dst []byte, x []T, r *Requantization) {
	for i, v := range x {
		dst[i] = r.toByte(fusedRef(float32(v), r.scale, math.Float32frombits(r.add)))
	}
}

func addUint8Ref(dst []byte, x, y []uint8, r *Requantization) { addBytesRef(dst, x, y, r) }
func addInt8Ref(dst []byte, x, y []int8, r *Requantization)   { addBytesRef(dst, x, y, r) }

func addBytesRef[T ~uint8 | ~int8](dst []byte, x, y []T, r *Requantization) {
	for i, v := range x {
		dst[i] = r.toByte(fusedRef(float32(y[i]), math.Float32frombits(r.add),
			fusedRef(float32(v), r.scale, r.thenBias)))
	}
}

func dequantizeUint8Ref(dst []float32, x []uint8, scale, zero float32) {
	for i, v := range x {
		dst[i] = (float32(v) - zero) * scale
	}
}

func dequantizeInt8Ref(dst []float32, x []int8, scale, zero float32) {
	for i, v := range x {
		dst[i] = (float32(v) - zero) * scale
	}
}

func dequantizeUint16Ref(dst []float32, x []uint16, scale, zero float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = (float32(v) - zero) * scale
	}
}

func dequantizeInt16Ref(dst []float32, x []int16, scale, zero float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = (float32(v) - zero) * scale
	}
}

func quantizeUint16Ref(dst []uint16, x []float32, scale, zero, lo, hi float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = uint16(int32(onGrid(v/scale, lo, hi) + zero))
	}
}

func quantizeInt16Ref(dst []int16, x []float32, scale, zero, lo, hi float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = int16(int32(onGrid(v/scale, lo, hi) + zero))
	}
}

func lookupRef(dst, x []byte, table *[256]byte) {
	for i, b := range x[:len(dst)] {
		dst[i] = table[b]
	}
}

func windows3Ref(dst []byte, cols int, x []byte, pitch, stride, rows int, w *[3]uint32,
	p *Requantization) {
	for r := range rows {
		for c := range cols {
			sum := int32(0)
			for ky, word := range w {
				for kx := range 3 {
					sum += int32(x[(r*stride+ky)*pitch+c*stride+kx]) * int32(int8(word>>(8*kx)))
				}
			}
			dst[r*cols+c] = p.toByte(float32(sum+int32(p.add)) * p.scale)
		}
	}
}

func copyRowsRef(dst []byte, ldd int, src []byte, lds, cols, rows int, flip uint32) {
	for r := range rows {
		for i, b := range src[r*lds:][:cols] {
			dst[r*ldd+i] = b ^ byte(flip)
		}
	}
}
