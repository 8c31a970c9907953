package telemetry

import (
	"sync/atomic"
	"time"
)

// Phase is a moment in the life of a request.
type Phase int

// The phases, in the order in which they come. A request that fails has not all of them.
const (
	Received Phase = iota // the request's head came
	Decoded               // its body is read and understood
	Admitted              // it has a place in its model's queue
	Formed                // it and those that run with it were taken from the queue
	Placed                // its inputs lie where the model reads them
	Granted               // the device is the model's
	Computed              // the model has run
	Answered              // its answer is cut out and taken from the device
	Encoded               // its answer is as it is sent
	Sent                  // its answer is written
	phases
)

// marks are when a request came into each phase, in nanoseconds of the recorder's clock; 0 where it
// did not. A request that gives up is ended while what runs it still marks it.
type marks [phases]atomic.Int64

// moments returns the marks up to the last; what was passed over has the moment of the phase
// before.
func (m *marks) moments() (at moments) {
	last := Received
	for p := range m {
		at[p] = time.Duration(m[p].Load())
		if at[p] != 0 {
			last = Phase(p)
		}
	}
	for p := Phase(1); p <= last; p++ {
		at[p] = max(at[p], at[p-1])
	}
	return at
}

// moments are when a request came into each phase up to the last that it reached.
type moments [phases]time.Duration

// queued is how long a request waited: for its turn and others to run with, and for the device.
func (m *moments) queued() time.Duration {
	return m[Formed] - m[Admitted] + m[Granted] - m[Placed]
}
