package step_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/train/step"
)

// apart is a layer normalisation as exporters for older opsets write it, of %a as %n.
const apart = `%m = ReduceMean@13 (%a) {axes=[-1]}
%d = Sub@14 (%a, %m)
%p = Pow@15 (%d, %two)
%v = ReduceMean@13 (%p) {axes=[-1]}
%e = Add@14 (%v, %epsilon)
%s = Sqrt@13 (%e)
%n = Div@14 (%d, %s)
`

// TestLayerNormIsWhole: what exporters write as seven operators is differentiated as one, whose
// gradient reads the moments that it found; what it is scaled and shifted by is trained where the
// model has that, and nothing else is.
func TestLayerNormIsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		params []string
		whole  int
	}{
		"scaled": {apart + "%g = Mul@14 (%n, %gamma)\n%y = Add@14 (%g, %beta)\n",
			[]string{"w", "gamma", "beta"}, 1},
		"bare": {apart + "%y = Mul@14 (%n, %two)\n", []string{"w"}, 1},
		"two shapes": {apart + `%g = Mul@14 (%n, %row)
%h = MatMul@13 (%g, %w)
` + strings.NewReplacer("%a", "%h", "%m ", "%m2 ", "%m)", "%m2)", "%d ", "%d2 ", "%d,", "%d2,",
			"%p", "%p2", "%v", "%v2", "%e ", "%e2 ", "%e)", "%e2)", "%s", "%s2", "%n", "%n2").
			Replace(apart) + "%k = Mul@14 (%n2, %row)\n%y = Add@14 (%k, %row)\n",
			[]string{"w", "row"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := graph.Parse(`graph "norm" {
opset "" 17
input %x: float32[4,3]
const %w: float32[3,3] = {1, 2, 3, 4, 5, 6, 7, 8, 10}
const %gamma: float32[3] = {1, 2, 3}
const %beta: float32[3] = {4, 5, 6}
const %row: float32[1,3] = {1, 2, 3}
const %two: float32[] = {2}
const %epsilon: float32[] = {0.001}
%a = MatMul@13 (%x, %w)
` + c.text + "output %y\n}")
			if err != nil {
				t.Fatal(err)
			}
			s, err := step.Build(g, step.Options{Loss: step.Loss{Kind: step.SquaredError},
				Optimizer: step.SGD.Defaults()})
			if err != nil {
				t.Fatal(err)
			}
			var params []string
			for _, p := range s.Params {
				params = append(params, p.Name)
			}
			if !slices.Equal(params, c.params) {
				t.Errorf("%q are trained, want %q", params, c.params)
			}
			count := map[string]int{}
			for _, n := range s.Train.Nodes {
				count[fmt.Sprint(n.Type, len(n.Out))]++
			}
			if count["LayerNormalization3"] != c.whole ||
				count[op.LayerNormGradient+"3"] != c.whole {
				t.Errorf("%v: want %d whole, and as many gradients", count, c.whole)
			}
		})
	}
}
