package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// Bytes is a planned convolution of unsigned bytes by signed bytes, as quantised models have it.
// Its results are sums of products in 32-bit integers, which go to the function store that the
// caller gives to [Bytes.Args]. It is immutable and may be used by many goroutines at once.
//
// The kernel multiplies words of four bytes that are neighbours along K. So [Bytes.Words] first
// brings the image into words of four channels, with its padding around it; the convolution of
// bytes is then one of words.
type Bytes struct {
	p     Params // of the image of words
	image Window // as the caller has it
	c     int    // channels of a group
	out   [3]int
	dense *gemm.Product
	// pixelRows says that the pixels are rows of tiles and the output channels columns.
	pixelRows bool
}

// NewBytes plans a convolution of p's geometry; the epilogue, the format and the residual of p must
// not be set. With ones it plans the sums of the patches instead: a convolution with one output
// channel per group and the weights that [Bytes.PackOnes] makes. Errors are of kind ErrParams.
func NewBytes(p Params, ones bool) (*Bytes, error) {
	p.Group = max(p.Group, 1)
	if ones {
		p.M = p.Group
	}
	out, err := p.setDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkChannels(p.N, p.C, p.M, p.Group); err != nil {
		return nil, err
	}
	o := &Bytes{image: p.Window, c: p.C / p.Group, out: out}
	for i := range 3 {
		p.In[i] += p.PadLo[i] + p.PadHi[i]
	}
	p.PadLo, p.PadHi = [3]int{}, [3]int{}
	p.C = p.Group * ((o.c + 3) / 4)
	if err := checkSizes([3]int{p.N, p.C, volume(p.In)}, [3]int{p.N, p.M, volume(out)},
		[3]int{p.M, p.C / p.Group, volume(p.Kernel)}); err != nil {
		return nil, err
	}
	o.p = p
	o.pixelRows = !p.Pairs && fillsMore(p.M/p.Group, volume(out))
	o.dense, err = o.newDense()
	return o, err
}

// fillsMore reports whether vectors of m output channels waste fewer lanes than vectors of pixels,
// by more than transposing the result costs.
func fillsMore(m, pixels int) bool {
	lanes := panelWidth() / 2
	fraction := func(n int) float64 { return float64(n) / float64((n+lanes-1)/lanes*lanes) }
	return fraction(m) > 1.04*fraction(pixels)
}

// newDense plans the products of the groups of all images.
func (o *Bytes) newDense() (*gemm.Product, error) {
	p, pixels := &o.p, volume(o.out)
	m, c := p.M/p.Group, p.C/p.Group
	q := gemm.Params{K: c * volume(p.Kernel), Batch: max(p.N*p.Group, 1), ToStore: true}
	fill := newPatches(p.Window, o.out, c)
	if o.pixelRows {
		q.Format, q.M, q.N, q.PackedB, q.TransA, q.TransC = gemm.U8S8, pixels, m, true, true,
			true
		q.StrideA, q.OffB = c*volume(p.In), groupOffsets(q.Batch, p.Group, o.groupLen())
		if !p.pointwise() {
			q.FillA = fill.fill
		}
	} else {
		q.Format, q.M, q.N, q.PackedA = gemm.S8U8, m, pixels, true
		q.StrideB, q.OffA = c*volume(p.In), groupOffsets(q.Batch, p.Group, o.groupLen())
		if !p.pointwise() {
			fill.width = gemm.S8U8.PanelColumns()
			q.Fill = fill.fill
		}
	}
	if p.N == 0 {
		q.M = 0
	}
	return gemm.New(q)
}

// Out returns the spatial size of the output.
func (o *Bytes) Out() [3]int { return o.out }

// Chunks returns the number of independent pieces of work.
func (o *Bytes) Chunks() int { return o.dense.Chunks() }

// ScratchLen returns how many words of scratch Run needs.
func (o *Bytes) ScratchLen() int { return o.dense.ScratchLen() }

// PackedLen returns how many words the packed weights take.
func (o *Bytes) PackedLen() int { return o.p.Group * o.groupLen() }

// groupLen is how many words the packed weights of a group take.
func (o *Bytes) groupLen() int {
	m, k := o.p.M/o.p.Group, o.p.C/o.p.Group*volume(o.p.Kernel)
	if o.pixelRows {
		return gemm.U8S8.PackedBLen(k, m)
	}
	return gemm.S8U8.PackedALen(m, k)
}

