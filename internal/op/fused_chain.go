package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// fusedChain is arithmetic on each element by itself, one link after another: weir:Chain(x, r, ...)
// applies those that attribute links lists to x, with three numbers for each in attribute values.
// The other operands broadcast to the shape of x. Every link rounds to float32, as the operators do
// that it stands for, so that nothing but memory is saved.
var fusedChain = []Op{{Domain: FusedDomain, Name: "Chain", Since: []int{1}, MinIn: 1,
	MaxIn: MaxChained, Infer: inferChain, Eval: evalChain}}

// MaxChained is the most operands of weir:Chain.
const MaxChained = 4

// Link is what a link of weir:Chain does to an element y, with numbers a, b and c.
type Link int64

const (
	// LinkKeep keeps y for LinkTimes, in place of x.
	LinkKeep Link = iota
	// LinkTimes is y · what is kept: x until there is a LinkKeep.
	LinkTimes
	// LinkAdd is y + a, LinkMul y · a, LinkDiv y / a.
	LinkAdd
	LinkMul
	LinkDiv
	// LinkClip is Clip of bounds a and b.
	LinkClip
	// LinkGrid is the fused activation Grid of scale a and bounds b and c.
	LinkGrid
	// LinkSigmoid is Sigmoid.
	LinkSigmoid
	// LinkPlus is y + input a, LinkBy y · input a.
	LinkPlus
	LinkBy
	linkKinds
)

// LinkNumbers are the numbers of a link.
const LinkNumbers = 3

// LinksOf returns the links of a call of weir:Chain and their numbers.
func LinksOf(attrs Attrs) (links []Link, values []float32) {
	for _, s := range attrs.Ints("links") {
		links = append(links, Link(s))
	}
	return links, attrs.Floats("values")
}

// LinksAttrs are the attributes of a call of weir:Chain.
func LinksAttrs(links []Link, values []float32) Attrs {
	ints := make([]int64, len(links))
	for i, s := range links {
		ints[i] = int64(s)
	}
	return Attrs{IntsAttr("links", ints...), FloatsAttr("values", values...)}
}

// checkLinks returns the links of a call, or what is wrong with them.
func (c *Call) checkLinks() ([]Link, []float32, error) {
	list, values := LinksOf(c.Attrs)
	if len(list) == 0 || len(values) != LinkNumbers*len(list) {
		return nil, nil, c.Errorf(ErrAttr, "%d links and %d values, want %d a link", len(list),
			len(values), LinkNumbers)
	}
	for i, s := range list {
		if s < 0 || s >= linkKinds {
			return nil, nil, c.Errorf(ErrAttr, "link %d is %d, want at most %d", i, s, linkKinds-1)
		}
		if k := values[LinkNumbers*i]; s.Operand() &&
			!(k >= 1 && k < float32(c.NumIn) && k == float32(int(k))) {
			return nil, nil, c.Errorf(ErrAttr, "link %d takes input %v of %d, want one after the "+
				"first", i, k, c.NumIn)
		}
	}
	return list, values, nil
}

// Operand reports whether a link takes another operand than the first, by its number a.
func (l Link) Operand() bool { return l == LinkPlus || l == LinkBy }

func inferChain(c *Infer) error {
	for i, t := range c.In {
		if !c.Has(i) || !mayBeSame(t.DType, tensor.Float32) {
			return c.Errorf(ErrInput, "input %d is %v, must be float32", i, t.DType)
		}
	}
	if err := c.broadcastOut(tensor.Float32); err != nil {
		return err
	}
	if x := c.In[0]; x.Ranked && c.Out[0].Ranked && len(x.Shape) != len(c.Out[0].Shape) {
		return c.Errorf(ErrInput, "operands are %v, must broadcast to the first", c.In)
	}
	c.Out[0] = Type{DType: tensor.Float32, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	_, _, err := c.checkLinks()
	return err
}

func evalChain(c *Eval) error {
	for i, t := range c.In {
		if t == nil || t.DType != tensor.Float32 {
			return c.Errorf(ErrInput, "input %d must be float32", i)
		}
	}
	list, values, err := c.checkLinks()
	if err != nil {
		return err
	}
	out, w, err := c.broadcastOutput(tensor.Float32)
	if err != nil {
		return err
	}
	if !slices.Equal(out.Shape, c.In[0].Shape) {
		return c.Errorf(ErrInput, "operands broadcast to %v, must to the first, %v", out.Shape,
			c.In[0].Shape)
	}
	y, in, of := tensor.As[float32](out), make([][]float32, len(c.In)), make([]float32, len(c.In))
	for k, t := range c.In {
		in[k] = tensor.As[float32](t)
	}
	w.runs(func(at, n int, off, step []int) {
		for i := range n {
			for k := range in {
				of[k] = in[k][off[k]+i*step[k]]
			}
			y[at+i] = applyLinks(of, list, values)
		}
	})
	return nil
}

// applyLinks defines the links, for an element of each operand.
func applyLinks(of []float32, list []Link, values []float32) float32 {
	y := of[0]
	kept := y
	for i, s := range list {
		v := values[LinkNumbers*i:]
		switch s {
		case LinkKeep:
			kept = y
		case LinkTimes:
			y *= kept
		case LinkAdd:
			y += v[0]
		case LinkMul:
			y *= v[0]
		case LinkDiv:
			y /= v[0]
		case LinkClip:
			y = float32(minOf(maxOf(float64(y), float64(v[0])), float64(v[1])))
		case LinkGrid:
			y = float32(gridFunction(float64(v[0]), float64(v[1]), float64(v[2]))(float64(y)))
		case LinkSigmoid:
			y = float32(sigmoid(float64(y)))
		case LinkPlus:
			y += of[int(v[0])]
		case LinkBy:
			y *= of[int(v[0])]
		}
	}
	return y
}
