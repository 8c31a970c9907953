package pagetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/web"
)

// site is a real server with its page.
type site struct {
	*server.Server
	url   string
	close func() // of the page and of connections
}

// serve serves so many classifiers of digits, one of them under a long name.
func serve(t *testing.T, models int) *site {
	t.Helper()
	s, err := server.New(server.Options{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	sources := []server.Source{}
	for i := range models {
		name := fmt.Sprintf("digits-%02d", i)
		if i == 2 {
			name = longName
		}
		sources = append(sources, server.Source{Name: name, Version: 1,
			Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }})
	}
	if err := s.LoadAll(t.Context(), sources); err != nil {
		t.Fatal(err)
	}
	p := web.New(s, web.Options{Version: "v1", Figures: s.Recorder(), Graphs: func(context.Context,
		string, string) (*graph.Graph, func() error, error) {
		m, err := onnx.Decode(digits.Model, "", onnx.Options{})
		if err != nil {
			return nil, nil, err
		}
		return m.Graph, m.Close, nil
	}})
	at := paged(s, p)
	t.Cleanup(func() {
		at.close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return at
}

// paged serves a page, and other routes of its server.
func paged(s *server.Server, p *web.Page, more ...map[string]http.Handler) *site {
	for _, routes := range append(more, p.Routes()) {
		for pattern, h := range routes {
			s.Handle(pattern, h)
		}
	}
	h := httptest.NewUnstartedServer(s)
	h.Config.ConnContext = auth.Connected
	h.Start()
	return &site{s, h.URL, func() {
		p.Close()
		h.Close()
	}}
}

// ask has a model answer a request.
func (s *site) ask(t *testing.T, model string) {
	t.Helper()
	s.askAs(t, model, "")
}

// askAs does so with a token.
func (s *site) askAs(t *testing.T, model, token string) {
	t.Helper()
	body := `{"inputs":[{"name":"image","datatype":"FP32","shape":[1,1,8,8],"data":[` +
		strings.Repeat("0,", 63) + `0]}]}`
	q, err := http.NewRequestWithContext(t.Context(), "POST",
		s.url+"/v2/models/"+model+"/infer", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("model %s: %s", model, r.Status)
	}
}

// open opens a view of the page in a window.
func (s *site) open(t *testing.T, b *tab, at string, width int64, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err == nil {
		err = chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 900),
			chromedp.Navigate("about:blank"), chromedp.Navigate(s.url+"/"+at))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until an expression of the page is true.
func (b *tab) until(t *testing.T, what, expression string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && ok {
			return
		}
		if b.ctx.Err() != nil {
			t.Fatalf("%s: the page answers nothing: %v", what, err)
		}
		if time.Now().After(end) {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
			t.Fatalf("%s: not within a minute (%v); the page says %.3000s", what, err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// do runs a script in the page.
func (b *tab) do(t *testing.T, script string) {
	t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Evaluate[any]("{"+script+"; null}")); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// quiet holds that nothing was said on the console.
func (b *tab) quiet(t *testing.T) {
	t.Helper()
	for _, said := range b.said() {
		t.Errorf("the console says: %s", said)
	}
}

// sound holds that the page as it stands can be read.
func (b *tab) sound(t *testing.T, name string, texts int) {
	t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[found](measure))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got.Problems {
		t.Errorf("%s: %s", name, p)
	}
	if got.Texts < texts {
		t.Errorf("%s: %d texts, want %d", name, got.Texts, texts)
	}
	b.quiet(t)
	b.keep(t, name)
}

// origins are the requests of a tab that left the origin.
func (b *tab) origins(t *testing.T, url string) (left func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	n := 0
	err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			mu.Lock()
			defer mu.Unlock()
			n++
			if to := e.Request.URL; !strings.HasPrefix(to, url+"/") && to != "about:blank" &&
				!strings.HasPrefix(to, "blob:"+url) && !strings.HasPrefix(to, "data:") {
				list = append(list, to)
			}
		}
	})
	if err == nil {
		_, err = chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		if n < 10 {
			t.Errorf("%d requests were seen", n)
		}
		return list
	}
}

const rows = `document.querySelectorAll(".models tbody tr").length`

// draw draws a seven on the pad.
const draw = `const c = document.querySelector(".pad"), r = c.getBoundingClientRect();
	c.setPointerCapture = () => {};
	const at = (kind, x, y) => c.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerId: 1,
		clientX: r.left + x * r.width, clientY: r.top + y * r.height }));
	at("pointerdown", .3, .2);
	for (const [x, y] of [[.7, .2], [.42, .88]]) at("pointermove", x, y);
	at("pointerup", .42, .88)`

// TestServer: the page of a server with a hundred models, in every width and colour: nothing is
// outside of the window, cut off, or too faint; nothing is said on the console; and nothing is
// asked of others.
func TestServer(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 100)
	b := newTab(t, ctx)
	left := b.origins(t, s.url)
	s.ask(t, longName) // its lane has all of its name
	for i := range 40 {
		s.ask(t, fmt.Sprintf("digits-%02d", 10+i%8))
	}
	for _, v := range views[:4] {
		s.open(t, b, "", v.width, v.dark)
		b.until(t, "a hundred models", rows+" === 100")
		b.until(t, "lanes", `document.querySelector(".lanes li")`)
		b.sound(t, "server-"+v.name, 1000)
		s.open(t, b, "#/models/digits-10", v.width, v.dark)
		b.until(t, "the pad", `document.querySelector(".pad")`)
		b.do(t, draw)
		b.until(t, "an answer", `document.querySelector(".scores .first .label")?.textContent === "7"`)
		b.do(t, `document.querySelector("details").open = true`)
		b.until(t, "the graph", `document.querySelector(".stage b")`)
		b.sound(t, "model-"+v.name, 60)
	}
	for _, to := range left() {
		t.Errorf("the page asked for %s", to)
	}
}

// TestServerActions does in the browser all that can be done.
func TestServerActions(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 12)
	b := newTab(t, ctx)
	s.open(t, b, "", 1280, false)
	b.until(t, "twelve models", rows+" === 12")

	// a change shows within a second
	began := time.Now()
	s.ask(t, "digits-07")
	b.until(t, "the request", `[...document.querySelectorAll(".models tbody tr")].find(tr =>
		tr.textContent.startsWith("digits-07")).children[6].textContent === "1"`)
	if d := time.Since(began); d > time.Second {
		t.Errorf("a change showed after %v", d)
	}

	undo := `[...document.querySelectorAll("#notes button")].find(b => b.textContent === "Undo")`
	set := func(selector, value, event string) {
		b.do(t, fmt.Sprintf(`const e = document.querySelector(%q); e.value = %q;
			e.dispatchEvent(new Event(%q, { bubbles: true }))`, selector, value, event))
	}
	set(".policy select", "priority", "change")
	b.until(t, "the message", undo)
	if p := s.Status().Policy; p != "priority" {
		t.Errorf("the policy is %s", p)
	}
	b.do(t, undo+".click()")
	b.until(t, "the undoing", `document.querySelector("#notes").textContent.includes("Undone")`)
	if p := s.Status().Policy; p != "fair" {
		t.Errorf("after undo the policy is %s", p)
	}

	set(".models input", "07", "input")
	b.until(t, "one model", rows+" === 1")
	set(".models input", "", "input")
	first := func() string {
		name, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
			`document.querySelector(".models tbody th").textContent`))
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	b.do(t, `[...document.querySelectorAll(".sort")].find(e => e.textContent === "Requests").click()`)
	if got := first(); got != "digits-07" {
		t.Errorf("by requests the first is %s", got)
	}
	b.do(t, `document.querySelector(".sort").click()`)
	if got := first(); got != longName {
		t.Errorf("by name the first is %s", got)
	}
	set(".models select", "loading", "change")
	b.until(t, "no model", rows+" === 0")
	set(".models select", "", "change")

	b.do(t, `location.hash = "#/models/digits-03"`)
	b.until(t, "the view", `document.querySelector("h1")?.textContent === "digits-03" &&
		document.activeElement === document.querySelector("h1") && document.querySelector(".share")`)
	b.until(t, "the share", `document.querySelector("[name=memory]").value > 0`)
	had := shareOf(s, "digits-03")
	set("[name=class]", "latency", "input")
	set("[name=compute]", "25", "input")
	b.do(t, `document.querySelector(".share").requestSubmit()`)
	b.until(t, "the message", undo)
	if got := shareOf(s, "digits-03"); got.Class != weir.Latency || got.Compute != 0.25 ||
		got.Memory != had.Memory {
		t.Errorf("the share is %+v", got)
	}
	b.do(t, undo+".click()")
	b.until(t, "the undoing", `document.querySelector("#notes").textContent.includes("Undone. digits-03")`)
	if got := shareOf(s, "digits-03"); got.Cap() != had.Cap() || got.Class != had.Class ||
		got.Compute != had.Compute || got.Memory != had.Memory {
		t.Errorf("after undo the share is %+v, was %+v", got, had)
	}

	b.do(t, `[...document.querySelectorAll("[role=tab]")].at(-1).click()`)
	set("textarea", "0", "input")
	b.do(t, `document.querySelector(".numbers").requestSubmit()`)
	b.until(t, "an answer", `document.querySelectorAll(".scores li").length === 10`)
	set("textarea", "[[1,2],[3]]", "input")
	b.do(t, `document.querySelector(".numbers").requestSubmit()`)
	b.until(t, "a refusal", `document.querySelector(".numbers .bad").textContent.includes("long")`)
	b.quiet(t)

	// what the server refuses is said, and stays until it is closed
	b.do(t, `location.hash = "#/models/digits-04"`)
	b.until(t, "the view", `document.querySelector("h1")?.textContent === "digits-04" &&
		document.querySelector("[name=memory]").value > 0`)
	set("[name=memory]", "99999999", "input")
	b.do(t, `document.querySelector(".share").requestSubmit()`)
	b.until(t, "the refusal", `document.querySelector("#alerts").textContent.includes("memory")`)
}

