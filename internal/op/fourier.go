package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// fourierOps are the discrete Fourier transforms: DFT of whole signals, STFT of the frames of a
// signal.
var fourierOps = []Op{
	{Name: "DFT", Since: []int{17, 20}, MinIn: 1, MaxIn: 3, Infer: inferDFT, Eval: evalDFT},
	{Name: "STFT", Since: []int{17}, MinIn: 2, MaxIn: 4, Infer: inferSTFT, Eval: evalSTFT},
}

// transform is the direction of a DFT, and whether the half of a spectrum that the other half
// repeats is left out.
type transform struct{ inverse, onesided bool }

func transformOf(c *Call) transform {
	return transform{c.Attrs.Bool("inverse", false), c.Attrs.Bool("onesided", false)}
}

// real reports whether the result is a real signal: a one-sided spectrum stands for one.
func (t transform) real() bool { return t.inverse && t.onesided }

// parts is the last axis of the result: real parts, or real and imaginary ones.
func (t transform) parts() int {
	if t.real() {
		return 1
	}
	return 2
}

// checkParts holds the last axis of the operand to what the transform takes.
func (t transform) checkParts(c *Call, parts int) error {
	switch {
	case parts != 1 && parts != 2:
		return c.Errorf(ErrInput, "last axis has %d elements, must have 1 (real) or 2 (complex)",
			parts)
	case t.onesided && !t.inverse && parts == 2:
		return c.Errorf(ErrInput, "onesided takes a real signal, this one is complex")
	case t.real() && parts == 1:
		return c.Errorf(ErrInput, "onesided and inverse take a complex spectrum, this one is real")
	}
	return nil
}

// dftAxis brings an axis into [0, rank-1): the last one holds the parts of complex numbers.
func (c *Call) dftAxis(a int64, rank int) (int, error) {
	k, err := c.Axis(a, rank)
	if err == nil && k == rank-1 {
		err = c.Errorf(ErrAttr, "axis %d holds the parts of complex numbers", a)
	}
	return k, err
}

// oneDim is the only element of integer input i, Unknown when it is not known or the input is
// absent.
func (c *Infer) oneDim(i int) Dim {
	if v := c.Dims(i); len(v) == 1 {
		return v[0]
	}
	return Unknown()
}

func inferDFT(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes)
	if !ranked {
		return err
	}
	t, r := transformOf(c.Call), len(x.Shape)
	if r < 2 {
		return c.Errorf(ErrInput,
			"input %v must have a signal axis and one for the parts of complex numbers", x)
	}
	if parts, ok := x.Shape[r-1].Int(); ok {
		if err := t.checkParts(c.Call, parts); err != nil {
			return err
		}
	}
	out := slices.Clone(x.Shape)
	out[r-1] = Known(t.parts())
	axis, known, err := c.dftAxisOf(r)
	if err != nil {
		return err
	}
	if !known {
		out = append(unknownDims(r-1), out[r-1])
	} else if out[axis], err = c.dftSize(t, x.Shape[axis]); err != nil {
		return err
	}
	c.Out[0] = Ranked(x.DType, out...)
	return nil
}

// dftAxisOf is the axis of a DFT: attribute axis before version 20, input 2 from then on.
func (c *Infer) dftAxisOf(rank int) (axis int, known bool, err error) {
	a := c.Attrs.Int("axis", 1)
	if c.Version >= 20 {
		a = -2
		if c.Has(2) {
			v, known := c.Ints(2)
			if !known || len(v) != 1 {
				return 0, false, nil
			}
			a = v[0]
		}
	}
	axis, err = c.dftAxis(a, rank)
	return axis, err == nil, err
}

// dftSize is the size of the transformed axis, which the input has with n.
func (c *Infer) dftSize(t transform, n Dim) (Dim, error) {
	length := n
	if t.real() {
		length = n.AddInt(-1).MulInt(2)
	}
	if c.Has(1) {
		length = c.oneDim(1)
	}
	if v, ok := length.Int(); ok && v < 1 {
		return length, c.Errorf(ErrInput, "dft_length is %d, must be positive", v)
	}
	if t.onesided && !t.inverse {
		return length.FloorDiv(2).AddInt(1), nil
	}
	return length, nil
}

