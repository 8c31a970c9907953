package stages_test

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/graph/stages"
)

func parse(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestHTMLMarksWhatChanged(t *testing.T) {
	before := parse(t,
		`graph "g" { input %x: float32[N] %"a<b": float32[N] = Neg@17 (%x) %y: float32[N] = Exp@17 (%"a<b") output %y }`)
	after := parse(t, `graph "g" { input %x: float32[N] %y: float32[N] = Exp@17 (%x) output %y }`)
	var b strings.Builder
	if err := stages.HTML(&b, "test & title",
		[]stages.Stage{{Name: "start", Graph: before}, {Name: "pass", Graph: after},
			{Name: "idle", Graph: after}}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{
		"<title>test &amp; title</title>", "<h2>start</h2> <small>2 nodes</small>",
		"<h2>pass</h2> <small>1 node</small>",
		`<details class="stage">` + "\n<summary><h2>idle</h2> <small>1 node, as before</small>",
		`<p class="gone">  <b>%&#34;a&lt;b&#34;</b>: float32[N] = Neg@17 (<b>%x</b>)</p>`,
		`<p class="new">  <b>%y</b>: float32[N] = Exp@17 (<b>%x</b>)</p>`,
		`<p>  input <b>%x</b>: float32[N]</p>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "http:") || strings.Contains(got, "https:") {
		t.Error("the page refers to something outside of it")
	}
}