// Pack packs w, M x C/group x kernel bytes, into dst, which holds PackedLen words, and adds up each
// output channel in sums, which holds M. With flip the bytes are unsigned and become signed ones
// that are less by 128.
func (o *Bytes) Pack(dst []float32, sums []int32, w []byte, flip bool) {
	taps, m, words := volume(o.p.Kernel), o.p.M/o.p.Group, o.p.C/o.p.Group
	k := words * taps
	row := make([]byte, 4*m*k)
	for g := range o.p.Group {
		clear(row)
		for i := range m {
			sums[g*m+i] = intoWords(row[4*i*k:][:4*k], w[(g*m+i)*o.c*taps:][:o.c*taps], taps, flip)
		}
		if to := dst[g*o.groupLen():]; o.pixelRows {
			gemm.U8S8.PackB(to, vec.AsFloats(row), k, m, 0, true)
		} else {
			gemm.S8U8.PackA(to, vec.AsFloats(row), m, k, 0, false)
		}
	}
}

// intoWords writes the weights of an output, of so many taps, to words of four channels each, tap
// by tap, and returns their sum.
func intoWords(words, w []byte, taps int, flip bool) (sum int32) {
	mask := byte(0)
	if flip {
		mask = 0x80
	}
	if taps == 1 {
		words = words[:len(w)]
		for i, b := range w {
			words[i] = b ^ mask
			sum += int32(int8(b ^ mask))
		}
		return sum
	}
	size := len(words) / taps
	for ch := range len(w) / taps {
		for t, b := range w[ch*taps:][:taps] {
			words[t*size+ch] = b ^ mask
			sum += int32(int8(b ^ mask))
		}
	}
	return sum
}

// PackOnes packs weights of 1 for a convolution planned with ones.
func (o *Bytes) PackOnes(dst []float32) {
	w := make([]byte, o.p.M*o.c*volume(o.p.Kernel))
	for i := range w {
		w[i] = 1
	}
	o.Pack(dst, make([]int32, o.p.M), w, false)
}

// WordsLen returns how many words the image takes, and Planes into how many planes of them it
// falls.
func (o *Bytes) WordsLen() int { return o.Planes() * volume(o.p.In) }

// Planes returns the number of planes of words.
func (o *Bytes) Planes() int { return o.p.N * o.p.C }

// Words writes plane i, 0 <= i < Planes, of the image of words dst from the image x, N x C x In
// bytes. The padding gets zero, the byte as it is multiplied. With flip the bytes of x are signed
// and become unsigned bytes that are greater by 128.
func (o *Bytes) Words(dst []float32, i int, x []byte, flip bool, zero byte) {
	words := o.p.C / o.p.Group
	size, plane := volume(o.image.In), volume(o.p.In)
	first := i / words * o.c
	ch := i % words * 4
	src := x[(first+ch)*size:]
	to := vec.AsWords(dst[i*plane:][:plane])
	n := min(4, o.c-ch)
	if n == 4 && o.image.In == o.p.In {
		vec.Interleave(to, src, size, flip)
		return
	}
	pad := uint32(zero) * 0x01010101
	for j := range to {
		to[j] = pad
	}
	in, padded := o.image.In, o.p.In
	for z := range in[0] {
		for y := range in[1] {
			at := ((z+o.image.PadLo[0])*padded[1]+y+o.image.PadLo[1])*padded[2] + o.image.PadLo[2]
			row := src[(z*in[1]+y)*in[2]:]
			if n == 4 {
				vec.Interleave(to[at:][:in[2]], row, size, flip)
			} else {
				interleaveFew(to[at:][:in[2]], row, size, n, flip)
			}
		}
	}
}

// interleaveFew is vec.Interleave of less than four planes; the bytes of the others meet weights of
// zero.
func interleaveFew(dst []uint32, x []byte, stride, planes int, flip bool) {
	clear(dst)
	for p := range planes {
		for i, b := range x[p*stride:][:len(dst)] {
			if flip {
				b ^= 0x80
			}
			dst[i] |= uint32(b) << (8 * p)
		}
	}
}

// Args returns the arguments of Run for an image of words and packed weights. store takes the
// results as [gemm.Args].Store does: rows are the output channels of a group, columns are pixels,
// and the batch counts image by image and, within an image, group by group.
func (o *Bytes) Args(weights, image []float32,
	store func(x []float32, ld, batch, i0, i1, j0, j1 int)) gemm.Args {
	if len(image) < o.WordsLen() || len(weights) < o.PackedLen() {
		panic(
			fmt.Sprintf("conv: %d words of an image and %d of weights; want %d and %d", len(image),
				len(weights), o.WordsLen(), o.PackedLen()),
		)
	}
	if o.pixelRows {
		return gemm.Args{A: image, B: weights, Store: store}
	}
	return gemm.Args{A: weights, B: image, Store: store}
}

// Run computes chunk c of 0 <= c < Chunks with what Args returned.
func (o *Bytes) Run(c int, args *gemm.Args, scratch []float32) { o.dense.Run(c, args, scratch) }
