package op

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// schemas.txt lists what ONNX's own definitions (onnx/defs) say of every version of every operator;
// its head tells how it is made.
//
//go:embed schemas.txt
var schemaText string

// schema is one version of an operator.
type schema struct {
	since      int
	deprecated bool
	attrs      map[string]attrSchema
}

type attrSchema struct {
	kind     AttrKind
	required bool
}

// schemaTable is schemas.txt, read on first use.
type schemaTable struct {
	newest map[string]int   // version of each domain's operator set
	of     map[key][]schema // ascending by version
}

var schemas = sync.OnceValue(func() schemaTable {
	t := schemaTable{newest: map[string]int{}, of: map[key][]schema{}}
	for line := range strings.Lines(schemaText) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] == "#" {
			continue
		}
		version, _ := strconv.Atoi(f[2])
		if f[0] == "opset" {
			t.newest[domainOf(f[1])] = version
			continue
		}
		k := key{domainOf(f[0]), f[1]}
		t.of[k] = append(t.of[k],
			schema{version, slices.Contains(f, "deprecated"), attrSchemas(f[3:])})
	}
	return t
})

// domainOf is a domain as calls name it.
func domainOf(name string) string {
	if name == "ai.onnx" {
		return ""
	}
	return name
}

// attrSchemas reads attributes, each name:kind and a * when it is required.
func attrSchemas(words []string) map[string]attrSchema {
	attrs := map[string]attrSchema{}
	for _, w := range words {
		name, kind, ok := strings.Cut(w, ":")
		if !ok { // "deprecated"
			continue
		}
		kind, required := strings.CutSuffix(kind, "*")
		attrs[name] = attrSchema{kindNumbers()[kind], required}
	}
	return attrs
}

// NewestOpset returns the newest version of a domain's operator set that weir knows, 0 for a domain
// whose operators have no versions.
func NewestOpset(domain string) int { return schemas().newest[domainOf(domain)] }

// schema returns the definition of the call's operator that is in force at its version, nil when
// ONNX does not define it.
func (c *Call) schema() (at *schema, all []schema) {
	all = schemas().of[key{domainOf(c.Domain), c.Type}]
	for i := range all {
		if at == nil || all[i].since <= c.Version {
			at = &all[i]
		}
	}
	return at, all
}

// checkAttrs refuses attributes that the operator does not have in this version of ONNX, attributes
// of another kind than ONNX gives them, and calls that lack a required attribute. To ignore such an
// attribute could change the result. Names that begin with an underscore are the exporter's own,
// and consumed_inputs of opset 1 to 5 never meant anything to a result.
func (c *Call) checkAttrs() error {
	s, all := c.schema()
	if s == nil {
		return c.checkKinds()
	}
	for _, a := range c.Attrs {
		want, ok := s.attrs[a.Name]
		switch {
		case strings.HasPrefix(a.Name, "_") || a.Name == "consumed_inputs":
		case !ok:
			return c.unknownAttr(s, all, a.Name)
		case a.Kind != want.kind:
			return c.Errorf(ErrAttr, "%s is of kind %v, want %v", a.Name, a.Kind, want.kind)
		}
	}
	for name, a := range s.attrs {
		if a.required && !c.Attrs.Has(name) {
			return c.Errorf(ErrAttr, "attribute %s is required", name)
		}
	}
	return nil
}

// unknownAttr makes the error about an attribute that the operator does not have in this version.
// The error lists the attributes that it has, and the versions that have the one in question.
func (c *Call) unknownAttr(s *schema, all []schema, name string) error {
	var has, versions []string
	for n := range s.attrs {
		has = append(has, n)
	}
	slices.Sort(has)
	for _, other := range all {
		if _, ok := other.attrs[name]; ok {
			versions = append(versions, strconv.Itoa(other.since))
		}
	}
	text := fmt.Sprintf("version %d has no attribute %s", s.since, name)
	if len(versions) > 0 {
		text += " (versions " + strings.Join(versions, ", ") + " have it)"
	}
	if len(has) == 0 {
		return c.Errorf(ErrAttr, "%s, nor any other", text)
	}
	return c.Errorf(ErrAttr, "%s; it has %s", text, strings.Join(has, ", "))
}

// raised are the versions of operators that package onnx rewrites to a later form as it reads a
// model of opset 1 to 6: rules and evaluations know the later form.
var raised = map[string][]int{
	"Add": {1, 6}, "Sub": {1, 6}, "Mul": {1, 6}, "Div": {1, 6}, "Pow": {1}, "PRelu": {1, 6},
	"And": {1}, "Or": {1}, "Xor": {1}, "Equal": {1},
	"Greater": {1}, "Less": {1}, "BatchNormalization": {1, 6}, "Dropout": {1, 6}, "Gemm": {1, 6},
	"GRU": {1, 3}, "LSTM": {1}, "RNN": {1},
	"AveragePool": {1}, "Cast": {1}, "Concat": {1}, "Pad": {1}, "Reshape": {1}, "Selu": {1},
	"Split": {1}, "Tile": {1}, "Upsample": {1},
}

// Raised returns the versions of the operator, older than those of Since, that are rewritten to a
// later form as a model is read.
func (o *Op) Raised() []int {
	if o.Domain != "" {
		return nil
	}
	return slices.Clone(raised[o.Name])
}

// Refused returns the operators of ONNX's domain that weir does not have, with the reason of each.
func Refused() map[string]string { return maps.Clone(refused) }

// refused are operators that weir does not have, and why. The experimental ones left ONNX with
// release 1.5, before most of their texts were agreed upon.
var refused = map[string]string{
	"ATen":            "it runs a function of PyTorch; export the model without the ATen fallback",
	"GivenTensorFill": "it was experimental and left ONNX; write the value as a Constant",
	"ConstantFill":    "it was experimental and left ONNX; use ConstantOfShape",
	"GRUUnit":         "it was experimental and left ONNX; use GRU",
	"DynamicSlice":    "it was experimental and left ONNX; use Slice",
	"LoopIndexTensor": "it was experimental and left ONNX; use Loop and Gather",
}
