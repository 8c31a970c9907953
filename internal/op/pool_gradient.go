package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// MaxPoolGradient is the operator that gives the gradient of MaxPool's operand:
//
//	dx = weir:MaxPoolGradient(dy, x)
//
// It takes MaxPool's attributes. Each element of dy is added where MaxPool found the largest
// element of x under its window, the first of equals.
const MaxPoolGradient = "MaxPoolGradient"

var poolGradientOps = []Op{{Domain: FusedDomain, Name: MaxPoolGradient, Since: []int{1}, MinIn: 2,
	MaxIn: 2, Infer: inferMaxPoolGradient, Eval: InFloat32(evalMaxPoolGradient),
	Flops: func(_ *Call, in, _ []Type) int64 { return in[1].Elements() },
	grad:  gradMaxPoolGradient}}

// maxPoolVersion is that of MaxPool whose attributes the gradient takes.
const maxPoolVersion = 22

// pools is the call of MaxPool whose gradient this is.
//
//go:noinline
func (c *Call) pools() *Call {
	return &Call{Type: "MaxPool", Version: maxPoolVersion, Attrs: c.Attrs, NumIn: 1, NumOut: 1}
}

func inferMaxPoolGradient(c *Infer) error {
	d, err := c.SameDType(floatTypes, c.In[0].DType, c.In[1].DType)
	if err != nil {
		return err
	}
	g, x := c.In[0], c.In[1]
	if x.Ranked {
		p := &Infer{Call: c.pools(), In: []Type{x}, Present: []bool{true}, Out: make([]Type, 1)}
		if err := inferPool(p); err != nil {
			return err
		}
		if y := p.Out[0]; y.Ranked && g.Ranked && !sameSizes(y.Shape, g.Shape) {
			return c.Errorf(ErrInput, "the gradient is %v, the pooled %v", g, y)
		}
	}
	c.Out[0] = x.withoutContents()
	c.Out[0].DType = d
	return nil
}

func evalMaxPoolGradient(c *Eval) error {
	g, x := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, g.DType, x.DType); err != nil {
		return err
	}
	p, err := newPooling(&Eval{Call: c.pools(), Ctx: c.Ctx, In: []*tensor.Tensor{x},
		Out: make([]*tensor.Tensor, 1)}, floatTypes)
	if err != nil {
		return err
	}
	if !slices.Equal(p.y.Shape, g.Shape) {
		return c.Errorf(ErrInput, "the gradient has shape %v, the pooled %v", g.Shape, p.y.Shape)
	}
	out, err := c.Output(0, x.DType, x.Shape)
	if err != nil {
		return err
	}
	sums, plane, places := make([]float64, out.Len()), count(p.in), count(p.out)
	p.each(func(at int, _, taps []int) {
		for c := range p.planes {
			best, found := 0.0, -1
			for _, t := range taps {
				if v := floatAt(x, c*plane+t); found < 0 || v > best || v != v {
					best, found = v, t
				}
			}
			if found >= 0 { // else the window sees nothing but padding
				sums[c*plane+found] += floatAt(g, c*places+at)
			}
		}
	})
	for i, v := range sums {
		setFloat(out, i, v)
	}
	return nil
}

// gradMaxPoolGradient takes the gradient of each place from where its largest element was.
func gradMaxPoolGradient(x *gradient) {
	x.zero(1)
	if !x.needs(0) {
		return
	}
	rows := slices.DeleteFunc(slices.Clone(x.Attrs), func(a Attr) bool {
		return a.Name == "storage_order"
	})
	places := x.Ops("", "MaxPool", maxPoolVersion, 2, rows, x.Input(1))[1]
	taken := x.Op("Gather", nil, x.Reshape(x.d(0), -1), x.Reshape(places, -1))
	x.set(0, x.as(taken, x.Input(0)))
}

// gradMaxPool: indices are not needed where rows come first.
func gradMaxPool(x *gradient) {
	if x.Attrs.Int("storage_order", 0) != 0 {
		x.refuse(0, "storage_order 1 numbers elements by columns")
		return
	}
	if x.needs(0) {
		x.set(0, x.Ops(FusedDomain, MaxPoolGradient, 1, 1, x.Attrs, x.d(0), x.Input(0))[0])
	}
}
