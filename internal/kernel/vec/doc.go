// Package vec holds the one-dimensional kernels: loops over float32 slices in AVX-512, AVX2, the
// vectors of arm64 and plain Go.
//
// Meet first: [Add] and its neighbours (element by element arithmetic), [Relu] to [GeluTanh]
// (activations), [Sum] to [ArgMax] (reductions), [ColumnSums], [Softmax] and [LayerNorm] (rows),
// [Transpose] (matrices of 4-byte elements) and [Float16ToFloat32] with the other conversions. Each
// function calls the widest path that [github.com/weirgpu/weir/internal/cpuinfo] allows at that
// moment; the build tag noasm leaves only plain Go. The function addRef in arithmetic_ref.go is the
// definition of Add, and so for every other: fast paths are tested against it, with the tolerance
// stated below.
//
// Lengths: len(dst) says how many elements are computed. Every other slice must be at least as
// long; a shorter one panics, before anything is written, as any slice expression does. A length of
// zero does nothing.
//
// Aliasing: dst may be the same slice as any input (start at the same element). Any other overlap
// gives unspecified values. Transpose and Scatter never work in place.
//
// Numbers: arithmetic, comparison, rounding and conversion are bit-equal to their reference. The
// greatest errors over all float32 arguments, in units in the last place (ulp) of the exact value,
// are for Exp and Log 1, for Erf 1.5, for Sigmoid 2.5 and for Tanh 3 with AVX2, AVX-512 and the
// vectors of arm64, which are alike, and 0.5001 for each of them in plain Go, which computes in
// float64 and rounds once.
// The other transcendental functions are within 4 ulp, unless their comment says otherwise. All may
// return a zero of either sign where the result is smaller than the least normal float32
// (1.18e-38). NaN in gives NaN out, with an unspecified payload; the sign of a zero result is
// unspecified where both signs were compared.
//
// Sums are within 1e-5 of the exact ones, relative to the sum of their terms' magnitudes, for any
// terms and up to 2^40 of them: blocks are added up in float32, in vectors or rows, such that fewer
// than 140 additions follow each other, and the sums of blocks in float64 ([Sum], [ColumnSums]).
// The order is fixed by the number of terms alone, and the bits are the same on every path of
// instructions, unless the terms are exponentials, which plain Go computes with other errors.
// [Sum], [Mean], [Dot], [SumSquares], [Norm] and what is computed from them do not overflow on the
// way to a result that float32 holds.
//
// The assembly is written by the program in the folder _generate, whose command fit computes the
// polynomials. One description of a loop, in the instructions of AVX2, gives that of every set;
// bytes and transposes have descriptions of their own for arm64, and conversions of types, searches
// and tables of bytes none: it runs plain Go.
//
// Concurrency: no goroutines, no allocation, no state. Calls on disjoint memory may run in
// parallel. Long slices are handed to assembly in blocks that last some microseconds, since
// assembly cannot be preempted.
//
// What it refuses: other element types than the signatures name, strides (apart from Transpose,
// Gather and Scatter) and broadcasting; the caller's loop over rows does that.
package vec

//go:generate go -C _generate run . ..