func evalDFT(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	t, r := transformOf(c.Call), x.Rank()
	if r < 2 {
		return c.Errorf(ErrInput,
			"input %v must have a signal axis and one for the parts of complex numbers", x.Shape)
	}
	if err := t.checkParts(c.Call, x.Shape[r-1]); err != nil {
		return err
	}
	axis, n, err := c.dftOperands(t)
	if err != nil {
		return err
	}
	v, err := c.Floats(0)
	if err != nil {
		return err
	}
	shape := slices.Clone(x.Shape)
	shape[axis], shape[r-1] = t.size(n), t.parts()
	out, y, err := c.outputFloats(x.DType, shape)
	if err != nil || len(y) == 0 {
		return err
	}
	t.lines(y, v, x.Shape, axis, n)
	return c.round(out, y)
}

// dftOperands reads the axis and the length of the signal, which may differ from the axis's size.
func (c *Eval) dftOperands(t transform) (axis, n int, err error) {
	a := c.Attrs.Int("axis", 1)
	if c.Version >= 20 {
		if a, err = c.intOr(2, -2); err != nil {
			return 0, 0, err
		}
	}
	x := c.In[0]
	if axis, err = c.dftAxis(a, x.Rank()); err != nil {
		return 0, 0, err
	}
	length := int64(x.Shape[axis])
	if t.real() {
		length = 2 * (length - 1)
	}
	if length, err = c.intOr(1, length); err != nil {
		return 0, 0, err
	}
	if length < 1 || length > tensor.MaxHeapBytes {
		return 0, 0, c.Errorf(ErrInput, "dft_length is %d, must be positive", length)
	}
	return axis, int(length), nil
}

// size is how many values the transform of n gives.
func (t transform) size(n int) int {
	if t.onesided && !t.inverse {
		return n/2 + 1
	}
	return n
}

// lines transforms every line of x along an axis, cut or padded with zeros to n, into y.
func (t transform) lines(y, x []float64, shape []int, axis, n int) {
	r := len(shape)
	d, inner, parts := shape[axis], count(shape[axis+1:r-1]), shape[r-1]
	line := make([]complex128, n)
	for p := range count(shape[:axis]) * inner {
		o, i := p/inner, p%inner
		clear(line)
		for k := range min(d, n) {
			at := ((o*d+k)*inner + i) * parts
			line[k] = complex(x[at], 0)
			if parts == 2 {
				line[k] = complex(x[at], x[at+1])
			}
		}
		for k, z := range t.apply(line) {
			at := ((o*t.size(n)+k)*inner + i) * t.parts()
			y[at] = real(z)
			if t.parts() == 2 {
				y[at+1] = imag(z)
			}
		}
	}
}

// apply transforms one line and returns what the operator keeps of the result.
func (t transform) apply(line []complex128) []complex128 {
	n := len(line)
	if t.real() {
		mirror(line)
	}
	y := fourier(line, t.inverse)
	if t.inverse {
		for k := range y {
			y[k] /= complex(float64(n), 0)
		}
	}
	return y[:t.size(n)]
}

// mirror completes a one-sided spectrum of a real signal: value n-k is the conjugate of value k, so
// that the ones which are their own mirror image are real.
func mirror(s []complex128) {
	n := len(s)
	s[0] = complex(real(s[0]), 0)
	for k := 1; k <= n/2; k++ {
		if k == n-k {
			s[k] = complex(real(s[k]), 0)
			continue
		}
		s[n-k] = complex(real(s[k]), -imag(s[k]))
	}
}

// fourier returns Σ x[t]·exp(∓2πi·kt/n) for each k, with the minus of the forward transform.
func fourier(x []complex128, inverse bool) []complex128 {
	roots := rootsOfUnity(len(x), inverse)
	out := make([]complex128, len(x))
	mixedRadix(out, x, 1, roots, inverse)
	return out
}

// rootsOfUnity returns exp(∓2πi·k/n) for each k.
func rootsOfUnity(n int, inverse bool) []complex128 {
	roots := make([]complex128, n)
	for k := range roots {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
		if !inverse {
			sin = -sin
		}
		roots[k] = complex(cos, sin)
	}
	return roots
}

// longestPrime is the longest prime length that is summed up as it is defined.
const longestPrime = 61

// mixedRadix transforms every step-th element of x, len(out) of them (Cooley and Tukey 1965): those
// of each residue modulo the least prime factor first. roots are those of all of x.
func mixedRadix(out, x []complex128, step int, roots []complex128, inverse bool) {
	n := len(out)
	p := leastFactor(n)
	if p == n && n > longestPrime {
		chirp(out, x, step, inverse)
		return
	}
	if n == 1 {
		out[0] = x[0]
		return
	}
	m := n / p
	parts := make([]complex128, n)
	for r := range p {
		mixedRadix(parts[r*m:][:m], x[r*step:], step*p, roots, inverse)
	}
	for k := range n {
		var sum complex128
		for r := range p {
			sum += parts[r*m+k%m] * roots[r*k%n*step]
		}
		out[k] = sum
	}
}

