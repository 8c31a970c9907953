package nbits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// ErrShape is the kind of every error of New.
var ErrShape = errors.New("nbits: bad shape")

// maxBlock bounds the elements of a block, such that the sum of as many bytes is exact as a float,
// and 15 times it.
const maxBlock = 4096

// Zeros says what the zero points of weights are.
type Zeros uint8

const (
	// Centred weights have zero point 8.
	Centred Zeros = iota
	// Nibbles are zero points of four bits.
	Nibbles
	// Reals are zero points that are any numbers.
	Reals
)

// Weights describes K x N numbers q of four bits, which stand for (q - zero)·scale, where a zero
// point and a scale are for Block elements of a column.
type Weights struct {
	N, K, Block int
	Zeros       Zeros
	level       cpuinfo.Path
	lanes       int // columns of a panel
	blocks      int // along K
}

// New checks a shape, of which block must be a power of two from 16 to 4096. Errors are of kind
// ErrShape.
func New(n, k, block int, zeros Zeros) (*Weights, error) {
	if n < 1 || k < 1 || n > math.MaxInt32 || k > math.MaxInt32 || block < 16 || block > maxBlock ||
		block&(block-1) != 0 || zeros > Reals {
		return nil, fmt.Errorf("%w: %d x %d in blocks of %d, zero points of kind %d", ErrShape, k,
			n, block, zeros)
	}
	w := &Weights{N: n, K: k, Block: block, Zeros: zeros, level: cpuinfo.PathPlain, lanes: 8,
		blocks: (k + block - 1) / block}
	switch {
	case cpuinfo.HasAVX512VNNI():
		w.level, w.lanes = cpuinfo.PathAVX512VNNI, 16
	case cpuinfo.HasAVX2FMA():
		w.level = cpuinfo.PathAVX2
	case cpuinfo.HasDotProd():
		w.level = cpuinfo.PathDotProd
	case cpuinfo.HasNEON():
		w.level = cpuinfo.PathNEON
	}
	return w, nil
}

// Columns is the number of columns of a panel, all of which but the last have that many.
func (w *Weights) Columns() int { return w.lanes }

// Panels is the number of panels of columns.
func (w *Weights) Panels() int { return (w.N + w.lanes - 1) / w.lanes }

// A packed panel holds the zero points of all blocks, a byte or a float for each of its columns,
// and then, for each block, the scales of its columns and its numbers in chunks: eight steps of K
// of each column in a word of 32 bits. The low halves of the bytes of a word are steps 0 to 3, the
// high halves steps 4 to 7.

// zeroSize is the bytes of a zero point.
func (w *Weights) zeroSize() int { return [...]int{0, 1, 4}[w.Zeros] }

// headBytes is the size of a panel's zero points, rounded up to a cache line.
func (w *Weights) headBytes() int { return (w.blocks*w.lanes*w.zeroSize() + 63) &^ 63 }

// blockBytes is the size of a block of a panel.
func (w *Weights) blockBytes() int { return w.lanes * (4 + w.Block/2) }

// panelBytes is the size of a panel.
func (w *Weights) panelBytes() int { return (w.headBytes() + w.blocks*w.blockBytes() + 63) &^ 63 }

// PackedBytes is the size of the packed weights.
func (w *Weights) PackedBytes() int { return w.Panels() * w.panelBytes() }

// Source holds weights as MatMulNBits lays them out.
type Source struct {
	// Q holds the numbers column by column, in whole blocks; of two neighbours along K the first is
	// in the low half of a byte.
	Q []byte
	// Scales holds the scales of a column's blocks, column by column.
	Scales []float32
	// Zero returns the zero point of a block of a column: a whole number from 0 to 15 when they are
	// Nibbles. It is not asked for those that are Centred.
	Zero func(column, block int) float32
}

// Pack writes some panels of the packed weights to dst, which is as long as all of them,
// PackedBytes.
func (w *Weights) Pack(dst []byte, s Source, from, to int) {
	for p := from; p < to; p++ {
		panel := dst[p*w.panelBytes():][:w.panelBytes()]
		clear(panel)
		for c := range min(w.lanes, w.N-p*w.lanes) {
			w.packColumn(panel, s, p*w.lanes+c, c)
		}
	}
}

// packColumn writes a column of the weights as column c of a panel.
func (w *Weights) packColumn(panel []byte, s Source, column, c int) {
	q := s.Q[column*w.blocks*w.Block/2:][:w.blocks*w.Block/2]
	scales := s.Scales[column*w.blocks:][:w.blocks]
	for g := range w.blocks {
		switch w.Zeros {
		case Nibbles:
			panel[g*w.lanes+c] = byte(s.Zero(column, g))
		case Reals:
			binary.LittleEndian.PutUint32(panel[4*(g*w.lanes+c):],
				math.Float32bits(s.Zero(column, g)))
		}
		block := panel[w.headBytes()+g*w.blockBytes():][:w.blockBytes()]
		binary.LittleEndian.PutUint32(block[4*c:], math.Float32bits(scales[g]))
		for i := range w.Block / 8 {
			x := binary.LittleEndian.Uint32(q[(g*w.Block/8+i)*4:])
			binary.LittleEndian.PutUint32(block[4*((i+1)*w.lanes+c):],
				halves(x&0xffff)|halves(x>>16)<<4)
		}
	}
}

