package vec

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Bytes is the grid of numbers that become bytes: round(x) + Zero, saturated to int8 when Signed,
// else to uint8.
type Bytes struct {
	Zero   int32
	Signed bool
}

// Limits are the bounds of x that do not saturate.
func (g Bytes) Limits() (lo, hi float32) {
	if g.Signed {
		return float32(math.MinInt8 - g.Zero), float32(math.MaxInt8 - g.Zero)
	}
	return float32(-g.Zero), float32(math.MaxUint8 - g.Zero)
}

// Requantization says how numbers become bytes, as ONNX's QuantizeLinear-13 rounds: to the nearest
// integer, ties to even. NaN becomes the least byte. The zero value must be set by one of the
// methods, according to the function that it is for; [Requantization.Then] adds a second stage. The
// assembly reads this struct.
type Requantization struct {
	add                 uint32 // an integer or the bits of a float32
	scale, lo, hi       float32
	zero                int32
	thenScale, thenBias float32
	thenLo, thenHi      float32
	thenZero            int32
	twice               uint32 // 1 with a second stage
}

func (r *Requantization) set(add uint32, scale float32, to Bytes) {
	*r = Requantization{add: add, scale: scale, zero: to.Zero}
	r.lo, r.hi = to.Limits()
}

// Sums is for [RequantizeInts] and [RequantizeFloats]: (x + add) · scale, where the sum wraps.
func (r *Requantization) Sums(add int32, scale float32, to Bytes) { r.set(uint32(add), scale, to) }

// Numbers is for [Quantize]: x / scale.
func (r *Requantization) Numbers(scale float32, to Bytes) { r.set(0, scale, to) }

// Rescaled is for [Rescale]: x · scale + bias, rounded once.
func (r *Requantization) Rescaled(scale, bias float32, to Bytes) {
	r.set(math.Float32bits(bias), scale, to)
}

// Added is for [AddBytes]: y · scaleY + (x · scaleX + bias), each rounded once.
func (r *Requantization) Added(scaleX, scaleY, bias float32, to Bytes) {
	r.set(math.Float32bits(scaleY), scaleX, to)
	r.thenBias = bias
}

// Then adds a second stage, which [AddBytes] does not take: the byte of the first stage, times
// scale plus bias, with a single rounding before it becomes a byte of the grid to.
func (r *Requantization) Then(scale, bias float32, to Bytes) {
	r.thenScale, r.thenBias, r.thenZero, r.twice = scale, bias, to.Zero, 1
	r.thenLo, r.thenHi = to.Limits()
}

// RequantizeInts makes bytes of sums of products.
func RequantizeInts(dst []byte, x []int32, r *Requantization) {
	requantizeInts(dst, x[:len(dst)], r)
}

// RequantizeRows is RequantizeInts of rows of cols numbers, one row for each of p: those of x are
// ldx apart, those of dst ldd.
func RequantizeRows(dst []byte, ldd int, x []int32, ldx, cols int, p []Requantization) {
	if len(p) == 0 || cols == 0 {
		return
	}
	_, _ = dst[(len(p)-1)*ldd+cols-1], x[(len(p)-1)*ldx+cols-1]
	requantizeRows(dst, ldd, x, ldx, cols, p)
}

// RequantizeFloatRows is RequantizeRows of integers, less than 2^31 in magnitude, that are held as
// float32.
func RequantizeFloatRows(dst []byte, ldd int, x []float32, ldx, cols int, p []Requantization) {
	if len(p) == 0 || cols == 0 {
		return
	}
	_, _ = dst[(len(p)-1)*ldd+cols-1], x[(len(p)-1)*ldx+cols-1]
	requantizeFloatRows(dst, ldd, x, ldx, cols, p)
}

// RequantizeFloats is RequantizeInts of integers, less than 2^31 in magnitude, that are held as
// float32.
func RequantizeFloats(dst []byte, x []float32, r *Requantization) {
	requantizeFloats(dst, x[:len(dst)], r)
}

// Quantize makes bytes of numbers.
func Quantize(dst []byte, x []float32, r *Requantization) { quantizeFloats(dst, x[:len(dst)], r) }

// Rescale makes bytes of bytes, which are signed or not. dst may be x.
func Rescale(dst, x []byte, signed bool, r *Requantization) {
	if signed {
		rescaleInt8(dst, int8s(x[:len(dst)]), r)
		return
	}
	rescaleUint8(dst, x[:len(dst)], r)
}

