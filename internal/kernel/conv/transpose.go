package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// TransposeParams describes a transposed convolution as ONNX ConvTranspose-11 defines it, with
// explicit pads: the image is In, each element of which adds the kernel to the output at Stride
// times its position; the pads are cut off.
type TransposeParams struct {
	Window
	OutPad  [3]int // rows added at the end of the output (output_padding)
	N, C, M int    // images, input channels, output channels
	Group   int    // 0 stands for 1
	Bias    bool   // Args.Bias holds one value per output channel
	Clamp   bool   // limit the result to [Lo, Hi], max(Lo) first
	Lo, Hi  float32
	Map     func(dst, x []float32) // as in Params
	// Format is that of the multiplications.
	Format gemm.Format
	// Reused says that weights are packed once for many runs. The sums of others are those of
	// gemm.Params.Near.
	Reused bool
}

// Transpose is a planned transposed convolution. It is immutable and may be used by many
// goroutines at once.
type Transpose struct {
	p     TransposeParams
	out   [3]int
	level level
	// disjoint says that no two products meet in one element of the output and that none is cut
	// off, so that the product itself applies bias and clamp and the rest is moving.
	disjoint bool
	block    int // output channels per chunk
	full     *gemm.Product
	last     *gemm.Product // for the last block of a group, when it is smaller
}

// transposeColumns bounds the products that a chunk holds in scratch before it adds them up.
const transposeColumns = 1 << 18

// NewTranspose plans a transposed convolution. Errors are of kind ErrParams.
func NewTranspose(p TransposeParams) (*Transpose, error) {
	if p.Group == 0 {
		p.Group = 1
	}
	if err := checkChannels(p.N, p.C, p.M, p.Group); err != nil {
		return nil, err
	}
	out, err := p.setOut()
	if err != nil {
		return nil, err
	}
	if err := checkSizes([3]int{p.N, p.C, volume(p.In)}, [3]int{p.N, p.M, volume(out)},
		[3]int{p.C, p.M / p.Group, volume(p.Kernel)},
		[3]int{1, volume(p.Kernel), volume(p.In)}); err != nil {
		return nil, err
	}
	o := &Transpose{p: p, out: out, level: currentLevel()}
	o.disjoint = p.Kernel == p.Stride && p.Dilate == [3]int{1, 1, 1} && p.PadLo == [3]int{} &&
		p.PadHi == [3]int{} && p.OutPad == [3]int{}
	m := p.M / p.Group
	o.block = min(m, max(1, transposeColumns/(volume(p.Kernel)*volume(p.In))))
	if o.full, err = o.product(o.block); err != nil {
		return nil, err
	}
	if rest := m % o.block; rest > 0 {
		o.last, err = o.product(rest)
	}
	return o, err
}

// setOut checks the window and returns the size of the output.
func (p *TransposeParams) setOut() (out [3]int, err error) {
	for i := range 3 {
		if err := p.checkAxis(i); err != nil {
			return out, err
		}
		size := float64(p.In[i]-1)*float64(p.Stride[i]) +
			float64(p.Kernel[i]-1)*float64(p.Dilate[i]) + 1
		size += float64(p.OutPad[i]) - float64(p.PadLo[i]) - float64(p.PadHi[i])
		if p.OutPad[i] < 0 || size < 1 || size > maxElements {
			return out, fmt.Errorf("%w: axis %d of a transposed convolution has %g outputs with "+
				"pads %d and %d and output padding %d",
				ErrParams, i, size, p.PadLo[i], p.PadHi[i], p.OutPad[i])
		}
		out[i] = int(size)
	}
	return out, checkSizes(p.In, out, p.Kernel)
}

// product plans the product that computes what each element of the image adds to n output channels:
// weights of n*taps x C/group by the image.
func (o *Transpose) product(n int) (*gemm.Product, error) {
	q := gemm.Params{M: n * volume(o.p.Kernel), N: volume(o.p.In), K: o.p.C / o.p.Group,
		Format: o.p.Format, PackedA: true, Near: !o.p.Reused, Part: n < o.p.M/o.p.Group}
	if o.disjoint {
		q.Clamp, q.Lo, q.Hi = o.p.Clamp, o.p.Lo, o.p.Hi
		if o.p.Bias {
			q.Bias = gemm.BiasPerRow
		}
	}
	return gemm.New(q)
}

// Out returns the spatial size of the output.
func (o *Transpose) Out() [3]int { return o.out }

// blocks is the number of blocks of output channels of a group.
func (o *Transpose) blocks() int { return (o.p.M/o.p.Group + o.block - 1) / o.block }

// Chunks returns the number of independent pieces of work.
func (o *Transpose) Chunks() int { return o.p.N * o.p.Group * o.blocks() }

// ScratchLen returns how many floats of scratch Run needs.
func (o *Transpose) ScratchLen() int {
	n := o.full.ScratchLen()
	if o.last != nil {
		n = max(n, o.last.ScratchLen())
	}
	return n + o.block*volume(o.p.Kernel)*(volume(o.p.In)+1)
}

// FLOP returns the floating-point operations of the products, two per multiply-add.
func (o *Transpose) FLOP() int64 {
	p := &o.p
	return 2 * int64(p.N) * int64(p.C) * int64(p.M/p.Group) * int64(volume(p.Kernel)) * int64(
		volume(p.In))
}

// PackedLen returns how many floats the packed weights take.
func (o *Transpose) PackedLen() int { return o.packedLen(o.p.M) }

// packedLen is how many floats the packed weights of so many output channels take.
func (o *Transpose) packedLen(channels int) int {
	return o.p.Format.PackedALen(channels*volume(o.p.Kernel), o.p.C/o.p.Group)
}

