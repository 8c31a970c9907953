package core

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// EventKind says what an [Event] tells.
type EventKind uint8

// The events. Those marked (decides) ask the policy.
const (
	// Admit asks for a job to be let in: Spec, Need. (decides)
	Admit EventKind = iota
	// End takes everything from a job and forgets it: Cause. (decides)
	End
	// Arrive: a request has arrived; the job has work until as many Complete events. (decides)
	Arrive
	// Complete: the oldest request is completed. (decides)
	Complete
	// Begin: an iteration begins; several may be in progress at once. (decides)
	Begin
	// Finish: the iteration that began first is completed. (decides)
	Finish
	// Want: an idle job waits for the device; a resting one runs on if it may. (decides)
	Want
	// Cancel: a waiting job does not wait any more. (decides)
	Cancel
	// Return: a job gives back what it holds, and waits to be granted units again. (decides)
	Return
	// Release: a job gives back what it holds, and is idle. (decides)
	Release
	// Rest: a running job has nothing to do, and keeps its units for as long as nobody else is to
	// have them. (decides)
	Rest
	// Pay charges a job Used of what it kept without paying while it rested or, once it holds
	// nothing, of the time since it gave back, for what goes on on the device; at most all of it.
	Pay
	// Reserve counts Bytes more of Memory as held, or waits until they fit if Wait is set. What is
	// not set apart for the job, it can wait for only outside of an iteration and while it neither
	// waits for units nor, if any job is within an iteration, holds some; it should hold some or
	// have a request, or an iteration to come may find what was reserved asked back. (decides where
	// it begins to wait)
	Reserve
	// Unreserve counts Bytes of Memory as given back: what waits and fits is reserved. (decides)
	Unreserve
	// Withdraw: the job's waiting reservation is no longer wanted. (decides)
	Withdraw
	// Expect: the job says what it expects of its iterations: Next. (decides)
	Expect
	// Change gives a job another share: Spec.Share; what is zero in Spec.Memory keeps the cap.
	// Need, when it is set, is what the job needs from here on. (decides)
	Change
	// Switch changes the policy to Policy, and asks back what is held. Can, if it is set, is what
	// can be enforced on the device from here on. (decides)
	Switch
	// Tick: the time that Wake returned has come. (decides)
	Tick
	// Defer: an idle job wants the device together with others, which it waits for first; it ends
	// with Want, or with a Defer that does not Wait. (decides)
	Defer
	// Look brings the accounts up to the time, for what is asked of them next.
	Look
	// Measure: since the one before, the device was found to have worked Used for a job, and Passed
	// beside that for launches that needed no lease, in Launches together. Who measures may be the
	// job itself: no more is believed than it was charged, and beside that than there was time, and
	// what it is charged stays the same. (decides)
	Measure
	// Moved: the memory of a job that holds units has come to the device for its turn, which took
	// Used. Those for whom it would have to go again wait for the device until that is no more than
	// Config.Moving of the time, or the job had no use for it for as long. (decides)
	Moved
	// Stay: a job that was told to hold less memory (Evicted) has given back all that it can until
	// its next iteration. Others are asked instead.
	Stay
	// Copy: Bytes are moved between host and device for the job.
	Copy
	// Split has Bytes of a job's persistent memory, and Spec.Memory of its cap and of what it
	// needs, be those of a job of their own, Spec, which is let in by this and elastic. What the
	// job has beside is set apart for it from here on. The job must be outside of an iteration,
	// wait for no memory, and have no part in a lane. (decides)
	Split
	// Shelve: the job is kept in case it is wanted again, if Wait is set. What is lent to it is
	// asked back before that of all others, until a request arrives, it begins an iteration, or a
	// Shelve without Wait.
	Shelve
)

var eventNames = [...]string{"admit", "end", "arrive", "complete", "begin", "finish", "want",
	"cancel", "return", "release", "rest", "pay", "reserve", "unreserve", "withdraw", "expect",
	"change", "switch", "tick", "defer", "look", "measure", "moved", "stay", "copy",
	"split", "shelve"}

// String returns the kind's name, such as "admit".
func (k EventKind) String() string { return name(eventNames[:], k, "event") }

// MarshalText writes String's form.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads String's form.
func (k *EventKind) UnmarshalText(text []byte) error {
	return parse(eventNames[:], text, k, "event")
}

func name[K ~uint8](names []string, k K, what string) string {
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(k))
}

func parse[K ~uint8](names []string, text []byte, k *K, what string) error {
	for i, n := range names {
		if n == string(text) {
			*k = K(i)
			return nil
		}
	}
	return fmt.Errorf("%s %q: unknown", what, text)
}

// MemoryKind is what memory is held for.
type MemoryKind uint8

const (
	// Persistent memory is held over iterations: weights, optimizer state.
	Persistent MemoryKind = iota
	// Ephemeral memory is held within an iteration: activations, workspace.
	Ephemeral
)

