package pass

import (
	"runtime"
	"testing"

	"github.com/weirgpu/weir/graph"
)

// TestRefuses asks of nodes that read good and bad constants, inputs, and constants that would make
// more than folding makes: 480 MB.
func TestRefuses(t *testing.T) {
	g, err := graph.Parse(`graph "words" {
  opset "" 17
  input %x: int64[n]
  const %words: float32[3] = {1, 2, 3}
  const %good: int64[1] = {2}
  const %bad: int64[1] = {3}
  const %many: int64[1] = {60000000}
  const %endless: int64[1] = {-2}
  %a = Gather@13 "reads an input" (%words, %x)
  %b = Gather@13 "good" (%words, %good)
  %c = Gather@13 "bad" (%words, %bad)
  %d: int64[60000000] = Expand@13 "large" (%good, %many)
  %e = Reshape@14 "bad shape" (%words, %endless)
  output %a
  output %b
  output %c
  output %d
  output %e
}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"bad": true, "bad shape": true}
	for _, n := range g.Nodes {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := Refuses(t.Context(), n)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; got != want[n.Name] || made > maxFolded {
			t.Errorf("%s: %v, %d bytes", n.Name, got, made)
		}
	}
}
