package pagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/web"
)

// before runs a script in a tab's pages before their own.
func (b *tab) before(t *testing.T, script string) {
	t.Helper()
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		t.Fatal(err)
	}
}

// wire is a network before a server, which can lose what is under way and say nothing of it.
type wire struct {
	to   string
	stop func() // takes no connections any more
	mu   sync.Mutex
	lost chan struct{} // closed when connections of now are lost
}

// newWire returns one, and the address at which pages find the server.
func newWire(t *testing.T, url string) (w *wire, at string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &wire{to: strings.TrimPrefix(url, "http://"), lost: make(chan struct{})}
	var work sync.WaitGroup
	work.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			work.Go(func() { w.carry(t.Context(), c) })
		}
	})
	w.stop = func() { _ = l.Close() }
	t.Cleanup(func() {
		w.stop()
		work.Wait()
	})
	return w, "http://" + l.Addr().String()
}

// carry carries a connection until either end goes. Once it is lost, its bytes go nowhere.
func (w *wire) carry(ctx context.Context, c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	s, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	go func() {
		_, _ = io.Copy(s, c)
		_ = s.Close()
	}()
	b := make([]byte, 1<<16)
	for {
		n, err := s.Read(b)
		select {
		case <-lost:
		default:
			_, _ = c.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// lose has all connections of now carry nothing more.
func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.lost)
	w.lost = make(chan struct{})
}

const ready = `document.querySelector("#live").textContent === "ready"`

// TestFollowSilence: a page whose connection went without a word, as while its machine slept, finds
// out and asks anew.
func TestFollowSilence(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	w, at := newWire(t, s.url)
	b := newTab(t, ctx)
	// the page's forty seconds are two here
	b.before(t, `const wait = setTimeout; window.setTimeout = (f, ms) => wait(f, ms === 40000 ? 2000 : ms)`)
	(&site{s.Server, at, nil}).open(t, b, "", 1280, false)
	b.until(t, "the page", rows+" === 1 && "+ready)
	w.lose()
	s.ask(t, "digits-00")
	b.until(t, "the request", `document.querySelector(".models tbody tr").children[6].textContent === "1"`)
}

// TestFollowRefused: where the server has no room for one page more, the page says so.
func TestFollowRefused(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	for range 64 {
		r, err := http.Get(s.url + "/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
	}
	b := newTab(t, ctx)
	s.open(t, b, "", 400, false)
	b.until(t, "the reason", `document.querySelector("#live").textContent.includes("64 readers")`)
	_ = b.said() // that it was refused
	b.sound(t, "refused", 5)
}

// TestFollowClock: a server's clock that goes back leaves no lanes of times to come.
func TestFollowClock(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	// a machine's clock is not a test's to turn: the events are those of one that was turned
	b.before(t, `const real = fetch, now = Date.now();
		const state = { id: "x.1", time_ms: now, period_ms: 500, server: { version: "", started_ms: 0, ready: true },
			devices: [{ name: "cpu:0", policy: "fair", memory_bytes: 1, promised_bytes: 0, held_bytes: 0 }],
			lanes: { "cpu:0": { early: [.5, .5] } } };
		const back = { id: "x.2", time_ms: now - 3600000, period_ms: 500, lanes: { "cpu:0": { late: [.25] } } };
		window.fetch = (path, o) => path !== "v1/events" ? real(path, o) : Promise.resolve(new Response(
			new ReadableStream({ start(to) {
				const send = (kind, m) => to.enqueue(new TextEncoder().encode(
					"event: " + kind + "\nid: " + m.id + "\ndata: " + JSON.stringify(m) + "\n\n"));
				send("state", state);
				window.turn = () => send("change", back);
			} })))`)
	s.open(t, b, "", 1280, false)
	const who = `[...document.querySelectorAll(".lanes .who")].map(e => e.textContent).join()`
	b.until(t, "the lane", who+` === "early"`)
	b.do(t, `turn()`)
	b.until(t, "the other lane alone", who+` === "late"`)
}

// TestLaneLinks: lanes of models lead to these; those of programs, which have no page, nowhere.
func TestLaneLinks(t *testing.T) {
	ctx := browser(t)
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const odd = `and "others" %2F?#<b>`
	if err := s.LoadAll(t.Context(), []server.Source{{Name: odd, Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}}); err != nil {
		t.Fatal(err)
	}
	p := web.New(s, web.Options{Programs: func() ([]web.Device, []web.Program) {
		return nil, []web.Program{{Name: "trainer", Device: s.Status().Device, Used: 0.5}}
	}})
	at := paged(s, p)
	defer at.close()
	b := newTab(t, ctx)
	at.open(t, b, "", 1280, false)
	b.until(t, "the program", rows+` === 1 && document.querySelector(".lanes")`)
	b.do(t, `location.href = document.querySelector(".models tbody a").href`)
	b.until(t, "the model", `document.querySelector("h1").textContent === `+fmt.Sprintf("%q", odd)+
		` && document.querySelector(".pad")`)
	b.do(t, draw)
	b.until(t, "an answer", `document.querySelector(".scores .first .label")?.textContent === "7"`)
	b.do(t, `location.hash = "#/"`)
	b.until(t, "both lanes", `document.querySelectorAll(".lanes .who").length === 2`)
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		`[...document.querySelectorAll(".lanes .who")].map(e => e.tagName + e.hash).join()`))
	if want := "A#/models/" + `and%20%22others%22%20%252F%3F%23%3Cb%3E` + ",SPANundefined"; err != nil ||
		got != want {
		t.Errorf("the lanes are %s, %v, want %s", got, err, want)
	}
	b.quiet(t)
}

