// Package microsoft holds the operators that ONNX Runtime adds to ONNX's own, domain com.microsoft
// (ContribOperators.md): what its graph optimiser, its quantisation tools and its builders of
// language models write. Most are compositions of ONNX's operators and are defined as such.
//
// Meet first: the tables of rows, one family a file ([Domain] says where they go), and the input
// numbers, [Grouped] layout and [NBits] layout that fast kernels share with the definitions.
//
// An import registers the rows with package op; package graph does so for everyone.
//
// Concurrency: as package op has it; nothing here has state.
//
// What it refuses: attributes and inputs that only other devices of ONNX Runtime have, as errors of
// kind op.ErrUnsupported, and quantised key-value caches.
package microsoft
