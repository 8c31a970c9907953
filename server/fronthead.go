package server

import "bytes"

// head is what the head of a request for an inference says.
type head struct {
	model, version, host []byte
	length               int // of the body; -1 where it is not given
	header               int // bytes of JSON in it; -1 where that is not given
	seen                 [len(headFields)]bool
}

// headFields are those that a head may have, in small letters.
var headFields = [...]string{fieldHost: "host", fieldLength: "content-length",
	fieldHeader: "inference-header-content-length", fieldConnection: "connection",
	fieldEncoding: "accept-encoding", fieldType: "content-type", fieldAgent: "user-agent",
	fieldAccept: "accept"}

const (
	fieldHost = iota
	fieldLength
	fieldHeader
	fieldConnection
	fieldEncoding
	fieldType
	fieldAgent
	fieldAccept
)

// The begin and the end of a request line between which the model stands.
const (
	lineBegin = "POST /v2/models/"
	lineOf    = "versions/"
	lineEnd   = "infer HTTP/1.1\r\n"
)

// read reads a request's head at the begin of b, and returns how many bytes it has. It is 0 where
// not all is there, the request is another one, or its head is not as plain as nearly all are: a
// field that is not known or stands twice, a line that begins with a space or ends otherwise than
// with CR LF, a value with other bytes than printable ASCII. So there is nothing about it that two
// readers could understand in two ways (RFC 9112, section 11.2).
func (h *head) read(b []byte) int {
	*h = head{length: -1, header: -1}
	rest, ok := bytes.CutPrefix(b, []byte(lineBegin))
	if ok {
		h.model, rest = segment(rest)
		if tail, versioned := bytes.CutPrefix(rest, []byte(lineOf)); versioned {
			h.version, rest = segment(tail)
		}
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(lineEnd)); !ok || h.model == nil {
		return 0
	}
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 1 || rest[end-1] != '\r' {
			return 0
		}
		line := rest[:end-1]
		if rest = rest[end+1:]; len(line) == 0 {
			break
		}
		if !h.field(line) {
			return 0
		}
	}
	if h.host == nil || h.length < 0 {
		return 0
	}
	return len(b) - len(rest)
}

// segment is a part of a path up to its slash, and what follows that: nil where the part has other
// bytes than those that mean themselves, or means another place.
func segment(b []byte) (part, rest []byte) {
	end := bytes.IndexByte(b, '/')
	if end < 1 || b[0] == '.' {
		return nil, nil
	}
	for _, c := range b[:end] {
		if !plainly(c) {
			return nil, nil
		}
	}
	return b[:end], b[end+1:]
}

// plainly reports whether a byte is a letter, a digit, or one of those between them in names.
func plainly(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' ||
		c == '.'
}

// field takes a line with a field, and reports whether it is one that is understood.
func (h *head) field(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte(":"))
	for _, c := range value {
		ok = ok && c >= ' ' && c <= '~'
	}
	which := fieldOf(name)
	if !ok || which < 0 || h.seen[which] {
		return false
	}
	h.seen[which] = true
	value = bytes.Trim(value, " ")
	switch which {
	case fieldHost:
		h.host = value
		return hostly(value)
	case fieldLength:
		h.length, ok = whole(value)
	case fieldHeader:
		h.header, ok = whole(value)
	case fieldConnection:
		return same(value, "keep-alive")
	case fieldEncoding:
		return same(value, "identity")
	}
	return ok
}

// fieldOf is the number of a field; -1 where it is not known.
func fieldOf(name []byte) int {
	for i, f := range headFields {
		if len(f) == len(name) && same(name, f) {
			return i
		}
	}
	return -1
}

// same reports whether a text is another, which has small letters.
func same(text []byte, small string) bool {
	if len(text) != len(small) {
		return false
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != small[i] {
			return false
		}
	}
	return true
}

// hostly reports whether a text is a host, perhaps with a port.
func hostly(text []byte) bool {
	for _, c := range text {
		if !plainly(c) && c != ':' && c != '[' && c != ']' {
			return false
		}
	}
	return len(text) > 0
}

// whole reads a number without a sign that no sum with another is too large for.
func whole(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(text) > 0 && len(text) <= 9
}
