package graph

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// contents reads the elements of a tensor of the given type.
func (p *parser) contents(at token, typ op.Type) (*tensor.Tensor, error) {
	shape, ok := typ.Ints()
	size, err := tensor.ByteCount(typ.DType, shape)
	if !ok || !typ.DType.Valid() || err != nil {
		return nil, syntaxError(at, "a constant cannot be %v", typ)
	}
	if p.tok.isWord("base64") {
		return p.base64(typ.DType, shape, size)
	}
	if p.tok.isWord(externalWord) {
		return p.external(at, typ.DType, shape)
	}
	if p.tok.isWord("...") {
		return nil, syntaxError(p.tok,
			"the brief form leaves out the elements; print the exact form")
	}
	elems, err := p.literals()
	if err != nil {
		return nil, err
	}
	return literalTensor(at, typ.DType, shape, elems)
}

// literals reads elements in braces.
func (p *parser) literals() (elems []token, err error) {
	if err := p.punct("{"); err != nil {
		return nil, err
	}
	err = p.items("}", func() error {
		t, err := p.take()
		elems = append(elems, t)
		return err
	})
	return elems, err
}

// external reads the place of contents that are not in the text.
func (p *parser) external(at token, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if err := p.step(); err != nil {
		return nil, err
	}
	place, err := p.integer()
	if err != nil {
		return nil, err
	}
	if p.fetch == nil {
		return nil, syntaxError(at, "the contents are kept outside this text")
	}
	t, err := p.fetch(d, shape, int64(place))
	if err != nil {
		return nil, syntaxError(at, "%v", err)
	}
	return t, nil
}

// literalTensor makes a tensor of its written elements.
func literalTensor(at token, d tensor.DType, shape []int, elems []token) (*tensor.Tensor, error) {
	if n, _ := tensor.Count(shape); n != len(elems) {
		return nil, syntaxError(at, "%d elements for %v", len(elems), op.Concrete(d, shape...))
	}
	t, err := tensor.New(d, shape...)
	if err != nil {
		return nil, syntaxError(at, "%v", err)
	}
	for i, e := range elems {
		if !setElement(t, i, e) {
			return nil, syntaxError(e, "%v is no element of %v", e, d)
		}
	}
	return t, nil
}

func (p *parser) base64(d tensor.DType, shape []int, size int) (*tensor.Tensor, error) {
	if err := p.step(); err != nil {
		return nil, err
	}
	at := p.tok
	text, err := p.quoted()
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) != size || d == tensor.String {
		return nil, syntaxError(at, "want the base64 of %d bytes of %v, have %d", size, d,
			len(data))
	}
	return &tensor.Tensor{DType: d, Shape: append([]int{}, shape...), Data: data}, nil
}

// typ reads dtype[dims] or the type of a container.
func (p *parser) typ() (op.Type, error) { return p.typeAt(0) }

// container reads sequence(type), optional(type) or map(dtype, type) from the parenthesis on.
func (p *parser) container(at token, d tensor.DType, depth int) (t op.Type, err error) {
	if depth >= tensor.MaxNesting-1 {
		return t, syntaxError(at, "types nest deeper than %d", tensor.MaxNesting)
	}
	if err := p.punct("("); err != nil {
		return t, err
	}
	t.DType = d
	if d == tensor.Map {
		if t.Key, err = p.dtype(); err != nil {
			return t, err
		}
		if err := p.punct(","); err != nil {
			return t, err
		}
	}
	elem, err := p.typeAt(depth + 1)
	if err != nil {
		return t, err
	}
	if !elem.IsZero() {
		t.Elem = &elem
	}
	return t, p.punct(")")
}

// dtype reads the name of an element type, which may be undefined.
func (p *parser) dtype() (tensor.DType, error) {
	at := p.tok
	name, err := p.name()
	if err != nil {
		return tensor.Undefined, err
	}
	d, err := tensor.ParseDType(name)
	if err != nil && name != tensor.Undefined.String() {
		return d, syntaxError(at, "%q is no element type", name)
	}
	return d, nil
}

var containers = map[string]tensor.DType{
	"sequence": tensor.Sequence,
	"optional": tensor.Optional,
	"map":      tensor.Map,
}

func (p *parser) typeAt(depth int) (op.Type, error) {
	at := p.tok
	if d, ok := containers[at.text]; ok && at.kind == wordToken {
		if err := p.step(); err != nil {
			return op.Type{}, err
		}
		return p.container(at, d, depth)
	}
	d, err := p.dtype()
	if err != nil {
		return op.Type{}, err
	}
	return p.shape(d)
}

// shape reads the shape, in brackets, of a tensor of an element type.
func (p *parser) shape(d tensor.DType) (op.Type, error) {
	if err := p.punct("["); err != nil {
		return op.Type{}, err
	}
	if p.tok.isWord("...") {
		if err := p.step(); err != nil {
			return op.Type{}, err
		}
		return op.Unranked(d), p.punct("]")
	}
	t := op.Ranked(d)
	err := p.items("]", func() error {
		dim, err := p.dim()
		t.Shape = append(t.Shape, dim)
		return err
	})
	return t, err
}

// dim reads a sum of products.
func (p *parser) dim() (op.Dim, error) {
	if unknown, err := p.skip("?"); unknown || err != nil {
		return op.Unknown(), err
	}
	at := p.tok
	sum, err := p.term()
	for err == nil && p.tok.kind == wordToken && (p.tok.text == "+" || p.tok.text == "-") {
		sign := 1
		if p.tok.text == "-" {
			sign = -1
		}
		if err = p.step(); err != nil {
			break
		}
		var t op.Dim
		t, err = p.term()
		sum = sum.Add(t.MulInt(sign))
	}
	if err == nil && sum.IsUnknown() {
		err = syntaxError(at, "a dimension is out of range")
	}
	return sum, err
}

func (p *parser) term() (op.Dim, error) {
	product := op.Known(1)
	for {
		f, err := p.factor()
		if err != nil {
			return f, err
		}
		product = product.Mul(f)
		if more, err := p.skip(op.TimesSign); !more || err != nil {
			return product, err
		}
	}
}

func (p *parser) factor() (op.Dim, error) {
	at := p.tok
	s, err := p.name()
	if err != nil {
		return op.Dim{}, err
	}
	if at.kind == wordToken {
		if n, err := strconv.Atoi(s); err == nil {
			return op.Known(n), nil
		}
	}
	if s == "" || strings.Contains(s, op.TimesSign) || at.kind == wordToken && symbol(s) != s {
		return op.Dim{}, syntaxError(at, "%v is no dimension", at)
	}
	return op.Sym(s), nil
}
