package graph

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/op"
)

func (p *parser) attrs(n *Node, depth int) error {
	if open, err := p.skip("{"); !open || err != nil {
		return err
	}
	for {
		at := p.tok
		name, err := p.name()
		if err != nil {
			return err
		}
		if n.Attrs.Has(name) {
			return syntaxError(at, "attribute %q is given twice", name)
		}
		if err := p.punct("="); err != nil {
			return err
		}
		a, err := p.attr(name, depth)
		if err != nil {
			return err
		}
		n.Attrs = append(n.Attrs, a)
		if more, err := p.skip(","); err != nil {
			return err
		} else if !more {
			return p.punct("}")
		}
	}
}

func (p *parser) attr(name string, depth int) (op.Attr, error) {
	switch t := p.tok; {
	case t.kind == quotedToken:
		return op.StringAttr(name, t.text), p.step()
	case t.is("["):
		vs, err := elements(p, parseInt)
		return op.IntsAttr(name, vs...), err
	case t.kind != wordToken:
	case t.text == "floats" || t.text == "strings":
		return p.list(name, t.text)
	case t.text == "graph":
		g, err := p.graph(depth + 1)
		return op.BodyAttr(name, g), err
	case t.text == "type":
		if err := p.step(); err != nil {
			return op.Attr{}, err
		}
		typ, err := p.typ()
		return op.TypeAttr(name, typ), err
	case t.text == "tensor":
		return p.tensorAttr(name)
	default:
		if i, ok := parseInt(t); ok {
			return op.IntAttr(name, i), p.step()
		}
		if f, ok := parseFloat(t); ok {
			return op.FloatAttr(name, f), p.step()
		}
	}
	return op.Attr{}, syntaxError(p.tok, "want the value of attribute %q, have %v", name, p.tok)
}

func (p *parser) list(name, kind string) (op.Attr, error) {
	if err := p.step(); err != nil {
		return op.Attr{}, err
	}
	if kind == "floats" {
		vs, err := elements(p, parseFloat)
		return op.FloatsAttr(name, vs...), err
	}
	vs, err := elements(p, func(t token) (string, bool) { return t.text, t.kind == quotedToken })
	return op.StringsAttr(name, vs...), err
}

func (p *parser) tensorAttr(name string) (op.Attr, error) {
	if err := p.step(); err != nil {
		return op.Attr{}, err
	}
	at := p.tok
	typ, err := p.typ()
	if err != nil {
		return op.Attr{}, err
	}
	t, err := p.contents(at, typ)
	return op.TensorAttr(name, t), err
}

// elements reads [a, b, ...].
func elements[T any](p *parser, parse func(token) (T, bool)) ([]T, error) {
	if err := p.punct("["); err != nil {
		return nil, err
	}
	vs := []T{}
	err := p.items("]", func() error {
		v, ok := parse(p.tok)
		if !ok {
			return syntaxError(p.tok, "%v is no element of this list", p.tok)
		}
		vs = append(vs, v)
		return p.step()
	})
	if err != nil {
		return nil, err
	}
	return vs, nil
}

func parseInt(t token) (int64, bool) {
	i, err := strconv.ParseInt(t.text, 10, 64)
	return i, err == nil && t.kind == wordToken
}

// parseFloat reads a float, a NaN by its bits.
func parseFloat(t token) (float32, bool) {
	if t.kind != wordToken {
		return 0, false
	}
	if hex, ok := strings.CutPrefix(t.text, "nan"); ok {
		bits, err := strconv.ParseUint(hex, 16, 32)
		f := math.Float32frombits(uint32(bits))
		return f, err == nil && f != f
	}
	f, err := strconv.ParseFloat(t.text, 32)
	return float32(f), err == nil
}
