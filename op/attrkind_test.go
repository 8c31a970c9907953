package op

import (
	"errors"
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
	} {
		o, err := Lookup("", e.op, latest)
		if err != nil {
			t.Fatal(err)
		}
		call := &Call{Type: e.op, Version: latest, Attrs: Attrs{e.attr}, NumIn: 1, NumOut: 1}
		_, err = InferTypes(o, call, []Type{Concrete(tensor.Float32, 2, 3)}, nil)
		if e.says == "" && err != nil || e.says != "" && (!errors.Is(err, ErrAttr) || !strings.Contains(err.Error(), e.says)) {
			t.Errorf("%s with %s: got %v, want %q", e.op, e.attr.Name, err, e.says)
		}
	}
}
