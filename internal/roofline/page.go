package roofline

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
)

// openSteps is how many steps a page shows unfolded.
const openSteps = 60

// HTML writes the table as a page with the roofline drawn, which needs nothing but a browser. The
// error is the writer's.
func (t *Table) HTML(w io.Writer, title string, when time.Time) error {
	p := page.Page{Title: title, Body: func(b *page.Body) {
		b.Add("<h1>%s</h1>\n", title)
		t.body(b, when)
	}}
	return p.Write(w)
}

// body writes what is below the title.
func (t *Table) body(b *page.Body, when time.Time) {
	m := &t.Machine
	limits, lines := "its limits are not known", ""
	if m.Known() {
		limits = fmt.Sprintf("limits measured in %.0f ms", m.TookMS)
		lines = " Level lines are the most that products reach in each precision, sloped ones " +
			"what reading allows, from the caches next to a core to memory. A mark far below its " +
			"line has time to win; one above it does less than its definition asks for, such as " +
			"a convolution in transformed tiles."
	}
	b.Add(`<p class="faint">%s, %d threads; %s, steps as medians of %d runs; %s.</p>`+"\n",
		cmp.Or(m.Processor.Name, m.Device), m.Threads, limits, t.Runs,
		when.Format("2 January 2006 15:04"))
	b.Add("<figure><figcaption>One mark a step, the larger the more of the time it takes.%s"+
		"</figcaption>\n%s</figure>\n<h2>By operator</h2>\n", lines, page.Draw(t.chart()))
	b.Table(t.byOperator())
	b.Add("\n<h2>By step, as they run</h2>\n")
	steps := t.byStep()
	b.Fold(len(t.Steps) <= openSteps, fmt.Sprintf("%d steps", len(steps.Rows)), "", func() {
		b.Table(steps)
	})
}

// cells returns what a table says of work.
func (w *Work) cells() []string {
	limit := "-"
	if w.LeastMS > 0 {
		limit = fmt.Sprintf("%.0f %%", 100*w.OfLimit)
	}
	return []string{fmt.Sprintf("%.3f", w.MS), fmt.Sprintf("%.1f %%", 100*w.Share),
		fmt.Sprintf("%.1f", w.GFlopsPerS), fmt.Sprintf("%.1f", w.GBPerS),
		fmt.Sprintf("%.1f", w.Intensity), limit}
}

// workHeads are the heads of the columns of cells.
var workHeads = []string{"ms", "share", "GFLOP/s", "GB/s", "FLOP/B", "of limit"}

func (t *Table) byOperator() page.Table {
	out := page.Table{Caption: "By operator", Quiet: true,
		Heads: slices.Concat([]string{"operator", "steps"}, workHeads)}
	for i := range t.Operators {
		g := &t.Operators[i]
		out.Rows = append(out.Rows, page.Row{Name: g.Name,
			Cells: slices.Concat([]string{fmt.Sprint(g.Steps)}, g.cells())})
	}
	return out
}

func (t *Table) byStep() page.Table {
	out := page.Table{Caption: "By step, as they run", Quiet: true, Left: 2,
		Heads: slices.Concat([]string{"node", "operator", "kernel"}, workHeads)}
	for i := range t.Steps {
		s := &t.Steps[i]
		out.Rows = append(out.Rows, page.Row{Name: s.Node,
			Cells: slices.Concat([]string{s.Op, s.Way()}, s.cells())})
	}
	return out
}

// chart draws the limits of the machine, and each step as large as the part of the time that it
// takes. Steps without arithmetic have no place in it.
func (t *Table) chart() *chart.XY {
	c := &chart.XY{Label: "Roofline: the rate of each step over its work for a byte", Height: 420,
		X: chart.Axis{Label: "FLOP per byte", Log: true, Min: 0.05, Max: 1000},
		Y: chart.Axis{Label: "GFLOP/s", Log: true, Min: math.Inf(1)}}
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Intensity > 0 && s.GFlopsPerS > 0 {
			c.X.Min, c.X.Max = min(c.X.Min, s.Intensity), max(c.X.Max, s.Intensity)
			c.Y.Min, c.Y.Max = min(c.Y.Min, s.GFlopsPerS), max(c.Y.Max, s.GFlopsPerS)
		}
	}
	highest := 0.0
	for _, peak := range t.Machine.Peak {
		highest = max(highest, peak)
	}
	c.Y.Max = max(c.Y.Max, highest) * 1.3
	c.Y.Min = min(c.Y.Min, c.Y.Max/1000) / 1.3
	c.Series = append(t.limits(c, highest), t.points()...)
	return c
}

// limits returns the lines of the machine: level ones of arithmetic, named at their ends, and
// sloped ones of memory, named at their starts.
func (t *Table) limits(c *chart.XY, highest float64) []chart.Series {
	var lines []chart.Series
	for _, format := range slices.Sorted(maps.Keys(t.Machine.Peak)) {
		peak := t.Machine.Peak[format]
		lines = append(lines, chart.Series{Name: fmt.Sprintf("%s %.0f", format, peak), Style: 7,
			Faint: true, X: []float64{c.X.Min, c.X.Max}, Y: []float64{peak, peak}})
	}
	for _, r := range t.Machine.Read {
		from := max(c.X.Min, c.Y.Min/r.GBPerS)
		to := min(c.X.Max, highest/r.GBPerS)
		name := fmt.Sprintf("%.0f GB/s of %s MiB", r.GBPerS,
			chart.Number(float64(r.Bytes)/(1<<20)))
		lines = append(lines, chart.Series{Name: name, Style: 7, Faint: true, Starts: true,
			X: []float64{from, to}, Y: []float64{from * r.GBPerS, to * r.GBPerS}})
	}
	return lines
}

// points returns the steps, a series an operator, which is named beside its longest step.
func (t *Table) points() []chart.Series {
	var out []chart.Series
	index := map[string]int{}
	longest := map[string]float64{}
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Intensity <= 0 || s.GFlopsPerS <= 0 {
			continue
		}
		k, ok := index[s.Op]
		if !ok {
			k = len(out)
			index[s.Op] = k
			out = append(out, chart.Series{Name: s.Op, Style: k, Points: true})
		}
		o := &out[k]
		s.plot(o)
		if s.MS > longest[s.Op] {
			longest[s.Op] = s.MS
			clear(o.Names)
			o.Names[len(o.Names)-1] = s.Op
		}
	}
	return out
}

// plot adds the step to the points of its operator, without a name.
func (s *Step) plot(o *chart.Series) {
	o.X, o.Y = append(o.X, s.Intensity), append(o.Y, s.GFlopsPerS)
	o.Sizes = append(o.Sizes, 3+32*math.Sqrt(s.Share))
	o.Tips = append(o.Tips, s.tip())
	o.Names = append(o.Names, "")
}

// tip says of a step what its table says.
func (s *Step) tip() string {
	limit := "no limit known"
	if s.LeastMS > 0 {
		limit = fmt.Sprintf("%.0f %% of the limit", 100*s.OfLimit)
	}
	return fmt.Sprintf("%s %s %s: %.3f ms, %.1f %%, %.1f GFLOP/s, %s", s.Op, s.Way(), s.Node, s.MS,
		100*s.Share, s.GFlopsPerS, limit)
}
