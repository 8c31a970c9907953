// Package tensor holds the values that flow through a graph: element types, shapes and dense
// row-major tensors.
//
// Meet first: [DType] names an element type by its ONNX number, [Tensor] is a typed, shaped view of
// bytes, and [As] gives those bytes as a Go slice without a copy. ONNX's values that are no
// tensors, sequences, optionals and maps, are Tensors with Items ([NewSequence], [NewOptional],
// [NewMap]).
//
// Elements of 2 and 4 bits are packed as ONNX's files pack them, so that weights of few bits take
// no more memory than disk; [Tensor.Code] and [Tensor.SetCode] reach one of them, [FromCodes] makes
// a tensor. Floating-point types of at most 8 bits are stored and converted ([DType.Minifloat],
// [MinifloatOf], [E8M0Of]); there is no arithmetic on them. Strings are Go strings, one an element,
// on the Go heap.
//
// A Tensor does not say who owns its bytes: they may be a mapped model file, a device arena or the
// Go heap. Whoever hands a Tensor out says how long the bytes live and whether they may be written.
//
// Concurrency: a Tensor is plain data. Any number of goroutines may read it; writers need exclusion
// by the caller.
//
// What it refuses: containers that nest deeper than [MaxNesting], and shapes with a negative
// dimension or whose byte count does not fit an int ([ErrShape]), before anything is allocated.
// Strided views do not exist here: a tensor is always contiguous, and the operators that would make
// a strided view copy or are folded by the planner.
package tensor
