package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// conv holds the convolutions over any number of spatial axes: X is N × C × spatial.
var conv = []Op{
	{Name: "Conv", Since: []int{1, 11, 22}, MinIn: 2, MaxIn: 3, Infer: inferConv,
		Eval:  InFloat32(evalConv),
		Flops: convFlops, grad: gradConv},
	{Name: "ConvTranspose", Since: []int{1, 11, 22}, MinIn: 2, MaxIn: 3, Infer: inferConvTranspose,
		Eval: InFloat32(evalConvTranspose), Flops: convTransposeFlops,
		grad: gradConvTranspose},
}

// convKernel returns the spatial kernel: attribute kernel_shape, else the trailing dimensions of
// the weights.
func (c *Infer) convKernel(rank int) ([]int, bool, error) {
	w := c.In[1]
	if w.Ranked && len(w.Shape) != rank+2 {
		return nil, false, c.Errorf(ErrInput, "weights %v must have rank %d", w, rank+2)
	}
	if v := c.Attrs.Ints("kernel_shape"); v != nil {
		k, err := c.sizesAttr("kernel_shape", rank, 1, 1)
		if err != nil {
			return nil, false, err
		}
		for i := range k {
			if w.Ranked && !w.Shape[i+2].MayEqual(Known(k[i])) {
				return nil, false,
					c.Errorf(ErrAttr, "kernel_shape %v does not match weights %v", k, w)
			}
		}
		return k, true, nil
	}
	if !w.Ranked {
		return nil, false, nil
	}
	k, ok := Ranked(w.DType, w.Shape[2:]...).Ints()
	return k, ok, nil
}

// Group is the attribute of convolutions that says into how many groups their channels fall, 1 when
// it is absent. Whether it divides them is not checked.
func (c *Call) Group() (int, error) {
	g := c.Attrs.Int("group", 1)
	if g < 1 || g > 1<<31 {
		return 0, c.Errorf(ErrAttr, "group is %d, must be positive", g)
	}
	return int(g), nil
}

// convSpatial checks the input of a convolution and returns its spatial rank.
func (c *Infer) convSpatial() (int, error) {
	x := c.In[0]
	if len(x.Shape) < 3 {
		return 0, c.Errorf(ErrInput, "X %v must be N × C × at least one spatial axis", x)
	}
	return len(x.Shape) - 2, nil
}

// convOut checks the types and the input of a convolution and starts output 0, of which it knows
// the batch; the shape is nil when the rank is not known.
func (c *Infer) convOut() (shape []Dim, err error) {
	d, err := c.SameDType(floatTypes, c.DTypes()...)
	if err != nil {
		return nil, err
	}
	if !c.In[0].Ranked {
		c.Out[0] = Unranked(d)
		return nil, nil
	}
	rank, err := c.convSpatial()
	if err != nil {
		return nil, err
	}
	shape = unknownDims(rank + 2)
	shape[0] = c.In[0].Shape[0]
	c.Out[0] = Ranked(d, shape...)
	return shape, nil
}

func inferConv(c *Infer) error {
	out, err := c.convOut()
	if out == nil {
		return err
	}
	if w := c.In[1]; w.Ranked && len(w.Shape) == len(out) {
		out[1] = w.Shape[0]
		if err := c.checkConvChannels(w); err != nil {
			return err
		}
	}
	kernel, ok, err := c.convKernel(len(out) - 2)
	if err != nil || !ok {
		return err
	}
	w, err := c.Window(kernel)
	if err != nil {
		return err
	}
	dims, err := w.outDims(c.Call, c.In[0].Shape)
	copy(out[2:], dims[min(2, len(dims)):])
	return err
}

// checkConvChannels compares the channels of X, weights (M × C/group × kernel) and bias where they
// are known.
func (c *Infer) checkConvChannels(w Type) error {
	g, err := c.Group()
	if err != nil {
		return err
	}
	if !c.In[0].Shape[1].MayEqual(w.Shape[1].MulInt(g)) {
		return c.Errorf(ErrInput, "X %v has %v channels, weights %v with group %d take %v", c.In[0],
			c.In[0].Shape[1], w, g, w.Shape[1].MulInt(g))
	}
	if m, ok := w.Shape[0].Int(); ok && m%g != 0 {
		return c.Errorf(ErrInput, "weights %v: %d output channels are no multiple of group %d", w,
			m, g)
	}
	return c.checkBias(w.Shape[0])
}

