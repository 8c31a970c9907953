package sim

import (
	"fmt"
	"io"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
)

// WritePage writes a page of what policies did: a table of all, and for each trace how allocation
// and fragmentation grew with arrivals, of the first seed. The error is the writer's.
func WritePage(w io.Writer, command string, all []Summary) error {
	p := page.Page{Title: "Placement on a cluster", Body: func(b *page.Body) {
		b.Add("<h1>Placement on a cluster</h1>\n<p>Which part of all devices each policy gives " +
			"to pods, and how much is left in pieces that the usual pods cannot use.</p>\n")
		addTable(b, all)
		for from := 0; from < len(all); {
			to := from
			for to < len(all) && all[to].Trace == all[from].Trace {
				to++
			}
			addCurves(b, all[from:to])
			from = to
		}
		b.Add("<p><small>Made by <code>%s</code>.</small></p>\n", command)
	}}
	return p.Write(w)
}

func addTable(b *page.Body, all []Summary) {
	t := page.Table{Caption: "Policies, on average over seeds",
		Heads: []string{"trace", "policy", "allocated", "when all was asked for", "fragmented",
			"placed", "rejected"}, Left: 1}
	for i := range all {
		s := &all[i]
		at := ""
		if s.AtCapacity > 0 {
			at = percent(s.AtCapacity)
		}
		t.Rows = append(t.Rows, page.Row{Name: s.Trace, Cells: []string{s.Policy,
			percent(s.Allocation), at, percent(s.Fragmentation), fmt.Sprint(s.Placed),
			fmt.Sprint(s.Rejected)}})
	}
	b.Table(t)
}

func percent(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }

func addCurves(b *page.Body, of []Summary) {
	if len(of[0].Runs) == 0 || len(of[0].Runs[0].Curve) == 0 {
		return
	}
	b.Add("<h2>%s</h2>\n", of[0].Trace)
	addCurve(b, of, "Allocated", func(p Point) float64 { return p.Allocation })
	addCurve(b, of, "Free but fragmented", func(p Point) float64 { return p.Fragmented })
}

func addCurve(b *page.Body, of []Summary, what string, y func(Point) float64) {
	c := &chart.XY{Label: what + " against arrivals, " + of[0].Trace, Height: 260,
		X: chart.Axis{Label: "arrivals, %"}, Y: chart.Axis{Label: "%"}}
	for i := range of {
		s := chart.Series{Name: of[i].Policy, Style: i}
		for _, p := range of[i].Runs[0].Curve {
			s.X, s.Y = append(s.X, 100*p.Arrived), append(s.Y, 100*y(p))
		}
		c.Series = append(c.Series, s)
	}
	b.Add("<figure><figcaption>%s, as arrivals ask for more: both in %% of all devices"+
		"</figcaption>%s</figure>\n", what, page.Draw(c))
}
