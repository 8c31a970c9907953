package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// einsum holds Einstein summation, in numpy's notation.
var einsum = []Op{
	Op{Name: "Einsum", Since: []int{12, 28}, MinIn: 1, MaxIn: -1, Infer: inferEinsum,
		Eval:  InFloat32(evalEinsum),
		Flops: einsumFlops}.derived(gradEinsum),
}

// equation is a parsed Einsum: the index labels of each operand and of the result. An ellipsis
// stands for labels "..0", "..1" and so on, counted from the right so that they broadcast.
type equation struct {
	in  [][]string
	out []string
}

// parseEinsum parses attribute equation for operands of the given ranks.
func parseEinsum(c *Call, ranks []int) (e equation, err error) {
	text := strings.ReplaceAll(c.Attrs.String("equation", ""), " ", "")
	left, right, explicit := strings.Cut(text, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(ranks) {
		return e, c.Errorf(ErrAttr, "equation %q has %d terms for %d inputs", text, len(terms),
			len(ranks))
	}
	widest := 0
	for i, t := range terms {
		labels, dots, err := c.einsumTerm(t, ranks[i])
		if err != nil {
			return e, err
		}
		e.in, widest = append(e.in, labels), max(widest, dots)
	}
	if !explicit {
		e.out = append(ellipsisLabels(widest), e.single()...)
		return e, nil
	}
	e.out, _, err = c.einsumTerm(right,
		len(strings.ReplaceAll(right, "...", ""))+widest*strings.Count(right, "..."))
	if err != nil {
		return e, err
	}
	return e, e.checkOut(c, text)
}

// checkOut holds that each label of the output is there once and in an input.
func (e *equation) checkOut(c *Call, text string) error {
	for i, l := range e.out {
		if slices.Contains(e.out[:i], l) || !slices.ContainsFunc(e.in, func(in []string) bool {
			return slices.Contains(in, l)
		}) {
			return c.Errorf(ErrAttr, "equation %q: output label %q is repeated or in no input",
				text, l)
		}
	}
	return nil
}

// einsumTerm splits a term into one label a dimension, and returns how many an ellipsis stands for.
func (c *Call) einsumTerm(term string, rank int) (labels []string, dots int, err error) {
	before, after, has := strings.Cut(term, "...")
	letters := before + after
	for _, r := range letters {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return nil, 0, c.Errorf(ErrAttr, "equation term %q: %q is no letter", term, r)
		}
	}
	dots = rank - len(letters)
	if dots < 0 || dots > 0 && !has {
		return nil, 0, c.Errorf(ErrInput, "equation term %q does not fit rank %d", term, rank)
	}
	labels = append(strings.Split(before, ""), ellipsisLabels(dots)...)
	return append(labels, strings.Split(after, "")...), dots, nil
}

func ellipsisLabels(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("..%d", n-1-i)
	}
	return out
}

