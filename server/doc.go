// Package server answers inference requests for models that share a device: the Open Inference
// Protocol, version 2, over HTTP.
//
// Meet first: [New], [Server.Load], and [Server], which is an http.Handler; other protocols ask it
// by [Server.Infer] and its neighbours. What a client is told of is an oip.Fault.
//
// Every model is a job of one weir.Host, under a share of the device's memory and time. A request
// waits in its model's queue, whose length is bounded, until its turn has come (package queue) and
// the policy grants its model the device; requests whose rows are independent are computed together
// (batches.go).
//
// Concurrency: every method may be called by any number of goroutines.
//
// What it refuses: more requests for a model than its queue takes and such as cannot be on time
// (503, with Retry-After), more of an account than it may have waiting (429), bodies
// that are larger than a bound, before or after decompression (413), requests from pages of other
// origins (403), and all requests for a model once [Server.Drain] was called (503).
package server
