// Package weir runs ONNX models in pure Go: no cgo, no shared library, one static binary.
//
//	m, err := weir.Open("model.onnx")
//	if err != nil { ... }
//	defer m.Close()
//	image, err := weir.NewTensor(pixels, 1, 3, 224, 224)
//	if err != nil { ... }
//	out, err := m.Run(ctx, weir.Inputs{"image": image})
//	if err != nil { ... }
//	defer out.Close()
//	scores, err := weir.Output[float32](out, "scores")
//
// Several models share a device once a [Host] has admitted them, each under a [Share] of its memory
// and time:
//
//	host, err := weir.NewHost(weir.HostOptions{Policy: "priority"})
//	if err != nil { ... }
//	defer host.Close()
//	job, err := host.Admit(ctx, m, weir.Job{Name: "detector",
//		Share: weir.Share{Class: weir.Latency, Compute: 0.5, Memory: 512 * weir.MiB}})
//
// Meet first: [Model], its [Model.Run], and [Result]; then [Host] and [Job]. A model is compiled
// for the input shapes of a call when they are first seen, and the compiled plan is kept; after
// that a Run allocates nothing on the Go heap and its memory is fixed.
//
// A model may ask for derivatives of what it computes by nodes Gradient (ONNX operator set
// ai.onnx.preview.training, version 1) of its main graph. Open puts the nodes that compute them in
// their place (package grad); their results are values like others, and what has no gradient is an
// error of Open.
//
// Concurrency: every method of Model may be called by any number of goroutines. Concurrent Runs use
// memory of their own and share the weights and the processor's cores; as many compute at a time as
// [WithMaxConcurrency] says, and the others wait. Under a share one computes at a time, while its
// job holds the device. The first Open of a program raises GOMAXPROCS, so
// that its timers and connections are served while all cores compute.
//
// What lies where: weights are read from the mapped file or copied from it into memory outside of
// Go's heap, and everything of one Run is in such memory, too. Nothing is written to disk, but for
// compiled plans where [WithCache] asks for that: these hold weights in plain form. Of a model that
// is stored encrypted none is kept, since it comes from memory ([Load]).
//
// What it refuses: wrong options ([ErrOption]); a wrong input name, type or shape, with an error of
// kind [ErrInput] before anything is computed, and elements that an operator does not take while it
// is; broken model files ([ErrModel]) and what weir does not have ([ErrUnsupported]), never with a
// panic; what does not fit the memory, or the cap of its job ([ErrMemory]); a guarantee that a
// device cannot give beside others ([ErrCompute]).
package weir
