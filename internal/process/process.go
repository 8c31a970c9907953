// Package process tells facts about the running process that benchmarks report: how long ago it was
// started and the most memory that it had resident.
//
// Meet first: [SinceStart] and [PeakRSS].
//
// Concurrency: the functions share nothing that changes.
//
// What it refuses: where the system does not tell, SinceStart counts from the start of Go's
// initialisation, and PeakRSS is 0; neither fails.
package process

import "time"

// initialised stands in for the start of the process where the system does not tell it.
var initialised = time.Now()

// SinceStart returns the time since the system started the process, the loading of its program
// included. The resolution is that of the system's clock tick, 10 ms on Linux, below which the time
// since Go's initialisation is the better answer and is returned when it is the larger.
func SinceStart() time.Duration {
	return max(sinceStart(), time.Since(initialised))
}

// PeakRSS returns the most bytes of physical memory that the process has had resident, 0 where the
// system does not tell.
func PeakRSS() int64 { return peakRSS() }
