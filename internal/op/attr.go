package op

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/tensor"
)

// AttrKind says which field of an [Attr] holds its value. The values are those of
// AttributeProto.AttributeType.
type AttrKind uint8

// The kinds of attribute.
const (
	AttrFloat   AttrKind = 1
	AttrInt     AttrKind = 2
	AttrString  AttrKind = 3
	AttrTensor  AttrKind = 4
	AttrBody    AttrKind = 5
	AttrFloats  AttrKind = 6
	AttrInts    AttrKind = 7
	AttrStrings AttrKind = 8
	AttrType    AttrKind = 13
)

// Attr is one named attribute of a call. Scalars of kind float, int and string sit in slices of
// length one.
type Attr struct {
	Name    string
	Kind    AttrKind
	Floats  []float32
	Ints    []int64
	Strings []string
	Tensor  *tensor.Tensor
	Body    Body
	Type    Type
}

// Body is a sub-graph as an operator sees it: a closed function from formal inputs and captures to
// outputs.
type Body interface {
	// Infer returns the types of the outputs for these input types (formals, then all captures of
	// the call).
	Infer(in []Type) ([]Type, error)
	// Eval computes the outputs with the plain reference evaluation. The results do not alias the
	// inputs' storage unless the body passes an input through. It honours ctx between nodes.
	Eval(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error)
	// NumFormals is the number of inputs before the captures.
	NumFormals() int
	// NumOutputs is the number of outputs.
	NumOutputs() int
}

// Attrs are the attributes of a call; names are unique.
type Attrs []Attr

// FloatAttr makes a float attribute.
//
//go:noinline
func FloatAttr(name string, v float32) Attr {
	return Attr{Name: name, Kind: AttrFloat, Floats: []float32{v}}
}

// IntAttr makes an integer attribute.
//
//go:noinline
func IntAttr(name string, v int64) Attr { return Attr{Name: name, Kind: AttrInt, Ints: []int64{v}} }

// IntsAttr makes an integer list attribute.
//
//go:noinline
func IntsAttr(name string, v ...int64) Attr { return Attr{Name: name, Kind: AttrInts, Ints: v} }

// FloatsAttr makes a float list attribute.
func FloatsAttr(name string, v ...float32) Attr {
	return Attr{Name: name, Kind: AttrFloats, Floats: v}
}

// StringAttr makes a string attribute.
//
//go:noinline
func StringAttr(name, v string) Attr {
	return Attr{Name: name, Kind: AttrString, Strings: []string{v}}
}

// StringsAttr makes a string list attribute.
func StringsAttr(name string, v ...string) Attr {
	return Attr{Name: name, Kind: AttrStrings, Strings: v}
}

// TensorAttr makes a tensor attribute; the tensor is shared, not copied.
func TensorAttr(name string, t *tensor.Tensor) Attr {
	return Attr{Name: name, Kind: AttrTensor, Tensor: t}
}

// BodyAttr makes a sub-graph attribute.
func BodyAttr(name string, b Body) Attr { return Attr{Name: name, Kind: AttrBody, Body: b} }

// TypeAttr makes an attribute that is the type of a value.
func TypeAttr(name string, t Type) Attr { return Attr{Name: name, Kind: AttrType, Type: t} }

// Find returns the attribute of that name, nil when it is absent. Like other small functions that
// are called once a call and not for its elements, it is not inlined: it would stand in the program
// 600 times.
//
//go:noinline
func (as Attrs) Find(name string) *Attr {
	for i := range as {
		if as[i].Name == name {
			return &as[i]
		}
	}
	return nil
}

// Has reports whether the attribute is present.
//
//go:noinline
func (as Attrs) Has(name string) bool { return as.Find(name) != nil }

// Int returns an integer attribute, def when it is absent or of another kind ([InferTypes] refuses
// a wrong kind).
//
//go:noinline
func (as Attrs) Int(name string, def int64) int64 {
	if a := as.Find(name); a != nil && a.Kind == AttrInt && len(a.Ints) == 1 {
		return a.Ints[0]
	}
	return def
}

// Bool returns an integer attribute as the flag that ONNX writes with 0 and 1.
//
//go:noinline
func (as Attrs) Bool(name string, def bool) bool {
	d := int64(0)
	if def {
		d = 1
	}
	return as.Int(name, d) != 0
}

// Float returns a float attribute, def when it is absent.
//
//go:noinline
func (as Attrs) Float(name string, def float32) float32 {
	if a := as.Find(name); a != nil && a.Kind == AttrFloat && len(a.Floats) == 1 {
		return a.Floats[0]
	}
	return def
}

// String returns a string attribute, def when it is absent.
func (as Attrs) String(name, def string) string {
	if a := as.Find(name); a != nil && a.Kind == AttrString && len(a.Strings) == 1 {
		return a.Strings[0]
	}
	return def
}

// Ints returns an integer list attribute, nil when it is absent. The slice is shared.
//
//go:noinline
func (as Attrs) Ints(name string) []int64 {
	if a := as.Find(name); a != nil && a.Kind == AttrInts {
		return a.Ints
	}
	return nil
}

// Floats returns a float list attribute, nil when it is absent. The slice is shared.
func (as Attrs) Floats(name string) []float32 {
	if a := as.Find(name); a != nil && a.Kind == AttrFloats {
		return a.Floats
	}
	return nil
}

// Strings returns a string list attribute, nil when it is absent. The slice is shared.
func (as Attrs) Strings(name string) []string {
	if a := as.Find(name); a != nil && a.Kind == AttrStrings {
		return a.Strings
	}
	return nil
}

// Tensor returns a tensor attribute, nil when it is absent.
func (as Attrs) Tensor(name string) *tensor.Tensor {
	if a := as.Find(name); a != nil && a.Kind == AttrTensor {
		return a.Tensor
	}
	return nil
}

// Type returns a type attribute, the zero Type when it is absent.
func (as Attrs) Type(name string) Type {
	if a := as.Find(name); a != nil && a.Kind == AttrType {
		return a.Type
	}
	return Type{}
}

// Body returns a sub-graph attribute, nil when it is absent.
func (as Attrs) Body(name string) Body {
	if a := as.Find(name); a != nil && a.Kind == AttrBody {
		return a.Body
	}
	return nil
}

// Call is one use of an operator: everything about a node except which values it is wired to.
type Call struct {
	Domain   string // "" is the ONNX domain
	Type     string // operator name, such as "Conv"
	Version  int    // opset version of the domain that the model imports
	Attrs    Attrs
	NumIn    int // number of inputs, absent optional ones counted, captures included
	NumOut   int // number of outputs, absent optional ones counted
	Captures int // how many of the trailing inputs are captures of the bodies
}

// Name returns "Conv" or "domain:Type" for domains other than ONNX's.
//
//go:noinline
func (c *Call) Name() string {
	if c.Domain == "" {
		return c.Type
	}
	return c.Domain + ":" + c.Type
}

// Errorf makes an error of the given kind that names the operator.
func (c *Call) Errorf(kind error, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", c.Name(), kind, fmt.Sprintf(format, args...))
}
