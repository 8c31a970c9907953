// Package microsoft holds the operators that ONNX Runtime adds to ONNX's own, domain com.microsoft
// (ContribOperators.md): what its graph optimiser, its quantisation tools and its builders of
// language models write. Most are compositions of ONNX's operators and are defined as such.
//
// Meet first: [Domain], and the numbers of inputs that fast kernels share with the definitions,
// such as those from [GroupedQ] and from [NBitsA] on. Each family of operators has a table of rows
// in a file of its own.
//
// An import registers the rows with package op; package graph does so for everyone.
//
// Concurrency: as package op has it; nothing here has state.
//
// What it refuses: attributes and inputs that only other devices of ONNX Runtime have, as errors of
// kind op.ErrUnsupported, and quantised key-value caches.
package microsoft
