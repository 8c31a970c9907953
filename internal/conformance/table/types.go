package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/conformance"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// group is a name for several element types.
type group struct {
	name string
	of   []tensor.DType
}

// groups are all element types, in the order of the page.
var groups = []group{
	{"float*", []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}},
	{"int*", []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}},
	{"uint*", []tensor.DType{tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}},
	{"bool", []tensor.DType{tensor.Bool}},
	{"string", []tensor.DType{tensor.String}},
	{"complex*", []tensor.DType{tensor.Complex64, tensor.Complex128}},
	{
		"f8*",
		[]tensor.DType{
			tensor.Float8E4M3FN,
			tensor.Float8E4M3FNUZ,
			tensor.Float8E5M2,
			tensor.Float8E5M2FNUZ,
		},
	},
	{"float8e8m0", []tensor.DType{tensor.Float8E8M0}},
	{"4-bit", []tensor.DType{tensor.Float4E2M1, tensor.Int4, tensor.Uint4}},
	{"2-bit", []tensor.DType{tensor.Int2, tensor.Uint2}},
	{"sequence", []tensor.DType{tensor.Sequence}},
	{"optional", []tensor.DType{tensor.Optional}},
	{"map", []tensor.DType{tensor.Map}},
}

// set is a set of element and container types.
type set map[tensor.DType]bool

// String names the groups that are in the set, of the others their members.
func (s set) String() string {
	var names []string
	any := true
	for _, g := range groups {
		var in []string
		for _, d := range g.of {
			if s[d] {
				in = append(in, d.String())
			}
		}
		if len(in) == len(g.of) {
			in = []string{g.name}
		} else if g.of[0].Valid() {
			any = false
		}
		if !g.of[0].Valid() && any {
			names, any = []string{"any"}, false // once, before the containers
		}
		names = append(names, in...)
	}
	return strings.Join(names, ", ")
}

// taken are the types of an operator's first operand and of its first result.
type taken struct {
	operand, result set
	bodies          bool // the operator runs graphs
}

// String writes the operand's types, and the result's where they are others.
func (t *taken) String() string {
	switch {
	case t == nil:
		return ""
	case t.bodies:
		return "those of its graphs"
	case len(t.operand) == 0:
		return "→ " + t.result.String()
	case maps.Equal(t.operand, t.result):
		return t.operand.String()
	}
	return t.operand.String() + " → " + t.result.String()
}

// use is one call of an operator with operands that it takes.
type use struct {
	op   *op.Op
	call *op.Call
	in   []*tensor.Tensor
}

// signature tells apart uses whose operands are of different types or that differ in their modes.
func (u use) signature() string {
	var b strings.Builder
	fmt.Fprint(&b, u.call.Name(), u.call.Version >= u.op.Since[len(u.op.Since)-1])
	for _, a := range u.call.Attrs {
		switch a.Kind {
		case op.AttrInt, op.AttrString:
			fmt.Fprint(&b, " ", a)
		case op.AttrTensor:
			b.WriteString(" " + a.Name)
		}
	}
	for _, v := range u.in {
		if v == nil {
			b.WriteString(" -")
		} else {
			fmt.Fprint(&b, " ", v.DType)
		}
	}
	return b.String()
}

// uses gathers, by operator, the types that have been seen to work.
type uses struct {
	ctx   context.Context
	tried map[string]bool
	taken map[string]*taken
}

func newUses(ctx context.Context) *uses {
	return &uses{ctx: ctx, tried: map[string]bool{}, taken: map[string]*taken{}}
}

// errRead ends the run of a case whose calls have been read.
var errRead = errors.New("read")

// read evaluates the cases as they are and after the passes, and keeps the calls.
func (u *uses) read(cases []*conformance.Case) {
	small := slices.DeleteFunc(slices.Clone(cases),
		func(c *conformance.Case) bool { return c.Set == "light" })
	conformance.RunAll(
		u.ctx,
		small,
		func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			u.walk(ctx, m.Graph, in)
			if _, err := pass.Run(ctx, m.Graph, pass.Options{}); err == nil {
				u.walk(ctx, m.Graph, in)
			}
			return nil, errRead
		},
		1,
	) // in order, for of the uses of one signature the first is tried
}

