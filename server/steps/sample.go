package steps

import (
	"encoding/binary"
	"math/rand/v2"
)

// sampleSide is the width and height of a sample.
const sampleSide = 16

// Sample is a random value that an input takes, to try a model with: a picture where that is what
// the input is; "" where any text does.
func (f *File) Sample(input string, rng *rand.Rand) string {
	for i := range f.Pre {
		if f.Pre[i].From == input && f.Pre[i].Steps[0].Decode != nil {
			return bitmap(rng)
		}
	}
	return ""
}

// bitmap is a file of Windows' format BMP (BITMAPINFOHEADER, 24 bits a pixel), which needs no
// encoder.
func bitmap(rng *rand.Rand) string {
	const head, size = 54, 3 * sampleSide * sampleSide
	b := make([]byte, head+size)
	copy(b, "BM")
	put := binary.LittleEndian.PutUint32
	put(b[2:], head+size)
	put(b[10:], head)
	put(b[14:], 40)
	put(b[18:], sampleSide)
	put(b[22:], sampleSide)
	b[26], b[28] = 1, 24
	for i := range size {
		b[head+i] = byte(rng.IntN(256))
	}
	return string(b)
}
