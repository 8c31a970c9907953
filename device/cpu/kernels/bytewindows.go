package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// byteWindows is a [byteDepthwise] of 3 x 3 weights without zero points whose results are bytes:
// bytes are multiplied as they are.
type byteWindows struct {
	byteConvCall
	window       conv.Window
	plane        int // elements of a channel of the image
	planes       int // channels of all images
	fan          int // output channels of a group
	each         int // planes of a chunk
	flipX, flipW bool
	rows, cols   int // of an output channel
	high, pitch  int // rows and columns of a padded plane that the outputs see
}

// newByteWindows prepares a call whose weights have one channel, nil where it does not serve.
func newByteWindows(r *request, call *byteConvCall, p conv.Params, flipX, flipW bool) (*byteWindows,
	error) {
	one, err := conv.New(conv.Params{Window: p.Window, N: 1, C: 1, M: 1})
	if err != nil {
		return nil, err
	}
	out := one.Out()
	k := &byteWindows{
		byteConvCall: *call,
		window:       p.Window,
		plane:        p.In[0] * p.In[1] * p.In[2],
		planes:       p.N * p.C,
		fan:          p.M / p.C,
		flipX:        flipX,
		flipW:        flipW,
		rows:         out[1],
		cols:         out[2],
	}
	stride := max(1, p.Stride[2])
	threes := slices.Equal(p.Kernel[:], []int{1, 3, 3}) && max(p.Dilate[1], p.Dilate[2]) <= 1 &&
		max(1, p.Stride[1]) == stride && stride <= 2
	if !vec.HasWindows3() || !threes || p.In[0] != 1 || out[0] != 1 || p.PadLo[0] != 0 ||
		min(p.PadLo[1], p.PadLo[2]) < 0 || p.C != p.Group || call.out == tensor.Int32 ||
		call.in.shifted(r, flipW) {
		return nil, nil
	}
	k.pixels = k.rows * k.cols
	k.high, k.pitch = (k.rows-1)*stride+3, (k.cols-1)*stride+3
	k.each = max(1, chunkPixels/(k.plane+k.fan*k.pixels))
	return k, nil
}

// Name implements Kernel.
func (k *byteWindows) Name() string { return "conv.int8.windows" }

// Absorbed implements [compute.Absorbing].
func (k *byteWindows) Absorbed() []int { return []int{k.in.b} }

// PackedBytes implements Kernel: the rows of the weights as words, and their sum, of each output
// channel.
func (k *byteWindows) PackedBytes() int { return 16 * k.m }

// Pack implements Kernel.
func (k *byteWindows) Pack(dst []byte) {
	clear(dst)
	for c := range k.m {
		to, sum := dst[16*c:][:16], int32(0)
		for i, b := range k.weight.Data[9*c:][:9] {
			b ^= flippedZero(k.flipW)
			to[i/3*4+i%3] = b
			sum += int32(int8(b))
		}
		tensor.Cast[int32](to)[3] = sum
	}
}

// paddedBytes is the size of the padded planes of a chunk with what is read beyond them.
func (k *byteWindows) paddedBytes() int {
	return (k.each*k.high*k.pitch + vec.WindowSlack + 63) &^ 63
}

// ScratchBytes implements Kernel.
func (k *byteWindows) ScratchBytes(workers int) int { return workers * k.paddedBytes() }

// Bind implements Kernel.
func (k *byteWindows) Bind(b compute.Binding) compute.Task {
	t := &byteWindowsTask{
		of:       k,
		channels: k.channels(b),
		packed:   tensor.Cast[uint32](b.Packed[:16*k.m]),
		filled:   make([]int, b.Workers),
	}
	take := taker(b.Scratch)
	for range b.Workers {
		t.padded = append(t.padded, take(k.paddedBytes()))
	}
	return t
}

type byteWindowsTask struct {
	of       *byteWindows
	channels byteChannels
	packed   []uint32
	padded   [][]byte // by worker
	filled   []int    // the run in which a worker's planes were last given their padding
	run      int
	zeroX    byte // as it is multiplied
}

// Run implements Task.
func (t *byteWindowsTask) Run(x *compute.Exec) error {
	if t.channels.readBias() {
		zero := int32(zeroAt(t.channels.input(t.of.in.aZero), 0)) + int32(flippedZero(t.of.flipX))
		t.zeroX = byte(zero)
		for c := range t.channels.correction {
			t.channels.correction[c] -= zero * int32(t.packed[4*c+3])
		}
		t.channels.quantize()
	}
	t.run++
	return x.For((t.of.planes+t.of.each-1)/t.of.each, t)
}

// Chunk implements Region. All planes are padded before any is read: what was just written in parts
// is slow to read whole.
func (t *byteWindowsTask) Chunk(i, worker int) {
	padded, size := t.padded[worker], t.of.high*t.of.pitch
	if t.filled[worker] != t.run {
		fill(padded, t.zeroX)
		t.filled[worker] = t.run
	}
	first, end := i*t.of.each, min((i+1)*t.of.each, t.of.planes)
	for p := first; p < end; p++ {
		t.pad(padded[(p-first)*size:], t.channels.inputs[0].Data[p*t.of.plane:][:t.of.plane])
	}
	for p := first; p < end; p++ {
		for f := range t.of.fan {
			c := p%t.of.group*t.of.fan + f
			vec.Windows3(t.channels.y.Data[(p*t.of.fan+f)*t.of.pixels:][:t.of.pixels], t.of.cols,
				padded[(p-first)*size:], t.of.pitch, max(1, t.of.window.Stride[2]), t.of.rows,
				(*[3]uint32)(t.packed[4*c:]), &t.channels.grids[c])
		}
	}
}

// fill sets all bytes to b.
func fill(x []byte, b byte) {
	if len(x) > 0 {
		x[0] = b
	}
	for n := 1; n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

// pad copies what the outputs see of a plane to its place in the padded one.
func (t *byteWindowsTask) pad(padded, plane []byte) {
	w := &t.of.window
	cols, rows := min(w.In[2], t.of.pitch-w.PadLo[2]), min(w.In[1], t.of.high-w.PadLo[1])
	if cols > 0 && rows > 0 {
		vec.CopyRows(padded[w.PadLo[1]*t.of.pitch+w.PadLo[2]:], t.of.pitch, plane, w.In[2], cols,
			rows, t.of.flipX)
	}
}
