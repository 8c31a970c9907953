package report

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/scenario"
)

// maxSwitches is how many switches of a phase are listed.
const maxSwitches = 500

// residency is which weights were on the device when, in one phase.
type residency struct {
	figure
	Told     string // of the switches
	Switches page.Table
}

// residencies draws the phases in which weights may leave the device.
func residencies(r *scenario.Result) []residency {
	var out []residency
	for i := range r.Results {
		p := &r.Results[i]
		c := &chart.Rows{Label: "Weights on the device: " + Name(*p),
			X: chart.Axis{Max: ms(p.Wall), Format: func(v float64) string {
				return chart.Number(v/1000) + " s"
			}}}
		for k := range p.Jobs {
			if j := &p.Jobs[k]; len(j.Residency) > 0 {
				c.Rows = append(c.Rows, chart.Row{Name: j.Name, Style: len(c.Rows),
					Bars: residencyBars(p, j)})
			}
		}
		if len(c.Rows) == 0 {
			continue
		}
		n := len(p.Switches)
		f := residency{figure: figure{Name: Name(*p), Open: i < maxOpen, Chart: page.Draw(c),
			Note: fmt.Sprintf("%d switches by the rule %s", n, p.Eviction)},
			Told: fmt.Sprintf("All %d switches", n), Switches: switchTable(p)}
		if listed := len(f.Switches.Rows); listed < n {
			f.Told = fmt.Sprintf("The first %d of %d switches", listed, n)
		}
		out = append(out, f)
	}
	return out
}

// maxBars bounds the bars of a row: more would be narrower than a pixel.
const maxBars = 600

// residencyBars are the times in which some of a job's weights were on the device. Of many, the
// mean over equal parts of the phase is shown.
func residencyBars(p *scenario.Phase, j *scenario.JobResult) []chart.Bar {
	bars := []chart.Bar{}
	if len(j.Residency) > maxBars {
		for i := range maxBars {
			from, to := p.Wall*time.Duration(i)/maxBars, p.Wall*time.Duration(i+1)/maxBars
			if part := j.MeanResidency(from, to); part > 0 {
				bars = append(bars, chart.Bar{From: ms(from), To: ms(to), Height: part})
			}
		}
		return bars
	}
	for i, r := range j.Residency {
		end := p.Wall
		if i+1 < len(j.Residency) {
			end = j.Residency[i+1].From
		}
		if r.Fraction > 0 {
			bars = append(bars, chart.Bar{From: ms(r.From), To: ms(end), Height: r.Fraction})
		}
	}
	return bars
}

// switchTable lists what left and came.
func switchTable(p *scenario.Phase) page.Table {
	t := page.Table{Caption: "Weights that left the device and came back", Quiet: true,
		Heads: []string{"after s", "job", "left MiB", "came MiB", "of it on the device MiB"},
		Left:  1}
	for _, s := range p.Switches[:min(len(p.Switches), maxSwitches)] {
		t.Rows = append(t.Rows, page.Row{Name: fmt.Sprintf("%.4f", s.AtS), Cells: []string{s.Job,
			mib(-s.Bytes), mib(s.Bytes), fmt.Sprintf("%.1f", float64(s.Resident)/(1<<20))}})
	}
	return t
}
