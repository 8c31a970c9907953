package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// CountedDropout is the operator that drops elements while a model is trained:
//
//	y = weir:Dropout(x, at)
//
// at holds two int64, the seed of the run and the step. Element i of x is 0 in y if number i of the
// stream of seed, step and attribute node is below attribute ratio (Srivastava et al. 2014), and is
// divided by 1-ratio else; the factor is rounded to float32. Number i is word i%4, over 2^32, of
// block i/4 by Philox4x32-10 (Salmon et al. 2011), whose counter is (i/4, node, step) and whose key
// is the seed. So the same elements are dropped whoever computes them, and the gradient, which is
// the same operator on the gradient of y, need not be told which.
const CountedDropout = "Dropout"

// Attributes of CountedDropout.
const (
	DropRatio = "ratio" // from 0 to before 1
	DropNode  = "node"  // which dropout of a model this is: from 0 to before 2^32
)

var countedDropoutOps = []Op{{Domain: FusedDomain, Name: CountedDropout, Since: []int{1}, MinIn: 2,
	MaxIn: 2, Infer: inferCountedDropout, Eval: InFloat32(evalCountedDropout),
	Flops: FlopsPerElement(30), grad: gradCountedDropout}}

// mostDropped is the number of elements that the counter tells apart.
const mostDropped = 4 << 32

// Dropping is what the attributes of a CountedDropout say: the number below which words are those
// of elements that are dropped, and the factor of the others.
func (c *Call) Dropping() (border uint32, scale float32, node uint32, err error) {
	ratio, n := c.attr(DropRatio, 0), c.Attrs.Int(DropNode, 0)
	if !(ratio >= 0 && ratio < 1) {
		return 0, 0, 0, c.Errorf(ErrAttr, "%s %v, must be from 0 to before 1", DropRatio, ratio)
	}
	if n < 0 || n > math.MaxUint32 {
		return 0, 0, 0, c.Errorf(ErrAttr, "%s %d, must be from 0 to before 2^32", DropNode, n)
	}
	return uint32(ratio * (1 << 32)), float32(1 / (1 - ratio)), uint32(n), nil
}

func inferCountedDropout(c *Infer) error {
	if _, _, _, err := c.Dropping(); err != nil {
		return err
	}
	if _, err := c.SameDType(SetOf(tensor.Int64), c.In[1].DType); err != nil {
		return err
	}
	if at := c.In[1]; at.Ranked && (len(at.Shape) != 1 || !at.Shape[0].MayEqual(Known(2))) {
		return c.Errorf(ErrInput, "seed and step are %v, must be two numbers", at)
	}
	if n := c.In[0].Elements(); n > mostDropped {
		return c.Errorf(ErrInput, "%d elements, counters tell %d apart", n, int64(mostDropped))
	}
	return SameAsInput(floatTypes)(c)
}

func evalCountedDropout(c *Eval) error {
	border, scale, node, err := c.Dropping()
	if err != nil {
		return err
	}
	at, err := c.Ints(1)
	if err != nil {
		return err
	}
	if len(at) != 2 {
		return c.Errorf(ErrInput, "seed and step are %d numbers, must be two", len(at))
	}
	x, y, err := c.OutputLike(floatTypes)
	if err != nil {
		return err
	}
	var block [4]uint32
	for i := range x.Len() {
		if i%4 == 0 {
			block = philox(uint64(at[0]), [4]uint32{uint32(i / 4), node, uint32(at[1]),
				uint32(uint64(at[1]) >> 32)})
		}
		v := 0.0
		if block[i%4] >= border {
			v = floatAt(x, i) * float64(scale)
		}
		setFloat(y, i, v)
	}
	return nil
}

// philox is Philox4x32-10, as its authors write it.
func philox(key uint64, c [4]uint32) [4]uint32 {
	k := [2]uint32{uint32(key), uint32(key >> 32)}
	for range 10 {
		a, b := 0xd2511f53*uint64(c[0]), 0xcd9e8d57*uint64(c[2])
		c = [4]uint32{uint32(b>>32) ^ c[1] ^ k[0], uint32(b), uint32(a>>32) ^ c[3] ^ k[1],
			uint32(a)}
		k = [2]uint32{k[0] + 0x9e3779b9, k[1] + 0xbb67ae85}
	}
	return c
}

func gradCountedDropout(x *gradient) {
	x.zero(1)
	if x.needs(0) {
		x.set(0, x.Ops(FusedDomain, CountedDropout, 1, 1, x.Attrs, x.d(0), x.Input(1))[0])
	}
}