// halves puts four numbers of four bits into the low halves of four bytes.
func halves(x uint32) uint32 {
	x = (x | x<<8) & 0x00ff00ff
	return (x | x<<4) & 0x0f0f0f0f
}

// tile is the product of some rows by a panel.
type tile struct {
	c              []float32 // rows of lanes floats
	ldc            int       // bytes from one to the next
	a              []byte    // packed rows
	lda            int       // bytes from one to the next
	q              []byte    // the panel's blocks
	zeros          []byte    // the panel's zero points, nil for 8
	blocks, chunks int       // along K, and in a block
	rows, lanes    int
}

// mostRows is the largest number of rows of a tile.
func (w *Weights) mostRows(p Format) int {
	switch {
	case w.level == cpuinfo.PathAVX512VNNI && p == Int8:
		return 12
	case w.level == cpuinfo.PathAVX512VNNI:
		return 4
	}
	return 3
}

// FewRows is the number of rows up to which Product with F32 takes no longer than a product of
// floats that Widen makes.
func (w *Weights) FewRows() int {
	switch {
	case w.Zeros == Reals:
		return 0
	case w.level == cpuinfo.PathAVX512VNNI:
		return 32
	case w.level == cpuinfo.PathAVX2:
		return 3
	}
	return 0
}

// edge holds a tile of fewer columns than a panel.
type edge [12 * 16]float32

// Product multiplies m packed rows by the columns of a panel, which start at column panel·Columns
// of the weights and of c, whose rows are ldc floats apart. The weights must not have zero points
// that are Reals.
func (w *Weights) Product(p Format, c []float32, ldc int, rows []byte, m int, packed []byte,
	panel int) {
	if w.Zeros == Reals {
		panic("nbits: a product by weights whose zero points are no whole numbers")
	}
	at := packed[panel*w.panelBytes():][:w.panelBytes()]
	first := panel * w.lanes
	columns := min(w.lanes, w.N-first)
	length := w.RowBytes(p)
	t := tile{lda: length, q: at[w.headBytes():], blocks: w.blocks, chunks: w.Block / 8,
		lanes: w.lanes}
	if w.Zeros == Nibbles {
		t.zeros = at[:w.headBytes()]
	}
	for i := 0; i < m; i += t.rows {
		t.rows = min(w.mostRows(p), m-i)
		t.a = rows[i*length:][:t.rows*length]
		to := c[i*ldc+first:][:(t.rows-1)*ldc+columns]
		if columns == w.lanes {
			t.c, t.ldc = to, 4*ldc
			w.run(p, &t)
			continue
		}
		w.runEdge(p, t, to, ldc, columns)
	}
}

// runEdge computes a tile of which only some columns are there.
func (w *Weights) runEdge(p Format, t tile, to []float32, ldc, columns int) {
	var buf edge
	t.c, t.ldc = buf[:], 4*w.lanes
	w.run(p, &t)
	for r := range t.rows {
		copy(to[r*ldc:][:columns], buf[r*w.lanes:])
	}
}

// Widen writes rows k0 to k1 of a panel as floats to dst, whose rows are stride floats apart and
// have Columns columns; those beyond the last of the weights are zero.
func (w *Weights) Widen(dst []float32, stride int, packed []byte, panel, k0, k1 int) {
	at := packed[panel*w.panelBytes():][:w.panelBytes()]
	for k := k0; k < k1; {
		g := k / w.Block
		inner := k - g*w.Block
		n := min(k1-k, w.Block-inner)
		switch {
		case inner%8 != 0 || n < 8:
			k += w.widenPart(dst[(k-k0)*stride:], stride, at, k, n)
			continue
		case inner == 0 && n == w.Block:
			whole := (k1 - k) / w.Block
			n = whole * w.Block
			w.widenBlocks(dst[(k-k0)*stride:], stride, at, g, 0, w.Block/8, whole)
		default:
			n &^= 7
			w.widenBlocks(dst[(k-k0)*stride:], stride, at, g, inner/8, n/8, 1)
		}
		k += n
	}
}

// widenPart writes rows from k that are part of a chunk of eight, n at most, and returns how many.
func (w *Weights) widenPart(dst []float32, stride int, panel []byte, k, n int) int {
	var buf [8 * 16]float32
	skip := k % 8
	n = min(n, 8-skip)
	w.widenBlocks(buf[:], w.lanes, panel, k/w.Block, k%w.Block/8, 1, 1)
	for i := range n {
		copy(dst[i*stride:][:w.lanes], buf[(skip+i)*w.lanes:])
	}
	return n
}

// widenBlocks writes chunks from the first one of a block, of each of some blocks.
func (w *Weights) widenBlocks(dst []float32, stride int, panel []byte, block, first, chunks,
	blocks int) {
	head := w.headBytes() + block*w.blockBytes()
	x := strip{dst: dst[:(8*chunks*blocks-1)*stride+w.lanes], stride: 4 * stride,
		scales: panel[head:], q: panel[head+4*w.lanes*(1+first):],
		wide: w.Zeros == Reals, chunks: chunks, blocks: blocks, lanes: w.lanes}
	if w.Zeros != Centred {
		x.zeros = panel[block*w.lanes*w.zeroSize():]
	}
	w.widen(&x)
}

// strip is some chunks of one block, or all of several blocks, of a panel that become floats.
type strip struct {
	dst                   []float32
	stride                int // bytes
	scales, q, zeros      []byte
	wide                  bool // zero points are floats
	chunks, blocks, lanes int
}
