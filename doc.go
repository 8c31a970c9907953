// Package weir runs ONNX models in pure Go: no cgo, no shared library, one static binary.
//
//	m, err := weir.Open("model.onnx")
//	if err != nil { ... }
//	defer m.Close()
//	out, err := m.Run(ctx, weir.Inputs{"image": weir.NewTensor(pixels, 1, 3, 224, 224)})
//	if err != nil { ... }
//	defer out.Close()
//	scores, err := weir.Data[float32](out.Output("scores"))
//
// Meet first: [Model], its [Model.Run], and [Result]. A model is compiled for the input shapes of a
// call when they are first seen, and the compiled plan is kept; after that a Run allocates nothing
// on the Go heap and its memory is fixed.
//
// A model may ask for derivatives of what it computes by nodes Gradient (ONNX operator set
// ai.onnx.preview.training, version 1) of its main graph. Open puts the nodes that compute them in
// their place (package grad); their results are values like others, and what has no gradient is an
// error of Open.
//
// Concurrency: every method of Model may be called by any number of goroutines. Concurrent Runs use
// memory of their own and share the weights and the processor's cores.
//
// What it refuses: a wrong input name, type or shape fails with an error of kind [ErrInput] before
// anything is computed; broken model files fail in Open, and never with a panic. For many jobs on
// one device under shares, see the command weir.
package weir
