package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// WriteJSON writes the events kept so far as one JSON object in the Trace Event Format (Google,
// "Trace Event Format", JSON Object Format). The object's member "otherData" has the number of
// events dropped as "dropped". Events may be recorded meanwhile; those that begin after the call
// are left out. The error is the writer's.
func (r *Recorder) WriteJSON(w io.Writer) error {
	out := &writer{w: bufio.NewWriterSize(w, 1<<16)}
	out.text(`{"displayTimeUnit":"ms","otherData":{"dropped":"`)
	out.buf = strconv.AppendInt(out.buf, r.Dropped(), 10)
	out.text(`"},"traceEvents":[`)
	if r != nil {
		r.writeTracks(out)
		events := r.events[:r.Len()]
		for i := range events {
			if e := &events[i]; e.ready.Load() {
				out.event(e)
			}
		}
	}
	out.text("\n]}\n")
	out.flush()
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("write trace: %w", out.err)
	}
	return nil
}

// writeTracks writes the metadata that names processes and threads.
func (r *Recorder) writeTracks(out *writer) {
	r.mu.Lock()
	tracks := slices.Clone(r.tracks)
	r.mu.Unlock()
	named := map[int32]bool{}
	for _, t := range tracks {
		if !named[t.track.process] {
			named[t.track.process] = true
			out.metadata("process", t.track, t.process, t.track.process)
		}
		out.metadata("thread", t.track, t.thread, t.track.thread)
	}
}

// writer appends JSON to a buffer that it empties now and then. It keeps the first error.
type writer struct {
	w     *bufio.Writer
	buf   []byte
	comma bool
	err   error
}

func (o *writer) text(s string) { o.buf = append(o.buf, s...) }

// str appends s as a JSON string; bytes that are not UTF-8 are replaced.
func (o *writer) str(s string) {
	b, err := json.Marshal(s)
	if err != nil && o.err == nil {
		o.err = err
	}
	o.buf = append(o.buf, b...)
}

// micros appends a time in microseconds, exact to the nanosecond.
func (o *writer) micros(d time.Duration) {
	if d < 0 {
		o.text("-")
	}
	n := uint64(max(d, -d))
	o.buf = strconv.AppendUint(o.buf, n/1000, 10)
	o.buf = append(o.buf, '.', byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
}

// begin opens an event's object. Numbers begin at 1, because thread 0 is the idle thread to some
// readers.
func (o *writer) begin(p string, t Track, name string) {
	if o.comma {
		o.text(",")
	}
	o.comma = true
	o.text("\n{\"ph\":\"")
	o.text(p)
	o.text(`","pid":`)
	o.buf = strconv.AppendInt(o.buf, int64(t.process)+1, 10)
	o.text(`,"tid":`)
	o.buf = strconv.AppendInt(o.buf, int64(t.thread)+1, 10)
	o.text(`,"name":`)
	o.str(name)
}

// end closes an event's object.
func (o *writer) end() {
	o.text("}")
	if len(o.buf) > 1<<15 {
		o.flush()
	}
}

func (o *writer) flush() {
	if o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

// metadata names a process or a thread and gives its place in the order.
func (o *writer) metadata(kind string, t Track, name string, place int32) {
	o.begin("M", t, kind+"_name")
	o.text(`,"args":{"name":`)
	o.str(name)
	o.text("}")
	o.end()
	o.begin("M", t, kind+"_sort_index")
	o.text(`,"args":{"sort_index":`)
	o.buf = strconv.AppendInt(o.buf, int64(place), 10)
	o.text("}")
	o.end()
}

func (o *writer) event(e *event) {
	o.begin(string(rune(e.phase)), e.track, e.name)
	o.text(`,"ts":`)
	o.micros(e.at)
	switch e.phase {
	case span:
		o.text(`,"dur":`)
		o.micros(e.duration)
		o.args(e.args[:e.nargs])
	case instant:
		o.text(`,"s":"t"`) // drawn on its own track only
		o.args(e.args[:e.nargs])
	case counter:
		o.text(`,"args":{"value":`)
		o.buf = strconv.AppendFloat(o.buf, math.Float64frombits(e.id), 'g', -1, 64)
		o.text("}")
	case flowStart, flowStep, flowEnd:
		// A string, because JSON readers lose digits of large numbers. "bp":"e" binds the end to
		// the enclosing span instead of the next one.
		o.text(`,"cat":"flow","bp":"e","id":"`)
		o.buf = strconv.AppendUint(append(o.buf, "0x"...), e.id, 16)
		o.text(`"`)
	}
	o.end()
}

func (o *writer) args(args []Arg) {
	if len(args) == 0 {
		return
	}
	o.text(`,"args":{`)
	for i, a := range args {
		if i > 0 {
			o.text(",")
		}
		o.str(a.key)
		o.text(":")
		o.value(a)
	}
	o.text("}")
}

func (o *writer) value(a Arg) {
	switch a.kind {
	case intArg:
		o.buf = strconv.AppendInt(o.buf, int64(a.bits), 10)
	case floatArg:
		v := math.Float64frombits(a.bits)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			o.str(strconv.FormatFloat(v, 'g', -1, 64))
			return
		}
		o.buf = strconv.AppendFloat(o.buf, v, 'g', -1, 64)
	default:
		o.str(a.text)
	}
}
