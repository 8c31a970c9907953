// Package step makes graphs of one step of training from a model: the model and its loss, the
// gradients of the loss, and the optimizer that replaces the weights, all nodes of one graph that
// is planned and runs like any other.
//
// Meet first: [Build], which returns a [Step]: graphs, and the state that their iterations hand on.
//
// A step is what PyTorch computes for the same loss and optimizer, in float32: rates and the
// corrections of moments are computed in float64 and rounded once ([Optimizer.Scalars]). Running
// variances are ONNX's, of the batch as it is; PyTorch's are greater by n/(n-1) for n numbers.
//
// Concurrency: Build shares nothing but constants, which nobody writes.
//
// What it refuses: models without a trainable weight ([ErrNothing]), names that no weight has
// ([ErrName]), losses that do not fit the output that they are of ([ErrLoss]), dropout without a
// place ([ErrDropout]), and operators
// without gradients (op.ErrNoGradient), each by name.
package step
