package rpc

import "encoding/binary"

// frames follows the frames of HTTP/2 in what a client sends (RFC 9113, section 4).
type frames struct {
	skip int // bytes that are no frames: the preface

	header [9]byte
	have   int // bytes of header
	kind   byte
	flags  byte
	stream uint32
	left   int // of the payload
	padded bool
	pad    int // bytes at the payload's end that mean nothing

	opened uint32 // the stream of the header block that ended last
}

// The kinds and flags of frames that are looked at (RFC 9113, section 6).
const (
	kindData, kindHeaders, kindContinuation = 0, 1, 9
	flagEndHeaders, flagPadded              = 4, 8
)

// scan follows b and returns how many bytes of it may be passed on: to the end of the frame that
// ends a block of headers, else all. Contents of messages are counted by c's calls.
func (f *frames) scan(c *conn, b []byte) int {
	at := min(f.skip, len(b))
	f.skip -= at
	for at < len(b) {
		if f.left == 0 {
			n := copy(f.header[f.have:], b[at:])
			at, f.have = at+n, f.have+n
			if f.have < len(f.header) {
				break
			}
			f.begin()
		} else {
			at += f.payload(c, b[at:])
		}
		if f.left == 0 && f.have == 0 && f.ends() {
			f.opened = f.stream
			break
		}
	}
	return at
}

// begin reads a frame's header.
func (f *frames) begin() {
	h := f.header
	f.have = 0
	f.left = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	f.kind, f.flags = h[3], h[4]
	f.stream = binary.BigEndian.Uint32(h[5:]) &^ (1 << 31)
	f.pad = 0
	f.padded = f.kind == kindData && f.flags&flagPadded != 0 && f.left > 0
}

// ends reports whether the frame that has ended ends a block of headers.
func (f *frames) ends() bool {
	return (f.kind == kindHeaders || f.kind == kindContinuation) && f.flags&flagEndHeaders != 0
}

// payload follows a part of a frame's payload, and returns how long it is.
func (f *frames) payload(c *conn, b []byte) int {
	if f.padded {
		f.padded, f.pad = false, int(b[0])
		f.left--
		return 1
	}
	n := min(f.left, len(b))
	if f.kind == kindData {
		if said := min(n, max(0, f.left-f.pad)); said > 0 {
			c.data(f.stream, b[:said])
		}
	}
	f.left -= n
	return n
}
