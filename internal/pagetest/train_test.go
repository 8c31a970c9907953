package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/training"
	"github.com/weirgpu/weir/server/web"
)

// longRecipe is that of the digits example, with updates for a minute or more.
func longRecipe(t *testing.T) string {
	t.Helper()
	from, err := filepath.Abs("../../examples/digits")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(from, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.NewReplacer("digits.onnx\nstart", from+"/digits.onnx\nstart",
		"images.npy", from+"/images.npy", "labels.npy", from+"/labels.npy", "heldout.npy",
		from+"/heldout.npy", "epochs: 10", "epochs: 5000", "schedule: cosine", "",
		"output: run/digits.onnx", "").Replace(string(text))
	path := filepath.Join(t.TempDir(), "digits.yaml")
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServerTraining: the page shows a training as it goes on, in every width and colour, lets its
// model be tried meanwhile, and pauses it, has it go on, and stops it.
func TestServerTraining(t *testing.T) {
	ctx := browser(t)
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.LoadAll(t.Context(), []server.Source{{Name: "digits", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}}); err != nil {
		t.Fatal(err)
	}
	all, err := training.Open(training.Options{Server: s, Recipes: []string{longRecipe(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close(t.Context())
	at := paged(s, web.New(s, web.Options{Trainings: true}), all.Routes())
	defer at.close()
	b := newTab(t, ctx)

	at.open(t, b, "", 1280, false)
	b.until(t, "the link", `[...document.querySelectorAll("nav a")].some(a =>
		a.hash === "#/training")`)
	b.do(t, `location.hash = "#/training"`)
	tile := func(name string) string {
		return `[...document.querySelectorAll(".tile")].find(e => e.firstChild.textContent === "` +
			name + `").lastChild.textContent`
	}
	b.until(t, "accuracy", fmt.Sprintf(`parseInt(%s) >= 90`, tile("Metric")))
	for name, want := range map[string]string{"Learning rate": "0.004", "Scale": "1"} {
		b.until(t, name, fmt.Sprintf(`%s === %q`, tile(name), want))
	}
	b.until(t, "figures", fmt.Sprintf(`parseFloat(%s) > 0 && parseFloat(%s) > 0 &&
		parseFloat(%s) > 0`, tile("Loss"), tile("Device time"), tile("An update")))
	b.until(t, "memory", `/[KM]iB held/.test(document.body.textContent)`)
	b.do(t, draw)
	b.until(t, "an answer", `document.querySelector(".scores .first .label")?.textContent === "7" &&
		document.querySelector(".result h3").textContent.includes("after update")`)
	button := func(label string) string {
		return `[...document.querySelectorAll("button")].find(b => !b.hidden &&
			b.textContent === "` + label + `")`
	}
	b.do(t, button("Pause")+".click()")
	b.until(t, "the pause", `document.querySelector(".state").textContent === "paused"`)
	for _, v := range views[:4] {
		at.open(t, b, "#/training", v.width, v.dark)
		b.until(t, "the training", button("Continue")+` && document.querySelector(".pad")`)
		b.do(t, draw)
		b.until(t, "an answer", `document.querySelector(".scores .first .label")`)
		b.sound(t, "training-"+v.name, 40)
	}
	before := all.List()[0].Update
	b.do(t, button("Continue")+".click()")
	b.until(t, "it goes on", button("Pause"))
	const now = `+/update ([\d,]+) of/.exec(document.body.textContent)[1].replaceAll(",", "")`
	b.until(t, "more updates", fmt.Sprintf(`%s > %d`, now, before))
	b.do(t, button("Stop")+".click()")
	b.until(t, "the end", `document.querySelector(".state").textContent === "stopped" &&
		document.body.textContent.includes("0 B held")`)
	if got := all.List()[0]; got.Phase != training.Stopped || got.MemoryBytes != 0 {
		t.Errorf("%+v", got)
	}
}
