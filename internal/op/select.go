package op

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/tensor"
)

// selectOps choose elements by conditions and values: Where, Compress, NonZero, Unique.
var selectOps = []Op{
	{Name: "Where", Since: []int{9, 16}, MinIn: 3, MaxIn: 3, Infer: inferWhere, Eval: evalWhere,
		grad: gradWhere},
	{Name: "Compress", Since: []int{9, 11, 28}, MinIn: 2, MaxIn: 2, Infer: inferCompress,
		Eval: evalCompress, grad: gradMoved},
	{Name: "NonZero", Since: []int{9, 13}, MinIn: 1, MaxIn: 1, Infer: inferNonZero,
		Eval: evalNonZero, flat: true},
	{Name: "Unique", Since: []int{11, 28}, MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 4,
		Infer: inferUnique, Eval: evalUnique},
}

func inferWhere(c *Infer) error {
	cond, x, y := c.In[0], c.In[1], c.In[2]
	c.Out[0] = Unranked(x.DType)
	if _, err := c.SameDType(^TypeSet(0), x.DType, y.DType); err != nil {
		return err
	}
	if cond.DType != tensor.Bool && cond.DType != tensor.Undefined {
		return c.Errorf(ErrInput, "condition is %v, want bool", cond)
	}
	if !cond.Ranked || !x.Ranked || !y.Ranked {
		return nil
	}
	shape, err := BroadcastDims(cond.Shape, x.Shape, y.Shape)
	if err != nil {
		return c.Errorf(ErrInput, "%v", err)
	}
	c.Out[0] = Ranked(x.DType, shape...)
	if len(shape) <= 1 {
		c.Out[0].Elems = whereElems(c)
	}
	return nil
}

// whereElems picks between the elements of two shapes, as the expansion of -1 in an Expand is
// written.
func whereElems(c *Infer) []Dim {
	cond, known := c.Ints(0)
	x, y := c.Dims(1), c.Dims(2)
	n := max(len(cond), len(x), len(y))
	fits := func(l int) bool { return l == n || l == 1 }
	if !known || n > MaxElems || !fits(len(cond)) || !fits(len(x)) || !fits(len(y)) {
		return nil
	}
	out := make([]Dim, n)
	for i := range out {
		from := y
		if cond[i%len(cond)] != 0 {
			from = x
		}
		out[i] = from[i%len(from)]
	}
	return out
}

func evalWhere(c *Eval) error {
	cond, x, y := c.In[0], c.In[1], c.In[2]
	if cond.DType != tensor.Bool || x.DType != y.DType {
		return c.Errorf(ErrInput, "types %v, %v, %v: want bool and two of one type", cond.DType,
			x.DType, y.DType)
	}
	shape, err := BroadcastShapes(cond.Shape, x.Shape, y.Shape)
	if err != nil {
		return c.Errorf(ErrInput, "%v", err)
	}
	out, err := c.Output(0, x.DType, shape)
	if err != nil {
		return err
	}
	broadcastWalk(shape, cond.Shape, x.Shape, y.Shape).runs(func(at, n int, off, step []int) {
		for i := range n {
			from, k := y, 2
			if cond.Data[off[0]+i*step[0]] != 0 {
				from, k = x, 1
			}
			copyElems(out, at+i, from, off[k]+i*step[k], 1)
		}
	})
	return nil
}

func inferCompress(c *Infer) error { return c.chosen() }

// chosen types output 0 as some of the slices of input 0 along attribute axis, or of its elements
// without it.
func (c *Infer) chosen() error {
	in := c.In[0]
	if !c.Attrs.Has("axis") {
		c.Out[0] = Ranked(in.DType, Unknown())
		return nil
	}
	c.Out[0] = Unranked(in.DType)
	if !in.Ranked {
		return nil
	}
	axis, err := c.Axis(c.Attrs.Int("axis", 0), len(in.Shape))
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(in.DType, slices.Clone(in.Shape)...)
	c.Out[0].Shape[axis] = Unknown()
	return nil
}

