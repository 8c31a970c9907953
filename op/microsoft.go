package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// MicrosoftDomain is the domain of the operators that ONNX Runtime adds to ONNX's
// (ContribOperators.md), which its graph optimiser and its quantisation tools write. Most are
// compositions of ONNX's operators and are defined as such.
const MicrosoftDomain = "com.microsoft"

// allRounded is a composition all of whose outputs have the type of its first operand.
const allRounded = math.MaxInt

// microsoftOps returns the families of the domain.
func microsoftOps() []Op {
	return slices.Concat(microsoftMovement(), microsoftActivation(), microsoftProduct(),
		microsoftNorm(), microsoftAttention(),
		microsoftQLinear(), microsoftQProduct(), microsoftOwn)
}

// microsoftOwn are the operators of the domain that are no compositions.
var microsoftOwn = slices.Concat(inverseOps, groupedAttention, dynamicLSTM)

// microsoftMovement are the operators that ONNX took over or has under another contract.
func microsoftMovement() []Op {
	return []Op{
		composition(Op{Name: "GatherND", MinIn: 2, MaxIn: 2}, allRounded, renamed("GatherND")),
		composition(Op{Name: "Trilu", MinIn: 1, MaxIn: 2}, allRounded, renamed("Trilu", "upper")),
		composition(Op{Name: "QuantizeLinear", MinIn: 2, MaxIn: 3}, allRounded,
			renamed("QuantizeLinear", "axis")),
		composition(Op{Name: "DequantizeLinear", MinIn: 2, MaxIn: 3}, allRounded,
			renamed("DequantizeLinear", "axis")),
		composition(Op{Name: "Pad", MinIn: 2, MaxIn: 3}, allRounded, definePad),
		composition(Op{Name: "Unique", MinIn: 1, MaxIn: 1, MinOut: 3, MaxOut: 3}, allRounded,
			defineUnique),
		composition(Op{Name: "ExpandDims", MinIn: 2, MaxIn: 2}, allRounded, func(x *expander) {
			axis := x.reshape(x.cast(x.input(1), tensor.Int64), 1)
			x.give(0, x.op("Unsqueeze", nil, x.input(0), axis))
		}),
		composition(Op{Name: "Range", MinIn: 2, MaxIn: 3}, allRounded, defineRange),
	}
}

// renamed defines an operator as ONNX's of another name, with the attributes that it shares with
// it.
func renamed(typ string, attrs ...string) func(*expander) {
	return func(x *expander) {
		in := make([]value, x.NumIn)
		for i := range in {
			in[i] = x.input(i)
		}
		x.give(0, x.op(typ, x.only(attrs...), in...))
	}
}

// only returns the attributes of the call that have one of the names.
func (c *Call) only(names ...string) Attrs {
	return slices.DeleteFunc(slices.Clone(c.Attrs), func(a Attr) bool {
		return !slices.Contains(names, a.Name)
	})
}

// definePad takes pads of rank 1, or of rank 2 with one row.
func definePad(x *expander) {
	pads := x.input(1)
	if len(x.ranked(pads, "pads", 1, 2)) == 2 {
		pads = x.reshape(pads, -1)
	}
	x.give(0, x.op("Pad", x.only("mode"), x.input(0), pads, x.input(2)))
}

// defineUnique leaves out the first occurrences, which ONNX's has as output 1, and keeps the order
// of the input.
func defineUnique(x *expander) {
	x.ranked(x.input(0), "x", 1)
	out := x.ops("", "Unique", x.opset, 4, Attrs{IntAttr("sorted", 0)}, x.input(0))
	x.give(0, out[0])
	x.give(1, out[2])
	x.give(2, out[3])
}

func defineRange(x *expander) {
	in := []value{x.input(0), x.input(1), x.input(2)}
	if in[2] == absent {
		in[2] = x.scalar(in[0], 1)
	}
	for i, v := range in {
		if x.rank(v) > 0 {
			in[i] = x.reshape(v)
		}
	}
	x.give(0, x.op("Range", nil, in...))
}
