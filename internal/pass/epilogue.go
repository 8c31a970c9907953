package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// What follows a product element by element is done while its results are still in registers.
//
//	act(Conv(x, w, b))          =  weir:Conv(x, w, b){activation act}
//	                                 (likewise Gemm and MatMul)
//	Conv(x, w, b) + r           =  weir:Conv(x, w, b, r)
//	                                 (r of the shape of the result)
//	act(weir:Conv(x, w, b, r))  =  weir:Conv(x, w, b, r){activation act}
//	act(view(Gemm(x, w)))       =  view(weir:Gemm(x, w){activation act})
//	                                 (view as in view.go)
//
// for float types when the inner result serves nothing else. The fused node stands where the last
// part stood, so that r is computed before it; a cycle cannot arise, as r is read by that part
// already. The sum comes before the activation, so nothing is added to a product that has one.

// activations tells by operator the name and the parameters of the fused activation; ok is false
// for forms that fused operators do not have.
var activations = map[opName]func(n *graph.Node) (name string, params []float32, ok bool){
	{"", "Relu"}:             plainActivation("Relu"),
	{"", "Sigmoid"}:          plainActivation("Sigmoid"),
	{"", "Tanh"}:             plainActivation("Tanh"),
	{"", "HardSwish"}:        plainActivation("HardSwish"),
	{op.FusedDomain, "Silu"}: plainActivation("Silu"),
	{op.FusedDomain, "Grid"}: gridActivation,
	{"", "Clip"}:             clipActivation,
	{"", "Gelu"}:             geluActivation,
	{"", "LeakyRelu"}:        attrActivation("LeakyRelu", op.FloatAttr("alpha", 0.01)),
	{"", "HardSigmoid"}: attrActivation("HardSigmoid", op.FloatAttr("alpha", 0.2),
		op.FloatAttr("beta", 0.5)),
}

type opName struct{ domain, name string }

func plainActivation(name string) func(*graph.Node) (string, []float32, bool) {
	return func(*graph.Node) (string, []float32, bool) { return name, nil, true }
}

// attrActivation takes its parameters from attributes, which are given with ONNX's defaults.
func attrActivation(name string, defaults ...op.Attr) func(*graph.Node) (string, []float32, bool) {
	return func(n *graph.Node) (string, []float32, bool) {
		var params []float32
		for _, a := range defaults {
			params = append(params, n.Attrs.Float(a.Name, a.Floats[0]))
		}
		return name, params, true
	}
}

func clipActivation(n *graph.Node) (string, []float32, bool) {
	lo, hi, ok := clipBounds(n)
	return "Clip", []float32{float32(lo), float32(hi)}, ok
}

func geluActivation(n *graph.Node) (string, []float32, bool) {
	switch n.Attrs.String("approximate", "none") {
	case "none":
		return "Gelu", nil, true
	case "tanh":
		return "GeluTanh", nil, true
	}
	return "", nil, false
}

func startActivation(s *scope) rule {
	return func(n *graph.Node) *Patch {
		of := activations[opName{n.Domain, n.Type}]
		if of == nil || len(n.Out) != 1 {
			return nil
		}
		y := n.In[0]
		view := s.passingView(y)
		if view != nil {
			y = view.In[0]
		}
		m := s.extendable(y)
		if m == nil || !sameShape(n.In[0], n.Out[0]) {
			return nil
		}
		name, params, ok := of(n)
		if !ok {
			return nil
		}
		fused := operator(n, op.FusedDomain, m.Type, 1, withActivation(m.Attrs, name, params),
			m.In...)
		if view == nil {
			return instead(n, fused)
		}
		in := slices.Clone(view.In)
		in[0] = fused.Out[0]
		p := instead(n, operator(n, "", view.Type, view.Version, view.Attrs, in...))
		p.Insert = []*graph.Node{fused, p.Insert[0]}
		return p
	}
}

// withActivation are the attributes of a fused operator with an activation.
func withActivation(attrs op.Attrs, name string, params []float32) op.Attrs {
	attrs = append(slices.Clone(attrs), op.StringAttr("activation", name))
	for i, p := range params {
		attrs = append(attrs, op.FloatAttr(activationParams[i], p))
	}
	return attrs
}

// activationParams are the attributes of an activation's parameters.
var activationParams = []string{"activation_alpha", "activation_beta", "activation_gamma"}

// withoutActivation are the attributes of a fused operator but for those of its activation, and the
// parameters of that, all of which are given.
func withoutActivation(attrs op.Attrs) (rest op.Attrs, params []float32) {
	rest = slices.DeleteFunc(slices.Clone(attrs), func(a op.Attr) bool {
		return a.Name == "activation" || slices.Contains(activationParams, a.Name)
	})
	for _, name := range activationParams {
		params = append(params, attrs.Float(name, 0))
	}
	return rest, params
}

// passingView returns the view that computes v when nothing else reads it, nil when there is none.
func (s *scope) passingView(v *graph.Value) *graph.Node {
	m := producer(v)
	if m == nil || m.Domain != "" || !slices.Contains(views, m.Type) || !s.only(v) {
		return nil
	}
	return m
}

// extendable returns the node that computes v when it is a product that can be extended: no
// activation yet, and v of a float type and of no other use.
func (s *scope) extendable(v *graph.Value) *graph.Node {
	m := producer(v)
	if m == nil || len(m.Out) != 1 || m.Domain != "" && m.Domain != op.FusedDomain ||
		m.Attrs.Has("activation") || !v.Type.DType.IsFloat() || !s.only(v) {
		return nil
	}
	switch m.Type {
	case "Conv", "Gemm", "MatMul":
		return m
	case "MatMulNBits", "GridConv":
		if m.Domain == op.FusedDomain {
			return m
		}
	}
	return nil
}

func startResidual(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if !is(n, "Add") {
			return nil
		}
		for i, v := range n.In {
			m, r := s.extendable(v), n.In[1-i]
			if m == nil || m.Type != "Conv" || len(m.In) > 3 && m.In[3] != nil ||
				!sameShape(v, n.Out[0]) || !sameShape(r, v) {
				continue
			}
			in := append(slices.Clone(m.In), make([]*graph.Value, max(0, 4-len(m.In)))...)
			in[3] = r
			return instead(n, operator(n, op.FusedDomain, "Conv", 1, m.Attrs, in...))
		}
		return nil
	}
}