func (c *Infer) checkBias(channels Dim) error {
	if !c.Has(2) || !c.In[2].Ranked {
		return nil
	}
	if b := c.In[2].Shape; len(b) != 1 || !b[0].MayEqual(channels) {
		return c.Errorf(ErrInput, "bias %v must be a vector of %v channels", c.In[2], channels)
	}
	return nil
}

// convolution is one checked convolution on concrete shapes. The window slides over a plane of
// spatial shape large and has one place for each element of a plane of spatial shape small. For
// Conv, large is the shape of X and small that of Y; for ConvTranspose it is the other way round.
type convolution struct {
	Window
	batch, group     int
	inChan, outChan  int // of one group; outputs and biases are numbered group by group
	large, small     []int
	x, w, bias, outp *tensor.Tensor
}

// newConvolution checks X, W and B of a call on concrete tensors; chanAxis is the axis of W that
// counts input channels.
func newConvolution(c *Eval, chanAxis int) (v convolution, err error) {
	x, w := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, c.DTypes()[:min(3, len(c.In))]...); err != nil {
		return v, err
	}
	if x.Rank() < 3 || w.Rank() != x.Rank() {
		return v, c.Errorf(ErrInput, "X %v and W %v must have one rank, at least 3", x.Shape,
			w.Shape)
	}
	if v.group, err = c.Group(); err != nil {
		return v, err
	}
	if v.Window, err = c.windowOfWeights(w.Shape); err != nil {
		return v, err
	}
	v.x, v.w = x, w
	return v, v.channels(c, chanAxis)
}

// windowOfWeights is the window over the spatial axes of weights, with which kernel_shape, where it
// is given, must agree.
func (c *Call) windowOfWeights(w []int) (Window, error) {
	kernel := slices.Clone(w[2:])
	if k := c.Attrs.Ints("kernel_shape"); k != nil && !slices.Equal(k, wideInts(kernel)) {
		return Window{}, c.Errorf(ErrAttr, "kernel_shape %v does not match W %v", k, w)
	}
	return c.Window(kernel)
}

// channels counts the channels of a group and checks X, W and B against each other.
func (v *convolution) channels(c *Eval, chanAxis int) error {
	x, w := v.x, v.w
	v.batch, v.inChan = x.Shape[0], x.Shape[1]/v.group
	total := w.Shape[1-chanAxis]
	if chanAxis == 1 {
		v.outChan = total / v.group
	} else {
		v.outChan, total = total, total*v.group
	}
	want := v.inChan
	if chanAxis == 0 {
		want = x.Shape[1]
	}
	if x.Shape[1]%v.group != 0 || total%v.group != 0 || w.Shape[chanAxis] != want {
		return c.Errorf(ErrInput, "channels of X %v and W %v do not fit group %d", x.Shape, w.Shape,
			v.group)
	}
	if c.Has(2) {
		if v.bias = c.In[2]; v.bias.Rank() != 1 || v.bias.Len() != total {
			return c.Errorf(ErrInput, "bias %v must be a vector of %d channels", v.bias.Shape,
				total)
		}
	}
	return nil
}

// output makes output 0 with the given spatial shape.
func (v *convolution) output(c *Eval, spatial []int) (err error) {
	v.outp, err = c.Output(0, v.x.DType, append([]int{v.batch, v.outChan * v.group}, spatial...))
	return err
}

func evalConv(c *Eval) error {
	v, err := newConvolution(c, 1)
	if err != nil {
		return err
	}
	v.large = v.x.Shape[2:]
	if v.small, err = v.Place(c.Call, v.large); err != nil {
		return err
	}
	if err := v.output(c, v.small); err != nil || v.outp.Len() == 0 {
		return err
	}
	if v.x.DType == tensor.Float64 {
		convolve[float64](&v)
	} else {
		convolve[float32](&v)
	}
	return nil
}

