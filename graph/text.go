package graph

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Print writes g in the text form, which [Parse] reads back exactly:
//
//	graph "mnist" {
//	  opset "" 17
//	  input %x: float32[N,4]
//	  const %w: float32[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}
//	  %y: float32[N,2] = MatMul@17 "dense" (%x, %w)
//	  %z: float32[N,2] = If@17 "branch" (%c | %y) {then_branch=graph "then" captures 1 {
//	    ...
//	  }}
//	  output %z
//	}
//
// A type is dtype[dims], dtype[...] when the rank is not known, or, of values that are no tensors,
// sequence(type), optional(type) or map(dtype, type). One line is one definition. An operator is
// written [domain:]Type@version with the node's name behind it, absent operands are _, captures
// follow a bar. Small constants are literal and large ones base64 of their little-endian bytes.
// Known elements of values that nodes compute (Type.Elems) are left out: [Graph.InferTypes] finds
// them again.
func Print(w io.Writer, g *Graph) error { return print(w, g, &printer{}) }

// PrintExternal is Print for graphs whose large tensors are kept elsewhere. It calls place for each
// constant tensor that has bytes; when place returns true, the text holds the word "at" and the
// returned number in place of the contents, and [ParseExternal] gets the contents by that number.
func PrintExternal(w io.Writer, g *Graph,
	place func(t *tensor.Tensor) (at int64, external bool)) error {
	return print(w, g, &printer{place: place})
}

// Brief writes g for people: like [Print], with constants of one element where they are used and
// large ones without their contents. It cannot be read back.
func Brief(w io.Writer, g *Graph) error { return print(w, g, &printer{brief: true}) }

// String is the brief text form.
func (g *Graph) String() string {
	var b strings.Builder
	if err := Brief(&b, g); err != nil {
		return fmt.Sprintf("graph %q: %v", g.Name, err)
	}
	return b.String()
}

func print(w io.Writer, g *Graph, p *printer) error {
	p.w = bufio.NewWriter(w)
	p.graph(g)
	p.text("\n")
	if p.err != nil {
		return fmt.Errorf("graph %q: %w", g.Name, p.err)
	}
	return p.w.Flush()
}

type printer struct {
	w      *bufio.Writer
	brief  bool
	place  func(*tensor.Tensor) (int64, bool) // nil: everything is in the text
	indent int
	err    error
}