// String returns "persistent" or "ephemeral".
func (k MemoryKind) String() string {
	if k == Persistent {
		return "persistent"
	}
	return "ephemeral"
}

// Event is something that a driver tells a [Core]. Which fields mean something depends on Kind.
type Event struct {
	Kind EventKind `json:"kind"`
	// At is the time, on the clock of the driver's choice. One before that of an earlier event is
	// taken for that.
	At time.Duration `json:"at"`
	// Job is whom it concerns; unused in Admit, Switch, Tick and Look.
	Job share.JobID `json:"job,omitempty"`

	Spec   *share.Job      `json:"spec,omitempty"` // Admit, Change, Split
	Need   share.Bytes     `json:"need,omitempty"` // Admit, Change: the most memory it will hold by its plan
	Memory MemoryKind      `json:"memory,omitempty"`
	Bytes  share.Bytes     `json:"bytes,omitempty"`
	Wait   bool            `json:"wait,omitempty"`
	Next   *share.Forecast `json:"next,omitempty"`
	Used   time.Duration   `json:"used,omitempty"`   // Pay, Measure: whole-device time; Moved
	Passed time.Duration   `json:"passed,omitempty"` // Measure
	// Launches is for Measure.
	Launches int64 `json:"launches,omitempty"`

	Policy string     `json:"policy,omitempty"` // as policy.New reads it
	Can    *share.Can `json:"can,omitempty"`
	Cause  error      `json:"-"`
}

// NoticeKind says what a [Notice] tells.
type NoticeKind uint8

// The notices.
const (
	Admitted NoticeKind = iota // the job was let in
	Busy                       // it has work from now on
	Granted                    // it holds units from now on
	Resized                    // it holds more units, or until another time, without a break
	Revoked                    // it is to give its units back
	Released                   // it gave them back
	Rested                     // it has no use for what it holds, and pays for it only once Revoked
	Resumed                    // it goes on with what it kept
	Iterated                   // it completed an iteration
	Reserved                   // its waiting reservation is counted as held
	Evicted                    // it is to keep no more than Bytes on the device: Unreserve, or Stay
	Bounded                    // the bounds on its launches and traffic are those of Terms
	Drained                    // it has no more work
	Changed                    // its share is another
	Switched                   // the policy is another
	Ended                      // it is gone
)

var noticeNames = [...]string{"admitted", "busy", "granted", "resized", "revoked", "released",
	"rested", "resumed", "iterated", "reserved", "evicted", "bounded", "drained", "changed",
	"switched", "ended"}

// String returns the kind's name, such as "granted".
func (k NoticeKind) String() string { return name(noticeNames[:], k, "notice") }

// MarshalText writes String's form.
func (k NoticeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads String's form.
func (k *NoticeKind) UnmarshalText(text []byte) error {
	return parse(noticeNames[:], text, k, "notice")
}

// Reason says why a job gave the device back.
type Reason uint8

// The reasons to give the device back.
const (
	ReasonReleased Reason = iota // it had no more use for it, or gave way
	ReasonExpired                // its time was over
	ReasonRevoked                // it was told to
	ReasonEnded                  // it ended
)

var reasonNames = [...]string{"released", "expired", "revoked", "ended"}

// String returns the reason's name, such as "expired".
func (r Reason) String() string { return name(reasonNames[:], r, "reason") }

// MarshalText writes String's form.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads String's form.
func (r *Reason) UnmarshalText(text []byte) error {
	return parse(reasonNames[:], text, r, "reason")
}

// Notice is something that a [Core] says has changed.
type Notice struct {
	Kind NoticeKind  `json:"kind"`
	Job  share.JobID `json:"job,omitempty"`
	Name string      `json:"name,omitempty"`
	// At is when it happened. From is when that began which this notice ends: the hold (Revoked,
	// Released), the rest (Resumed), the iteration (Iterated), the time with work (Drained), the
	// life (Ended). Otherwise it equals At.
	At   time.Duration `json:"at"`
	From time.Duration `json:"from"`
	// Units are those granted, revoked, released or kept at rest.
	Units share.UnitSet `json:"units,omitzero"`
	// Until is when the holder gives way by itself: [share.Forever] where only a notice, or the end
	// of its iteration, ends the hold. Yield is where it gives way.
	Until time.Duration  `json:"until,omitempty"`
	Yield share.Boundary `json:"yield,omitempty"`
	// Reason is why units were released.
	Reason Reason `json:"reason,omitempty"`
	// Bytes are those of Reserved and Evicted.
	Bytes share.Bytes `json:"bytes,omitempty"`
	// Terms are those of Bounded.
	Terms *share.Terms `json:"terms,omitempty"`
	// Err is the cause with which a job ended, if any.
	Err error `json:"-"`
	// Account is what a job that ended got.
	Account *Account `json:"-"`
}
