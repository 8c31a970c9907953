// Package zoo writes standard network architectures as graphs with seeded random weights: true
// shapes, operators and parameter counts without a download.
//
// Meet first: [All] lists the architectures, [New] writes one, [Options] choose the seed and
// smaller variants.
//
// A graph is what the usual exporter (torch.onnx of the reference implementation, in inference mode
// with training operators kept, so that BatchNormalization is not folded away) writes: the same
// operators in the same order with the same attributes and node names, layer normalisation and GELU
// in their elementary operators, and the shape arithmetic of dynamic axes in full. Rewriting such a
// graph is what passes are for. Two things differ on purpose: constants are values and not nodes,
// and a weight that a network uses twice is stored once.
//
// Random weights are scaled so that activations neither vanish nor overflow with depth, since a
// comparison of two runtimes on a network that ends in zeros proves nothing. The weights are a
// function of architecture, options and seed, bit for bit the same on every platform.
//
// Concurrency: everything may be called from any goroutine. New fills weights on as many goroutines
// as GOMAXPROCS allows and returns when all are done.
//
// What it refuses: names that it does not know ([ErrUnknown]), and options that an architecture
// does not have or that leave no sound network ([ErrOption]), before weights are allocated.
package zoo
