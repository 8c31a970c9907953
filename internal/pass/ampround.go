package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Products in float16, where the device multiplies in float32: operands and results are rounded to
// float16, as hardware that has it stores them, and what is lost there is lost here. A gradient
// below 2^-24 becomes zero and one above 65504 infinite, which is what scales of losses are for.
//
//	MatMul(a, b)  =  up(down(MatMul(up(down(a)), up(down(b)))))     likewise other products
//
//	down: Cast to float16, up: Cast to float32
//
// The casts are nodes, since no kernel multiplies float16: pass ampcancel and pass cse take away
// those that undo and repeat each other.

// roundedAttr marks a product whose operands and result are rounded. Names that begin with an
// underscore are nothing to operators.
const roundedAttr = "_precision"

func startAmpRound(s *scope) rule {
	if s.precision != FP16 || s.portable {
		return func(*graph.Node) *Patch { return nil }
	}
	behind := unscaled(s.g)
	return func(n *graph.Node) *Patch {
		list, _ := ampList(n)
		if list != AmpAllow || behind[n] || inFP16(n) {
			return nil
		}
		p := &Patch{}
		in := append([]*graph.Value{}, n.In...)
		for _, i := range multiplied(n) {
			in[i] = s.rounded(p, in[i])
		}
		attrs := append(append(op.Attrs{}, n.Attrs...), op.StringAttr(roundedAttr, string(FP16)))
		m := anew(n, n.Domain, n.Version, attrs, in)
		p.Insert = append(p.Insert, m)
		for i, v := range m.Out {
			if i < len(products(n)) {
				v = s.rounded(p, v)
			}
			p.Replace = append(p.Replace, Replacement{n.Out[i], v})
		}
		return p
	}
}

// rounded inserts the casts of v to float16 and back.
func (s *scope) rounded(p *Patch, v *graph.Value) *graph.Value {
	down := s.castTo(v, tensor.Float16)
	up := s.castTo(down.Out[0], tensor.Float32)
	p.Insert = append(p.Insert, down, up)
	return up.Out[0]
}

// castTo makes the node that casts v.
func (s *scope) castTo(v *graph.Value, d tensor.DType, more ...op.Attr) *graph.Node {
	attrs := append(op.Attrs{op.IntAttr("to", int64(d))}, more...)
	return graph.NewNode(v.Name, "Cast", max(s.opset, 13), attrs, []*graph.Value{v}, v.Name)
}

// inFP16 reports whether a node is a product whose operands are rounded to float16.
func inFP16(n *graph.Node) bool { return n.Attrs.String(roundedAttr, "") == string(FP16) }
