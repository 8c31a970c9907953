package pagetest

import (
	"bytes"
	"testing"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/web"
)

// same is a model whose output is its input, of each of these types.
const same = `graph "same" {
  opset "" 17
  input %n: int64[N]
  input %f: float32[N]
  input %t: string[N]
  %a: int64[N] = Identity@16 (%n)
  %b: float32[N] = Identity@16 (%f)
  %c: string[N] = Identity@16 (%t)
  output %a
  output %b
  output %c
}`

// TestTryNumbers: integers are sent and shown to their last digit, texts as they are, whatever they
// look like, and lists that are no array are refused.
func TestTryNumbers(t *testing.T) {
	ctx := browser(t)
	g, err := graph.Parse(same)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.LoadAll(t.Context(), []server.Source{{Name: "same", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(file.Bytes()) }}}); err != nil {
		t.Fatal(err)
	}
	at := paged(s, web.New(s, web.Options{}))
	defer at.close()
	b := newTab(t, ctx)
	at.open(t, b, "#/models/same", 1280, false)
	b.until(t, "the form", `document.querySelectorAll("textarea").length === 3`)
	ask := func(n, f, text, shape string) {
		t.Helper()
		b.do(t, `const values = [`+"`"+n+"`, `"+f+"`, `"+text+"`"+`];
			document.querySelectorAll("textarea").forEach((e, i) => { e.value = values[i]; });
			document.querySelectorAll(".numbers input").forEach(e => { e.value = "`+shape+`"; });
			document.querySelector(".numbers").requestSubmit()`)
	}
	ask("[128001, 9007199254740993, -9223372036854775808]", "[0.123456789, 2, 1e20]",
		`["12:30", "8:08", "<i>"]`, "3")
	b.until(t, "the outputs", `[...document.querySelectorAll(".result pre")].map(e => e.textContent).join("|") ===
		"128001 9007199254740993 -9223372036854775808|0.12346 2 100000000000000000000|12:30 8:08 <i>"`)
	ask("[]", "[]", "[]", "0")
	b.until(t, "nothing", `[...document.querySelectorAll(".result pre")].every(e => e.textContent === "") &&
		document.querySelector(".try .faint[role=status]").textContent.includes("Answered")`)
	ask("[[1,2],[3],[4,5,6]]", "0", `"x"`, "1")
	b.until(t, "the refusal", `document.querySelector(".numbers .bad").textContent.includes("n: the lists")`)
	b.quiet(t)
}

// TestTryLate: the answer about a drawing that was cleared meanwhile is not shown; parts in which
// models are tried have names of their own; and a pad that is left is let go of.
func TestTryLate(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	s.open(t, b, "", 1280, false)
	b.until(t, "the page", rows+" === 1")
	b.do(t, `import("/assets/try.js").then(({ attempt }) => {
		const data = { inputs: [{ name: "x", datatype: "FP32", shape: [-1, 1, 8, 8] }], outputs: [] };
		const answers = window.answers = [];
		const make = () => attempt("m", data, () => new Promise(go => answers.push(
			() => go({ outputs: [{ name: "y", datatype: "FP32", shape: [1, 2], data: [.1, .9] }], took: 1 }))));
		document.querySelector("main").replaceChildren(make(), make());
		window.pads = Array.from({ length: 20 }, () => new WeakRef(make()));
	})`)
	b.until(t, "two parts", `document.querySelectorAll(".try").length === 2 && window.pads`)
	b.do(t, draw)
	b.until(t, "a question", `answers.length === 1`)
	b.do(t, `document.querySelector(".drawing button").click(); answers[0]();
		setTimeout(() => { window.late = true; })`)
	b.until(t, "a moment", `window.late`)
	b.until(t, "no answer, and no question more", `!document.querySelector(".scores") && answers.length === 1`)
	b.do(t, draw)
	b.until(t, "a question", `answers.length === 2`)
	b.do(t, `answers[1]()`)
	b.until(t, "an answer", `document.querySelector(".scores .first .label").textContent === "1"`)
	b.until(t, "names", `[...document.querySelectorAll("[id]")].every((e, i, all) => all.findIndex(o => o.id === e.id) === i) &&
		[...document.querySelectorAll(".try")].every(e => e.querySelector("h2").id === e.getAttribute("aria-labelledby") &&
			[...e.querySelectorAll("[role=tab]")].every(tab => e.querySelector("#" + tab.getAttribute("aria-controls"))))`)
	if _, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, struct{}{}); err != nil {
		t.Fatal(err)
	}
	b.until(t, "no pad that is kept", `!pads.some(p => p.deref())`)
	b.quiet(t)
}
