// Package vec holds the one-dimensional kernels: loops over float32 slices in AVX-512, AVX2 and
// plain Go.
//
// Meet first: [Add] and its neighbours (element by element arithmetic), [Relu] to [GeluTanh]
// (activations), [Sum] to [ArgMax] (reductions), [Softmax] and [LayerNorm] (rows), [Transpose]
// (matrices of 4-byte elements) and [Float16ToFloat32] with the other conversions. Each function
// calls the widest path that [github.com/weirgpu/weir/internal/cpuinfo] allows at that moment; the
// build tag noasm leaves only plain Go. The function addRef in arithmetic_ref.go is the definition
// of Add, and so for every other: fast paths are tested against it, with the tolerance stated
// below.
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
// are for Exp and Log 1, for Erf 1.5, for Sigmoid 2.5 and for Tanh 3 with AVX2 and AVX-512, which
// are alike, and 0.5001 for each of them in plain Go, which computes in float64 and rounds once.
// The other transcendental functions are within 4 ulp, unless their comment says otherwise. All may
// return a zero of either sign where the result is smaller than the least normal float32
// (1.18e-38). NaN in gives NaN out, with an unspecified payload; the sign of a zero result is
// unspecified where both signs were compared. Sums accumulate in float32 lanes of at most 8192
// elements, joined in float64, so their error is far below that of a plain loop and differs between
// levels in the last places.
//
// The assembly is written by the program in the folder _generate, whose command fit computes the
// polynomials.
//
// Concurrency: no goroutines, no allocation, no state. Calls on disjoint memory may run in
// parallel. Long slices are handed to assembly in blocks that last some microseconds, since
// assembly cannot be preempted.
//
// What it refuses: other element types than the signatures name, strides (apart from Transpose,
// Gather and Scatter) and broadcasting; the caller's loop over rows does that.
package vec

//go:generate go -C _generate run . ..
