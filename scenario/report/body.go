package report

import (
	"fmt"

	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/scenario"
)

// body writes what the page is about.
func (h *Head) body(b *page.Body, r *scenario.Result) {
	b.Add("<h1>%s</h1>\n"+`<p class="lead">%s</p>`+"\n", h.Title, h.Intro)
	b.Add(`<p class="faint">%s, %d cores; %s. Made by <code>%s</code>.</p>`+"\n", r.Machine,
		r.Threads, h.When.Format("2 January 2006 15:04"), h.Command)
	if len(h.Notes) > 0 {
		b.Add("<ul>")
		for _, n := range h.Notes {
			b.Add("<li>%s</li>", n)
		}
		b.Add("</ul>")
	}
	b.Add("\n")
}

// compare writes the policies side by side.
func compare(b *page.Body, r *scenario.Result) {
	if t := comparison(r); len(t.Rows) > 0 {
		b.Add("<h2>Side by side</h2>\n")
		if drawn := tradeOff(r); drawn != "" {
			b.Add("<figure><figcaption>What waiting jobs pay for what the others get: better is "+
				"up and to the left.</figcaption>\n%s</figure>", drawn)
		}
		b.Add("\n")
		b.Table(t)
	}
	b.Add("\n")
	if len(r.LeftOut) > 0 {
		b.Add("<ul>")
		for _, l := range r.LeftOut {
			b.Add("<li>Left out: %s</li>", l.Reason)
		}
		b.Add("</ul>")
	}
	b.Add("\n")
}

// latencies writes how long requests took.
func latencies(b *page.Body, r *scenario.Result) {
	p := percentiles(r)
	if p.Chart == "" {
		return
	}
	b.Add("<h2>How long requests took</h2>")
	for _, f := range []figure{p, ranges(r)} {
		b.Add("\n<figure><figcaption>%s</figcaption>\n%s</figure>", f.Note, f.Chart)
	}
	b.Add("\n")
}

// got writes what each job asked for and got.
func got(b *page.Body, r *scenario.Result) {
	b.Add("<h2>What each job got</h2>\n")
	asked := askedTable(r)
	if n := len(r.Phase.Jobs); n > MaxJobs {
		b.Fold(false, fmt.Sprintf("What each of the %d jobs asked for", n), "", func() {
			b.Table(asked)
		})
	} else {
		b.Table(asked)
		b.Add("\n")
	}
	for _, p := range tables(r) {
		b.Fold(p.Open, p.Name, p.Note, func() {
			b.Add("\n")
			if len(p.Classes.Rows) == 0 {
				b.Table(p.Jobs)
				return
			}
			b.Table(p.Classes)
			b.Fold(false, fmt.Sprintf("All %d jobs", len(p.Jobs.Rows)), "", func() {
				b.Table(p.Jobs)
			})
		})
	}
}

// held writes who held the device.
func held(b *page.Body, lines []figure) {
	if len(lines) == 0 {
		return
	}
	b.Add("<h2>Who held the device</h2>\n" +
		`<p class="faint">A row a job, a bar as high as the part of the units that it held. A ` +
		"dark end marks a lease that the policy asked back.</p>\n" +
		`<noscript><p class="faint">Without scripts the timelines show the beginning of each ` +
		"run and cannot be moved.</p></noscript>\n")
	for _, f := range lines {
		b.Fold(f.Open, f.Name, f.Note, func() {
			b.Add("\n"+`<figure data-timeline="%d">%s</figure>`, f.Index, f.Chart)
		})
	}
}

// inMemory writes what each job held on the device.
func inMemory(b *page.Body, figures []figure) {
	if len(figures) == 0 {
		return
	}
	b.Add("<h2>Memory</h2>\n" + `<p class="faint">What each job held on the device; dots are ` +
		"the cap of a job that came near it.</p>\n")
	for _, f := range figures {
		b.Fold(f.Open, f.Name, "", func() { b.Add("\n<figure>%s</figure>", f.Chart) })
	}
}

// weights writes which weights were on the device when.
func weights(b *page.Body, list []residency) {
	if len(list) == 0 {
		return
	}
	b.Add("<h2>What was on the device when</h2>\n" + `<p class="faint">A row a job whose ` +
		"weights others may have the room of: as high as the part of them that was on the " +
		"device, or on its way there.</p>\n")
	for _, f := range list {
		b.Fold(f.Open, f.Name, f.Note, func() {
			b.Add("\n<figure>%s</figure>\n", f.Chart)
			b.Fold(false, f.Told, "", func() { b.Table(f.Switches) })
		})
	}
}
