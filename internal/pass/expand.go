package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Compositions: an operator of ONNX Runtime's domain com.microsoft that can be written as several
// ONNX operators (op.Op.Expand) is replaced by these, because other passes and kernels know them.
//
//	com.microsoft:BiasGelu(x, b)  =  Gelu(Add(x, b))        and so on
//
// Graphs for other runtimes keep such an operator. An operator with operands of float16 or bfloat16
// stays as well: it rounds its result once, whereas each of its parts would round. MatMulNBits
// becomes a product with float weights; their bytes count against the limit on what folding may add
// to the model.
func startExpand(s *scope) rule {
	return func(n *graph.Node) *Patch {
		o, err := n.Op()
		if err != nil || s.failed[n] {
			return nil
		}
		in, present := operandTypes(n)
		if slices.ContainsFunc(in, isHalf) {
			return nil
		}
		e, ok, err := o.Expand(n.Call(), in, present, s.opset)
		if err != nil {
			s.failed[n] = true // it fails when it runs, if it ever does
		}
		if err != nil || !ok || !s.affords(e) {
			return nil
		}
		return expanded(n, e)
	}
}

// operandTypes are the types of what n reads, and which operands are there.
func operandTypes(n *graph.Node) (in []op.Type, present []bool) {
	in, present = make([]op.Type, len(n.In)), make([]bool, len(n.In))
	for i, v := range n.In {
		if v != nil {
			in[i], present[i] = v.Type, true
		}
	}
	return in, present
}

func isHalf(t op.Type) bool { return t.DType == tensor.Float16 || t.DType == tensor.BFloat16 }

// affords subtracts the bytes of an expansion's constants from the bytes by which the model may
// still grow (scope.room). It returns false, and subtracts nothing, when they exceed that number.
func (s *scope) affords(e *op.Expansion) bool {
	bytes := 0
	for _, t := range e.Consts {
		bytes += len(t.Data)
	}
	if bytes > *s.room {
		return false
	}
	*s.room -= bytes
	return true
}

// expanded proposes the steps of an expansion in place of n.
func expanded(n *graph.Node, e *op.Expansion) *Patch {
	values := map[int]*graph.Value{}
	for i, v := range n.In {
		values[i] = v
	}
	name := n.Name
	if i := slices.IndexFunc(n.Out, given); i >= 0 {
		name = n.Out[i].Name
	}
	for i, t := range e.Consts {
		values[i] = graph.NewConst(name+"_const", t)
	}
	read := needed(n, e)
	p := &Patch{}
	for _, s := range e.Steps {
		m := stepNode(n.Name, name, &s, values, read)
		if slices.ContainsFunc(m.Out, given) {
			p.Insert = append(p.Insert, m)
		}
	}
	for i, v := range n.Out {
		if v != nil {
			p.Replace = append(p.Replace, Replacement{v, values[e.Out[i]]})
		}
	}
	return p
}

// given reports whether there is a value: optional ones that are left out are nil.
func given(v *graph.Value) bool { return v != nil }

// stepNode makes the node of one step of an expansion. It reads values, by number, and adds those
// that it computes and that are read, named after name.
func stepNode(node, name string, s *op.Step, values map[int]*graph.Value,
	read map[int]bool) *graph.Node {
	m := &graph.Node{Name: node, Domain: s.Call.Domain, Type: s.Call.Type,
		Version: s.Call.Version, Attrs: s.Call.Attrs}
	for _, v := range s.In {
		m.In = append(m.In, values[v]) // none for -1
	}
	m.Out = make([]*graph.Value, len(s.Out))
	for i, v := range s.Out {
		if read[v] {
			m.Out[i] = &graph.Value{Name: name, Producer: m, Index: i}
			values[v] = m.Out[i]
		}
	}
	for last := len(m.Out) - 1; last > 0 && m.Out[last] == nil; last-- {
		m.Out = m.Out[:last]
	}
	return m
}

// needed tells which values of an expansion a step or an output of n needs.
func needed(n *graph.Node, e *op.Expansion) map[int]bool {
	read := map[int]bool{}
	for i, v := range n.Out {
		if v != nil {
			read[e.Out[i]] = true
		}
	}
	for _, s := range slices.Backward(e.Steps) {
		if slices.ContainsFunc(s.Out, func(v int) bool { return read[v] }) {
			for _, v := range s.In {
				read[v] = true
			}
		}
	}
	return read
}
