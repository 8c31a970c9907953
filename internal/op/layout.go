package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/strided"
)

// layoutOps rearrange elements by fixed patterns: DepthToSpace, SpaceToDepth, ReverseSequence,
// Trilu.
var layoutOps = []Op{
	{Name: "DepthToSpace", Since: []int{1, 11, 13, 28}, MinIn: 1, MaxIn: 1,
		Infer: inferDepthToSpace, Eval: evalDepthToSpace, grad: gradDepthToSpace},
	{Name: "SpaceToDepth", Since: []int{1, 13, 28}, MinIn: 1, MaxIn: 1, Infer: inferSpaceToDepth,
		Eval: evalSpaceToDepth, grad: gradSpaceToDepth},
	{Name: "ReverseSequence", Since: []int{10, 28}, MinIn: 2, MaxIn: 2, Infer: inferFirst,
		Eval: evalReverseSequence, grad: gradSame},
	{Name: "Trilu", Since: []int{14}, MinIn: 1, MaxIn: 2, Infer: inferFirst, Eval: evalTrilu,
		grad: gradSame},
}

// inferFirst is the rule of operators whose output has the type and shape of the first input.
func inferFirst(c *Infer) error {
	c.Out[0] = Type{DType: c.In[0].DType, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return nil
}

// depthBlock is the required attribute blocksize, at most one that could still be squared.
func depthBlock(c *Call) (int, error) {
	b := c.Attrs.Int("blocksize", 0)
	if b < 1 || b > 1<<20 {
		return 0, c.Errorf(ErrAttr, "blocksize %d", b)
	}
	return int(b), nil
}

func inferDepthToSpace(c *Infer) error {
	b, err := depthBlock(c.Call)
	if err != nil {
		return err
	}
	if mode := c.Attrs.String("mode", "DCR"); mode != "DCR" && mode != "CRD" {
		return c.Errorf(ErrAttr, "mode %q", mode)
	}
	s, err := c.imageDims()
	if err != nil {
		return err
	}
	if n, ok := s[1].Int(); ok && n%(b*b) != 0 {
		return c.Errorf(ErrInput, "%d channels do not part into blocks of %d", n, b)
	}
	c.Out[0] = Ranked(c.In[0].DType, s[0], s[1].FloorDiv(b*b), s[2].MulInt(b), s[3].MulInt(b))
	return nil
}

func inferSpaceToDepth(c *Infer) error {
	b, err := depthBlock(c.Call)
	if err != nil {
		return err
	}
	s, err := c.imageDims()
	if err != nil {
		return err
	}
	for _, d := range s[2:] {
		if n, ok := d.Int(); ok && n%b != 0 {
			return c.Errorf(ErrInput, "size %d does not part into blocks of %d", n, b)
		}
	}
	c.Out[0] = Ranked(c.In[0].DType, s[0], s[1].MulInt(b*b), s[2].FloorDiv(b), s[3].FloorDiv(b))
	return nil
}

// imageDims returns batch, channels, height and width of input 0.
func (c *Infer) imageDims() ([]Dim, error) {
	switch c.rank(0) {
	case 4:
		return c.In[0].Shape, nil
	case -1:
		return unknownDims(4), nil
	}
	return nil, c.Errorf(ErrInput, "wants rank 4, has %v", c.In[0])
}

// permuted makes output 0 of the given shape from input 0 seen as the shape split with its axes in
// the order perm.
func (c *Eval) permuted(shape, split, perm []int) error {
	in := c.In[0]
	out, err := c.Output(0, in.DType, shape)
	if err != nil {
		return err
	}
	rows := rowMajor(split)
	walk, strides := make([]int, len(perm)), make([]int, len(perm))
	for i, k := range perm {
		walk[i], strides[i] = split[k], rows[k]
	}
	return strided.Copy(out, strided.RowMajor(walk), in, strided.Steps{Strides: strides}, walk)
}

func evalDepthToSpace(c *Eval) error {
	b, err := depthBlock(c.Call)
	if err != nil {
		return err
	}
	s := c.In[0].Shape
	if len(s) != 4 || s[1]%(b*b) != 0 {
		return c.Errorf(ErrInput, "blocks of %d for %v", b, s)
	}
	n, d, h, w := s[0], s[1]/(b*b), s[2], s[3]
	out := []int{n, d, h * b, w * b}
	switch mode := c.Attrs.String("mode", "DCR"); mode {
	case "DCR":
		return c.permuted(out, []int{n, b, b, d, h, w}, []int{0, 3, 4, 1, 5, 2})
	case "CRD":
		return c.permuted(out, []int{n, d, b, b, h, w}, []int{0, 1, 4, 2, 5, 3})
	default:
		return c.Errorf(ErrAttr, "mode %q", mode)
	}
}

func evalSpaceToDepth(c *Eval) error {
	b, err := depthBlock(c.Call)
	if err != nil {
		return err
	}
	s := c.In[0].Shape
	if len(s) != 4 || s[2]%b != 0 || s[3]%b != 0 {
		return c.Errorf(ErrInput, "blocks of %d for %v", b, s)
	}
	n, d, h, w := s[0], s[1], s[2]/b, s[3]/b
	order := []int{0, 3, 5, 1, 2, 4}
	switch mode := c.Attrs.String("mode", "DCR"); mode { // since version 28
	case "CRD":
		order = []int{0, 1, 3, 5, 2, 4}
	case "DCR":
	default:
		return c.Errorf(ErrAttr, "mode %q", mode)
	}
	return c.permuted([]int{n, d * b * b, h, w}, []int{n, d, h, b, w, b}, order)
}

// evalReverseSequence turns the first sequence_lens[i] steps of each batch entry i around.
func evalReverseSequence(c *Eval) error {
	in := c.In[0]
	batch, time := c.Attrs.Int("batch_axis", 1), c.Attrs.Int("time_axis", 0)
	if in.Rank() < 2 || min(batch, time) != 0 || max(batch, time) != 1 {
		return c.Errorf(ErrInput, "batch_axis %d and time_axis %d of %v", batch, time, in.Shape)
	}
	lens, err := c.Ints(1)
	if err != nil {
		return err
	}
	if len(lens) != in.Shape[batch] || slices.ContainsFunc(lens, func(n int64) bool {
		return n < 0 || n > int64(in.Shape[time])
	}) {
		return c.Errorf(ErrInput, "lengths %v for a batch of %d sequences of %d", lens,
			in.Shape[batch], in.Shape[time])
	}
	out, err := c.Output(0, in.DType, in.Shape)
	if err != nil {
		return err
	}
	copyElems(out, 0, in, 0, in.Len())
	rows := rowMajor(in.Shape)
	for i, n := range lens {
		base := i * rows[batch]
		for t := range int(n) {
			copyElems(out, base+t*rows[time], in, base+(int(n)-1-t)*rows[time], rows[1])
		}
	}
	return nil
}

// evalTrilu keeps the upper or lower triangle of the last two axes from diagonal k on and zeroes
// the rest.
func evalTrilu(c *Eval) error {
	in := c.In[0]
	if in.Rank() < 2 {
		return c.Errorf(ErrInput, "wants rank 2 or more, has %v", in.Shape)
	}
	k, err := c.intOr(1, 0)
	if err != nil {
		return err
	}
	out, err := c.ZeroOutput(0, in.DType, in.Shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	rows, cols := in.Shape[in.Rank()-2], in.Shape[in.Rank()-1]
	k = min(max(k, -int64(rows)), int64(cols))
	upper := c.Attrs.Bool("upper", true)
	for r := range in.Len() / cols {
		lo, hi := triangle(r%rows+int(k), cols, upper)
		copyElems(out, r*cols+lo, in, r*cols+lo, hi-lo)
	}
	return nil
}

// triangle is the range of columns that a row keeps when the diagonal crosses it at column diag.
func triangle(diag, cols int, upper bool) (lo, hi int) {
	if upper {
		return min(max(diag, 0), cols), cols
	}
	return 0, min(max(diag+1, 0), cols)
}
