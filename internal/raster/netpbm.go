package raster

import (
	"fmt"
	"image"
)

// netpbm reads the portable formats: PBM (P1, P4), PGM (P2, P5), PPM (P3, P6) and PAM (P7), as
// netpbm's manual describes them.
type netpbm struct {
	data              []byte
	at                int
	kind              byte
	width, height     int
	channels, largest int // samples of a pixel, and the value of white
}

// header reads up to the first sample.
func (n *netpbm) header() error {
	n.kind, n.at = n.data[1], 2
	n.channels, n.largest = 1, 1
	switch n.kind {
	case '1', '4':
		return n.numbers(&n.width, &n.height)
	case '3', '6':
		n.channels = 3
		fallthrough
	case '2', '5':
		return n.numbers(&n.width, &n.height, &n.largest)
	case '7':
		return n.pam()
	}
	return fmt.Errorf("%w: portable format P%c", ErrImage, n.kind)
}

// pam reads the lines of a PAM header, each a name and a value.
func (n *netpbm) pam() error {
	fields := map[string]*int{
		"WIDTH":  &n.width,
		"HEIGHT": &n.height,
		"DEPTH":  &n.channels,
		"MAXVAL": &n.largest,
	}
	for {
		name := n.word()
		switch to := fields[name]; {
		case name == "":
			return fmt.Errorf("%w: PAM header without ENDHDR", ErrImage)
		case name == "ENDHDR":
			return n.check()
		case to != nil:
			v, err := n.number()
			if err != nil {
				return err
			}
			*to = v
		default: // TUPLTYPE says nothing that DEPTH does not
			n.word()
		}
	}
}

// numbers reads decimal numbers into to.
func (n *netpbm) numbers(to ...*int) (err error) {
	for _, p := range to {
		if *p, err = n.number(); err != nil {
			return err
		}
	}
	return n.check()
}

func (n *netpbm) check() error {
	if n.width < 1 || n.height < 1 || n.largest < 1 || n.largest > 65535 || n.channels < 1 ||
		n.channels > 4 {
		return fmt.Errorf("%w: portable image of %d × %d × %d samples up to %d", ErrImage, n.width,
			n.height, n.channels, n.largest)
	}
	return nil
}

// word reads up to white space and the one character of it that follows. Comments begin with #.
func (n *netpbm) word() string {
	for n.at < len(n.data) && (blank(n.data[n.at]) || n.data[n.at] == '#') {
		if n.data[n.at] == '#' {
			for n.at < len(n.data) && n.data[n.at] != '\n' {
				n.at++
			}
			continue
		}
		n.at++
	}
	from := n.at
	for n.at < len(n.data) && !blank(n.data[n.at]) && n.at-from < 32 {
		n.at++
	}
	word := string(n.data[from:n.at])
	n.at = min(n.at+1, len(n.data))
	return word
}

func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func (n *netpbm) number() (int, error) {
	word, v := n.word(), 0
	for _, c := range []byte(word) {
		if c < '0' || c > '9' || v > MaxPixels {
			return 0, fmt.Errorf("%w: %q is no size of a portable image", ErrImage, word)
		}
		v = 10*v + int(c-'0')
	}
	if word == "" {
		return 0, fmt.Errorf("%w: portable image ends in its header", ErrImage)
	}
	return v, nil
}

func netpbmSize(data []byte) (width, height int, err error) {
	n := &netpbm{data: data}
	err = n.header()
	return n.width, n.height, err
}

func decodeNetpbm(data []byte) (*Image, error) {
	n := &netpbm{data: data}
	if err := n.header(); err != nil {
		return nil, err
	}
	out := newImage(image.Rect(0, 0, n.width, n.height))
	var samples [4]byte
	for i := range n.width * n.height {
		for k := range n.channels {
			v, err := n.sample(i, k)
			if err != nil {
				return nil, err
			}
			samples[k] = v
		}
		if n.channels < 3 { // grey, with or without alpha
			samples[1], samples[2] = samples[0], samples[0]
		}
		copy(out.RGB[3*i:], samples[:3])
	}
	return out, nil
}

// sample returns sample k of pixel i, scaled to 255. PBM has a bit a pixel, 1 for black, its rows
// padded to bytes.
func (n *netpbm) sample(i, k int) (byte, error) {
	switch n.kind {
	case '1':
		for n.at < len(n.data) && blank(n.data[n.at]) {
			n.at++
		}
		if n.at < len(n.data) {
			n.at++
			return 255 * byte(1-n.data[n.at-1]&1), nil
		}
		return 0, errShort
	case '2', '3':
		v, err := n.number()
		return n.scaled(v), err
	case '4':
		at := n.at + i/n.width*((n.width+7)/8) + i%n.width/8
		if at >= len(n.data) {
			return 0, errShort
		}
		return 255 * (1 - n.data[at]>>(7-i%n.width%8)&1), nil
	}
	return n.binary(i*n.channels + k)
}

// binary is a sample of one byte, or of two where the largest value takes two.
func (n *netpbm) binary(at int) (byte, error) {
	wide := n.largest > 255
	if wide {
		at *= 2
	}
	if at += n.at; at+boolInt(wide) >= len(n.data) {
		return 0, errShort
	}
	if wide {
		return n.scaled(int(n.data[at])<<8 | int(n.data[at+1])), nil
	}
	return n.scaled(int(n.data[at])), nil
}

var errShort = fmt.Errorf("%w: portable image has fewer samples than its header says", ErrImage)

// scaled brings v from [0, largest] to a byte.
func (n *netpbm) scaled(v int) byte { return clip((v*255 + n.largest/2) / n.largest) }
