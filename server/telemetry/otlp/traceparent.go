package otlp

import "encoding/hex"

// Parent is where a request stands in a trace of its client's (W3C, "Trace Context", level 1).
type Parent struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
	State   string // tracestate
}

// ParseParent reads the headers traceparent and tracestate. Of a version that is not known, what
// the first has is read. Without a valid traceparent ok is false: a trace begins anew, as the
// specification has it. A state that is longer than 512 bytes is dropped.
func ParseParent(traceparent, state string) (p Parent, ok bool) {
	// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	const length = 55
	s := traceparent
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	if !lower(s[:length]) || !unhex(version[:], s[:2]) || !unhex(p.Trace[:], s[3:35]) ||
		!unhex(p.Span[:], s[36:52]) || !unhex(flags[:], s[53:55]) {
		return Parent{}, false
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(s) != length,
		len(s) > length && s[length] != '-', p.Trace == TraceID{}, p.Span == SpanID{}:
		return Parent{}, false
	}
	p.Sampled = flags[0]&1 != 0
	if len(state) <= 512 {
		p.State = state
	}
	return p, true
}

func unhex(dst []byte, s string) bool {
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

// lower reports whether there are no capital letters, which the specification does not allow.
func lower(s string) bool {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

// Traceparent is the header that hands a span on.
func Traceparent(t TraceID, s SpanID, sampled bool) string {
	flags := "-00"
	if sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(t[:]) + "-" + hex.EncodeToString(s[:]) + flags
}
