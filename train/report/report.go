// Package report writes the page of a training run.
//
// Meet first: [Write].
//
// Concurrency: nothing here has state.
//
// What it refuses: nothing; a run without evaluations is shown without them.
package report

import (
	"fmt"
	"io"
	"math"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/train"
)

// Write writes a page of a run under a title. The error is the writer's.
func Write(w io.Writer, title string, r *train.Result) error {
	p := page.Page{Title: title, Body: func(b *page.Body) {
		b.Add("<h1>%s</h1>\n<p>%s</p>\n", title, summary(r))
		figure(b, "Loss", "mean of the batches of an update, and of the samples that training "+
			"does not see", losses(r))
		if r.MetricName != "" {
			figure(b, r.MetricName, "of the samples that training does not see", metric(r))
		}
		if len(r.Idle) > 0 {
			figure(b, "Device idle", "part of the time of an update for which the device waited "+
				"for data", idle(r))
		}
		b.Table(table(r))
	}}
	return p.Write(w)
}

// summary is a run in one sentence.
func summary(r *train.Result) string {
	text := fmt.Sprintf("%d updates in %.1f s on %d threads, %.2f ms each (%.0f samples per "+
		"second, the device idle for data %.1f %% of the time); %s of arenas beside %s of state. "+
		"Loss %.4g",
		r.Steps, r.Seconds, r.Threads, r.StepMS, r.SamplesPerS, 100*r.DataWaitShare,
		terminal.Size(r.ArenaBytes), terminal.Size(r.StateBytes), r.Loss)
	if r.MetricName != "" {
		text += fmt.Sprintf(", %s %.2f %%", r.MetricName, 100*r.Metric)
	}
	return text + ". Digest " + r.Digest + "."
}

func figure(b *page.Body, name, note string, c *chart.XY) {
	b.Add("<figure>\n<figcaption>%s: %s</figcaption>\n%s\n</figure>\n", name, note, page.Draw(c))
}

// losses draws the loss of updates and evaluations.
func losses(r *train.Result) *chart.XY {
	c := &chart.XY{Label: "Loss by update", Height: 260,
		X: chart.Axis{Label: "update"}, Y: chart.Axis{Label: "loss", Log: true}}
	stride := float64(max(r.Curve.Stride, 1))
	trained := chart.Series{Name: "training"}
	for i, v := range r.Curve.Losses {
		trained.X = append(trained.X, float64(i+1)*stride)
		trained.Y = append(trained.Y, v)
	}
	tried := chart.Series{Name: "evaluation", Style: 1}
	for _, p := range r.Points {
		if p.Eval != nil {
			tried.X, tried.Y = append(tried.X, float64(p.Update)), append(tried.Y, p.Eval.Loss)
		}
	}
	c.Series = append(c.Series, trained)
	if len(tried.X) > 0 {
		c.Series = append(c.Series, tried)
	}
	span(c)
	return c
}

// metric draws the metric of evaluations.
func metric(r *train.Result) *chart.XY {
	c := &chart.XY{Label: r.MetricName + " by update", Height: 200,
		X: chart.Axis{Label: "update"}, Y: chart.Axis{Label: r.MetricName}}
	s := chart.Series{Name: r.MetricName}
	for _, p := range r.Points {
		if p.Eval != nil {
			s.X, s.Y = append(s.X, float64(p.Update)), append(s.Y, p.Eval.Metric)
		}
	}
	c.Series = []chart.Series{s}
	span(c)
	return c
}

// idle draws the part of each update for which the device was idle.
func idle(r *train.Result) *chart.XY {
	c := &chart.XY{Label: "Device idle by update", Height: 160,
		X: chart.Axis{Label: "update"}, Y: chart.Axis{Label: "part of the time"}}
	s := chart.Series{Name: "waiting for data"}
	for i, v := range r.Idle {
		s.X = append(s.X, float64(i+1)*float64(max(r.Curve.Stride, 1)))
		s.Y = append(s.Y, v)
	}
	c.Series = []chart.Series{s}
	span(c)
	c.Y.Min, c.Y.Max = 0, max(c.Y.Max, 0.01)
	return c
}

// span sets the axes to what is drawn.
func span(c *chart.XY) {
	c.X.Min, c.Y.Min = 0, math.Inf(1)
	for i := range c.Series {
		s := &c.Series[i]
		for k := range s.X {
			c.X.Max = max(c.X.Max, s.X[k])
			if y := s.Y[k]; !c.Y.Log || y > 0 {
				c.Y.Min, c.Y.Max = min(c.Y.Min, y), max(c.Y.Max, y)
			}
		}
	}
	if c.Y.Log {
		c.Y.Min, c.Y.Max = c.Y.Min/1.2, c.Y.Max*1.2
	}
}

// table lists the epochs.
func table(r *train.Result) page.Table {
	t := page.Table{Caption: "Epochs", Heads: []string{"epoch", "updates", "loss",
		"evaluation loss", r.MetricName}}
	for _, p := range r.Points {
		row := page.Row{Name: fmt.Sprint(p.Epoch), Cells: []string{fmt.Sprint(p.Update),
			fmt.Sprintf("%.4g", p.Loss), "", ""}}
		if p.Eval != nil {
			row.Cells[2] = fmt.Sprintf("%.4g", p.Eval.Loss)
			if p.Eval.Name != "" {
				row.Cells[3] = fmt.Sprintf("%.2f %%", 100*p.Eval.Metric)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
