package op

import "github.com/weirgpu/weir/tensor"

// fusedChain is arithmetic on each element by itself, one link after another: weir:Chain(x) applies
// those that attribute links lists, with three numbers for each in attribute values. Every link
// rounds to float32, as the operators do that it stands for, so that nothing but memory is saved.
var fusedChain = []Op{{Domain: FusedDomain, Name: "Chain", Since: []int{1}, MinIn: 1, MaxIn: 1,
	Infer: inferChain, Eval: evalChain}}

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
	}
	return list, values, nil
}

func inferChain(c *Infer) error {
	if !mayBeSame(c.In[0].DType, tensor.Float32) {
		return c.Errorf(ErrInput, "input 0 is %v, must be float32", c.In[0].DType)
	}
	c.Out[0] = Type{DType: tensor.Float32, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	_, _, err := c.checkLinks()
	return err
}

func evalChain(c *Eval) error {
	if d := c.In[0].DType; d != tensor.Float32 {
		return c.Errorf(ErrInput, "input 0 is %v, must be float32", d)
	}
	list, values, err := c.checkLinks()
	if err != nil {
		return err
	}
	x := tensor.As[float32](c.In[0])
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = applyLinks(v, list, values)
	}
	c.Out[0] = tensor.From(y, c.In[0].Shape...)
	return nil
}

// applyLinks defines the links.
func applyLinks(y float32, list []Link, values []float32) float32 {
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
		}
	}
	return y
}
