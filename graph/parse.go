package graph

import (
	"strconv"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// maxNesting bounds graphs within graphs in the text form.
const maxNesting = 64

// Parse reads the text form that [Print] writes. It checks that every value is defined once and
// before its use; the operators are [Graph.Check]'s business. Errors are of kind [ErrInvalid] and
// begin with line:column. Parse does not panic and allocates in proportion to the text, whatever it
// is given.
func Parse(text string) (*Graph, error) { return ParseExternal(text, nil) }

// ParseExternal is Parse for the text of [PrintExternal]: fetch returns a tensor of the given type
// whose contents are kept at a place. Its errors come back with line:column.
func ParseExternal(text string,
	fetch func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error)) (*Graph, error) {
	p := &parser{lex: lexer{src: text, line: 1, col: 1}, fetch: fetch}
	if err := p.step(); err != nil {
		return nil, err
	}
	g, err := p.graph(0)
	if err != nil {
		return nil, err
	}
	if p.tok.kind != endToken {
		return nil, syntaxError(p.tok, "%v after the end of the graph", p.tok)
	}
	return g, nil
}

type parser struct {
	lex   lexer
	tok   token // the one to be read next
	fetch func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error)
}

// step reads the next token.
func (p *parser) step() (err error) {
	p.tok, err = p.lex.next()
	return err
}

// take reads the next token and returns the one before.
func (p *parser) take() (token, error) {
	t := p.tok
	return t, p.step()
}

func (p *parser) punct(s string) error {
	if !p.tok.is(s) {
		return syntaxError(p.tok, "want '%s', have %v", s, p.tok)
	}
	return p.step()
}

// skip reads the punctuation when it comes next.
func (p *parser) skip(s string) (bool, error) {
	if !p.tok.is(s) {
		return false, nil
	}
	return true, p.step()
}

// items reads a list separated by commas, up to and including the punctuation end, and calls read
// for each item.
func (p *parser) items(end string, read func() error) error {
	for first := true; !p.tok.is(end); first = false {
		if !first {
			if err := p.punct(","); err != nil {
				return err
			}
		}
		if err := read(); err != nil {
			return err
		}
	}
	return p.step()
}

func (p *parser) keyword(s string) error {
	if !p.tok.isWord(s) {
		return syntaxError(p.tok, "want '%s', have %v", s, p.tok)
	}
	return p.step()
}

func (p *parser) quoted() (string, error) {
	if p.tok.kind != quotedToken {
		return "", syntaxError(p.tok, "want a string, have %v", p.tok)
	}
	t, err := p.take()
	return t.text, err
}

// name reads a word or a string.
func (p *parser) name() (string, error) {
	if p.tok.kind != wordToken && p.tok.kind != quotedToken {
		return "", syntaxError(p.tok, "want a name, have %v", p.tok)
	}
	t, err := p.take()
	return t.text, err
}

func (p *parser) integer() (int, error) {
	n, err := strconv.Atoi(p.tok.text)
	if p.tok.kind != wordToken || err != nil {
		return 0, syntaxError(p.tok, "want an integer, have %v", p.tok)
	}
	return n, p.step()
}

// body is a graph while it is read.
type body struct {
	g      *Graph
	values map[string]*Value
}

func (p *parser) graph(depth int) (*Graph, error) {
	if depth > maxNesting {
		return nil, syntaxError(p.tok, "graphs nest deeper than %d", maxNesting)
	}
	if err := p.keyword("graph"); err != nil {
		return nil, err
	}
	b := body{g: &Graph{}, values: map[string]*Value{}}
	at, err := p.graphHead(b.g)
	if err != nil {
		return nil, err
	}
	for !p.tok.is("}") {
		if err := p.definition(&b, depth); err != nil {
			return nil, err
		}
	}
	if b.g.Captures < 0 || b.g.Captures > len(b.g.Inputs) {
		return nil, syntaxError(at, "%d captures of %d inputs", b.g.Captures, len(b.g.Inputs))
	}
	return b.g, p.step()
}

// graphHead reads `"name" captures N {` and returns the token of the captures, for errors about
// them.
func (p *parser) graphHead(g *Graph) (at token, err error) {
	if g.Name, err = p.quoted(); err != nil {
		return at, err
	}
	at = p.tok
	if p.tok.kind == wordToken {
		if err := p.keyword("captures"); err != nil {
			return at, err
		}
		if g.Captures, err = p.integer(); err != nil {
			return at, err
		}
	}
	return at, p.punct("{")
}

func (p *parser) definition(b *body, depth int) error {
	if p.tok.kind != wordToken || p.tok.text == "_" {
		return p.node(b, depth)
	}
	switch p.tok.text {
	case "opset", "meta":
		return p.header(b)
	case "input":
		return p.border(b, p.define, &b.g.Inputs)
	case "const":
		return p.constant(b)
	case "output":
		return p.border(b, p.use, &b.g.Outputs)
	}
	return p.node(b, depth)
}

