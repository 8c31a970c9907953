package op

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// detectOps finish object detectors: NonMaxSuppression.
var detectOps = []Op{
	{Name: "NonMaxSuppression", Since: []int{10, 11}, MinIn: 2, MaxIn: 5, Infer: inferNMS,
		Eval: evalNMS},
}

func inferNMS(c *Infer) error {
	for i := range 2 {
		if r := c.rank(i); r >= 0 && r != 3 {
			return c.Errorf(ErrInput, "input %d is %v, wants rank 3", i, c.In[i])
		}
	}
	c.Out[0] = Ranked(tensor.Int64, Unknown(), Known(3))
	return nil
}

// nms is the state of one NonMaxSuppression: how many boxes a class may keep, how much two of them
// may overlap, and the score that a box must exceed.
type nms struct {
	most         int64
	overlap, low float32
	// boxes are [x center, y center, width, height] instead of two opposite corners [y, x, y, x]
	center bool
}

func nmsOf(c *Eval) (p nms, err error) {
	p = nms{low: float32(math.Inf(-1)), center: c.Attrs.Bool("center_point_box", false)}
	if p.most, err = c.intOr(2, 0); err != nil {
		return p, err
	}
	for i, to := range map[int]*float32{3: &p.overlap, 4: &p.low} {
		if !c.Has(i) {
			continue
		}
		if t := c.In[i]; t.DType != tensor.Float32 || t.Len() != 1 {
			return p, c.Errorf(ErrInput, "input %d is %v%v, wants one float32", i, t.DType, t.Shape)
		}
		*to = tensor.As[float32](c.In[i])[0]
	}
	return p, nil
}

// box is a rectangle by its corners, lower ones first.
type box struct{ y0, x0, y1, x1 float32 }

func (p nms) box(b []float32) box {
	if p.center {
		return box{b[1] - b[3]/2, b[0] - b[2]/2, b[1] + b[3]/2, b[0] + b[2]/2}
	}
	return box{min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])}
}

func (b box) area() float32 { return (b.y1 - b.y0) * (b.x1 - b.x0) }

// iou is intersection over union; boxes without area overlap nothing.
func (b box) iou(o box) float32 {
	h := min(b.y1, o.y1) - max(b.y0, o.y0)
	w := min(b.x1, o.x1) - max(b.x0, o.x0)
	if h <= 0 || w <= 0 || b.area() <= 0 || o.area() <= 0 {
		return 0
	}
	return h * w / (b.area() + o.area() - h*w)
}

// keep returns which boxes of a class survive, best score first, of equal scores the first: each
// that does not overlap one already kept by more than the threshold.
func (p nms) keep(boxes []box, scores []float32) []int {
	var order, kept []int
	for i, s := range scores {
		if s > p.low {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, i := range order {
		if int64(len(kept)) >= p.most {
			break
		}
		if !slices.ContainsFunc(kept, func(k int) bool {
			return boxes[i].iou(boxes[k]) > p.overlap
		}) {
			kept = append(kept, i)
		}
	}
	return kept
}

// evalNMS gives [batch, class, box] for every box kept.
func evalNMS(c *Eval) error {
	p, err := nmsOf(c)
	if err != nil {
		return err
	}
	found, err := p.search(c)
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.Int64, []int{len(found) / 3, 3})
	if err != nil {
		return err
	}
	copy(tensor.As[int64](out), found)
	return nil
}

// search returns batch, class and box of every box kept, one after the other.
func (p nms) search(c *Eval) (found []int64, err error) {
	in, scores := c.In[0], c.In[1]
	if in.DType != tensor.Float32 || scores.DType != tensor.Float32 || in.Rank() != 3 ||
		scores.Rank() != 3 ||
		in.Shape[0] != scores.Shape[0] || in.Shape[1] != scores.Shape[2] || in.Shape[2] != 4 {
		return nil, c.Errorf(ErrInput, "boxes %v%v, scores %v%v", in.DType, in.Shape, scores.DType,
			scores.Shape)
	}
	n, classes := in.Shape[1], scores.Shape[1]
	boxes := make([]box, n)
	for b := range in.Shape[0] {
		for i := range boxes {
			boxes[i] = p.box(tensor.As[float32](in)[(b*n+i)*4:][:4])
		}
		for k := range classes {
			if err := c.Ctx.Err(); err != nil {
				return nil, err
			}
			for _, i := range p.keep(boxes, tensor.As[float32](scores)[(b*classes+k)*n:][:n]) {
				found = append(found, int64(b), int64(k), int64(i))
			}
		}
	}
	return found, nil
}
