package op

import (
	"math"
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// fusedNBits is MatMulNBits of com.microsoft for float32, bias included, and then the activation,
// with attributes as the other fused products have them: the weights stay packed. It is defined as
// its parts one after the other. Where attribute accuracy_level is 4 (see [NBitsRounded]) the first
// part rounds A: see roundBlocks.
var fusedNBits = Op{Domain: FusedDomain, Name: "MatMulNBits", Since: []int{1}, MinIn: 3, MaxIn: 6,
	Infer: inferFusedNBits,
	Eval:  evalFusedNBits, Flops: nBitsFlops}

// NBitsRounded reports whether weir:MatMulNBits rounds A. MatMulNBits (com.microsoft, 1) says of
// level 4 that "input A can be quantized with the same block_size to int8 internally"; other levels
// ask for more.
func NBitsRounded(c *Call) bool { return c.Attrs.Int("accuracy_level", 0) == 4 }

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

func isActivation(a Attr) bool { return strings.HasPrefix(a.Name, "activation") }

func inferFusedNBits(c *Infer) error {
	if _, err := c.fusedActivation(); err != nil {
		return err
	}
	if d := c.In[NBitsA].DType; d != tensor.Float32 && d != tensor.Undefined {
		return c.Errorf(ErrInput, "A is %v, must be float32", d)
	}
	return inferMatMulNBits(c)
}

// evalFusedNBits is weir:MatMul of the weights as numbers.
func evalFusedNBits(c *Eval) error {
	layout, err := c.nBits()
	if err != nil {
		return err
	}
	var in [6]*tensor.Tensor
	copy(in[:], c.In)
	w, err := layout.weights(c.Call, in)
	if err != nil {
		return err
	}
	product := &Call{Domain: FusedDomain, Type: "MatMul", Version: 1, NumIn: 2, NumOut: 1,
		Attrs: slices.DeleteFunc(slices.Clone(c.Attrs), func(a Attr) bool {
			return !isActivation(a)
		})}
	a := in[NBitsA]
	if NBitsRounded(c.Call) {
		a = &tensor.Tensor{DType: a.DType, Shape: a.Shape, Data: slices.Clone(a.Data)}
		roundBlocks(tensor.As[float32](a), layout.k, layout.block)
	}
	operands := []*tensor.Tensor{a, w}
	if in[NBitsBias] != nil {
		product.NumIn, operands = 3, append(operands, in[NBitsBias])
	}
	part := &Eval{Call: product, Ctx: c.Ctx, In: operands, Out: c.Out, Alloc: c.Alloc,
		Reserve: c.Reserve}
	err = fusedMatMul.eval(part)
	c.Out = part.Out
	return err
}
