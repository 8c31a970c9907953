// Package nbits multiplies floats by weights of four bits that share scales and zero points in
// blocks along K, as MatMulNBits of ONNX Runtime's domain com.microsoft has them, without ever
// writing the weights out as floats.
//
// A [Weights] describes the matrix and packs it once ([Weights.Pack]). Rows of the other operand
// are brought into the form of a [Format] ([Weights.PackRow]), and [Weights.Product] multiplies
// some of them by one panel of columns. F32 multiplies floats and suits few rows, whose time is
// that of reading the weights; for many rows [Weights.Widen] gives the weights to a product of
// package gemm as floats, a part of a panel at a time. Int8 rounds the rows to bytes, block by
// block, and suits any number of rows.
//
// A Weights is immutable and may be used by many goroutines at once; the package starts none and
// allocates nothing. The path of instructions is read from internal/cpuinfo by [New]. Packed data
// and packed rows are for the same path only: they are no format to exchange. The paths agree to
// rounding; on one path results are the same bits, whatever rows and panels are multiplied
// together. NaN and infinities in floats propagate as IEEE 754 says; with Int8 they make NaN of all
// that their block takes part in.
//
// Slices that are shorter than the sizes say make the functions panic.
package nbits
