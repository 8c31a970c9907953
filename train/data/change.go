package data

import (
	"math/rand/v2"

	"github.com/weirgpu/weir/tensor"
)

// Image changes one image of channels, rows and columns in place, at random.
type Image func(r *rand.Rand, at []float32, channels, height, width int)

// Flip mirrors every other image from left to right.
func Flip(r *rand.Rand, at []float32, channels, height, width int) {
	if r.IntN(2) == 0 {
		return
	}
	for ; len(at) >= width && width > 0; at = at[width:] {
		row := at[:width]
		for i := range width / 2 {
			row[i], row[width-1-i] = row[width-1-i], row[i]
		}
	}
}

// Crop moves an image by at most so many pixels in each direction; zeros move in.
func Crop(by int) Image {
	return func(r *rand.Rand, at []float32, channels, height, width int) {
		down, right := r.IntN(2*by+1)-by, r.IntN(2*by+1)-by
		old := append([]float32(nil), at...)
		clear(at)
		for c := range channels {
			for y := range height {
				from := y + down
				if from < 0 || from >= height {
					continue
				}
				row := old[(c*height+from)*width:][:width]
				to := at[(c*height+y)*width:][:width]
				if right >= 0 {
					copy(to, row[min(right, width):])
				} else {
					copy(to[min(-right, width):], row)
				}
			}
		}
	}
}

// Change changes the images of a batch, each as follows from the seed, the epoch and the sample,
// not from its place in the batch.
func Change(into *tensor.Tensor, rows []int, changes []Image, seed uint64, epoch int) {
	s := into.Shape
	per := s[1] * s[2] * s[3]
	for i, row := range rows {
		r := rand.New(rand.NewPCG(seed^0x9e3779b97f4a7c15, sampleOf(epoch, row)))
		for _, change := range changes {
			change(r, tensor.As[float32](into)[i*per:(i+1)*per], s[1], s[2], s[3])
		}
	}
}

// sampleOf is what tells a sample in an epoch from others, which have streams of random numbers of
// their own.
func sampleOf(epoch, row int) uint64 { return uint64(epoch)<<32 | uint64(row) }
