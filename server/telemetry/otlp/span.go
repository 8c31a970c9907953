package otlp

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// TraceID names a trace; all zero is none.
type TraceID [16]byte

// SpanID names a span of a trace; all zero is none.
type SpanID [8]byte

// String is the name as others write it.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// NewTraceID returns a random name.
func NewTraceID() (id TraceID) {
	binary.LittleEndian.PutUint64(id[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], rand.Uint64()|1) // never none
	return id
}

// NewSpanID returns a random name.
func NewSpanID() (id SpanID) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// Kind is what a span is to others (opentelemetry/proto/trace/v1/trace.proto, SpanKind).
type Kind int

// The kinds that are used.
const (
	Internal Kind = 1
	Server   Kind = 2
)

// Span is a part of a trace.
type Span struct {
	Trace  TraceID
	ID     SpanID
	Parent SpanID // none: the span begins the trace
	State  string // W3C's tracestate, as it came
	Name   string
	Kind   Kind
	Begin  time.Time
	End    time.Time
	Attrs  []Attr
	Failed bool
	Reason string // why it failed
}

// Attr is a named value of a span.
type Attr struct {
	Key    string
	Text   string
	Number int64
	IsText bool
}

// Text is a named text.
func Text(key, value string) Attr { return Attr{Key: key, Text: value, IsText: true} }

// Int is a named whole number.
func Int(key string, value int64) Attr { return Attr{Key: key, Number: value} }
