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
		{"com.microsoft:BiasSoftmax", FloatAttr("is_inner_broadcast", 1), "is_inner_broadcast is of kind float, want int"},
		{"com.microsoft:FusedGemm", FloatsAttr("activation_alpha", 1), "activation_alpha is of kind floats, want float"},
	} {
		domain, name, ok := strings.Cut(e.op, ":")
		if !ok {
			domain, name = "", e.op
		}
		o, err := Lookup(domain, name, latest)
		if err != nil {
			t.Fatal(err)
		}
		call := &Call{Domain: domain, Type: name, Version: latest, Attrs: Attrs{e.attr}, NumIn: o.MinIn, NumOut: 1}
		_, err = InferTypes(o, call, slices.Repeat([]Type{Concrete(tensor.Float32, 2, 3)}, o.MinIn), nil)
		if e.says == "" && err != nil || e.says != "" && (!errors.Is(err, ErrAttr) || !strings.Contains(err.Error(), e.says)) {
			t.Errorf("%s with %s: got %v, want %q", e.op, e.attr.Name, err, e.says)
		}
	}
}
