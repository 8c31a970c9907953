package op

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestAttributeKinds(t *testing.T) {
	for _, e := range []struct {
		op   string
		attr Attr
		says string // "" for one that is right
	}{
		{"Softmax", IntAttr("axis", 0), ""},
		{"Softmax", FloatAttr("axis", 0), "axis is of kind float, want int"},
		{"Softmax", StringAttr("axis", "0"), "axis is of kind string, want int"},
		{"Softmax", Attr{Name: "axis", Kind: 99}, "axis is of kind 99, want int"},
		{"Transpose", IntsAttr("perm", 1, 0), ""},
		{"Transpose", IntAttr("perm", 1), "perm is of kind int, want ints"},
		{"LeakyRelu", IntAttr("alpha", 1), "alpha is of kind int, want float"},
		{"com.microsoft:QuickGelu", FloatAttr("alpha", 1), ""},
		{"com.microsoft:QuickGelu", IntAttr("alpha", 1), "alpha is of kind int, want float"},
		{"com.microsoft:BiasSoftmax", FloatAttr("is_inner_broadcast", 1),
			"is_inner_broadcast is of kind float, want int"},
		{"com.microsoft:FusedGemm", FloatsAttr("activation_alpha", 1),
			"activation_alpha is of kind floats, want float"},
	} {
		domain, name, ok := strings.Cut(e.op, ":")
		if !ok {
			domain, name = "", e.op
		}
		o, err := Lookup(domain, name, latest)
		if err != nil {
			t.Fatal(err)
		}
		call := &Call{Domain: domain, Type: name, Version: latest, Attrs: Attrs{e.attr},
			NumIn: o.MinIn, NumOut: 1}
		_, err = InferTypes(o, call, slices.Repeat([]Type{Concrete(tensor.Float32, 2, 3)}, o.MinIn),
			nil)
		if e.says == "" && err != nil || e.says != "" &&
			(!errors.Is(err, ErrAttr) || !strings.Contains(err.Error(), e.says)) {
			t.Errorf("%s with %s: got %v, want %q", e.op, e.attr.Name, err, e.says)
		}
	}
}

// TestUnknownAttributes: what ONNX does not give an operator is an error that says where it
// belongs.
func TestUnknownAttributes(t *testing.T) {
	for _, e := range []struct {
		op      string
		domain  string
		version int
		attrs   Attrs
		says    string // "" for a call that is right
	}{
		{op: "Softmax", version: 13, attrs: Attrs{IntAttr("axes", 0)},
			says: "version 13 has no attribute axes; it has axis"},
		{op: "Relu", version: 14, attrs: Attrs{FloatAttr("alpha", 0)},
			says: "version 14 has no attribute alpha, nor any other"},
		{op: "Unsqueeze", version: 12, attrs: Attrs{IntsAttr("axes", 0)}},
		{op: "Unsqueeze", version: 13, attrs: Attrs{IntsAttr("axes", 0)},
			says: "version 13 has no attribute axes (versions 1, 11 have it)"},
		{op: "Unsqueeze", version: 12, says: "attribute axes is required"},
		{op: "Relu", version: 14, attrs: Attrs{StringAttr("_origin", "layer1")}},
		{op: "Relu", version: 6, attrs: Attrs{IntsAttr("consumed_inputs", 0)}},
		{op: "Relu", version: 99, attrs: Attrs{IntAttr("fast", 1)},
			says: "version 14 has no attribute fast"},
		{op: "Adam", domain: trainingDomain, version: 1, attrs: Attrs{FloatAttr("gamma", 1)},
			says: "no attribute gamma"},
	} {
		call := &Call{Domain: e.domain, Type: e.op, Version: e.version, Attrs: e.attrs, NumIn: 1,
			NumOut: 1}
		err := call.checkAttrs()
		if e.says == "" && err != nil || e.says != "" &&
			(!errors.Is(err, ErrAttr) || !strings.Contains(err.Error(), e.says)) {
			t.Errorf("%s-%d with %v: got %v, want %q", e.op, e.version, e.attrs, err, e.says)
		}
	}
	if n := NewestOpset(""); n < 28 || n != NewestOpset("ai.onnx") ||
		NewestOpset("com.example") != 0 {
		t.Errorf("newest opset %d", n)
	}
}