// single returns the letters that occur once, sorted: the output of an equation without an arrow.
func (e *equation) single() []string {
	times := map[string]int{}
	for _, t := range e.in {
		for _, l := range t {
			times[l]++
		}
	}
	var out []string
	for l, n := range times {
		if n == 1 && !strings.HasPrefix(l, "..") {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out
}

// labels returns every label once, those of the output first.
func (e *equation) labels() []string {
	all := slices.Clone(e.out)
	for _, t := range e.in {
		for _, l := range t {
			if !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
	}
	return all
}

// ranks returns the ranks of the inputs, all of which must be there; nil when one is not known.
func (c *Infer) ranks() ([]int, error) {
	ranks := make([]int, len(c.In))
	for i := range c.In {
		if !c.Has(i) {
			return nil, c.Errorf(ErrInput, "input %d is missing", i)
		}
		if ranks[i] = c.rank(i); ranks[i] < 0 {
			return nil, nil
		}
	}
	return ranks, nil
}

func inferEinsum(c *Infer) error {
	d, err := c.SameDType(numberTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	c.Out[0] = Unranked(d)
	ranks, err := c.ranks()
	if ranks == nil {
		return err
	}
	e, err := parseEinsum(c.Call, ranks)
	if err != nil {
		return err
	}
	size, err := c.einsumDims(e)
	if err != nil {
		return err
	}
	shape := make([]Dim, len(e.out))
	for i, l := range e.out {
		shape[i] = size[l]
	}
	c.Out[0] = Ranked(d, shape...)
	return nil
}

// einsumDims returns the dimension of each label; those of one label are equal or 1.
func (c *Infer) einsumDims(e equation) (map[string]Dim, error) {
	size := map[string]Dim{}
	for i, t := range e.in {
		for k, l := range t {
			n := c.In[i].Shape[k]
			if was, ok := size[l]; ok {
				if n, ok = broadcastDim(was, n); !ok {
					return nil,
						c.Errorf(ErrInput, "label %q is both %v and %v", l, was, c.In[i].Shape[k])
				}
			}
			size[l] = n
		}
	}
	return size, nil
}

// einsumSizes returns the equation and the size of each label.
func (c *Eval) einsumSizes() (e equation, size map[string]int, err error) {
	types, ranks := make([]Type, len(c.In)), make([]int, len(c.In))
	for i, t := range c.In {
		if t == nil {
			return e, nil, c.Errorf(ErrInput, "input %d is missing", i)
		}
		types[i], ranks[i] = Concrete(t.DType, t.Shape...), t.Rank()
	}
	if e, err = parseEinsum(c.Call, ranks); err != nil {
		return e, nil, err
	}
	dims, err := (&Infer{Call: c.Call, In: types}).einsumDims(e)
	size = make(map[string]int, len(dims))
	for l, d := range dims {
		size[l], _ = d.Int()
	}
	return e, size, err
}

// evalEinsum sums, for each index of the output, the products of the operands' elements over all
// other labels.
func evalEinsum(c *Eval) error {
	d, err := c.SameDType(numberTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	e, size, err := c.einsumSizes()
	if err != nil {
		return err
	}
	shape := make([]int, len(e.out))
	for i, l := range e.out {
		shape[i] = size[l]
	}
	out, err := c.Output(0, d, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	loopsOf[d].contract(c, out, e.walk(c.In, size))
	return nil
}

// walk goes over all labels, the output's first, with the operands and then the output as strided
// operands.
func (e *equation) walk(in []*tensor.Tensor, size map[string]int) walk {
	labels := e.labels()
	space, strides := make([]int, len(labels)), make([][]int, len(in)+1)
	for i, l := range labels {
		space[i] = size[l]
	}
	for k, t := range in {
		strides[k] = make([]int, len(labels))
		for i, s := range rowMajor(t.Shape) {
			if t.Shape[i] > 1 {
				// a repeated label reads the diagonal
				strides[k][slices.Index(labels, e.in[k][i])] += s
			}
		}
	}
	strides[len(in)] = make([]int, len(labels))
	copy(strides[len(in)], rowMajor(space[:len(e.out)]))
	return newWalk(space, strides...)
}

func (*loopsOn[T, W]) contract(c *Eval, out *tensor.Tensor, w walk) {
	v := make([][]T, len(c.In))
	for k, t := range c.In {
		v[k] = tensor.As[T](t)
	}
	acc, last := make([]W, out.Len()), len(v)
	w.runs(func(_, n int, off, step []int) {
		for i := range n {
			p := W(v[0][off[0]+i*step[0]])
			for k := 1; k < last; k++ {
				p *= W(v[k][off[k]+i*step[k]])
			}
			acc[off[last]+i*step[last]] += p
		}
	})
	o := tensor.As[T](out)
	for i, a := range acc {
		o[i] = T(a)
	}
}

// einsumFlops counts a multiplication or addition for each operand at each index of all labels.
func einsumFlops(c *Call, in, _ []Type) int64 {
	ranks := make([]int, len(in))
	for i, t := range in {
		ranks[i] = len(t.Shape)
	}
	e, err := parseEinsum(c, ranks)
	if err != nil {
		return 0
	}
	size, err := (&Infer{Call: c, In: in}).einsumDims(e)
	if err != nil {
		return 0
	}
	space := Known(len(in))
	for _, d := range size {
		space = space.Mul(d)
	}
	n, _ := space.Int()
	return int64(n)
}
