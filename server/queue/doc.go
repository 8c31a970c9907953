// Package queue runs the requests of one model: each waits until package admit says so, and then
// runs, alone or with others.
//
// Meet first: [New], and [Queue.Do], which a request waits in and whose goroutine may run the batch
// that the request is in.
//
// There is no goroutine of the queue's own: whoever arrives, leaves or is done asks admit what is
// next, and hands a batch to the goroutine of its first request. A request that finds nobody
// before it runs at once, without another goroutine. A batch that takes less than waking a
// goroutine may is run by whoever comes first, of its requests and those that wait.
//
// How long batches take is forecast from those that ran (forecast.go).
//
// Concurrency: every method may be called by any number of goroutines. Time is that of package
// time.
//
// What it refuses: what admit does, with its [admit.Refusal].
package queue
