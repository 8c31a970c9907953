package op

import (
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// fusedNBits is MatMulNBits of com.microsoft for float32, bias included, and then the activation, with attributes as the other fused
// products have them: the weights stay packed. It is defined as its parts one after the other.
var fusedNBits = Op{Domain: FusedDomain, Name: "MatMulNBits", Since: []int{1}, MinIn: 3, MaxIn: 6, Infer: inferFusedNBits,
	Eval: evalFusedNBits, Flops: nBitsFlops}

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
		Attrs: slices.DeleteFunc(slices.Clone(c.Attrs), func(a Attr) bool { return !isActivation(a) })}
	operands := []*tensor.Tensor{in[NBitsA], w}
	if in[NBitsBias] != nil {
		product.NumIn, operands = 3, append(operands, in[NBitsBias])
	}
	part := &Eval{Call: product, Ctx: c.Ctx, In: operands, Out: c.Out, Alloc: c.Alloc, Reserve: c.Reserve}
	err = fusedMatMul.eval(part)
	c.Out = part.Out
	return err
}
