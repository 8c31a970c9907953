package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// windowOps make what audio front ends multiply with: window functions, and the weights of mel
// filters.
var windowOps = []Op{
	windowFunction("BlackmanWindow", func(turn float64) float64 {
		return 0.08*math.Cos(2*turn) - 0.5*math.Cos(turn) + 0.42
	}),
	windowFunction("HammingWindow", func(turn float64) float64 {
		return 25.0/46 - 21.0/46*math.Cos(turn)
	}),
	windowFunction("HannWindow", func(turn float64) float64 { return 0.5 - 0.5*math.Cos(turn) }),
	{Name: "MelWeightMatrix", Since: []int{17}, MinIn: 5, MaxIn: 5, Infer: inferMel, Eval: evalMel},
}

// windowFunction is the row of a window of input 0 elements, a function of the angle that goes once
// round the window. A periodic one ends before its first value comes again.
func windowFunction(name string, f func(turn float64) float64) Op {
	return Op{Name: name, Since: []int{17}, MinIn: 1, MaxIn: 1, Infer: inferWindow,
		Eval: func(c *Eval) error { return c.evalWindow(f) }}
}

// outputType is attribute output_datatype, a type of number.
func (c *Call) outputType() (tensor.DType, error) {
	d := tensor.DType(c.Attrs.Int("output_datatype", int64(tensor.Float32)))
	if !numberTypes.Has(d) {
		return d, c.Errorf(ErrAttr, "output_datatype %v is no type of number", d)
	}
	return d, nil
}

func inferWindow(c *Infer) error {
	d, err := c.outputType()
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(d, c.oneDim(0))
	return c.checkDims(c.Out[0].Shape)
}

func (c *Eval) evalWindow(f func(turn float64) float64) error {
	d, err := c.outputType()
	if err != nil {
		return err
	}
	size, err := c.sizeInput(0)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, []int{size})
	if err != nil {
		return err
	}
	period := float64(size)
	if !c.Attrs.Bool("periodic", true) {
		period--
	}
	return castInto(c.Call, out, tensor.From(windowElems(size, period, f), size))
}

// windowElems are the elements of a window, f of how far into the period each lies as an angle. A
// window of one element has no angle: NumPy and PyTorch give 1.
func windowElems(size int, period float64, f func(turn float64) float64) []float64 {
	v := make([]float64, size)
	for i := range v {
		v[i] = 1
		if period > 0 {
			v[i] = f(2 * math.Pi * float64(i) / period)
		}
	}
	return v
}

// sizeInput is the only element of integer input i, the size of a dimension.
func (c *Eval) sizeInput(i int) (int, error) {
	v, err := c.Int(i)
	if err != nil {
		return 0, err
	}
	return c.size(v)
}

func inferMel(c *Infer) error {
	d, err := c.outputType()
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(d, c.oneDim(1).FloorDiv(2).AddInt(1), c.oneDim(0))
	return c.checkDims(c.Out[0].Shape)
}

// evalMel puts triangles over the bins of a spectrum, spaced evenly on the mel scale, 2595·log10(1
// + f/700). Each begins at the peak of the one before and ends at that of the one after.
func evalMel(c *Eval) error {
	d, err := c.outputType()
	if err != nil {
		return err
	}
	var sizes [3]int // num_mel_bins, dft_length, sample_rate
	for i := range sizes {
		if sizes[i], err = c.sizeInput(i); err != nil {
			return err
		}
	}
	shape := []int{sizes[1]/2 + 1, sizes[0]}
	out, err := c.Output(0, d, shape)
	if err != nil {
		return err
	}
	v := make([]float64, out.Len())
	points, err := c.melPoints(sizes[0]+2, sizes[1], sizes[2], shape[0])
	if err != nil {
		return err
	}
	for k := range sizes[0] {
		melTriangle(v[k:], sizes[0], points[k], points[k+1], points[k+2])
	}
	return castInto(c.Call, out, tensor.From(v, shape...))
}

// melTriangle sets one column of a matrix, bands elements a row, to a triangle over its rows: 0 at
// low, 1 at peak, 0 at high.
func melTriangle(v []float64, bands, low, peak, high int) {
	if low == peak {
		v[peak*bands] = 1
	}
	for j := low; j < peak; j++ {
		v[j*bands] = float64(j-low) / float64(peak-low)
	}
	for j := peak; j < high; j++ {
		v[j*bands] = float64(high-j) / float64(high-peak)
	}
	if low < peak {
		v[peak*bands] = 1
	}
}

// melEdges are lower_edge_hertz and upper_edge_hertz on the mel scale.
func (c *Eval) melEdges() (edges [2]float64, err error) {
	for i := range edges {
		v, err := c.Floats(3 + i)
		if err != nil {
			return edges, err
		}
		if len(v) != 1 {
			return edges, c.Errorf(ErrInput, "input %d has %d elements, wants one", 3+i, len(v))
		}
		edges[i] = 2595 * math.Log10(1+v[0]/700)
	}
	return edges, nil
}

// melPoints are the bins of n frequencies, from lower_edge_hertz on, in steps of an n-th of the way
// to upper_edge_hertz.
func (c *Eval) melPoints(n, length, rate, bins int) ([]int, error) {
	edges, err := c.melEdges()
	if err != nil {
		return nil, err
	}
	points := make([]int, n)
	for i := range points {
		mel := edges[0] + float64(i)*(edges[1]-edges[0])/float64(n)
		hertz := 700 * (math.Pow(10, mel/2595) - 1)
		p := math.Floor(float64(length+1) * hertz / float64(rate))
		if !(p >= 0 && p < float64(bins)) || i > 0 && int(p) < points[i-1] {
			return nil, c.Errorf(ErrInput,
				"%v hertz at %d samples a second is none of %d bins, or the edges fall", hertz,
				rate, bins)
		}
		points[i] = int(p)
	}
	return points, nil
}
