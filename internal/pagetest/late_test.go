package pagetest

import (
	"sync"
	"testing"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"

	"github.com/weirgpu/weir/server"
	"github.com/weirgpu/weir/server/jobs"
	"github.com/weirgpu/weir/server/web"
)

// choose has a person choose a file on the page: a picture that is dark in a corner, or, without
// one, a file that is none.
const choose = `window.choose = async (name, corner) => {
	const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 }), to = canvas.getContext("2d");
	to.fillStyle = "#fff";
	to.fillRect(0, 0, 8, 8);
	to.fillStyle = "#000";
	if (corner !== undefined) to.fillRect(corner, corner, 3, 3);
	const data = new DataTransfer(), of = corner === undefined ? new Blob(["no"]) : await new Promise(go => canvas.toBlob(go));
	data.items.add(new File([of], name, { type: "image/png" }));
	const input = document.querySelector(".picture input[type=file]");
	input.files = data.files;
	input.dispatchEvent(new Event("change"));
}`

// TestPictureLate: a picture, or what is none, that took long to be read takes the place of none
// that was chosen after it.
func TestPictureLate(t *testing.T) {
	ctx := browser(t)
	s := serve(t, 1)
	b := newTab(t, ctx)
	b.before(t, `const real = createImageBitmap; window.held = []; window.read = 0;
		window.createImageBitmap = async f => {
			if (f.name.startsWith("slow")) await new Promise(go => held.push(go));
			return real(f).finally(() => read++);
		}`)
	s.open(t, b, "#/models/digits-00", 1280, false)
	b.until(t, "the ways", `document.querySelectorAll("[role=tab]").length === 3`)
	b.do(t, choose+`; document.querySelectorAll("[role=tab]")[1].click();
		choose("slow.png", 5).then(() => choose("slow none.png")).then(() => choose("quick.png", 0))`)
	const seen = `document.querySelector(".seen").toDataURL()`
	b.until(t, "an answer", `held.length === 2 && document.querySelector(".scores")`)
	b.do(t, `window.was = `+seen+`; held.forEach(go => go())`)
	b.until(t, "what is slow", `read === 3`)
	b.do(t, `requestAnimationFrame(() => requestAnimationFrame(() => { window.shown = true; }))`)
	b.until(t, "a frame", `window.shown`)
	b.until(t, "the last one still", seen+` === was && document.querySelector(".scores") &&
		document.querySelector(".picture .bad").textContent === ""`)
	b.quiet(t)
}

// TestJobLogEnds: what happened to a job while its log was under way is asked for after it, though
// the server tells of nothing more.
func TestJobLogEnds(t *testing.T) {
	ctx := browser(t)
	j, at := jobsPage(t)
	b := newTab(t, ctx)
	b.before(t, `const real = fetch; window.still = false;
		window.fetch = async (path, o) => {
			const answer = await real(path, o);
			if (path.includes("/log?") && !window.release) await new Promise(go => { window.release = go; });
			if (path !== "v1/events") return answer;
			return new Response(answer.body.pipeThrough(new TransformStream({ transform(chunk, to) {
				to.enqueue(window.still ? new TextEncoder().encode(":\n\n") : chunk); // a sign of life
			} })));
		}`)
	if _, _, err := j.Make(t.Context(), jobs.Asked{Key: "long", Model: "digits", Size: -1},
		pictures(t, 1_000_000)); err != nil {
		t.Fatal(err)
	}
	at.open(t, b, "#/jobs/1", 1280, false)
	b.until(t, "a log under way", `window.release`)
	if err := j.Cancel(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the end", `document.querySelector("main").textContent.includes(": cancelled")`)
	b.do(t, `window.still = true; release()`)
	b.until(t, "the last line", `document.querySelector(".log").textContent.includes("cancelled")`)
	b.quiet(t)
}

// TestProgramEnds: the row of a program that has ended is gone, and let go of.
func TestProgramEnds(t *testing.T) {
	ctx := browser(t)
	s, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var mu sync.Mutex
	names := []string{"ends", "stays"}
	p := web.New(s, web.Options{Programs: func() (_ []web.Device, list []web.Program) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			list = append(list, web.Program{Name: name, Device: s.Status().Device})
		}
		return nil, list
	}})
	at := paged(s, p)
	defer at.close()
	b := newTab(t, ctx)
	at.open(t, b, "", 1280, false)
	const programs = `[...document.querySelectorAll("main tbody th")].map(e => e.textContent).join()`
	b.until(t, "both", programs+` === "ends,stays"`)
	b.do(t, `window.row = new WeakRef([...document.querySelectorAll("main tbody tr")].find(e => `+
		`e.textContent.startsWith("ends")))`)
	mu.Lock()
	names = names[1:]
	mu.Unlock()
	b.until(t, "the other", programs+` === "stays"`)
	if _, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, struct{}{}); err != nil {
		t.Fatal(err)
	}
	b.until(t, "no row that is kept", `!row.deref()`)
	b.quiet(t)
}
