package step_test

import (
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/train/step"
)

// TestActivated: a batch normalisation that is trained computes the Relu or Clip that alone reads
// it, and none that shares it with another reader.
func TestActivated(t *testing.T) {
	const text = `graph "net" {
 opset "" 18
 input %x: float32[4,2,3]
 const %s: float32[2] = {1, 2}
 const %b: float32[2] = {0.5, -0.5}
 const %m: float32[2] = {0, 0}
 const %v: float32[2] = {1, 1}
 const %w: float32[6,2] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
 %n = BatchNormalization@15 (%x, %s, %b, %m, %v)
 const %lo: float32[] = {0}
 const %hi: float32[] = {6}
 `
	const rest = `%f = Flatten@13 (%z)
 %y = MatMul@13 (%f, %w)
 output %y
}`
	const relu, clip = "%r = Relu@14 (%n)\n", "%r = Clip@13 (%n, %lo, %hi)\n"
	for between, want := range map[string]int{
		relu + "%z = Identity@14 (%r)\n":                   0,
		relu + "%z = Add@14 (%r, %n)\n":                    1,
		relu + "%q = Sqrt@13 (%n)\n%z = Add@14 (%r, %q)\n": 1,
		clip + "%z = Identity@14 (%r)\n":                   0,
		clip + "%z = Add@14 (%r, %n)\n":                    1,
	} {
		g, err := graph.Parse(text + between + rest)
		if err != nil {
			t.Fatal(err)
		}
		s, err := step.Build(g, step.Options{Optimizer: step.SGD.Defaults(),
			Loss: step.Loss{Kind: step.SquaredError}})
		if err != nil {
			t.Fatal(err)
		}
		relus := 0
		for _, n := range s.Train.Nodes {
			if n.Type == "Relu" || n.Type == "Clip" {
				relus++
			}
		}
		if relus != want {
			t.Errorf("%q: %d activations are left, want %d", between, relus, want)
		}
	}
}
