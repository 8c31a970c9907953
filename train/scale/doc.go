// Package scale scales losses in graphs of training steps, so that gradients which float16 takes
// for zeros are there, as in Micikevicius et al., "Mixed precision training", ICLR 2018.
//
// Meet first: [New] adds a [Scaler] to a graph. The loss is scaled before it is differentiated
// ([Scaler.Loss]), the gradients of weights are unscaled ([Scaler.Gradients]), optimizers read
// those, and every variable that they replace stays what it was where a gradient overflowed
// ([Scaler.Keep]). All of it is nodes of the graph and variables of its state
// ([Scaler.Variables]): an iteration decides by itself, without asking the host.
//
// Scales are powers of two unless asked otherwise, so that in float32 a scaled step gives the bits
// of one that is not, as long as nothing overflows or becomes denormal.
//
// Concurrency: a Scaler belongs to its graph.
//
// What it refuses: scales that are not positive numbers of float32, and kinds that are not known
// ([ErrOptions]).
package scale
