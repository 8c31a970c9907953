package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/weirgpu/weir/share"
)

// Recorder writes what a core is told and answers, one JSON object a line, for [Replay].
type Recorder struct {
	enc *json.Encoder
	err error
}

// record is one line.
type record struct {
	Event   Event    `json:"event"`
	Cause   string   `json:"cause,omitempty"`
	Notices []Notice `json:"notices"`
	Error   string   `json:"error,omitempty"`
}

// NewRecorder returns a recorder that writes to w.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{enc: json.NewEncoder(w)} }

// Step tells the core of an event, as [Core.Step], and writes both sides down. An event that was
// refused and that JSON cannot carry, such as a share of NaN, is written as a Look: all that it
// changed is the time.
func (r *Recorder) Step(c *Core, e Event) ([]Notice, error) {
	notices, err := c.Step(e)
	if e.Kind == Change && e.Spec != nil { // the rest of it is not heeded, whatever it is
		e.Spec = &share.Job{Share: e.Spec.Share}
	}
	if r.err == nil {
		rec := newRecord(e, notices, err)
		if err != nil && len(notices) == 0 && !carried(&e) {
			rec = newRecord(Event{Kind: Look, At: e.At}, notices, nil)
		}
		r.err = r.enc.Encode(rec)
	}
	return notices, err
}

// carried reports whether an event is the same after JSON has carried it.
func carried(e *Event) bool {
	text, err := json.Marshal(e)
	if err != nil {
		return false
	}
	var got Event
	err = json.Unmarshal(text, &got)
	got.Cause = e.Cause
	return err == nil && reflect.DeepEqual(got, *e)
}

// Err returns the first error in writing, if any.
func (r *Recorder) Err() error { return r.err }

func newRecord(e Event, notices []Notice, err error) record {
	rec := record{Event: e, Notices: notices}
	if e.Cause != nil {
		rec.Cause = e.Cause.Error()
	}
	if err != nil {
		rec.Error = err.Error()
	}
	return rec
}

// ErrDiffers is the kind of the error for a core that answers otherwise than was recorded.
var ErrDiffers = errors.New("decides otherwise")

// Replay tells a new core, made with the recorded core's configuration, the events of a recording,
// and returns how many there were. The error is an [ErrDiffers] that shows the first event to which
// it answers otherwise than was recorded, or says what is wrong with the recording.
func Replay(c *Core, r io.Reader) (int, error) {
	dec := json.NewDecoder(r)
	for n := 0; ; n++ {
		var was struct {
			record
			Notices json.RawMessage `json:"notices"`
		}
		if err := dec.Decode(&was); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, fmt.Errorf("recording, event %d: %w", n, err)
		}
		e := was.Event
		if was.Cause != "" {
			e.Cause = errors.New(was.Cause)
		}
		notices, err := c.Step(e)
		is := newRecord(e, notices, err)
		got, err := json.Marshal(is.Notices)
		if err != nil {
			return n, err
		}
		if string(got) != string(was.Notices) || is.Error != was.Error {
			return n, fmt.Errorf("event %d, %v of job %d at %v: %w: %s %q, recorded %s %q", n,
				e.Kind, e.Job, e.At, ErrDiffers, got, is.Error, was.Notices, was.Error)
		}
	}
}