// walk evaluates the nodes of a graph, up to the first that fails.
func (u *uses) walk(ctx context.Context, g *graph.Graph, in []*tensor.Tensor) {
	values := map[*graph.Value]*tensor.Tensor{}
	for i, v := range g.Inputs {
		values[v] = in[i]
	}
	for _, n := range g.Nodes {
		o, err := n.Op()
		if err != nil {
			return
		}
		x := use{op: o, call: n.Call(), in: operands(n, values)}
		out, err := op.Run(ctx, o, x.call, x.in)
		if err != nil {
			return
		}
		for i, v := range n.Out {
			if v != nil {
				values[v] = out[i]
			}
		}
		u.keep(x)
	}
}

// operands are what a node reads: copies of constants, and values.
func operands(n *graph.Node, values map[*graph.Value]*tensor.Tensor) []*tensor.Tensor {
	in := make([]*tensor.Tensor, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case v.IsConst():
			in[i] = v.Const().Clone()
		default:
			in[i] = values[v]
		}
	}
	return in
}

// keep learns from a use unless one of its signature has been tried.
func (u *uses) keep(x use) {
	if s := x.signature(); !u.tried[s] {
		u.tried[s] = true
		u.learn(x)
	}
}

// learn tries a use with each operand, alone or with all of its type, and each attribute that is a
// type or a value, of every element type.
func (u *uses) learn(x use) {
	found := &taken{
		operand: set{},
		result:  set{},
		bodies:  slices.ContainsFunc(x.call.Attrs, func(a op.Attr) bool { return a.Body != nil }),
	}
	x.runs(u.ctx, x.in, found)
	for d := tensor.Float32; d.Valid() && !found.bodies; d++ {
		for i, v := range x.in {
			if v != nil && v.DType != tensor.Map {
				x.try(u.ctx, i, d, found)
			}
		}
		x.tryAttrs(u.ctx, d, found)
	}
	if x.call.Type == "BitCast" { // whose two types are of one width
		for d := tensor.Float32; d.Valid(); d++ {
			y := use{x.op, x.call, []*tensor.Tensor{converted(x.in[0], d)}}
			for e := tensor.Float32; e.Valid(); e++ {
				y.tryAttrs(u.ctx, e, found)
			}
		}
	}
	u.note(x.call.Name(), found)
}

// note adds what an operator was found to take.
func (u *uses) note(name string, found *taken) {
	if len(found.operand)+len(found.result) == 0 {
		return
	}
	all := u.taken[name]
	if all == nil {
		u.taken[name] = found
		return
	}
	maps.Copy(all.operand, found.operand)
	maps.Copy(all.result, found.result)
}

// tryAttrs runs a use with type d in each attribute that names one or that is a value.
func (x use) tryAttrs(ctx context.Context, d tensor.DType, found *taken) {
	for i, a := range x.call.Attrs {
		switch {
		case slices.Contains([]string{"to", "dtype", "output_datatype"}, a.Name) &&
			a.Kind == op.AttrInt:
			a = op.IntAttr(a.Name, int64(d))
		case a.Name == "value" && a.Tensor != nil:
			a = op.TensorAttr(a.Name, converted(a.Tensor, d))
		default:
			continue
		}
		call := *x.call
		call.Attrs = slices.Clone(call.Attrs)
		call.Attrs[i] = a
		use{x.op, &call, x.in}.runs(ctx, x.in, found)
	}
}

// try runs a use with operand i of type d.
func (x use) try(ctx context.Context, i int, d tensor.DType, found *taken) {
	alone, together := slices.Clone(x.in), slices.Clone(x.in)
	for k, v := range x.in {
		if v == nil || v.DType != x.in[i].DType {
			continue
		}
		together[k] = converted(v, d)
		if k == i {
			alone[k] = together[k]
		}
	}
	x.runs(ctx, together, found)
	x.runs(ctx, alone, found)
}

