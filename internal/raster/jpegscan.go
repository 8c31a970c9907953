package raster

import "image"

// jpegScan decodes the coefficients of a baseline JPEG file of one scan (ITU-T T.81, annexes B and
// F) to samples, the one step of which package image/jpeg gives other bits than libjpeg. It gives
// up on everything else.
type jpegScan struct {
	data          []byte
	at            int
	width, height int
	interval      int // MCUs between restarts
	quant         [4][64]int32
	huffman       [2][4]huffmanTable // DC and AC
	parts         []jpegPart
	bits          uint32
	have          int // bits that are left in bits
}

// jpegPart is one component.
type jpegPart struct {
	id, quant    byte
	across, down int // sampling factors
	tables       [2]byte
	plane        []byte
	stride       int
	last         int32 // DC coefficient of the block before
}

// huffmanTable tells for each length of code the first code, the code after the last, and where its
// values start.
type huffmanTable struct {
	first, end [17]int
	value      [17]int
	values     []byte
}

var zigzag = [64]byte{
	0,
	1,
	8,
	16,
	9,
	2,
	3,
	10,
	17,
	24,
	32,
	25,
	18,
	11,
	4,
	5,
	12,
	19,
	26,
	33,
	40,
	48,
	41,
	34,
	27,
	20,
	13,
	6,
	7,
	14,
	21,
	28,
	35,
	42,
	49,
	56,
	57,
	50,
	43,
	36,
	29,
	22,
	15,
	23,
	30,
	37,
	44,
	51,
	58,
	59,
	52,
	45,
	38,
	31,
	39,
	46,
	53,
	60,
	61,
	54,
	47,
	55,
	62,
	63,
}

// exactPlanes decodes a file that package image/jpeg has decoded to m, nil when it is none of those
// that the scan knows.
func exactPlanes(data []byte, m *image.YCbCr) *image.YCbCr {
	s := &jpegScan{data: data, at: 2}
	if !s.segments() || s.width != m.Rect.Dx() || s.height != m.Rect.Dy() || len(s.parts) != 3 ||
		!s.decode() {
		return nil
	}
	out := *m
	out.Y, out.YStride = s.parts[0].plane, s.parts[0].stride
	out.Cb, out.Cr, out.CStride = s.parts[1].plane, s.parts[2].plane, s.parts[1].stride
	if s.parts[2].stride != out.CStride {
		return nil
	}
	return &out
}

// exactGray is exactPlanes for one component.
func exactGray(data []byte, m *image.Gray) *image.Gray {
	s := &jpegScan{data: data, at: 2}
	if !s.segments() || s.width != m.Rect.Dx() || s.height != m.Rect.Dy() || len(s.parts) != 1 ||
		!s.decode() {
		return nil
	}
	out := *m
	out.Pix, out.Stride = s.parts[0].plane, s.parts[0].stride
	return &out
}

// segments reads up to the first scan.
func (s *jpegScan) segments() bool {
	for s.at+4 <= len(s.data) {
		if s.data[s.at] != 0xff {
			return false
		}
		marker := s.data[s.at+1]
		if marker == 0xff { // fill
			s.at++
			continue
		}
		size := int(s.data[s.at+2])<<8 | int(s.data[s.at+3])
		if size < 2 || s.at+2+size > len(s.data) {
			return false
		}
		body := s.data[s.at+4 : s.at+2+size]
		s.at += 2 + size
		if marker == 0xda {
			return s.scan(body)
		}
		if !s.segment(marker, body) {
			return false
		}
	}
	return false
}

// segment reads what stands before a scan.
func (s *jpegScan) segment(marker byte, body []byte) bool {
	switch {
	case marker == 0xdb:
		return s.quantTables(body)
	case marker == 0xc4:
		return s.huffmanTables(body)
	case marker == 0xc0 || marker == 0xc1:
		return s.frame(body)
	case marker == 0xdd && len(body) == 2:
		s.interval = int(body[0])<<8 | int(body[1])
	case marker >= 0xc2 && marker <= 0xcf: // progressive, lossless, arithmetic
		return false
	}
	return true
}

func (s *jpegScan) quantTables(b []byte) bool {
	for len(b) > 0 {
		id, wide := b[0]&15, int(b[0]>>4)
		if id > 3 || wide > 1 || len(b) < 1+64*(1+wide) {
			return false
		}
		for i, z := range zigzag {
			s.quant[id][z] = int32(b[1+i])
			if wide == 1 {
				s.quant[id][z] = int32(b[1+2*i])<<8 | int32(b[2+2*i])
			}
		}
		b = b[1+64*(1+wide):]
	}
	return true
}

func (s *jpegScan) huffmanTables(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 17 || b[0]>>4 > 1 || b[0]&15 > 3 {
			return false
		}
		h := &s.huffman[b[0]>>4][b[0]&15]
		*h = huffmanTable{}
		code, n := 0, 0
		for length := 1; length <= 16; length++ {
			h.first[length], h.value[length] = code, n
			code += int(b[length])
			n += int(b[length])
			h.end[length] = code
			code *= 2
		}
		if len(b) < 17+n {
			return false
		}
		h.values = b[17 : 17+n]
		b = b[17+n:]
	}
	return true
}

