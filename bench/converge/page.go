package main

import (
	"fmt"
	"io"
	"math"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/internal/wholefile"
)

// page writes a page with the mean curves of each task, and a table of all cells.
func (b *bench) page(path string) error {
	p := page.Page{Title: "Convergence of mixed precision", Body: func(w *page.Body) {
		w.Add("<h1>Convergence of mixed precision</h1>\n<p>%s</p>\n", fmt.Sprintf("Means of %d "+
			"seeds, %s, %s", b.Seeds, b.Machine, b.Date))
		for _, t := range b.names() {
			for i, what := range []string{"loss", b.metrics[t]} {
				w.Add("<figure>\n<figcaption>%s: %s of samples that training does not see"+
					"</figcaption>\n%s\n</figure>\n", t, what, page.Draw(b.curves(t, i, what)))
			}
		}
		w.Table(b.table())
	}}
	return wholefile.Write(path, func(w io.Writer) error { return p.Write(w) })
}

// names are the tasks, in their order.
func (b *bench) names() (list []string) {
	for i, c := range b.Cells {
		if i == 0 || b.Cells[i-1].Task != c.Task {
			list = append(list, c.Task)
		}
	}
	return list
}

// curves draws number i of the evaluations of a task, the means over seeds.
func (b *bench) curves(task string, i int, what string) *chart.XY {
	c := &chart.XY{Label: task + ": " + what + " by epoch", Height: 260,
		X: chart.Axis{Label: "epoch"}, Y: chart.Axis{Label: what, Min: math.Inf(1)}}
	for _, of := range b.Cells {
		if of.Task != task {
			continue
		}
		s := chart.Series{Name: of.Mode, Style: len(c.Series)}
		for e := range of.Epochs[0] {
			mean := 0.0
			for _, seed := range of.Epochs {
				mean += seed[e][i] / float64(len(of.Epochs))
			}
			s.X, s.Y = append(s.X, float64(e+1)), append(s.Y, mean)
			c.X.Max = max(c.X.Max, float64(e+1))
			c.Y.Min, c.Y.Max = min(c.Y.Min, mean), max(c.Y.Max, mean)
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// table lists the cells.
func (b *bench) table() page.Table {
	t := page.Table{Caption: "Last evaluations", Heads: []string{"task, mode", "metric", "± sd",
		"loss", "± sd", "skipped updates"}}
	for _, c := range b.Cells {
		metric, md := spread(c.Metric)
		loss, ld := spread(c.Loss)
		t.Rows = append(t.Rows, page.Row{Name: c.Task + ", " + c.Mode, Cells: []string{
			fmt.Sprintf("%.4f", metric), fmt.Sprintf("%.4f", md),
			fmt.Sprintf("%.4f", loss), fmt.Sprintf("%.4f", ld), fmt.Sprint(c.Skipped)}})
	}
	return t
}
