package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
)

// gridOps compute the places that GridSample reads: AffineGrid (Jaderberg et al. 2015).
var gridOps = []Op{
	{Name: "AffineGrid", Since: []int{20}, MinIn: 2, MaxIn: 2, Infer: inferAffineGrid,
		Eval: evalAffineGrid},
}

// inferAffineGrid shapes the grid as input size says: batch × spatial × their number.
func inferAffineGrid(c *Infer) error {
	theta, ranked, err := c.PropagateDType(floatTypes)
	if err != nil {
		return err
	}
	size := c.Dims(1)
	n := c.length(1)
	if size != nil {
		n = len(size)
	}
	if n >= 0 && n != 4 && n != 5 {
		return c.Errorf(ErrInput, "size has %d elements, must have 4 (two axes) or 5 (three)", n)
	}
	if n < 0 {
		return nil
	}
	out := append(unknownDims(n-1), Known(n-2))
	if ranked {
		if len(theta.Shape) != 3 {
			return c.Errorf(ErrInput, "theta %v must be batch × %d × %d", theta, n-2, n-1)
		}
		out[0] = theta.Shape[0]
	}
	if size != nil {
		copy(out[1:], size[2:])
	}
	c.Out[0] = Ranked(theta.DType, out...)
	return c.checkDims(out)
}

// evalAffineGrid applies a matrix a batch entry to places spaced evenly over [-1, 1]: the ends are
// the centers of the outer pixels with align_corners, their outer edges without.
func evalAffineGrid(c *Eval) error {
	size, err := c.sizesInput(1)
	if err != nil {
		return err
	}
	rank := len(size) - 2
	if rank != 2 && rank != 3 {
		return c.Errorf(ErrInput, "size has %d elements, must have 4 (two axes) or 5 (three)",
			len(size))
	}
	theta, err := c.FloatsOf(0, size[0], rank, rank+1)
	if err != nil {
		return err
	}
	out, y, err := c.outputFloats(c.In[0].DType, slices.Concat(size[:1], size[2:], []int{rank}))
	if err != nil || len(y) == 0 {
		return err
	}
	mapPoints(y, theta, size, c.Attrs.Bool("align_corners", false))
	return c.round(out, y)
}

// mapPoints writes, for each image of the given sizes, where its affine map theta takes each point
// of the image.
func mapPoints(y, theta []float64, size []int, corners bool) {
	rank := len(size) - 2
	place, point := make([]int, rank), append(make([]float64, rank), 1)
	points := count(size[2:])
	for p := range points {
		unravel(place, size[2:], p)
		for i, n := range size[2:] {
			point[rank-1-i] = spaced(place[i], n, corners) // x comes first, and is the last axis
		}
		for b := range size[0] {
			for i := range rank {
				y[(b*points+p)*rank+i] = refmath.Dot(theta[(b*rank+i)*(rank+1):][:rank+1], point)
			}
		}
	}
}

// spaced is place i of n over [-1, 1].
func spaced(i, n int, corners bool) float64 {
	switch {
	case corners && n == 1:
		return -1
	case corners:
		return -1 + 2*float64(i)/float64(n-1)
	}
	return -1 + (2*float64(i)+1)/float64(n)
}
