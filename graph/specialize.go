package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// ErrNames is the kind of error about input shapes that an operator refuses and that contradict the
// model's names of dimensions: they give one name several sizes ([Graph.Blame]).
var ErrNames = errors.New("shapes contradict the model's names of dimensions")

// Specialize returns a copy of g in which the inputs named in shapes have these shapes and all
// types are inferred anew. This copy is what planners compile and passes rewrite. Its types hold
// for every run with inputs of these shapes, on one assumption: where a Reshape copies a symbolic
// size, none of its other sizes is 0.
//
// Of what a file declares, only the ranks and known sizes of inputs can be relied on, since a run
// with others is refused. Names of dimensions and declared shapes of other values cannot: ONNX's
// text says that dimensions of one name have one size, but exporters give unrelated dimensions the
// same name, and ONNX Runtime, with which authors try their models, does not compare them. So each
// unknown dimension of an input gets a symbol of its own (the first dimension with a given name
// keeps it as its symbol), and declared shapes of computed values are dropped. Values in bodies are
// renamed until all values of the model have distinct names, because a dimension that no rule
// determines is named after its value.
//
// Inputs that are not in shapes keep their declared shapes, in which each name to which shapes
// gives exactly one size is replaced by that size. A sequence, optional or map keeps its element
// types, whatever shape is given for it. Specialize fails with op.ErrInput when shapes names an
// input that does not exist or gives a shape that the input does not take ([op.Type.Fit]).
func (g *Graph) Specialize(shapes map[string][]int) (*Graph, error) {
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if g.Input(name) == nil {
			return nil, fmt.Errorf("graph %q: %w: no input named %q; inputs are %s", g.Name,
				op.ErrInput, name, names(g.Inputs))
		}
	}
	c := g.Clone()
	sizes, err := c.bindInputs(shapes)
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	c.fixInputs(sizes)
	c.separate()
	c.forgetShapes()
	if err := c.InferTypes(); err != nil {
		return nil, err
	}
	return c, nil
}

// bindInputs gives inputs their shapes and returns the sizes of symbols that these tell of.
func (g *Graph) bindInputs(shapes map[string][]int) (map[string]int, error) {
	sizes := map[string]int{}
	for _, v := range g.Inputs {
		shape, given := shapes[v.Name]
		if !given || v.Type.DType.IsContainer() {
			continue
		}
		shape, err := v.fit(shape)
		if err != nil {
			return nil, err
		}
		bind(v.Type, shape, sizes)
		v.Type = op.Concrete(v.Type.DType, shape...)
	}
	maps.DeleteFunc(sizes, func(_ string, n int) bool { return n == ambiguous })
	return sizes, nil
}

// HoldingTypes returns the types of g's inputs and of what its nodes compute that hold for every
// run, whatever the file declares: those that [Graph.Specialize] finds without shapes. Where a
// shape rule fails, the values concerned have element types only, and err is the error of the first
// rule that failed. g is not changed.
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

// ambiguous stands for the size of a name to which the input shapes give several sizes.
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

// fixInputs replaces the names in the inputs' shapes by their sizes, and each dimension that is
// still unknown by a symbol of its own. Known elements (Type.Elems), which inputs of a body may
// have, are kept, but those that contain symbols become unknown.
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

// place returns the symbol for dimension i of a value when nothing else is known of that dimension.
// The symbol differs from every name that [Graph.Specialize] keeps and from every printed
// expression.
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

// separate renames values in bodies until no two values of g and of the graphs nested in it have
// the same name. Captures keep their names, which are often those of the values that they stand
// for.
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

// forgetShapes reduces to element types the types of all values that nodes compute, also in bodies,
// and the types of the inputs of bodies: the node that owns a body determines their shapes.
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

// Blame returns err, an error of compiling or running g with inputs of these shapes. When err is
// about shapes, and the inputs' shapes give one name of a dimension more than one size, the result
// is of kind [ErrNames] as well and says which name that is.
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
