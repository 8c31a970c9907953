package pagetest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed measure.js
var measure string

// browser starts Chromium, once for a test, or skips it where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	path := os.Getenv("WEIR_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" || path == "off" {
		t.Skip("no browser: install chromium, or name one in $WEIR_CHROMIUM")
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.UserDataDir(t.TempDir()))
	if os.Geteuid() == 0 { // which Chromium's sandbox does not run as
		o = append(o, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), o...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	return ctx
}

// view is how a page is looked at.
type view struct {
	name     string
	width    int64
	media    string // "" for screen
	dark     bool
	noScript bool
}

var views = []view{
	{name: "1280", width: 1280},
	{name: "400", width: 400},
	{name: "1280-dark", width: 1280, dark: true},
	{name: "400-dark", width: 400, dark: true},
	{name: "print", width: 718, media: "print", dark: true}, // A4 less its margins
	{name: "1280-noscript", width: 1280, noScript: true},
	{name: "400-noscript", width: 400, noScript: true},
}

// found is what measure.js returns.
type found struct {
	Problems []string
	Texts    int // looked at
	Drawings int
	Height   float64
	Tables   int
	Charts   int
}

// tab is one tab of the browser, and what it said since it was last asked.
type tab struct {
	ctx context.Context
	mu  sync.Mutex
	log []string
}

func newTab(t *testing.T, ctx context.Context) *tab {
	t.Helper()
	b := &tab{}
	// A page whose script does not end answers nothing: the test fails, and says where.
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	err := chromedp.Listen(b.ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			b.log = append(b.log, e.Entry.Text)
		case *runtime.EventConsoleAPICalled:
			b.log = append(b.log, fmt.Sprint("console.", e.Type))
		case *runtime.EventExceptionThrown:
			b.log = append(b.log, e.ExceptionDetails.Text+": "+
				e.ExceptionDetails.Exception.Description)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.log
	b.log = nil
	return said
}

// look opens a page in a view.
func (b *tab) look(t *testing.T, path string, v view) {
	t.Helper()
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media:    v.media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err == nil {
		_, err = chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: v.noScript})
	}
	if err == nil {
		err = chromedp.Do(b.ctx, chromedp.EmulateViewport(v.width, 900),
			chromedp.Navigate("file://"+path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keep keeps a picture of the page where somebody wants it.
func (b *tab) keep(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("WEIR_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// document is a page that is looked at.
type document struct {
	name   string
	write  func(*testing.T, io.Writer)
	texts  int // at least
	charts int // that are shown on a screen, and in print
	print  int
	tables int
	height map[int64]float64 // at most, by the width of the window
}

var pages = []document{
	{"report", writeSmall, 190, 7, 7, 6, map[int64]float64{1280: 4600, 400: 6400}},
	{"many", writeMany, 200, 5, 7, 12, map[int64]float64{1280: 5200, 400: 6000}},
	{"roofline", writeRoofline, 60, 1, 1, 2, map[int64]float64{1280: 2200, 400: 4700}},
	{"inspect", writeStages, 80, 0, 0, 0, map[int64]float64{1280: 1000, 400: 3000}},
}

// TestPages opens every page in every view.
func TestPages(t *testing.T) {
	ctx := browser(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			var text bytes.Buffer
			p.write(t, &text)
			path := filepath.Join(t.TempDir(), p.name+".html")
			if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			b := newTab(t, ctx)
			for _, v := range views {
				b.look(t, path, v)
				b.hold(t, &p, v)
				b.keep(t, p.name+"-"+v.name)
			}
			b.look(t, path, views[2])
			t.Run("focus", func(t *testing.T) { b.tabThrough(t) })
			if p.name == "many" {
				t.Run("timeline", func(t *testing.T) { b.moveTimeline(t) })
			}
		})
	}
}

// hold holds of the page in a view that nothing lies outside of the window or its chart, is cut
// off, lies on something else or is too faint, that nothing is said on the console, and that the
// page is no longer than its bound.
func (b *tab) hold(t *testing.T, p *document, v view) {
	t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[found](measure))
	if err != nil {
		t.Fatalf("%s: %v", v.name, err)
	}
	for _, said := range b.said() {
		t.Errorf("%s: the console says: %s", v.name, said)
	}
	for _, problem := range got.Problems {
		t.Errorf("%s: %s", v.name, problem)
	}
	charts := p.charts
	if v.media != "" {
		charts = p.print
	}
	if got.Texts < p.texts || got.Charts != charts || got.Tables != p.tables ||
		(charts > 0) != (got.Drawings > 0) {
		t.Errorf("%s: %d texts, %d charts and %d tables, want %d at least, %d and %d", v.name,
			got.Texts, got.Charts, got.Tables, p.texts, charts, p.tables)
	}
	if most := p.height[v.width]; v.media == "" && got.Height > most {
		t.Errorf("%s: %.0f px high, want %.0f at most", v.name, got.Height, most)
	}
	if title, _ := chromedp.Run(b.ctx, chromedp.Title()); title == "taken" {
		t.Errorf("%s: the name of a job was run as a script", v.name)
	}
}

// focus is one stop of the Tab key.
type focus struct {
	What    string
	Visible bool
}

// tabThrough goes through a page by the Tab key: every control is reached, and its outline is seen.
func (b *tab) tabThrough(t *testing.T) {
	t.Helper()
	want, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](`[...document.querySelectorAll(
		"summary, input, [tabindex]")].filter(e => e.checkVisibility()).length`))
	if err != nil || want < 1 {
		t.Fatalf("%d controls, %v", want, err)
	}
	reached := map[string]bool{}
	for range want {
		if err := chromedp.Do(b.ctx, chromedp.KeyEvent("\t")); err != nil {
			t.Fatal(err)
		}
		f, err := chromedp.Run(b.ctx, chromedp.Evaluate[focus](`(() => {
			const e = document.activeElement, s = getComputedStyle(e);
			const all = [...document.querySelectorAll("*")];
			return { What: all.indexOf(e) + " " + e.tagName, Visible: e.matches(":focus-visible") &&
				s.outlineStyle === "solid" && parseFloat(s.outlineWidth) >= 2 };
		})()`))
		if err != nil {
			t.Fatal(err)
		}
		if !f.Visible {
			t.Errorf("no outline around %s", f.What)
		}
		reached[f.What] = true
	}
	if len(reached) != want {
		t.Errorf("%d of %d controls reached: %v", len(reached), want, reached)
	}
}