// AddBytes adds bytes, both signed or both not, on scales of their own. dst may be x or y.
func AddBytes(dst, x, y []byte, signed bool, r *Requantization) {
	x, y = x[:len(dst)], y[:len(dst)]
	if signed {
		n := addBlocksInt8(dst, x, y, r)
		addInt8(dst[n:], int8s(x[n:]), int8s(y[n:]), r)
		return
	}
	n := addBlocksUint8(dst, x, y, r)
	addUint8(dst[n:], x[n:], y[n:], r)
}

// sumsInRange reports whether what AddBytes rounds fits 32-bit integers whatever the bytes.
func (r *Requantization) sumsInRange() bool {
	most := 256*(math.Abs(float64(r.scale))+math.Abs(float64(math.Float32frombits(r.add)))) +
		math.Abs(float64(r.thenBias))
	return most < 1<<30
}

// unsigned returns the zero point of the result as an unsigned byte, in both halves of a word, and
// what makes it the result's type.
func (r *Requantization) unsigned() (offset, flip uint32) {
	zero := r.zero
	if r.lo+float32(zero) < 0 {
		zero, flip = zero+128, 0x80808080
	}
	return uint32(zero) * 0x00010001, flip
}

// blockOrder lists the words of 64 bytes as they lie after 4 vectors of integers have been packed
// twice.
var blockOrder = [16]uint32{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}

// Dequantize computes dst[i] = (x[i] - zero) · scale of bytes, which are signed or not (ONNX
// DequantizeLinear-13).
func Dequantize(dst []float32, x []byte, signed bool, scale, zero float32) {
	if signed {
		dequantizeInt8(dst, int8s(x[:len(dst)]), scale, zero)
		return
	}
	dequantizeUint8(dst, x[:len(dst)], scale, zero)
}

// QuantizeWords makes integers of 16 bits of numbers: round(x[i] / scale) + zero, ties to even,
// saturated, where zero is an integer of the type and NaN becomes the least integer (ONNX
// QuantizeLinear-21).
func QuantizeWords[T int16 | uint16](dst []T, x []float32, scale, zero float32) {
	x = x[:len(dst)]
	switch dst := any(dst).(type) {
	case []uint16:
		quantizeUint16(dst, x, scale, zero, -zero, math.MaxUint16-zero)
	case []int16:
		quantizeInt16(dst, x, scale, zero, math.MinInt16-zero, math.MaxInt16-zero)
	}
}

// DequantizeWords computes dst[i] = (x[i] - zero) · scale of integers of 16 bits (ONNX
// DequantizeLinear-21).
func DequantizeWords[T int16 | uint16](dst []float32, x []T, scale, zero float32) {
	switch x := any(x[:len(dst)]).(type) {
	case []uint16:
		dequantizeUint16(dst, x, scale, zero)
	case []int16:
		dequantizeInt16(dst, x, scale, zero)
	}
}

// Lookup computes dst[i] = table[x[i]]. dst may be x.
func Lookup(dst, x []byte, table *[256]byte) { lookup(dst, x[:len(dst)], table) }

// WindowSlack is how many bytes beyond the last window the x of [Windows3] must reach.
const WindowSlack = 64

// HasWindows3 reports whether [Windows3] is fast, which it is for strides of 1 and 2 on processors
// with AVX-512 VNNI and VBMI.
func HasWindows3() bool { return cpuinfo.HasAVX512VBMI() }

// Windows3 convolves rows of unsigned bytes by a kernel of 3 x 3 signed ones and makes bytes of the
// sums, as [RequantizeInts] does: output (r, c), of rows x cols without a gap, sees 3 x 3 bytes of
// x from (r·stride)·pitch + c·stride on. The words w are the rows of the kernel, from the lowest
// byte on, with 0 in the highest.
func Windows3(dst []byte, cols int, x []byte, pitch, stride, rows int, w *[3]uint32,
	r *Requantization) {
	if rows <= 0 || cols <= 0 {
		return
	}
	_, _ = dst[rows*cols-1], x[((rows-1)*stride+2)*pitch+(cols-1)*stride+2+WindowSlack-1]
	windows3(dst, cols, x, pitch, stride, rows, w, r)
}

// windowBytes are the bytes under each of 16 outputs, for strides of 1 and 2, with one that meets a
// weight of 0.
var windowBytes = [2][64]byte{underWindows(1), underWindows(2)}

func underWindows(stride int) (at [64]byte) {
	for i := range at {
		at[i] = byte(i/4*stride + min(i%4, 2))
	}
	return at
}
