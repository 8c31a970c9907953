package conv

import (
	order "encoding/binary"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// ImageLen returns how many bytes the copy of the image takes, 0 if the image is not copied.
// ImageChunks returns in how many pieces the copy is made; all of them must be made before the
// first chunk runs.
func (o *NHWC) ImageLen() int {
	if o.tiles != nil {
		return o.tiledImageLen()
	}
	if !o.copies {
		return 0
	}
	return o.p.N*o.high*o.wide*o.size + imageSlack
}

// imageSlack is how many bytes behind the copy of an image kernels may read.
const imageSlack = 4

// ImageChunks is described with [NHWC.ImageLen].
func (o *NHWC) ImageChunks() int {
	rows, pitch := o.imageRows()
	return (rows + rowsPerChunk(pitch) - 1) / rowsPerChunk(pitch)
}

// imageRows is how many rows the copy of the image has, and their bytes.
func (o *NHWC) imageRows() (rows, pitch int) {
	switch {
	case o.tiles != nil:
		return o.tiledImageRows()
	case o.copies:
		return o.p.N * o.high, o.wide * o.size
	}
	return 0, 1
}

// rowsPerChunk is how many rows of so many bytes are made at a time.
func rowsPerChunk(pitch int) int { return max(1, (64<<10)/pitch) }

// FillImage makes piece i of 0 <= i < ImageChunks of the copy of the image.
func (o *NHWC) FillImage(i int, a *NHWCArgs) {
	rows, pitch := o.imageRows()
	per := rowsPerChunk(pitch)
	for r := i * per; r < min((i+1)*per, rows); r++ {
		if row := a.Image[r*pitch:][:pitch]; o.tiles != nil {
			o.fillTiledRow(row, r, a)
		} else {
			o.fillPadded(row, r, a)
		}
	}
}

// fillPadded makes row r of the padded image.
func (o *NHWC) fillPadded(row []byte, r int, a *NHWCArgs) {
	y := r%o.high - o.p.PadLo[1]
	if y < 0 || y >= o.p.In[1] {
		fillBytes(row, a.Zero)
		return
	}
	lo := o.p.PadLo[2] * o.size
	hi := lo + o.p.In[2]*o.size
	fillBytes(row[:lo], a.Zero)
	o.fillRow(row[lo:hi], a, r/o.high, y)
	fillBytes(row[hi:], a.Zero)
}

// fillRow copies row y of image n.
func (o *NHWC) fillRow(dst []byte, a *NHWCArgs, n, y int) {
	cols, c := o.p.In[2], o.p.C
	switch {
	case o.planar:
		o.joinPlanes(dst, a, n, y)
	case c%4 == 0:
		vec.CopyRows(dst, 0, a.X[(n*o.p.In[1]+y)*cols*c:], 0, cols*c, 1, a.Flip)
	default:
		flip := flipOf(a.Flip)
		src := a.X[(n*o.p.In[1]+y)*cols*c:][:cols*c]
		for len(src) > 0 {
			for i, b := range src[:c] {
				dst[i] = b ^ flip
			}
			clear(dst[c:o.size])
			dst, src = dst[o.size:], src[c:]
		}
	}
}

// joinPlanes makes pixels of one byte of each of up to four planes. What a missing plane leaves in
// a word meets weights of 0.
func (o *NHWC) joinPlanes(dst []byte, a *NHWCArgs, n, y int) {
	cols, plane := o.p.In[2], o.p.In[1]*o.p.In[2]
	var planes [4 * 256]byte
	var words [256]uint32
	for x := 0; x < cols; {
		w := min(256, cols-x)
		at := n*o.p.C*plane + y*cols + x
		for c := range o.p.C {
			copy(planes[c*w:][:w], a.X[at+c*plane:])
		}
		to := words[:w]
		if o.size == 4 {
			to = vec.AsWords(vec.AsFloats(dst[4*x:][:4*w]))
		}
		vec.Interleave(to, planes[:], w, a.Flip)
		if o.size < 4 {
			o.putPixels(dst[x*o.size:][:w*o.size], to)
		}
		x += w
	}
}

// putPixels writes the low bytes of words, less than four.
func (o *NHWC) putPixels(dst []byte, words []uint32) {
	for o.size == 3 && len(words) >= 4 {
		a, b, c, d := words[0]&0xffffff, words[1]&0xffffff, words[2]&0xffffff, words[3]
		order.LittleEndian.PutUint32(dst, a|b<<24)
		order.LittleEndian.PutUint32(dst[4:], b>>8|c<<16)
		order.LittleEndian.PutUint32(dst[8:], c>>16|d<<8)
		dst, words = dst[12:], words[4:]
	}
	for _, w := range words {
		for i := range o.size {
			dst[i] = byte(w >> (8 * i))
		}
		dst = dst[o.size:]
	}
}

// fillBytes sets all bytes to b.
func fillBytes(x []byte, b byte) {
	if len(x) > 0 {
		x[0] = b
	}
	for n := 1; n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}
