package microsoft

import (
	"math"
	"slices"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// fusedNBits is MatMulNBits of com.microsoft for float32, bias included, and then the activation,
// with attributes as the other fused products have them: the weights stay packed. It is defined as
// its parts one after the other. Where attribute accuracy_level is 4 (see [NBitsRounded]) the first
// part rounds A: see roundBlocks.
var fusedNBits = op.Op{Domain: op.FusedDomain, Name: "MatMulNBits", Since: []int{1}, MinIn: 3,
	MaxIn: 6,
	Infer: inferFusedNBits,
	Eval:  evalFusedNBits, Flops: nBitsFlops}

// NBitsRounded reports whether weir:MatMulNBits rounds A. MatMulNBits (com.microsoft, 1) says of
// level 4 that "input A can be quantized with the same block_size to int8 internally"; other levels
// ask for more.
func NBitsRounded(c *op.Call) bool { return c.Attrs.Int("accuracy_level", 0) == 4 }

// roundBlocks rounds rows of k elements to whole multiples of a scale for each block, as ONNX
// Runtime does: the largest magnitude of the block over 127. An element times 127 over that
// magnitude is rounded to nearest, ties to even. All of this is float32. A scale below the smallest
// normal number counts as zero, and that of a block with an element that is no finite number is
// NaN.
func roundBlocks(a []float32, k, block int) {
	for ; len(a) >= k; a = a[k:] {
		for row := a[:k]; len(row) > 0; row = row[min(block, len(row)):] {
			roundBlock(row[:min(block, len(row))])
		}
	}
}

func roundBlock(x []float32) {
	most := float32(0)
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	scale, inverse := most/127, float32(0)
	switch {
	case !(most <= math.MaxFloat32):
		scale = float32(math.NaN())
	case scale < 0x1p-126:
		scale = 0
	default:
		inverse = 127 / most
	}
	for i, v := range x {
		if inverse == 0 {
			v = 0
		}
		x[i] = float32(math.RoundToEven(float64(v*inverse))) * scale
	}
}

func inferFusedNBits(c *op.Infer) error {
	if d := c.In[NBitsA].DType; d != tensor.Float32 && d != tensor.Undefined {
		return c.Errorf(op.ErrInput, "A is %v, must be float32", d)
	}
	if err := inferMatMulNBits(c); err != nil {
		return err
	}
	layout, err := readNBits(c.Call)
	if err != nil {
		return err
	}
	product, o, err := fusedProduct(c.Call, c.Has(NBitsBias))
	if err != nil {
		return err
	}
	in := []op.Type{c.In[NBitsA],
		op.Ranked(tensor.Float32, op.Known(layout.k), op.Known(layout.n)), {}}[:product.NumIn]
	if len(in) == 3 {
		in[2] = c.In[NBitsBias]
	}
	_, err = op.InferTypes(o, product, in, nil)
	return err
}

// fusedProduct is the call of weir:MatMul that a call of weir:MatMulNBits ends in, and its row.
func fusedProduct(c *op.Call, bias bool) (*op.Call, *op.Op, error) {
	product := &op.Call{Domain: op.FusedDomain, Type: "MatMul", Version: 1, NumIn: 2, NumOut: 1,
		Attrs: slices.DeleteFunc(slices.Clone(c.Attrs), func(a op.Attr) bool {
			return !strings.HasPrefix(a.Name, "activation")
		})}
	if bias {
		product.NumIn = 3
	}
	o, err := op.Lookup(product.Domain, product.Type, product.Version)
	return product, o, err
}

// evalFusedNBits is weir:MatMul of the weights as numbers.
func evalFusedNBits(c *op.Eval) error {
	layout, err := readNBits(c.Call)
	if err != nil {
		return err
	}
	var in [6]*tensor.Tensor
	copy(in[:], c.In)
	w, err := layout.weights(c.Call, in)
	if err != nil {
		return err
	}
	product, o, err := fusedProduct(c.Call, in[NBitsBias] != nil)
	if err != nil {
		return err
	}
	a := in[NBitsA]
	if NBitsRounded(c.Call) {
		a = &tensor.Tensor{DType: a.DType, Shape: a.Shape, Data: slices.Clone(a.Data)}
		roundBlocks(tensor.As[float32](a), layout.k, layout.block)
	}
	operands := []*tensor.Tensor{a, w, in[NBitsBias]}[:product.NumIn]
	part := &op.Eval{Call: product, Ctx: c.Ctx, In: operands, Out: c.Out, Alloc: c.Alloc,
		Reserve: c.Reserve}
	err = op.RunIn(o, part)
	c.Out = part.Out
	return err
}
