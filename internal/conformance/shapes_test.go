package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/zoo"
)

// shapeless lists the values, those inside bodies too, that are tensors of unknown rank.
func shapeless(g *graph.Graph) []string {
	var names []string
	g.Walk(func(g *graph.Graph) {
		for _, n := range g.Nodes {
			for _, v := range n.Out {
				if v != nil && !v.Type.Ranked && !v.Type.DType.IsContainer() {
					names = append(names, n.String()+" "+v.Name)
				}
			}
		}
	})
	return names
}

// TestEveryValueHasAShape holds that whole networks are typed to the last value before any input is
// known: those of the backend tests, the standard architectures, and what the comparison with ONNX
// Runtime has fetched to this machine.
func TestEveryValueHasAShape(t *testing.T) {
	graphs := map[string]*graph.Graph{}
	for _, name := range zoo.Names() {
		g, err := zoo.New(name, zoo.Options{Layers: 1})
		if err != nil {
			t.Fatal(err)
		}
		graphs[name] = g
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(cache, "weir", "models", "*.onnx"))
	for _, c := range found(t, true) {
		if c.Set == "light" {
			files = append(files, c.Model)
		}
	}
	for _, f := range files {
		m, err := onnx.Open(f, onnx.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		defer m.Close()
		graphs[filepath.Base(f)] = m.Graph
	}
	delete(graphs, "silero-vad-v5.onnx") // squeezes where a size is 1, so that ranks depend on it
	for name, g := range graphs {
		if missing := shapeless(g); len(missing) > 0 {
			t.Errorf("%s: %d values have no shape, the first is %s", name, len(missing), missing[0])
		}
	}
	t.Logf("%d networks", len(graphs))
}
