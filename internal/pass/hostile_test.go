package pass_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
)

// constants adds up the bytes of a graph's constants.
func constants(g *graph.Graph) int {
	n := 0
	for _, c := range g.Constants() {
		n += len(c.Const().Data)
	}
	return n
}

func TestFoldDoesNotDouble(t *testing.T) {
	var b strings.Builder
	b.WriteString("const %s: int64[1] = {4194304}\n%c0: float32[4194304] = ConstantOfShape@17 " +
		"(%s)\n")
	for i := range 30 {
		fmt.Fprintf(&b, "%%c%d: float32[?] = Concat@17 (%%c%d, %%c%d) {axis=0}\n", i+1, i, i)
	}
	g := parse(t, head+b.String()+"output %c30\n}")
	optimise(t, g, only("fold"))
	if n := constants(g); n > 128<<20 {
		t.Errorf("a model of a few bytes folds to %d MiB", n>>20)
	}
}

func TestNodesWithoutInputs(t *testing.T) {
	g := parse(t, head+`%y: float32[3] = RandomNormal@17 () {shape=[3]}
		output %y
		}`)
	optimise(t, g, pass.Options{Check: true})
	if got := short(g); !strings.HasPrefix(got, "y = RandomNormal") {
		t.Errorf("got %s", got)
	}
}