// leastFactor returns the least prime factor of n, 1 for 1.
func leastFactor(n int) int {
	for p := 2; p*p <= n; p++ {
		if n%p == 0 {
			return p
		}
	}
	return n
}

// chirp transforms a prime number of elements as a convolution of twice as many or more, a power of
// two (Bluestein 1970): kt is (k² + t² - (k-t)²) / 2.
func chirp(out, x []complex128, step int, inverse bool) {
	n, m := len(out), 1
	for m < 2*n-1 {
		m *= 2
	}
	w := rootsOfUnity(2*n, inverse)
	a, b := make([]complex128, m), make([]complex128, m)
	for k := range n {
		c := w[k*k%(2*n)]
		a[k] = x[k*step] * c
		b[k] = complex(real(c), -imag(c))
		b[(m-k)%m] = b[k]
	}
	fa, fb := fourier(a, false), fourier(b, false)
	for k := range fa {
		fa[k] *= fb[k]
	}
	for k, z := range fourier(fa, true)[:n] {
		out[k] = z * w[k*k%(2*n)] / complex(float64(m), 0)
	}
}

// inferSTFT shapes batch × frames × bins × 2.
func inferSTFT(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes)
	if err != nil {
		return err
	}
	out := []Dim{Unknown(), Unknown(), Unknown(), Known(2)}
	length := Unknown()
	if ranked {
		if len(x.Shape) != 3 {
			return c.Errorf(ErrInput, "signal %v must be batch × length × 1 or 2", x)
		}
		out[0], length = x.Shape[0], x.Shape[1]
	}
	frame := c.frameDim(length)
	if step, ok := c.oneDim(1).Int(); ok && step > 0 {
		out[1] = length.Sub(frame).FloorDiv(step).AddInt(1)
	}
	out[2] = frame
	if c.Attrs.Bool("onesided", true) {
		out[2] = frame.FloorDiv(2).AddInt(1)
	}
	c.Out[0] = Ranked(x.DType, out...)
	return c.checkDims(out)
}

// frameDim is how long a frame is: frame_length, else as long as the window, else as the signal.
func (c *Infer) frameDim(signal Dim) Dim {
	switch {
	case c.Has(3):
		return c.oneDim(3)
	case !c.Has(2):
		return signal
	case c.In[2].Ranked && len(c.In[2].Shape) == 1:
		return c.In[2].Shape[0]
	}
	return Unknown()
}

func evalSTFT(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	if x.Rank() != 3 {
		return c.Errorf(ErrInput, "signal %v must be batch × length × 1 or 2", x.Shape)
	}
	t := transform{onesided: c.Attrs.Bool("onesided", true)}
	parts := x.Shape[2]
	if err := t.checkParts(c.Call, parts); err != nil {
		return err
	}
	step, window, err := c.frames(x.Shape[1])
	if err != nil {
		return err
	}
	v, err := c.Floats(0)
	if err != nil {
		return err
	}
	batch, length, n := x.Shape[0], x.Shape[1], len(window)
	shape := []int{batch, (length-n)/step + 1, t.size(n), 2}
	out, y, err := c.outputFloats(x.DType, shape)
	if err != nil {
		return err
	}
	frame := make([]float64, n*parts)
	for p := range batch * shape[1] {
		from := (p/shape[1]*length + p%shape[1]*step) * parts
		for i := range frame {
			frame[i] = v[from+i] * window[i/parts]
		}
		t.lines(y[p*shape[2]*2:], frame, []int{n, parts}, 0, n)
	}
	return c.round(out, y)
}

// frames reads frame_step and the window, ones without input 2.
func (c *Eval) frames(signal int) (step int, window []float64, err error) {
	s, err := c.Int(1)
	if err != nil {
		return 0, nil, err
	}
	n := int64(signal)
	if c.Has(2) {
		if c.In[2].Rank() != 1 {
			return 0, nil, c.Errorf(ErrInput, "window %v must have rank 1", c.In[2].Shape)
		}
		n = int64(c.In[2].Shape[0])
	}
	if n, err = c.intOr(3, n); err != nil {
		return 0, nil, err
	}
	if s < 1 || s > math.MaxInt32 || n < 1 || n > int64(signal) {
		return 0, nil, c.Errorf(ErrInput, "frames of %d every %d of a signal of %d", n, s, signal)
	}
	if !c.Has(2) {
		return int(s), slices.Repeat([]float64{1}, int(n)), nil
	}
	window, err = c.FloatsOf(2, int(n))
	return int(s), window, err
}
