package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirgpu/weir/internal/op"
)

// Part is a graph of a [Join].
type Part struct {
	// Name is what errors call it, and what its values' names begin with.
	Name  string
	Graph *Graph
	// Inputs and Outputs give, by the graph's own names, what its inputs and outputs are called in
	// the whole. Every input is named; outputs that are not are left out.
	Inputs, Outputs map[string]string
}

// Join makes one graph of several: values of one name are one value, and those that no part
// computes are the inputs, in the order in which parts first read them. Outputs are named in their
// order. Parts may come in any order; they are not changed, and share their constants with the
// whole. Between two parts is an operator op.Boundary, so that each part computes what it computes
// alone. The error is of kind [ErrInvalid] and names the parts: names that there are not, a value
// that two parts compute, parts that wait for each other, types and shapes that do not fit.
func Join(name string, parts []Part, outputs []string) (*Graph, error) {
	j := joiner{g: &Graph{Name: name, Opsets: map[string]int{}}, from: map[string]*joined{}}
	order, err := j.order(parts)
	if err != nil {
		return nil, err
	}
	for _, p := range order {
		if err := j.add(p); err != nil {
			return nil, err
		}
	}
	for _, out := range outputs {
		v := j.from[out]
		if v == nil || v.by == nil {
			return nil, j.errorf("no part computes output %q", out)
		}
		j.g.Outputs = append(j.g.Outputs, v.value)
	}
	return j.g, j.name(outputs)
}

// joiner makes a graph of parts.
type joiner struct {
	g    *Graph
	from map[string]*joined // values of the whole
}

// joined is a value of the whole, and who computes or first reads it.
type joined struct {
	value *Value
	by    *Part // nil for an input
	read  *Part
}

func (j *joiner) errorf(format string, args ...any) error {
	return fmt.Errorf("graph %q: %w: %s", j.g.Name, ErrInvalid, fmt.Sprintf(format, args...))
}

// order checks the names of parts and puts each behind those whose values it reads.
func (j *joiner) order(parts []Part) ([]*Part, error) {
	by, err := j.makers(parts)
	if err != nil {
		return nil, err
	}
	var list []*Part
	done := map[*Part]bool{}
	for len(list) < len(parts) {
		before := len(list)
		for i := range parts {
			if p := &parts[i]; !done[p] && j.fed(p, by, done) {
				done[p] = true
				list = append(list, p)
			}
		}
		if len(list) == before {
			return nil, j.errorf("%s wait for each other", strings.Join(waiting(parts, done), ", "))
		}
	}
	return list, nil
}

// makers finds the part that computes each value that goes between parts.
func (j *joiner) makers(parts []Part) (map[string]*Part, error) {
	by := map[string]*Part{}
	for i := range parts {
		p := &parts[i]
		if err := j.names(p); err != nil {
			return nil, err
		}
		for _, own := range slices.Sorted(maps.Keys(p.Outputs)) {
			to := p.Outputs[own]
			if other := by[to]; other != nil {
				return nil, j.errorf("%s and %s both compute %q", other.Name, p.Name, to)
			}
			by[to] = p
		}
	}
	return by, nil
}

// fed reports whether all that a part reads is computed by those that are done, or an input.
func (j *joiner) fed(p *Part, by map[string]*Part, done map[*Part]bool) bool {
	for _, name := range p.Inputs {
		if from := by[name]; from != nil && !done[from] {
			return false
		}
	}
	return true
}

func waiting(parts []Part, done map[*Part]bool) (names []string) {
	for i := range parts {
		if !done[&parts[i]] {
			names = append(names, parts[i].Name)
		}
	}
	return names
}

// names holds what a part's inputs and outputs are called against those that it has.
func (j *joiner) names(p *Part) error {
	for _, v := range p.Graph.Inputs {
		if p.Inputs[v.Name] == "" {
			return j.errorf("%s: input %q has no value", p.Name, v.Name)
		}
	}
	for _, own := range slices.Sorted(maps.Keys(p.Inputs)) {
		if p.Graph.Input(own) == nil {
			return j.errorf("%s: there is no input %q; it has %s", p.Name, own,
				names(p.Graph.Inputs))
		}
	}
	for _, own := range slices.Sorted(maps.Keys(p.Outputs)) {
		if p.Graph.Output(own) == nil {
			return j.errorf("%s: there is no output %q; it has %s", p.Name, own,
				names(p.Graph.Outputs))
		}
	}
	return nil
}

// add adds a part behind those that it reads from.
func (j *joiner) add(p *Part) error {
	g := p.Graph.Clone()
	for domain, version := range g.Opsets {
		j.g.Opsets[domain] = max(j.g.Opsets[domain], version)
	}
	in := map[*Value]*Value{}
	for _, v := range g.Inputs {
		to, err := j.input(p, v)
		if err != nil {
			return err
		}
		in[v] = to
	}
	g.adopt(p.Name+"/", in)
	j.g.Nodes = append(j.g.Nodes, g.Nodes...)
	for i, v := range p.Graph.Outputs {
		if to := p.Outputs[v.Name]; to != "" {
			j.from[to] = &joined{value: j.output(p, v.Name, g.Outputs[i], in), by: p}
		}
	}
	return nil
}