// TestModelComes: the view of a model that is not there shows it once it comes.
func TestModelComes(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	s.open(t, b, "#/models/late", 1280, false)
	b.until(t, "that there is none", `document.querySelector(".lead")?.checkVisibility() &&
		document.querySelector("h1").textContent === "late"`)
	if err := s.LoadAll(t.Context(), []server.Source{{Name: "late", Version: 1,
		Open: func() (*weir.Model, error) { return weir.Load(digits.Model) }}}); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the model", `!document.querySelector(".lead").checkVisibility() &&
		document.querySelector(".pad")?.checkVisibility()`)
}

// TestModelBroken: a model of which no version could be read has a view with the reason, and the
// page goes on.
func TestModelBroken(t *testing.T) {
	const unready = `document.querySelector("#live").textContent === "not ready"` // as not all are
	ctx := browser(t)
	s := serve(t, 1)
	broken := func() (*weir.Model, error) {
		return nil, errors.New("its configuration cannot be read")
	}
	if s.LoadAll(t.Context(), []server.Source{{Name: "broken", Open: broken}}) == nil {
		t.Fatal("it was loaded")
	}
	b := newTab(t, ctx)
	s.open(t, b, "#/models/broken", 1280, false)
	b.until(t, "the reason", `document.querySelector(".bad").textContent.includes("cannot be read") &&
		document.querySelector(".state").textContent === "failed" && !document.querySelector("tbody tr")`)
	b.do(t, `location.hash = "#/"`)
	b.until(t, "the overview", rows+" === 2 && "+unready)
	// a fault of one view is none of the page
	b.do(t, `import("/assets/feed.js").then(({ follow }) => {
		follow(() => { window.failed = true; throw new Error("a fault of a test"); }); })`)
	s.ask(t, "digits-00")
	b.until(t, "the request", `window.failed && [...document.querySelectorAll(".models tbody tr")].some(
		tr => tr.children[6].textContent === "1") && `+unready)
	s.ask(t, "digits-00")
	b.until(t, "the next", `[...document.querySelectorAll(".models tbody tr")].some(
		tr => tr.children[6].textContent === "2") && `+unready)
}

// TestModelLate: what the server answers about a model that is served is not shown once it is not.
func TestModelLate(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	b.before(t, `const real = fetch; window.fetch = (path, o) => path !== "v2/models/digits-00" ? real(path, o) :
		real(path, o).then(r => new Promise(go => { window.release = () => { go(r); window.released = true; }; }))`)
	s.open(t, b, "#/models/digits-00", 1280, false)
	b.until(t, "the answer", `window.release`)
	if err := s.UnloadModel(t.Context(), "digits-00", nil); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the end", `document.querySelector(".state").textContent !== "ready"`)
	b.do(t, `release(); requestAnimationFrame(() => requestAnimationFrame(() => { window.shown = true; }))`)
	b.until(t, "a frame", "window.shown")
	b.until(t, "nothing to try", `!document.querySelector(".pad")`)
}

// TestChartsStop: charts of a model draw nothing of a time of which the server told nothing, and
// begin anew with what the server has kept where that was long.
func TestChartsStop(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	w, at := newWire(t, s.url)
	b := newTab(t, ctx)
	b.before(t, `const wait = setTimeout, now = Date.now; window.later = 0; Date.now = () => now() + window.later;
		window.setTimeout = (f, ms) => wait(f, ms === 40000 ? 2000 : ms)`)
	(&site{s.Server, at, nil}).open(t, b, "#/models/digits-00", 1280, false)
	const asked = `performance.getEntriesByType("resource").filter(e => e.name.endsWith("/history")).length`
	const path = `document.querySelector(".line-chart .line").getAttribute("d")`
	b.until(t, "charts", `document.querySelector(".line-chart .line") && `+asked+` === 1`)
	s.ask(t, "digits-00")
	b.do(t, `window.began = `+path)
	b.until(t, "a chart that goes on", path+` !== window.began`)
	b.do(t, `window.later = 600000`) // the machine slept
	b.until(t, "what is kept", asked+` === 2`)
	w.lose()
	w.stop()
	b.until(t, "that the server is away", `document.querySelector("#live").textContent.includes("does not answer")`)
	b.do(t, `window.ended = `+path+`; window.looks = 0; setInterval(() => { window.looks++; }, 500)`)
	b.until(t, "some looks", `window.looks > 4`)
	b.until(t, "a chart that stays", path+` === window.ended`)
}