// alongOrFlat returns input 0 and attribute axis or, without it, the flattened input and its only
// axis.
func (c *Eval) alongOrFlat() (t *tensor.Tensor, axis int, err error) {
	t = c.In[0]
	if c.Attrs.Has("axis") {
		axis, err = c.Axis(c.Attrs.Int("axis", 0), t.Rank())
		return t, axis, err
	}
	t, err = t.Reshaped(t.Len())
	return t, 0, err
}

// evalCompress keeps the slices along an axis, or the elements of the flattened input, whose
// condition is true. A condition that is too short is false for the rest.
func evalCompress(c *Eval) error {
	cond := c.In[1]
	if cond.DType != tensor.Bool || cond.Rank() != 1 {
		return c.Errorf(ErrInput, "condition is %v%v, wants bools", cond.DType, cond.Shape)
	}
	in, axis, err := c.alongOrFlat()
	if err != nil {
		return err
	}
	shape, size := in.Shape, in.Shape[axis]
	keep, err := c.kept(cond, size)
	if err != nil {
		return err
	}
	outer, inner := shape[:axis], shape[axis+1:]
	out, err := c.Output(0, in.DType, slices.Concat(outer, []int{len(keep)}, inner))
	if err != nil || out.Len() == 0 {
		return err
	}
	block, to := count(inner), 0
	for o := range count(outer) {
		for _, i := range keep {
			copyElems(out, to, in, (o*size+i)*block, block)
			to += block
		}
	}
	return nil
}

// kept are the indices of an axis whose condition is true.
func (c *Call) kept(cond *tensor.Tensor, size int) ([]int, error) {
	var keep []int
	for i, b := range cond.Data {
		if b != 0 && i >= size {
			return nil, c.Errorf(ErrInput, "condition %d is beyond an axis of %d", i, size)
		}
		if b != 0 {
			keep = append(keep, i)
		}
	}
	return keep, nil
}

func inferNonZero(c *Infer) error {
	n := Unknown()
	if r := c.rank(0); r >= 0 {
		n = Known(r)
	}
	c.Out[0] = Ranked(tensor.Int64, n, Unknown())
	return nil
}

// truths is a tensor as truth values: what is not zero, of strings what is not empty (as NumPy has
// it).
func (c *Eval) truths(t *tensor.Tensor) (*tensor.Tensor, error) {
	out, err := tensor.New(tensor.Bool, t.Shape...)
	if err != nil {
		return nil, err
	}
	switch t.DType {
	case tensor.String:
		setTruths(out, t.Strings)
	case tensor.Complex64:
		setTruths(out, tensor.As[complex64](t))
	case tensor.Complex128:
		setTruths(out, tensor.As[complex128](t))
	default:
		return out, castInto(c.Call, out, t)
	}
	return out, nil
}

// setTruths sets each element of out to whether that of v is anything but its type's zero.
func setTruths[T comparable](out *tensor.Tensor, v []T) {
	var zero T
	for i := range v {
		tensor.As[bool](out)[i] = v[i] != zero
	}
}

// evalNonZero gives the indices of the elements that are not zero, one a column, in row-major
// order.
func evalNonZero(c *Eval) error {
	in := c.In[0]
	mask, err := c.truths(in)
	if err != nil {
		return err
	}
	n := bytes.Count(mask.Data, []byte{1})
	out, err := c.Output(0, tensor.Int64, []int{in.Rank(), n})
	if err != nil {
		return err
	}
	to, idx, at := tensor.As[int64](out), make([]int, in.Rank()), 0
	for _, b := range mask.Data {
		if b != 0 {
			for k, j := range idx {
				to[k*n+at] = int64(j)
			}
			at++
		}
		increment(idx, in.Shape)
	}
	return nil
}

func inferUnique(c *Infer) error {
	for i := range c.Out {
		c.Out[i] = Ranked(tensor.Int64, Unknown())
	}
	return c.chosen()
}