// convolve sums weight · input over the input channels of the group and the taps of the window. A
// block of output positions is gathered into a matrix (channels·taps × positions), which every
// output channel's weights multiply.
func convolve[T float](v *convolution) {
	x, w, y := tensor.As[T](v.x), tensor.As[T](v.w), tensor.As[T](v.outp)
	plane, places, taps := count(v.large), count(v.small), count(v.Kernel)
	rows := v.inChan * taps
	size := blockSize(rows, places)
	idx, cols, acc := make([]int, taps*size), make([]T, rows*size), make([]float64, size)
	for at := 0; at < places; at += size {
		n := min(size, places-at)
		v.taps(idx, v.large, v.small, at, n)
		for b := range v.batch * v.group {
			g := b % v.group
			gather(cols, x[b*v.inChan*plane:], idx[:taps*n], v.inChan, plane)
			for m := range v.outChan {
				row := g*v.outChan + m
				setAll(acc[:n], bias[T](v.bias, row))
				refmath.AddProduct(acc[:n], w[row*rows:], 1, cols, rows, n)
				out := y[(b*v.outChan+m)*places+at:][:n]
				for p := range out {
					out[p] = T(acc[p])
				}
			}
		}
	}
}

// gather copies the elements that idx names from each channel's plane; those in the padding are 0.
func gather[T float](cols, x []T, idx []int, channels, plane int) {
	for ch := range channels {
		dst, src := cols[ch*len(idx):][:len(idx)], x[ch*plane:]
		for k, i := range idx {
			if i < 0 {
				dst[k] = 0
			} else {
				dst[k] = src[i]
			}
		}
	}
}

// bias returns the bias of a channel, 0 without one.
func bias[T float](t *tensor.Tensor, channel int) float64 {
	if t == nil {
		return 0
	}
	return float64(tensor.As[T](t)[channel])
}

func setAll(v []float64, x float64) {
	for i := range v {
		v[i] = x
	}
}

// convFlops counts a multiplication and an addition for each tap and channel of each output
// element.
func convFlops(_ *Call, in, out []Type) int64 {
	if len(in[1].Shape) == 0 {
		return 0
	}
	return 2 * out[0].Elements() * Ranked(in[1].DType, in[1].Shape[1:]...).Elements()
}

func inferConvTranspose(c *Infer) error {
	out, err := c.convOut()
	if out == nil {
		return err
	}
	g, err := c.Group()
	if err != nil {
		return err
	}
	if w := c.In[1]; w.Ranked && len(w.Shape) == len(out) {
		out[1] = w.Shape[1].MulInt(g)
		if !c.In[0].Shape[1].MayEqual(w.Shape[0]) {
			return c.Errorf(ErrInput, "X %v and weights %v differ in input channels", c.In[0], w)
		}
		if err := c.checkBias(out[1]); err != nil {
			return err
		}
	}
	return c.transposedDims(out[2:])
}

// transposedDims sets the spatial dimensions of a transposed convolution when the kernel is known.
func (c *Infer) transposedDims(out []Dim) error {
	kernel, ok, err := c.convKernel(len(out))
	if err != nil || !ok {
		return err
	}
	t, err := c.TransposedWindow(kernel)
	if err != nil {
		return err
	}
	for i := range kernel {
		if out[i], err = t.largeDim(i, c.In[0].Shape[i+2]); err != nil {
			return err
		}
	}
	return nil
}

// TransposedWindow is the window of a ConvTranspose, which slides over the output with one place an
// input element.
type TransposedWindow struct {
	Window
	Extra  []int // output_padding: elements added at the end of the output
	Output []int // output_shape, nil when absent
	call   *Call
}

// TransposedWindow reads what [Call.Window] reads and the attributes output_padding and
// output_shape.
func (c *Call) TransposedWindow(kernel []int) (t TransposedWindow, err error) {
	t.call = c
	if t.Window, err = c.Window(kernel); err != nil {
		return t, err
	}
	if t.Extra, err = c.sizesAttr("output_padding", len(kernel), 0, 0); err != nil {
		return t, err
	}
	if v := c.Attrs.Ints("output_shape"); v != nil {
		if len(v) == len(kernel)+2 { // some exporters write the whole shape
			a := slices.Clone(c.Attrs)
			a.Find("output_shape").Ints = v[2:]
			c = &Call{Domain: c.Domain, Type: c.Type, Attrs: a}
		}
		t.Output, err = c.sizesAttr("output_shape", len(kernel), 0, 0)
	}
	return t, err
}

