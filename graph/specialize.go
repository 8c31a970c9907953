package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// ErrNames is the kind of an error of operators that refuse shapes which contradict the names that
// the model gives to dimensions ([Graph.Blame]).
var ErrNames = errors.New("shapes contradict the model's names of dimensions")

// Specialize returns a copy of g with the named inputs' shapes fixed and types inferred anew: what
// a planner compiles and passes rewrite. Its types hold for every run with inputs of these shapes,
// but for one assumption: where a Reshape copies a symbolic size, no other size of it is 0 as well.
//
// Of what a file declares, ranks and known sizes of inputs hold, since a run is refused without
// them. Names and shapes of other values hold nothing. ONNX's text says that dimensions of one name
// have one size, exporters call unlike ones alike, and ONNX Runtime, which models are tried with,
// does not compare them. So each unknown dimension of an input gets a symbol of its own, the first
// one that has a name that name, and declared shapes of computed values are forgotten. Values of
// bodies are renamed until no two of the model have one name, after which dimensions that no rule
// can tell are named.
//
// Inputs that are not in shapes keep their declared shapes with the names that the others bind to
// one size; a sequence, optional or map keeps its type whatever shape is given. It fails with
// op.ErrInput when an input does not exist or does not take its shape ([op.Type.Fit]).
func (g *Graph) Specialize(shapes map[string][]int) (*Graph, error) {
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if g.Input(name) == nil {
			return nil, fmt.Errorf("graph %q: %w: no input named %q; inputs are %s", g.Name,
				op.ErrInput, name, names(g.Inputs))
		}
	}
	c := g.Clone()
	sizes := map[string]int{}
	for _, v := range c.Inputs {
		shape, given := shapes[v.Name]
		if !given || v.Type.DType.IsContainer() {
			continue
		}
		shape, err := v.fit(shape)
		if err != nil {
			return nil, fmt.Errorf("graph %q: %w", g.Name, err)
		}
		bind(v.Type, shape, sizes)
		v.Type = op.Concrete(v.Type.DType, shape...)
	}
	maps.DeleteFunc(sizes, func(_ string, n int) bool { return n == ambiguous })
	c.fixInputs(sizes)
	c.separate()
	c.forgetShapes()
	if err := c.InferTypes(); err != nil {
		return nil, err
	}
	return c, nil
}

// HoldingTypes returns the types of g's inputs and of what its nodes compute that hold for every
// run, whatever the file declares: those that [Graph.Specialize] finds without shapes. Where a rule
// fails they are element types alone, and err is the first that failed. g is not changed.
func (g *Graph) HoldingTypes() (types map[*Value]op.Type, err error) {
	c := g.Clone()
	c.fixInputs(nil)
	c.separate()
	c.forgetShapes()
	types = map[*Value]op.Type{}
	for i, v := range g.Inputs {
		types[v] = c.Inputs[i].Type
	}
	for i, n := range g.Nodes {
		if e := c.Nodes[i].infer(); e != nil && err == nil {
			err = fmt.Errorf("graph %q: %w", g.Name, e)
		}
		for k, v := range n.Out {
			if v != nil {
				types[v] = c.Nodes[i].Out[k].Type
			}
		}
	}
	return types, err
}

// fit checks a shape against what is declared of an input and returns how the input takes it.
func (v *Value) fit(shape []int) ([]int, error) {
	_, err := tensor.ByteCount(v.Type.DType, shape)
	if err == nil {
		shape, err = v.Type.Fit(shape)
	}
	if err != nil {
		return nil, fmt.Errorf("input %q: %w", v.Name, err)
	}
	return shape, nil
}

// ambiguous stands for the size of a name that shapes give several.
const ambiguous = -1

// bind records the sizes that a shape gives to names.
func bind(t op.Type, shape []int, sizes map[string]int) {
	for i, d := range t.Shape {
		name := d.String()
		if was, ok := sizes[name]; ok && was != shape[i] {
			sizes[name] = ambiguous
			continue
		}
		sizes[name] = shape[i]
	}
}