// runs adds the types of operands that the rule accepts and of which the evaluation computes
// something.
func (x use) runs(ctx context.Context, in []*tensor.Tensor, found *taken) {
	types, present := make([]op.Type, len(in)), make([]bool, len(in))
	for i, v := range in {
		if v != nil {
			types[i], present[i] = op.TypeOf(v), true
		}
	}
	if _, err := op.InferTypes(x.op, x.call, types, present); err != nil {
		return
	}
	out, err := op.Run(ctx, x.op, x.call, in)
	if err != nil {
		return
	}
	if len(in) > x.call.Captures && in[0] != nil {
		found.operand[in[0].DType] = true
	}
	if out[0] != nil {
		found.result[out[0].DType] = true
	}
}

// converted gives a tensor's elements another type, or those in a container; they are ones where
// Cast has no rule.
func converted(v *tensor.Tensor, d tensor.DType) *tensor.Tensor {
	if v.DType.IsContainer() {
		of := *v
		of.Items = make([]*tensor.Tensor, len(v.Items))
		for i, item := range v.Items {
			of.Items[i] = converted(item, d)
		}
		return &of
	}
	cast, err := op.Lookup("", "Cast", op.NewestOpset(""))
	if err == nil {
		call := &op.Call{
			Type:    "Cast",
			Version: op.NewestOpset(""),
			Attrs:   op.Attrs{op.IntAttr("to", int64(d))},
			NumIn:   1,
			NumOut:  1,
		}
		if out, err := op.Run(context.Background(), cast, call, []*tensor.Tensor{v}); err == nil {
			return out[0]
		}
	}
	return ones(d, v.Shape)
}

func ones(d tensor.DType, shape []int) *tensor.Tensor {
	n, err := tensor.Count(shape)
	if err != nil {
		panic(err) // the shape is that of a tensor
	}
	switch d {
	case tensor.String:
		return tensor.FromStrings(slices.Repeat([]string{"1"}, n), shape...)
	case tensor.Complex64:
		return tensor.From(slices.Repeat([]complex64{1}, n), shape...)
	case tensor.Complex128:
		return tensor.From(slices.Repeat([]complex128{1}, n), shape...)
	}
	return converted(tensor.From(slices.Repeat([]float32{1}, n), shape...), d)
}

// guess tries usual shapes and attributes for the operators that no case uses, and for those of
// containers, which also take tensors.
func (u *uses) guess() {
	dtype, sizes := op.IntAttr("dtype", int64(tensor.Float32)), op.IntsAttr("shape", 1)
	value := op.TensorAttr("value", ones(tensor.Float32, []int{1}))
	for _, o := range op.All() {
		call := op.Call{
			Domain:  o.Domain,
			Type:    o.Name,
			Version: o.Since[len(o.Since)-1],
			NumIn:   o.MinIn,
			NumOut:  max(1, o.MinOut),
		}
		if u.taken[call.Name()] != nil && o.Traits&op.Containers == 0 {
			continue
		}
		call.NumIn = max(call.NumIn, min(1, o.MaxIn))
		for _, call.Attrs = range []op.Attrs{nil, {dtype}, {dtype, sizes}, {value}} {
			for _, shape := range [][]int{nil, {2}, {2, 2}, {1, 2, 2, 2}} {
				c := call
				x := use{o, &c, make([]*tensor.Tensor, c.NumIn)}
				for i := range x.in {
					x.in[i] = ones(tensor.Float32, shape)
				}
				u.learn(x)
				if len(x.in) > 1 {
					x.in[1] = ones(tensor.Int64, nil) // a count
					u.learn(x)
				}
			}
		}
	}
}

// types finds the types of all operators that the cases below dir and those of this repository use.
func types(root, dir string) (map[string]*taken, error) {
	own, err := os.MkdirTemp("", "weir-table")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(own)
	if err := unpackOwn(root, own); err != nil {
		return nil, err
	}
	u := newUses(context.Background())
	for _, from := range []string{dir, own} {
		cases, err := conformance.Find(from)
		if err != nil {
			return nil, err
		}
		u.read(cases)
	}
	u.guess()
	return u.taken, nil
}

// unpackOwn unpacks weir's own cases, which add to ONNX's, into folders of dir.
func unpackOwn(root, dir string) error {
	for _, name := range []string{"microsoft", "ml", "versions"} {
		to := filepath.Join(dir, name)
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		from := filepath.Join(root, "internal/conformance/testdata", name+".tar.xz")
		if err := archive.Unpack(from, to); err != nil {
			return err
		}
	}
	return nil
}
