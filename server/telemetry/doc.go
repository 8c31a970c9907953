// Package telemetry counts what a server is asked and answers, and tells it: as metrics of
// Prometheus, as statistics of Triton, as one figure of load, as traces, and as lines of a log.
//
// Meet first: [New] gives a [Recorder]; [Recorder.Model] counts a version of a model;
// [Recorder.Begin] follows a [Request], and [Model.Execute] an [Execution] of one or several.
// [Recorder.AppendText] writes the metrics.
//
// Each moment of a request ([Phase]) is one reading of one monotonic clock, and whatever is told of
// the request rests on these readings, so that metrics, statistics and traces agree. Time is
// counted in nanoseconds, in buckets that are within 1/32 of each value.
//
// Concurrency: every method may be called by any number of goroutines. Counting takes no lock,
// except once an execution, and for the first request of an account.
//
// What it refuses: to record what is in a request; labels without bounds. Versions of models and
// accounts beyond a number count under [Other], and memory does not grow with requests.
package telemetry