// fixInputs puts sizes in place of names, and a symbol of its own in place of each dimension that
// is still unknown. What is known of elements, where g is a body, is kept but for symbols.
func (g *Graph) fixInputs(sizes map[string]int) {
	taken := map[string]bool{}
	for _, v := range g.Inputs {
		if v.Type.DType.IsContainer() {
			v.Type = v.Type.TypeOnly() // a caller's values may differ from each other in shape
			continue
		}
		v.Type.Shape = slices.Clone(v.Type.Shape)
		for i, d := range v.Type.Shape {
			if n, ok := d.Eval(sizes); ok && n >= 0 {
				v.Type.Shape[i] = op.Known(n)
				continue
			}
			name := d.String()
			if taken[name] || !isPlain(name) || !op.Sym(name).Equal(d) {
				v.Type.Shape[i] = place(v.Name, i)
			}
			taken[name] = true
		}
		v.Type.Elems = slices.Clone(v.Type.Elems)
		for i, e := range v.Type.Elems {
			if _, known := e.Int(); !known {
				v.Type.Elems[i] = op.Unknown()
			}
		}
	}
}

// place is the symbol of a dimension of which nothing is known but what value it is of. It differs
// from every name that [Graph.Specialize] keeps, and from what is printed of an expression.
func place(value string, i int) op.Dim {
	if !isAtom(value) {
		value = strconv.QuoteToASCII(value)
	}
	return op.Sym(value + "." + strconv.Itoa(i))
}

// isPlain reports whether a name of a dimension is kept as a symbol: it reads neither like an
// expression nor like a place.
func isPlain(name string) bool {
	return isAtom(name) && !isNumber(name[strings.LastIndexByte(name, '.')+1:])
}

// isAtom reports whether a name cannot be taken for an expression or a part of one.
func isAtom(name string) bool {
	return name != "" && !strings.HasPrefix(name, "-") &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
				!strings.ContainsRune("_.:/-", r)
		})
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789") == "" }

// separate renames values of bodies until no two values of g and all in it have one name. Captures
// keep theirs, which is often that of what they stand for.
func (g *Graph) separate() {
	taken := map[string]bool{}
	g.Walk(func(b *Graph) {
		for _, v := range slices.Concat(b.Inputs[b.NumFormals():], b.Constants()) {
			taken[v.Name] = true
		}
	})
	g.Walk(func(b *Graph) {
		own := slices.Clone(b.Inputs[:b.NumFormals()])
		for _, n := range b.Nodes {
			own = append(own, n.Out...)
		}
		for _, v := range own {
			if v == nil {
				continue
			}
			name := v.Name
			for i := len(taken); taken[v.Name] && b != g; i++ {
				v.Name = name + "_" + strconv.Itoa(i)
			}
			taken[v.Name] = true
		}
	})
}

// forgetShapes leaves only the element types of what nodes compute, in bodies too, and of what
// bodies take beside captures: their nodes say what they are given.
func (g *Graph) forgetShapes() {
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				v.Type = v.Type.TypeOnly()
			}
		}
		for _, b := range n.Bodies() {
			for _, v := range b.Inputs {
				v.Type = v.Type.TypeOnly()
			}
			b.forgetShapes()
		}
	}
}

// Blame returns the error err, of kind [ErrNames] too when it is one about shapes and the shapes of
// inputs give some name of a dimension more than one size: the error then says which.
func (g *Graph) Blame(shapes map[string][]int, err error) error {
	if !errors.Is(err, op.ErrInput) && !errors.Is(err, tensor.ErrShape) ||
		errors.Is(err, ErrNames) {
		return err
	}
	if c := g.contradiction(shapes); c != "" {
		return fmt.Errorf("%w (%w: %s)", err, ErrNames, c)
	}
	return err
}

// contradiction says which name has several sizes, "" when none has.
func (g *Graph) contradiction(shapes map[string][]int) string {
	type use struct {
		size  int
		value *Value
	}
	first := map[string]use{}
	for _, v := range g.Inputs {
		shape := shapes[v.Name]
		if len(shape) != len(v.Type.Shape) {
			continue
		}
		for i, d := range v.Type.Shape {
			if _, known := d.Int(); known || d.IsUnknown() {
				continue
			}
			name := d.String()
			was, ok := first[name]
			if !ok {
				first[name] = use{shape[i], v}
			} else if was.size != shape[i] {
				return fmt.Sprintf("%q is %d in input %q (%v) and %d in input %q (%v)", name,
					was.size, was.value.Name, was.value.Type, shape[i], v.Name, v.Type)
			}
		}
	}
	return ""
}

func names(vs []*Value) string {
	s := ""
	for i, v := range vs {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%q %v", v.Name, v.Type)
	}
	return s
}
