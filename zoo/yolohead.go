package zoo

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// yoloStrides are the pixels from one cell to the next of the three levels.
var yoloStrides = [...]int{8, 16, 32}

// dflBins is the number of distances of which the head predicts a distribution for each side of a
// box.
const dflBins = 16

// detect is YOLOv8's head without anchor boxes: each cell predicts the distances from its centre to
// the four sides of a box, and a score for each class.
type detect struct {
	*builder
	classes              int
	size                 int // of the picture
	boxWidth, classWidth int // channels of the two branches
}

// cells counts the cells of all levels.
func (d detect) cells() int {
	n := 0
	for _, s := range yoloStrides {
		n += (d.size / s) * (d.size / s)
	}
	return n
}

// level adds the two branches of one level and joins their results.
func (d detect) level(i int, x *graph.Value, in int) *graph.Value {
	box := d.branch(fmt.Sprintf("cv2.%d", i), x, in, d.boxWidth, 4*dflBins)
	class := d.branch(fmt.Sprintf("cv3.%d", i), x, in, d.classWidth, d.classes)
	return d.concat(1, box, class)
}

func (d detect) branch(name string, x *graph.Value, in, width, out int) *graph.Value {
	b := d.in(name)
	x = b.at(0).convSiLU(x, conv{in: in, out: width, kernel: 3, stride: 1, groups: 1})
	x = b.at(1).convSiLU(x, conv{in: width, out: width, kernel: 3, stride: 1, groups: 1})
	return b.at(2).convBias(x,
		conv{in: width, out: out, kernel: 1, stride: 1, groups: 1, gain: siluGain})
}

// decode turns the levels into [1, 4+classes, cells]: centre x and y, width and height in pixels,
// and class scores.
func (d detect) decode(levels []*graph.Value) *graph.Value {
	channels := int64(4*dflBins + d.classes)
	flat := make([]*graph.Value, len(levels))
	for i, l := range levels {
		flat[i] = d.reshape(l, d.ints(1, channels, -1))
	}
	parts := d.split(d.concat(2, flat...), 1, 4*dflBins, int64(d.classes))
	lt, rb := d.chunk(d.expectation(parts[0]))
	anchors, strides := d.grid()

	x1y1 := d.op("Sub", anchors, lt)
	x2y2 := d.op("Add", anchors, rb)
	centre := d.op("Div", d.op("Add", x1y1, x2y2), d.float(2))
	size := d.op("Sub", x2y2, x1y1)
	box := d.op("Mul", d.concat(1, centre, size), strides)
	return d.concat(1, box, d.op("Sigmoid", parts[1]))
}

// expectation reads each distance as the mean of its distribution over the bins (Li et al.,
// "Generalized Focal Loss", 2020, section 3.2), which Ultralytics writes as a convolution with the
// fixed weights 0, 1, .., 15.
func (d detect) expectation(x *graph.Value) *graph.Value {
	b := d.in("dfl")
	x = b.reshape(x, b.ints(1, 4, dflBins, int64(d.cells())))
	x = b.transpose(x, 0, 2, 1, 3)
	x = b.opWith("Softmax", axis(1), x)
	bins := make([]float32, dflBins)
	for i := range bins {
		bins[i] = float32(i)
	}
	m := b.in("conv")
	weights := graph.NewConst(m.prefix+weightSuffix, tensor.From(bins, 1, dflBins, 1, 1))
	x = m.opWith("Conv", conv{kernel: 1, stride: 1, groups: 1}.attrs(), x, weights)
	return b.reshape(x, b.ints(1, 4, int64(d.cells())))
}

// chunk halves axis 1 into left-top and right-bottom distances, with the arithmetic that exporters
// write for torch.chunk.
func (d detect) chunk(x *graph.Value) (lt, rb *graph.Value) {
	n := d.opWith("Gather", axis(0), d.op("Shape", x), d.ints(1))
	half := d.op("Div", d.op("Add", n, d.ints(1)), d.ints(2))
	mid := d.op("Mul", half, d.ints(1))
	lt = d.op("Slice", x, d.ints(0), mid, d.ints(1))
	end := d.op("Mul", half, d.ints(2))
	rb = d.op("Slice", x, mid, end, d.ints(1))
	return lt, rb
}

// grid returns the centres of all cells in units of cells, x before y, and the pixels of a cell.
func (d detect) grid() (anchors, strides *graph.Value) {
	n := d.cells()
	centres := make([]float32, 2*n)
	pixels := make([]float32, n)
	i := 0
	for _, s := range yoloStrides {
		side := d.size / s
		for y := range side {
			for x := range side {
				centres[i], centres[n+i] = float32(x)+0.5, float32(y)+0.5
				pixels[i] = float32(s)
				i++
			}
		}
	}
	return d.constant(tensor.From(centres, 1, 2, n)), d.constant(tensor.From(pixels, 1, n))
}