func (s *jpegScan) frame(b []byte) bool {
	if len(b) < 6 || b[0] != 8 || len(b) != 6+3*int(b[5]) || s.parts != nil {
		return false
	}
	s.height, s.width = int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	for b = b[6:]; len(b) > 0; b = b[3:] {
		p := jpegPart{id: b[0], across: int(b[1] >> 4), down: int(b[1] & 15), quant: b[2]}
		if p.across < 1 || p.across > 4 || p.down < 1 || p.down > 4 || p.quant > 3 {
			return false
		}
		s.parts = append(s.parts, p)
	}
	if len(s.parts) == 1 { // the blocks of a single component are in order, whatever its factors
		s.parts[0].across, s.parts[0].down = 1, 1
	}
	return s.width > 0 && s.height > 0
}

// scan reads the header of a scan, which must hold all components in the frame's order.
func (s *jpegScan) scan(b []byte) bool {
	n := len(s.parts)
	if n == 0 || len(b) != 4+2*n || int(b[0]) != n {
		return false
	}
	for i := range s.parts {
		p := &s.parts[i]
		p.tables = [2]byte{b[2+2*i] >> 4, b[2+2*i] & 15}
		if b[1+2*i] != p.id || p.tables[0] > 3 || p.tables[1] > 3 {
			return false
		}
	}
	return true
}

// decode reads all MCUs.
func (s *jpegScan) decode() bool {
	columns, rows := s.makePlanes()
	for mcu := range columns * rows {
		if s.interval > 0 && mcu > 0 && mcu%s.interval == 0 {
			s.restart()
		}
		for i := range s.parts {
			p := &s.parts[i]
			for k := range p.across * p.down {
				x, y := mcu%columns*p.across+k%p.across, mcu/columns*p.down+k/p.across
				if !s.block(p, p.plane[y*8*p.stride+x*8:]) {
					return false
				}
			}
		}
	}
	return true
}

// makePlanes makes a plane for each part, and returns how many units of blocks the image has.
func (s *jpegScan) makePlanes() (columns, rows int) {
	across, down := 1, 1
	for _, p := range s.parts {
		across, down = max(across, p.across), max(down, p.down)
	}
	columns, rows = (s.width+8*across-1)/(8*across), (s.height+8*down-1)/(8*down)
	for i := range s.parts {
		p := &s.parts[i]
		p.stride = columns * p.across * 8
		p.plane = make([]byte, p.stride*rows*p.down*8)
	}
	return columns, rows
}

// restart goes to the next marker RSTn.
func (s *jpegScan) restart() {
	s.bits, s.have = 0, 0
	for s.at+1 < len(s.data) && (s.data[s.at] != 0xff || s.data[s.at+1]&0xf8 != 0xd0) {
		s.at++
	}
	s.at = min(s.at+2, len(s.data))
	for i := range s.parts {
		s.parts[i].last = 0
	}
}

// block decodes 8 × 8 samples.
func (s *jpegScan) block(p *jpegPart, to []byte) bool {
	var b [64]int32
	quant := &s.quant[p.quant]
	size, ok := s.symbol(&s.huffman[0][p.tables[0]])
	if !ok || size > 16 {
		return false
	}
	p.last += s.number(int(size))
	b[0] = p.last * quant[0]
	for k := 1; k < 64; k++ {
		code, ok := s.symbol(&s.huffman[1][p.tables[1]])
		if !ok {
			return false
		}
		run, size := int(code>>4), int(code&15)
		if size == 0 && run < 15 {
			break
		}
		if k += run; k > 63 {
			return false
		}
		b[zigzag[k]] = s.number(size) * quant[zigzag[k]]
	}
	inverseDCT(&b)
	for i, v := range b {
		to[i/8*p.stride+i%8] = clip(int(v) + 128)
	}
	return true
}

// bit reads one bit; after the end of the scan all are 0.
func (s *jpegScan) bit() int {
	if s.have == 0 {
		s.bits, s.have = 0, 8
		if s.at < len(s.data) &&
			(s.data[s.at] != 0xff || s.at+1 < len(s.data) && s.data[s.at+1] == 0) {
			s.bits = uint32(s.data[s.at])
			if s.at++; s.bits == 0xff {
				s.at++
			}
		}
	}
	s.have--
	return int(s.bits >> s.have & 1)
}

// symbol reads one Huffman code.
func (s *jpegScan) symbol(h *huffmanTable) (byte, bool) {
	code := 0
	for length := 1; length <= 16; length++ {
		code = 2*code + s.bit()
		if code < h.end[length] && code >= h.first[length] {
			return h.values[h.value[length]+code-h.first[length]], true
		}
	}
	return 0, false
}

// number reads a number of the given size: those whose first bit is 0 are negative (T.81, F.2.2.1).
func (s *jpegScan) number(size int) int32 {
	v := int32(0)
	for range size {
		v = 2*v + int32(s.bit())
	}
	if size > 0 && v < 1<<(size-1) {
		v -= 1<<size - 1
	}
	return v
}