// PackWeights packs w, C x M/group x kernel, into dst, which holds PackedLen floats.
func (o *Transpose) PackWeights(dst, w []float32) {
	m, c, taps := o.p.M/o.p.Group, o.p.C/o.p.Group, volume(o.p.Kernel)
	if len(dst) < o.PackedLen() || len(w) < o.p.C*m*taps {
		panic(fmt.Sprintf("conv: packing %d weights into %d floats; want %d into %d", len(w),
			len(dst), o.p.C*m*taps, o.PackedLen()))
	}
	for g := range o.p.Group {
		for at := 0; at < m; at += o.block {
			n := min(o.block, m-at)
			o.p.Format.PackA(dst[o.packedLen(g*m+at):], w[(g*c*m+at)*taps:], n*taps, c, m*taps,
				true)
		}
	}
}

// Run computes chunk c of 0 <= c < Chunks, as Convolution.Run does; Args.Residual is not used.
func (o *Transpose) Run(c int, args *Args, scratch []float32) {
	p := &o.p
	if len(args.X) < p.N*p.C*volume(p.In) || len(args.W) < o.PackedLen() ||
		len(args.Y) < p.N*p.M*volume(o.out) || p.Bias && len(args.Bias) < p.M ||
		len(scratch) < o.ScratchLen() || uint(c) >= uint(o.Chunks()) {
		panic(fmt.Sprintf("conv: transposed chunk %d of %d with X %d, W %d, Y %d, bias %d, "+
			"scratch %d floats for %d images of %d x %v to %d x %v",
			c, o.Chunks(), len(args.X), len(args.W), len(args.Y), len(args.Bias), len(scratch), p.N,
			p.C, p.In, p.M, o.out))
	}
	block, image := c%o.blocks(), c/o.blocks()
	g, n := image%p.Group, image/p.Group
	ch, m, taps := p.C/p.Group, p.M/p.Group, volume(p.Kernel)
	first := block * o.block
	op, size := o.full, min(o.block, m-first)
	if size < o.block {
		op = o.last
	}
	columns, scratch := cut(scratch, size*taps*volume(p.In))
	bias, scratch := cut(scratch, size*taps)
	a := gemm.Args{A: args.W[o.packedLen(g*m+first):], B: args.X[(n*p.C+g*ch)*volume(p.In):],
		C: columns, Bias: bias}
	for i := range bias {
		bias[i] = 0
		if p.Bias {
			bias[i] = args.Bias[g*m+first+i/taps]
		}
	}
	for i := range op.Chunks() {
		op.Run(i, &a, scratch)
	}
	for i := range size {
		dst := args.Y[(n*p.M+g*m+first+i)*volume(o.out):][:volume(o.out)]
		plane := columns[i*taps*volume(p.In):][:taps*volume(p.In)]
		if o.disjoint {
			o.place(dst, plane)
		} else {
			o.scatter(dst, plane, bias[i*taps])
		}
		if p.Map != nil {
			p.Map(dst, dst)
		}
	}
}

// cut splits x after n floats.
func cut(x []float32, n int) (head, tail []float32) { return x[:n:n], x[n:] }

// place moves the products of one output channel, which do not overlap, to where they go.
func (o *Transpose) place(dst, columns []float32) {
	p := &o.p
	w, k := p.In[2], p.Kernel[2]
	for row := range volume(o.out) / o.out[2] {
		z, y := row/o.out[1], row%o.out[1]
		tap := (z%p.Kernel[0]*p.Kernel[1] + y%p.Kernel[1]) * k
		from := columns[(tap*p.In[0]+z/p.Kernel[0])*p.In[1]*w+y/p.Kernel[1]*w:]
		to := dst[row*o.out[2]:][:o.out[2]]
		if k == 2 {
			interleave(o.level, to, from[:w], from[volume(p.In):][:w])
			continue
		}
		for kx := range k {
			for i, v := range from[kx*volume(p.In):][:w] {
				to[i*k+kx] = v
			}
		}
	}
}

// scatter adds the products of one output channel to where the kernel puts them.
func (o *Transpose) scatter(dst, columns []float32, bias float32) {
	vec.Fill(dst, bias)
	for tap := range volume(o.p.Kernel) {
		o.scatterTap(dst, columns[tap*volume(o.p.In):], tap)
	}
	if o.p.Clamp {
		for i, v := range dst {
			dst[i] = clamp(v, o.p.Lo, o.p.Hi)
		}
	}
}

// scatterTap adds the products of one element of the kernel.
func (o *Transpose) scatterTap(dst, columns []float32, tap int) {
	p := &o.p
	kx, ky, kz := tap%p.Kernel[2], tap/p.Kernel[2]%p.Kernel[1], tap/p.Kernel[2]/p.Kernel[1]
	at := kx*p.Dilate[2] - p.PadLo[2]
	lo, hi := inside(at, p.Stride[2], o.out[2], p.In[2])
	if lo >= hi {
		return
	}
	for row := range p.In[0] * p.In[1] {
		z := row/p.In[1]*p.Stride[0] + kz*p.Dilate[0] - p.PadLo[0]
		y := row%p.In[1]*p.Stride[1] + ky*p.Dilate[1] - p.PadLo[1]
		if uint(z) >= uint(o.out[0]) || uint(y) >= uint(o.out[1]) {
			continue
		}
		to := dst[(z*o.out[1]+y)*o.out[2]+at+lo*p.Stride[2]:]
		for i, v := range columns[row*p.In[2]:][lo:hi] {
			to[i*p.Stride[2]] += v
		}
	}
}
