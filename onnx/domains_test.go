package onnx

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/op"
)

// TestDomainsResolve opens a model with an operator of each domain that weir has. Nothing here
// imports the packages that register them.
func TestDomainsResolve(t *testing.T) {
	domains := map[string]string{"": "Relu", "ai.onnx.ml": "Binarizer",
		"com.microsoft": "QuickGelu", "weir": "Silu"}
	for domain, typ := range domains {
		b := join(msg(number(1, 8), sub(7, in("x"), out("y"),
			sub(1, append(nodeParts("", typ, "x->y"), text(7, domain))...)),
			opsetPart("", 13), opsetPart(domain, 1)))
		m, err := Decode(b, "", Options{})
		if err != nil {
			t.Errorf("domain %q: %v", domain, err)
			continue
		}
		x := []float32{0.5, 3}
		if y := eval(t, m.Graph, x); len(y) != len(x) {
			t.Errorf("domain %q: %v of %v", domain, y, x)
		}
	}
	for _, o := range op.All() {
		if _, ok := domains[o.Domain]; !ok && !strings.HasPrefix(o.Domain, "ai.onnx.preview") {
			t.Errorf("domain %q of %s has no case here", o.Domain, o.Name)
		}
	}
}

// TestDomainsAreImported holds that package graph imports every package that registers operators.
func TestDomainsAreImported(t *testing.T) {
	imports, err := os.ReadFile("../graph/operators.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../internal/op/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(f))
		if !strings.Contains(string(text), "op.Register(") {
			continue
		}
		if found = append(found, name); !strings.Contains(string(imports), "/op/"+name+`"`) {
			t.Errorf("%s registers operators; import it in graph/operators.go", f)
		}
	}
	if !slices.Contains(found, "ml") || !slices.Contains(found, "microsoft") {
		t.Errorf("found registrations in %v only", found)
	}
}