// adopt prepares a part's graph for its place in the whole: names get a prefix, and nodes read what
// stands for the inputs.
func (g *Graph) adopt(prefix string, in map[*Value]*Value) {
	for _, n := range g.Nodes {
		n.Name = prefix + n.Name
		for i, v := range n.In {
			if to := in[v]; to != nil {
				n.In[i] = to
			}
		}
		for _, v := range n.Out {
			if v != nil {
				v.Name = prefix + v.Name
			}
		}
	}
	for _, c := range g.Constants() {
		c.Name = prefix + c.Name
	}
}

// input is the value that a part reads in the place of its own input.
func (j *joiner) input(p *Part, v *Value) (*Value, error) {
	name := p.Inputs[v.Name]
	was := j.from[name]
	if was == nil {
		to := &Value{Name: name, Type: v.Type}
		j.from[name] = &joined{value: to, read: p}
		j.g.Inputs = append(j.g.Inputs, to)
		return to, nil
	}
	other, does := was.by, "computes it as"
	if other == nil {
		other, does = was.read, "reads it as"
	}
	if !fitting(was.value.Type, v.Type) {
		return nil, j.errorf("value %q: %s %s %v, and %s reads it as %v", name, other.Name, does,
			was.value.Type, p.Name, v.Type)
	}
	if was.by == nil {
		was.value.Type = narrowed(was.value.Type, v.Type)
		return was.value, nil
	}
	return j.boundary(p, v, was.value), nil
}

// boundary is a value that the part before it computes, as this part reads it.
func (j *joiner) boundary(p *Part, v, from *Value) *Value {
	var attrs op.Attrs
	if v.Type.Ranked && !v.Type.DType.IsContainer() {
		dims := make([]int64, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			dims[i] = -1
			if n, ok := d.Int(); ok {
				dims[i] = int64(n)
			}
		}
		attrs = op.Attrs{op.IntsAttr("dims", dims...)}
	}
	n := NewNode(p.Name+"/"+v.Name, op.Boundary, 1, attrs, []*Value{from}, p.Name+"/"+v.Name)
	n.Domain = op.FusedDomain
	n.Out[0].Type = op.Unranked(from.Type.DType)
	j.g.Nodes = append(j.g.Nodes, n)
	return n.Out[0]
}

// output is what a part gives as an output: a value of its own also where it is an input or a
// constant of the part.
func (j *joiner) output(p *Part, own string, v *Value, in map[*Value]*Value) *Value {
	if to := in[v]; to != nil {
		v = to
	}
	if v.Producer != nil && !j.taken(v) {
		return v
	}
	name := p.Name + "/" + own + "/out"
	n := NewNode(name, "Identity", 1, nil, []*Value{v}, name)
	n.Version = max(j.g.Opsets[""], 1)
	n.Out[0].Type = op.Unranked(v.Type.DType)
	j.g.Nodes = append(j.g.Nodes, n)
	return n.Out[0]
}

// taken reports whether a value stands for a name of the whole already.
func (j *joiner) taken(v *Value) bool {
	for _, other := range j.from {
		if other.value == v {
			return true
		}
	}
	return false
}

// fitting reports whether a value of one type may be read as another: whether some value is of
// both.
func fitting(a, b op.Type) bool {
	if a.DType != b.DType {
		return false
	}
	if !a.Ranked || !b.Ranked || a.DType.IsContainer() {
		return true
	}
	if len(a.Shape) != len(b.Shape) {
		return len(a.Shape) == 0 && ofOne(b) || len(b.Shape) == 0 && ofOne(a)
	}
	for i, d := range a.Shape {
		n, known := d.Int()
		if m, ok := b.Shape[i].Int(); ok && known && m != n {
			return false
		}
	}
	return true
}

// ofOne reports whether a value of a type may have one element.
func ofOne(t op.Type) bool {
	for _, d := range t.Shape {
		if n, ok := d.Int(); ok && n != 1 {
			return false
		}
	}
	return true
}

// narrowed is the type of an input that two parts read: the sizes that either knows.
func narrowed(a, b op.Type) op.Type {
	if !a.Ranked || len(a.Shape) != len(b.Shape) {
		return b
	}
	a.Shape = slices.Clone(a.Shape)
	for i, d := range b.Shape {
		if _, ok := d.Int(); ok {
			a.Shape[i] = d
		}
	}
	return a
}

// name gives outputs the names of the whole, and others names beside them.
func (j *joiner) name(outputs []string) error {
	taken := map[string]bool{}
	for i, v := range j.g.Outputs {
		if slices.Index(j.g.Outputs, v) < i {
			return j.errorf("output %q is given twice", outputs[i])
		}
		v.Name = outputs[i]
		taken[v.Name] = true
	}
	for _, v := range j.g.Inputs {
		if taken[v.Name] {
			return j.errorf("%q is an input and an output", v.Name)
		}
		taken[v.Name] = true
	}
	j.renameInner(taken)
	return nil
}

// renameInner gives constants and what nodes compute on the way names that are not taken.
func (j *joiner) renameInner(taken map[string]bool) {
	rename := func(v *Value) {
		if v == nil || slices.Contains(j.g.Outputs, v) {
			return
		}
		for taken[v.Name] {
			v.Name += "_"
		}
		taken[v.Name] = true
	}
	for _, c := range j.g.Constants() {
		rename(c)
	}
	for _, n := range j.g.Nodes {
		for _, v := range n.Out {
			rename(v)
		}
	}
}
