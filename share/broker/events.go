package broker

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// EventKind says what happened.
type EventKind uint8

// The events of a job's life.
const (
	Admitted EventKind = iota // the job was let in
	Busy                      // it has work from now on
	Granted                   // it holds the device from now on
	Revoked                   // it was told to give the device back
	Released                  // it gave the device back
	Iterated                  // it completed an iteration
	Drained                   // it has no more work
	Ended                     // it is gone
)

var kindNames = [...]string{"admitted", "busy", "granted", "revoked", "released", "iterated",
	"drained", "ended"}

// String returns the kind's name, such as "granted".
func (k EventKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Reason says why a job gave the device back.
type Reason uint8

// The reasons to give the device back.
const (
	ReasonReleased Reason = iota // it had no more use for it, or gave way
	ReasonExpired                // its time was over
	ReasonRevoked                // the policy wanted the device for another
	ReasonEnded                  // it ended
)

var reasonNames = [...]string{"released", "expired", "revoked", "ended"}

// String returns the reason's name, such as "expired".
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Event is something that happened to a job. Times are on the broker's clock.
type Event struct {
	Kind EventKind
	Job  share.JobID
	Name string
	// At is when it happened. From is when that began which this event ends: the hold (Revoked,
	// Released), the iteration (Iterated), the time with work (Drained), the life (Ended).
	// Otherwise it equals At.
	At, From time.Duration
	// Units is the number of compute units granted, revoked or released.
	Units int
	// Until is the end of a lease granted.
	Until time.Duration
	// Reason is why the device was released.
	Reason Reason
	// Err is the cause with which a job ended, if any.
	Err error
}

// Observer is told of events in their order. Observe is called with the broker's lock held: it must
// return soon, and must not call the broker.
type Observer interface {
	Observe(Event)
}

func (b *Broker) observe(j *Job, e Event) {
	if b.observer == nil {
		return
	}
	e.Job, e.Name = j.state.ID, j.spec.Name
	b.observer.Observe(e)
}