// moveTimeline moves a timeline by its controls and asks it what lies below the pointer.
func (b *tab) moveTimeline(t *testing.T) {
	t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`(() => {
		const f = document.querySelector("[data-timeline]"), [from, length] = f.querySelectorAll("input");
		const bars = () => [...f.querySelectorAll("svg.wide .bars")].map(b => b.getAttribute("d")).join("");
		const ticks = () => [...f.querySelectorAll("svg.wide .ticks text")].map(t => t.textContent).join();
		const before = bars(), shown = ticks();
		length.value = 700; from.value = 500; from.dispatchEvent(new Event("input"));
		const after = bars();
		if (after === before || ticks() === shown) return "moving changed nothing";
		from.value = 0; length.value = 1000; length.dispatchEvent(new Event("input"));
		if (bars().length < after.length) return "all shows less than a part";
		const t = data.timelines[0], [job, a, z] = t.holds[0];
		const d = f.querySelector("svg.wide"), box = d.getBoundingClientRect(), scale = box.width / d.viewBox.baseVal.width;
		const x = +d.dataset.left + (a + z) / 2 / t.end * (d.dataset.right - d.dataset.left);
		const y = +d.querySelectorAll(".bars")[t.rows[job]].dataset.y;
		d.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x * scale, clientY: box.top + y * scale }));
		return f.querySelector(".reading").textContent;
	})()`))
	if err != nil || !strings.Contains(got, " ms at ") || !strings.Contains(got, longName) {
		t.Errorf("the timeline says %q, %v", got, err)
	}
}