// shareOf is the share of a model.
func shareOf(s *site, model string) weir.Share {
	for _, j := range s.Status().Jobs {
		if strings.HasPrefix(j.Name, model+"/") { // with its version
			return j.Share
		}
	}
	return weir.Share{}
}

// TestServerKeys goes through both views by the keyboard alone: every control is reached and seen,
// a digit is drawn, and a chart is read.
func TestServerKeys(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 4)
	b := newTab(t, ctx)
	s.open(t, b, "", 1280, false)
	b.until(t, "four models", rows+" === 4")
	b.walk(t, 15)
	s.open(t, b, "#/models/digits-01", 1280, false)
	b.until(t, "the pad", `document.querySelector(".pad")`)
	b.walk(t, 12)
	b.do(t, `document.querySelector(".pad").focus()`)
	keys := func(list ...string) {
		for _, k := range list {
			if err := chromedp.Do(b.ctx, chromedp.KeyEvent(k)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const up, down, lift = "\u0304", "\u0301", " "
	keys(up, up, up, up, up, lift, down, down, down, down, down, down, down, down, down, down, lift)
	b.until(t, "a one", `document.querySelector(".scores .first .label")?.textContent === "1"`)
	b.do(t, `document.querySelector(".line-chart svg").focus()`)
	keys("\u0302")
	b.until(t, "a reading", `document.querySelector(".line-chart output").textContent.includes("requests")`)
	b.quiet(t)
}

// TestChartNames: lines that end close to each other have names that do not overlap, wherever the
// rounding of floats puts them.
func TestChartNames(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	s.open(t, b, "", 1280, false)
	b.until(t, "the page", rows+" === 1")
	b.do(t, `window.closest = null; import("/assets/chart.js").then(({ chart }) => {
		const series = ["a", "b", "c"].map((name, colour) => ({ name, colour }));
		const c = chart("Names", series, String, 1);
		let least = Infinity;
		for (let i = 0; i < 3000; i++) {
			c.set(series.map(() => [Math.random() / (1 + i % 7), i % 3 ? Math.random() / (1 + i % 7) : 0]), 500);
			const at = [...c.root.querySelectorAll(".named")].map(e => +e.getAttribute("y")).sort((a, b) => a - b);
			for (let k = 1; k < at.length; k++) least = Math.min(least, at[k] - at[k - 1]);
		}
		window.closest = least;
	})`)
	b.until(t, "three thousand charts", "window.closest !== null")
	closest, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64]("window.closest"))
	if err != nil || closest < 13.9 || closest > 14.1 {
		t.Errorf("the closest names are %v apart (%v), want 14", closest, err)
	}
}