// border reads, after its keyword, an input or output.
func (p *parser) border(b *body, read func(*body) (*Value, error), to *[]*Value) error {
	if err := p.step(); err != nil {
		return err
	}
	v, err := read(b)
	*to = append(*to, v)
	return err
}

func (p *parser) header(b *body) error {
	what, err := p.take()
	if err != nil {
		return err
	}
	key, err := p.quoted()
	if err != nil {
		return err
	}
	if what.text == "meta" {
		if b.g.Meta == nil {
			b.g.Meta = map[string]string{}
		}
		b.g.Meta[key], err = p.quoted()
		return err
	}
	if b.g.Opsets == nil {
		b.g.Opsets = map[string]int{}
	}
	b.g.Opsets[key], err = p.integer()
	return err
}

// define reads %name and, behind a colon, a type.
func (p *parser) define(b *body) (*Value, error) {
	at := p.tok
	if err := p.punct("%"); err != nil {
		return nil, err
	}
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	if b.values[name] != nil {
		return nil, syntaxError(at, "value %q is defined twice", name)
	}
	v := &Value{Name: name}
	b.values[name] = v
	if colon, err := p.skip(":"); !colon || err != nil {
		return v, err
	}
	v.Type, err = p.typ()
	return v, err
}

// use reads %name of a value that is defined.
func (p *parser) use(b *body) (*Value, error) {
	at := p.tok
	if err := p.punct("%"); err != nil {
		return nil, err
	}
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	v := b.values[name]
	if v == nil {
		return nil, syntaxError(at, "value %q is not defined before its use", name)
	}
	return v, nil
}

func (p *parser) constant(b *body) error {
	if err := p.step(); err != nil {
		return err
	}
	at := p.tok
	v, err := p.define(b)
	if err != nil {
		return err
	}
	if err := p.punct("="); err != nil {
		return err
	}
	t, err := p.contents(at, v.Type)
	if err == nil {
		v.Type = op.TypeOf(t)
	}
	return err
}

// node reads outputs = domain:Type@version "name" (inputs | captures) {attributes}.
func (p *parser) node(b *body, depth int) error {
	n := &Node{}
	if p.tok.is("%") || p.tok.isWord("_") {
		if err := p.outputs(b, n); err != nil {
			return err
		}
	}
	if err := p.operator(n); err != nil {
		return err
	}
	if err := p.operands(b, n); err != nil {
		return err
	}
	if err := p.attrs(n, depth); err != nil {
		return err
	}
	b.g.Nodes = append(b.g.Nodes, n)
	for _, v := range n.Out {
		if v != nil {
			b.values[v.Name] = v
		}
	}
	return nil
}

// operator reads domain:Type@version "name".
func (p *parser) operator(n *Node) (err error) {
	if n.Type, err = p.name(); err != nil {
		return err
	}
	colon, err := p.skip(":")
	if err != nil {
		return err
	}
	if colon {
		n.Domain = n.Type
		if n.Type, err = p.name(); err != nil {
			return err
		}
	}
	if err := p.punct("@"); err != nil {
		return err
	}
	if n.Version, err = p.integer(); err != nil {
		return err
	}
	if p.tok.kind == quotedToken {
		n.Name, err = p.quoted()
	}
	return err
}

// outputs reads what a node defines; the values exist from the end of its line on.
func (p *parser) outputs(b *body, n *Node) error {
	own := body{g: b.g, values: map[string]*Value{}}
	for {
		if err := p.output(b, &own, n); err != nil {
			return err
		}
		if more, err := p.skip(","); err != nil {
			return err
		} else if !more {
			return p.punct("=")
		}
	}
}

// output reads one of what a node defines.
func (p *parser) output(b, own *body, n *Node) error {
	if p.tok.isWord("_") {
		n.Out = append(n.Out, nil)
		return p.step()
	}
	at := p.tok
	v, err := p.define(own)
	if err != nil {
		return err
	}
	if b.values[v.Name] != nil {
		return syntaxError(at, "value %q is defined twice", v.Name)
	}
	v.Producer, v.Index = n, len(n.Out)
	n.Out = append(n.Out, v)
	return nil
}

// operand reads one of what a node reads.
func (p *parser) operand(b *body, n *Node) error {
	if p.tok.isWord("_") {
		n.In = append(n.In, nil)
		return p.step()
	}
	v, err := p.use(b)
	n.In = append(n.In, v)
	return err
}

func (p *parser) operands(b *body, n *Node) error {
	if err := p.punct("("); err != nil {
		return err
	}
	captures := -1
	for first := true; !p.tok.is(")"); first = false {
		if bar, err := p.skip("|"); err != nil {
			return err
		} else if bar {
			if captures >= 0 {
				return syntaxError(p.tok, "a second bar among the operands")
			}
			captures = len(n.In)
		} else if !first {
			if err := p.punct(","); err != nil {
				return err
			}
		}
		if err := p.operand(b, n); err != nil {
			return err
		}
	}
	if captures >= 0 {
		n.Captures = len(n.In) - captures
	}
	return p.step()
}
