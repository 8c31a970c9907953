// Package server answers inference requests for models that share a device: the Open Inference
// Protocol, version 2, over HTTP.
//
// Meet first: [New], [Server.Load], and [Server], which is an http.Handler; other protocols ask it
// by [Server.Infer] and its neighbours. What a client is told of is an oip.Fault.
//
// Every model is a job of one weir.Host, under a share of the device's memory and time. A request
// waits in its model's queue, whose length is bounded, until the policy grants its model the
// device.
//
// Concurrency: every method may be called by any number of goroutines.
//
// What it refuses: more requests for a model than its queue takes (503, with Retry-After), bodies
// that are larger than a bound, before or after decompression (413), requests from pages of other
// origins (403), and all requests for a model once [Server.Drain] was called (503).
package server