// walk presses the Tab key until each control had the focus, and holds that it is seen.
func (b *tab) walk(t *testing.T, least int) {
	t.Helper()
	const all = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary, " +
		"[tabindex='0']")].filter(e => e.checkVisibility() && e.tabIndex >= 0 && !e.disabled)`
	// rows are made anew as the server tells of them, so that a control goes by what it says
	b.do(t, `document.activeElement.blur(); window.reached = new Set(); window.unseen = [];
		window.keyOf = e => e.tagName + (e.getAttribute("href") || e.name || e.id || "") +
			(e.getAttribute("aria-label") || e.textContent)`)
	n, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](all+".length"))
	if err != nil || n < least {
		t.Fatalf("%d controls, %v", n, err)
	}
	for range n + 2 {
		if err := chromedp.Do(b.ctx, chromedp.KeyEvent("\t")); err != nil {
			t.Fatal(err)
		}
		b.do(t, `const e = document.activeElement, s = getComputedStyle(e);
			reached.add(keyOf(e));
			if (e !== document.body && (s.outlineStyle !== "solid" || parseFloat(s.outlineWidth) < 2))
				unseen.push(e.outerHTML.slice(0, 80))`)
	}
	missed, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](all+
		`.filter(e => !reached.has(keyOf(e))).map(e => e.outerHTML.slice(0, 80)).concat(unseen)`))
	if err != nil || len(missed) > 0 {
		t.Errorf("not reached, or without an outline: %q, %v", missed, err)
	}
}