func (p *printer) text(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

func (p *printer) line(format string, args ...any) {
	p.text("\n%s", strings.Repeat("  ", p.indent))
	p.text(format, args...)
}

// head writes what a graph declares before its nodes.
func (p *printer) head(g *Graph) {
	for _, d := range slices.Sorted(maps.Keys(g.Opsets)) {
		p.line("opset %q %d", d, g.Opsets[d])
	}
	for _, k := range slices.Sorted(maps.Keys(g.Meta)) {
		p.line("meta %q %q", k, g.Meta[k])
	}
	for _, v := range g.Inputs {
		p.line("input %s%s", valueName(v), typeSuffix(v.Type))
	}
	for _, v := range g.Constants() {
		if !p.brief || !inline(v) || slices.Contains(g.Outputs, v) {
			p.line("const %s: ", valueName(v))
			p.tensor(v.Const(), " = ")
		}
	}
}

func (p *printer) graph(g *Graph) {
	p.text("graph %q", g.Name)
	if g.Captures > 0 {
		p.text(" captures %d", g.Captures)
	}
	p.text(" {")
	p.indent++
	p.head(g)
	for _, n := range g.Nodes {
		p.line("")
		p.node(n)
	}
	for _, v := range g.Outputs {
		p.line("output %s", valueName(v))
	}
	p.indent--
	p.line("}")
}

// inline reports whether the brief form writes a constant where it is used.
func inline(v *Value) bool { return v.Const().Len() == 1 }

func (p *printer) outputs(n *Node) {
	for i, v := range n.Out {
		if i > 0 {
			p.text(", ")
		}
		if v == nil {
			p.text("_")
			continue
		}
		p.text("%s%s", valueName(v), typeSuffix(v.Type))
	}
	if len(n.Out) > 0 {
		p.text(" = ")
	}
}

func (p *printer) node(n *Node) {
	p.outputs(n)
	if n.Domain != "" {
		p.text("%s:%s@%d", startWord(n.Domain), word(n.Type), n.Version)
	} else {
		p.text("%s@%d", startWord(n.Type), n.Version)
	}
	if n.Name != "" {
		p.text(" %q", n.Name)
	}
	p.operands(n)
	for i := range n.Attrs {
		if i == 0 {
			p.text(" {")
		} else {
			p.text(", ")
		}
		p.attr(&n.Attrs[i])
	}
	if len(n.Attrs) > 0 {
		p.text("}")
	}
}

func (p *printer) operands(n *Node) {
	p.text(" (")
	first := len(n.In) - n.Captures
	for i, v := range n.In {
		switch {
		case i == first:
			p.text("%s| ", map[bool]string{true: " "}[i > 0])
		case i > 0:
			p.text(", ")
		}
		switch {
		case v == nil:
			p.text("_")
		case p.brief && v.IsConst() && inline(v):
			p.tensor(v.Const(), " ")
		default:
			p.text("%s", valueName(v))
		}
	}
	p.text(")")
}

func (p *printer) attr(a *op.Attr) {
	p.text("%s=", word(a.Name))
	switch {
	case a.Kind == op.AttrFloat && len(a.Floats) == 1:
		p.text("%s", floatText(float64(a.Floats[0]), 32))
	case a.Kind == op.AttrInt && len(a.Ints) == 1:
		p.text("%d", a.Ints[0])
	case a.Kind == op.AttrString && len(a.Strings) == 1:
		p.text("%q", a.Strings[0])
	case a.Kind == op.AttrFloats:
		p.text("floats%s",
			list(a.Floats, func(f float32) string { return floatText(float64(f), 32) }))
	case a.Kind == op.AttrInts:
		p.text("%s", list(a.Ints, func(i int64) string { return strconv.FormatInt(i, 10) }))
	case a.Kind == op.AttrStrings:
		p.text("strings%s", list(a.Strings, strconv.Quote))
	case a.Kind == op.AttrTensor && a.Tensor != nil:
		p.text("tensor ")
		p.tensor(a.Tensor, " ")
	case a.Kind == op.AttrType:
		p.text("type %s", typeText(a.Type))
	case a.Kind == op.AttrBody:
		g, ok := a.Body.(*Graph)
		if !ok || g == nil {
			p.fail("attribute %q: its body is not a graph", a.Name)
			return
		}
		p.graph(g)
	default:
		p.fail("attribute %q has kind %d and no value of that kind", a.Name, a.Kind)
	}
}

func (p *printer) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
}

func list[T any](vs []T, text func(T) string) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = text(v)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// valueName is %name, quoted when the name is not a word.
func valueName(v *Value) string { return "%" + word(v.Name) }

// word quotes what would not be read back as one word.
func word(s string) string {
	if s == "" || s == "_" {
		return strconv.Quote(s)
	}
	for i := range len(s) {
		if !isWord(s[i]) {
			return strconv.Quote(s)
		}
	}
	return s
}

// startWord quotes the keywords as well, which a line may begin with.
func startWord(s string) string {
	if slices.Contains([]string{"opset", "meta", "input", "const", "output"}, s) {
		return strconv.Quote(s)
	}
	return word(s)
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' ||
		c == '.' || c == '/' || c == '-' || c == '+'
}

// typeSuffix is empty when nothing is known.
func typeSuffix(t op.Type) string {
	if t.IsZero() {
		return ""
	}
	return ": " + typeText(t)
}

func typeText(t op.Type) string { return t.Text(dimText) }

// productText writes one term of a dimension.
func productText(coef int64, symbols []string) string {
	var factors []string
	if coef != 1 || symbols == nil {
		factors = append(factors, strconv.FormatInt(coef, 10))
	}
	for _, name := range symbols {
		factors = append(factors, symbol(name))
	}
	return strings.Join(factors, op.TimesSign)
}

// dimText writes a dimension as the sum of its terms, symbols quoted when they are not names.
func dimText(d op.Dim) string {
	if d.IsUnknown() {
		return "?"
	}
	s := ""
	for coef, symbols := range d.Terms() {
		switch {
		case s != "" && coef < 0 && coef != math.MinInt64:
			s += " - "
			coef = -coef
		case s != "":
			s += " + "
		}
		s += productText(coef, symbols)
	}
	if s == "" {
		return "0"
	}
	return s
}

// symbol quotes what could be read as a number or an operator.
func symbol(s string) string {
	if c := s[0]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		return strconv.Quote(s)
	}
	return word(s)
}