// evalUnique finds the distinct slices along an axis, or elements of the flattened input, in
// ascending order or in that of their first occurrence, with their first occurrences, the inverse
// map and counts.
func evalUnique(c *Eval) error {
	flat, axis, err := c.alongOrFlat()
	if err != nil {
		return err
	}
	keys := make([]*tensor.Tensor, flat.Shape[axis])
	for i := range keys {
		if keys[i], err = takeSlice(flat, axis, i); err != nil {
			return err
		}
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	less, err := elemCompare(c.Call, flat.DType)
	if err != nil {
		return err
	}
	compare := func(i, j int) int { return compareSlices(keys[i], keys[j], less) }
	slices.SortStableFunc(order, compare)
	return c.putUnique(flat, axis, uniqueGroups(order, compare))
}

// uniqueGroups parts sorted positions into groups of equal ones; each starts with its first
// occurrence.
func uniqueGroups(order []int, compare func(i, j int) int) [][]int {
	var groups [][]int
	for i, k := range order {
		if i == 0 || compare(order[i-1], k) != 0 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], k)
	}
	return groups
}

func (c *Eval) putUnique(flat *tensor.Tensor, axis int, groups [][]int) error {
	if c.Attrs.Int("sorted", 1) == 0 {
		sorting.By(groups, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	}
	if err := c.putFirst(flat, axis, groups); err != nil {
		return err
	}
	first, counts := make([]int64, len(groups)), make([]int64, len(groups))
	inverse := make([]int64, flat.Shape[axis])
	for i, g := range groups {
		first[i], counts[i] = int64(g[0]), int64(len(g))
		for _, k := range g {
			inverse[k] = int64(i)
		}
	}
	for i, v := range [][]int64{first, inverse, counts} {
		if c.Want(i + 1) {
			c.Out[i+1] = tensor.From(v, len(v))
		}
	}
	return nil
}

// putFirst makes output 0 of the first slice of each group.
func (c *Eval) putFirst(flat *tensor.Tensor, axis int, groups [][]int) error {
	shape := slices.Clone(flat.Shape)
	shape[axis] = len(groups)
	out, err := c.Output(0, flat.DType, shape)
	if err != nil {
		return err
	}
	for i, g := range groups {
		if err := copySlice(out, i, flat, g[0], axis); err != nil {
			return err
		}
	}
	return nil
}

// elemCompare orders elements i of a and j of b.
func elemCompare(c *Call, d tensor.DType) (func(a *tensor.Tensor, b *tensor.Tensor, i int) int,
	error) {
	switch {
	case d == tensor.String:
		return func(a, b *tensor.Tensor, i int) int {
			return cmp.Compare(a.Strings[i], b.Strings[i])
		}, nil
	case d == tensor.Uint64:
		return func(a, b *tensor.Tensor, i int) int {
			return cmp.Compare(tensor.As[uint64](a)[i], tensor.As[uint64](b)[i])
		}, nil
	case d == tensor.Complex64:
		return compareComplex(func(t *tensor.Tensor, i int) complex128 {
			return complex128(tensor.As[complex64](t)[i])
		}), nil
	case d == tensor.Complex128:
		return compareComplex(func(t *tensor.Tensor, i int) complex128 {
			return tensor.As[complex128](t)[i]
		}), nil
	case d.IsFloat():
		return compareWide(widenFloats), nil
	case d.IsInteger() || d == tensor.Bool:
		return compareWide(widenInts), nil
	}
	return nil, c.Errorf(ErrUnsupported, "order of %v", d)
}

// compareWide orders elements after they have been widened.
func compareWide[W int64 | float64](widen func(buf []W, t *tensor.Tensor, at int) bool) func(a,
	b *tensor.Tensor, i int) int {
	return func(a, b *tensor.Tensor, i int) int {
		var x, y [1]W
		widen(x[:], a, i)
		widen(y[:], b, i)
		return cmp.Compare(x[0], y[0])
	}
}

// compareComplex orders complex numbers by their real parts, then by their imaginary ones, as NumPy
// sorts them.
func compareComplex(at func(t *tensor.Tensor, i int) complex128) func(a, b *tensor.Tensor,
	i int) int {
	return func(a, b *tensor.Tensor, i int) int {
		x, y := at(a, i), at(b, i)
		return cmp.Or(cmp.Compare(real(x), real(y)), cmp.Compare(imag(x), imag(y)))
	}
}

func compareSlices(a, b *tensor.Tensor, elem func(a, b *tensor.Tensor, i int) int) int {
	for i := range a.Len() {
		if c := elem(a, b, i); c != 0 {
			return c
		}
	}
	return 0
}