// largeDim returns the output size along spatial axis i.
func (t *TransposedWindow) largeDim(i int, in Dim) (Dim, error) {
	if t.Output != nil {
		return Known(t.Output[i]), nil
	}
	if t.Same() {
		return in.MulInt(t.Stride[i]), nil
	}
	out := in.AddInt(-1).MulInt(t.Stride[i]).
		AddInt(t.Extra[i] + t.extent(i) - t.Begin[i] - t.End[i])
	if n, ok := out.Int(); ok && n < 0 {
		return out, t.call.Errorf(ErrInput,
			"pads %d and %d are more than the whole output on spatial axis %d", t.Begin[i],
			t.End[i], i)
	}
	return out, nil
}

// place fixes the padding where the output size is given or follows from auto_pad: the total that
// remains is split, with the odd element at the end for SAME_UPPER and at the beginning otherwise
// (until version 11 the reverse).
func (t *TransposedWindow) place(small []int) ([]int, error) {
	large := make([]int, len(small))
	for i, n := range small {
		d, err := t.largeDim(i, Known(n))
		if err != nil {
			return nil, err
		}
		o, ok := d.Int()
		if !ok {
			return nil, t.call.Errorf(ErrInput, "output size of spatial axis %d overflows", i)
		}
		large[i] = o
		if t.Output != nil || t.Same() {
			// a larger output gets zeros at its end
			total := max(0, t.Stride[i]*(n-1)+t.Extra[i]+t.extent(i)-o)
			upper := (t.Auto == "SAME_UPPER") == (t.call.Version >= 11)
			t.Begin[i], t.End[i] = splitPad(total, upper)
		}
	}
	return large, nil
}

func evalConvTranspose(c *Eval) error {
	v, err := newConvolution(c, 0)
	if err != nil {
		return err
	}
	t, err := c.TransposedWindow(v.Kernel)
	if err != nil {
		return err
	}
	v.small = v.x.Shape[2:]
	if v.large, err = t.place(v.small); err != nil {
		return err
	}
	v.Window = t.Window
	if err := v.output(c, v.large); err != nil || v.outp.Len() == 0 {
		return err
	}
	if v.x.DType == tensor.Float64 {
		convolveTransposed[float64](&v)
	} else {
		convolveTransposed[float32](&v)
	}
	return nil
}

// convolveTransposed adds weight · input of every input element to the output elements under its
// window.
func convolveTransposed[T float](v *convolution) {
	x, w, y := tensor.As[T](v.x), tensor.As[T](v.w), tensor.As[T](v.outp)
	plane, places, taps := count(v.large), count(v.small), count(v.Kernel)
	sum := biases[T](v, len(y), plane)
	size := blockSize(v.inChan+taps, places)
	idx, block, row := make([]int, taps*size), make([]T, v.inChan*size), make([]float64, size)
	for at := 0; at < places; at += size {
		n := min(size, places-at)
		v.taps(idx, v.large, v.small, at, n)
		for b := range v.batch * v.group {
			for ch := range v.inChan {
				copy(block[ch*n:][:n], x[(b*v.inChan+ch)*places+at:])
			}
			for mt := range v.outChan * taps {
				m, t := mt/taps, mt%taps
				clear(row)
				refmath.AddProduct(row[:n], w[b%v.group*v.inChan*v.outChan*taps+mt:],
					v.outChan*taps, block, v.inChan, n)
				scatterAdd(sum[(b*v.outChan+m)*plane:], row[:n], idx[t*n:])
			}
		}
	}
	for i := range y {
		y[i] = T(sum[i])
	}
}

// biases makes n sums that begin with the bias of their channel, of which each has a plane.
func biases[T float](v *convolution, n, plane int) []float64 {
	sum := make([]float64, n)
	for i := range v.batch * v.group * v.outChan {
		setAll(sum[i*plane:][:plane], bias[T](v.bias, i%(v.group*v.outChan)))
	}
	return sum
}

// scatterAdd adds each value to the element that idx names; -1 names none.
func scatterAdd(sum, values []float64, idx []int) {
	for p, v := range values {
		if i := idx[p]; i >= 0 {
			sum[i] += v
		}
	}
}

func convTransposeFlops(_ *Call, in, _ []Type) int64 {
	if len(in[1].Shape) == 0 {
		return 0
	}
	return 2 * in[0].Elements() * Ranked(in[1].DType, in[1].Shape[1:]...).Elements()
}
