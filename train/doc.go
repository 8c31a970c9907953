// Package train trains the weights of ONNX models, from a recipe to a model file, by weir's own
// engine: a step of training is a planned graph like any other, whose memory is known beforehand
// and whose iterations run under a gate.
//
// Meet first: [Open] prepares a run from a recipe (package train/recipe), [Run.Train] trains, and
// [Run.Plan] says what it takes before it does.
//
// A run is a function of its recipe, its data and the build: order, random weights and changes of
// images follow from the seed, the epoch and the sample, and sums are cut into chunks that do not
// depend on threads. So a run that was interrupted anywhere, and went on from a checkpoint, ends
// with the same bits, on whatever number of threads.
//
// Concurrency: a Run belongs to one goroutine at a time.
//
// What it refuses: what recipe, data and step refuse; losses that are not finite ([ErrDiverged]),
// with the update and the node, after which the newest checkpoint is the last good state.
package train
