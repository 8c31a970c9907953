package microsoft

import (
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Domain is the domain of the operators that ONNX Runtime adds to ONNX's.
const Domain = "com.microsoft"

func init() { op.Register(op.Extension{Rows: rows, Domain: Domain, AttrKind: kindOf}) }

// The element types that the operators take.
var (
	floatTypes = op.SetOf(tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16)
	byteTypes  = op.SetOf(tensor.Int8, tensor.Uint8)
)

// allRounded is a composition all of whose outputs have the type of its first operand.
const allRounded = op.AllRounded

// expander writes a definition, with what definitions of this domain share.
type expander struct{ *op.Expander }

// composition is the row of an operator of the domain that is defined by others.
func composition(o op.Op, keep int, define func(*expander)) op.Op {
	o.Domain, o.Since = Domain, []int{1}
	return op.Composition(o, keep, func(x *op.Expander) { define(&expander{x}) })
}

// flopsOf is the count of operations of one of ONNX's operators, for operators that take operands
// like its first ones.
func flopsOf(name string) func(*op.Call, []op.Type, []op.Type) int64 {
	return func(c *op.Call, in, out []op.Type) int64 {
		o, err := op.Lookup("", name, 0)
		if err != nil {
			return 0
		}
		return o.Flops(c, in, out)
	}
}

// rows returns the families of the domain.
func rows() []op.Op {
	return slices.Concat(movement(), activations(), products(), norms(), attentions(), quantized(),
		quantizedProducts(), own)
}

// own are the operators of the domain that are no compositions.
var own = slices.Concat(inverseOps, groupedAttention, dynamicLSTM, []op.Op{fusedNBits})

// movement are the operators that ONNX took over or has under another contract.
func movement() []op.Op {
	return []op.Op{
		composition(op.Op{Name: "GatherND", MinIn: 2, MaxIn: 2}, allRounded, renamed("GatherND")),
		composition(op.Op{Name: "Trilu", MinIn: 1, MaxIn: 2}, allRounded,
			renamed("Trilu", "upper")),
		composition(op.Op{Name: "QuantizeLinear", MinIn: 2, MaxIn: 3}, allRounded,
			renamed("QuantizeLinear", "axis")),
		composition(op.Op{Name: "DequantizeLinear", MinIn: 2, MaxIn: 3}, allRounded,
			renamed("DequantizeLinear", "axis")),
		composition(op.Op{Name: "Pad", MinIn: 2, MaxIn: 3}, allRounded, definePad),
		composition(op.Op{Name: "Unique", MinIn: 1, MaxIn: 1, MinOut: 3, MaxOut: 3}, allRounded,
			defineUnique),
		composition(op.Op{Name: "ExpandDims", MinIn: 2, MaxIn: 2}, allRounded, func(x *expander) {
			axis := x.Reshape(x.Cast(x.Input(1), tensor.Int64), 1)
			x.Give(0, x.Op("Unsqueeze", nil, x.Input(0), axis))
		}),
		composition(op.Op{Name: "Range", MinIn: 2, MaxIn: 3}, allRounded, defineRange),
	}
}

// renamed defines an operator as ONNX's of another name, with the attributes that it shares with
// it.
func renamed(typ string, attrs ...string) func(*expander) {
	return func(x *expander) {
		in := make([]op.Var, x.NumIn)
		for i := range in {
			in[i] = x.Input(i)
		}
		x.Give(0, x.Op(typ, only(x.Call, attrs...), in...))
	}
}

// only returns the attributes of the call that have one of the names.
func only(c *op.Call, names ...string) op.Attrs {
	return slices.DeleteFunc(slices.Clone(c.Attrs), func(a op.Attr) bool {
		return !slices.Contains(names, a.Name)
	})
}

// definePad takes pads of rank 1, or of rank 2 with one row.
func definePad(x *expander) {
	pads := x.Input(1)
	if len(x.Ranked(pads, "pads", 1, 2)) == 2 {
		pads = x.Reshape(pads, -1)
	}
	x.Give(0, x.Op("Pad", only(x.Call, "mode"), x.Input(0), pads, x.Input(2)))
}

// defineUnique is ONNX's Unique in the order of the input, without output 1, the places where
// values occur first.
func defineUnique(x *expander) {
	x.Ranked(x.Input(0), "x", 1)
	out := x.Ops("", "Unique", x.Opset, 4, op.Attrs{op.IntAttr("sorted", 0)}, x.Input(0))
	x.Give(0, out[0])
	x.Give(1, out[2])
	x.Give(2, out[3])
}

func defineRange(x *expander) {
	in := []op.Var{x.Input(0), x.Input(1), x.Input(2)}
	if in[2] == op.Absent {
		in[2] = x.Scalar(in[0], 1)
	}
	for i, v := range in {
		if x.Rank(v) > 0 {
			in[i] = x.Reshape(v)
		}
	}
	x.Give(0, x.Op("Range", nil, in...))
}
