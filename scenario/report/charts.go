package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/scenario"
)

// tradeOff draws where each policy lies between those who wait and those who work, "" where there
// are not several to compare.
func tradeOff(r *scenario.Result) page.HTML {
	c := chart.XY{Label: "Policies by the p99 of waiting jobs and the speed of the others",
		X:      chart.Axis{Label: "p99 over alone", Log: true, Min: math.Inf(1)},
		Y:      chart.Axis{Label: "others' speed over alone", Min: math.Inf(1)},
		Height: 300}
	for i := range compared(r) {
		p := &r.Results[i]
		if p.LatencyVsSolo <= 0 || p.BatchVsSolo <= 0 {
			continue
		}
		style := slices.IndexFunc(r.Phases, func(o scenario.Phase) bool { // as in other charts
			return o.Mode == scenario.Shared && o.Policy == p.Policy
		})
		c.Series = append(c.Series, chart.Series{Style: max(style, 0), Points: true,
			X: []float64{p.LatencyVsSolo}, Y: []float64{p.BatchVsSolo}, Names: []string{p.Policy},
			Tips: []string{fmt.Sprintf("%s: p99 %.2f of alone, others %.2f of alone", p.Policy,
				p.LatencyVsSolo, p.BatchVsSolo)}})
		c.X.Min, c.X.Max = min(c.X.Min, p.LatencyVsSolo), max(c.X.Max, p.LatencyVsSolo)
		c.Y.Min, c.Y.Max = min(c.Y.Min, p.BatchVsSolo), max(c.Y.Max, p.BatchVsSolo)
	}
	if len(c.Series) == 0 {
		return ""
	}
	c.X.Min, c.X.Max = c.X.Min/1.15, c.X.Max*1.15
	room := max(0.02, 0.12*(c.Y.Max-c.Y.Min))
	c.Y.Min, c.Y.Max = max(0, c.Y.Min-room), c.Y.Max+room
	return page.Draw(&c)
}

// scriptData is what the page's script draws timelines of.
type scriptData struct {
	Jobs      []string   `json:"jobs"`
	Timelines []timeline `json:"timelines"`
}

type timeline struct {
	End   float64      `json:"end"`   // ms
	Shown float64      `json:"shown"` // ms from the start, as drawn in the page
	Rows  []int        `json:"rows"`  // of each job
	Holds [][5]float64 `json:"holds"` // job, from ms, to ms, revoked, part of the units
}

// timelines draws the start of each phase under a policy, and returns what the script draws the
// rest of.
func timelines(r *scenario.Result) ([]figure, scriptData) {
	var d scriptData
	for _, j := range r.Phase.Jobs {
		d.Jobs = append(d.Jobs, j.Name)
	}
	var figures []figure
	for i := range r.Results {
		p := &r.Results[i]
		if len(p.Holds) == 0 {
			continue
		}
		t := newTimeline(p, MaxHolds/len(r.Results))
		f := figure{Name: Name(*p), Note: fmt.Sprintf("%d leases", len(p.Holds)),
			Open: i < maxOpen, Index: len(figures)}
		if len(t.Holds) < len(p.Holds) {
			f.Note = fmt.Sprintf("first %d of %d leases", len(t.Holds), len(p.Holds))
		}
		f.Chart = page.Draw(t.chart(p))
		figures, d.Timelines = append(figures, f), append(d.Timelines, t)
	}
	return figures, d
}

// Bounds of what a timeline shows at first: the first second, but neither a handful of leases nor
// more than there are pixels.
const (
	firstMS    = 1000.0
	fewHolds   = 60
	drawnHolds = 600
)

func newTimeline(p *scenario.Phase, most int) timeline {
	t := timeline{Rows: rowsOf(p)}
	for _, h := range p.Holds[:min(len(p.Holds), most)] {
		revoked := 0.0
		if h.Revoked {
			revoked = 1
		}
		t.Holds = append(t.Holds, [5]float64{float64(h.Job), micro(ms(h.From)), micro(ms(h.To)),
			revoked, micro(h.Fraction)})
		t.End = max(t.End, ms(h.To))
	}
	few := t.Holds[min(len(t.Holds), fewHolds)-1][2]
	many := t.Holds[min(len(t.Holds), drawnHolds)-1][2]
	t.Shown = min(t.End, many, max(firstMS, few))
	return t
}

// micro rounds to a millionth: more digits only make the page longer.
func micro(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// rowsOf returns the row of each job: of its own for those that held most of the device, in their
// order, and the last for the others together.
func rowsOf(p *scenario.Phase) []int {
	byTime := make([]int, len(p.Jobs))
	for i := range byTime {
		byTime[i] = i
	}
	slices.SortStableFunc(byTime, func(a, b int) int {
		return cmp.Compare(p.Jobs[b].DeviceSeconds, p.Jobs[a].DeviceSeconds)
	})
	own := len(byTime)
	if own > MaxJobs {
		own = MaxJobs - 1
	}
	rows := make([]int, len(p.Jobs))
	for i := range rows {
		rows[i] = own
	}
	for row, i := range slices.Sorted(slices.Values(byTime[:own])) {
		rows[i] = row
	}
	return rows
}

// chart returns the drawing of what is shown at first.
func (t *timeline) chart(p *scenario.Phase) *chart.Rows {
	c := &chart.Rows{Label: "Timeline of who held the device: " + Name(*p),
		X: chart.Axis{Max: t.Shown, Format: func(v float64) string {
			return chart.Number(v/1000) + " s"
		}}}
	c.Rows = make([]chart.Row, slices.Max(t.Rows)+1)
	jobs := make([]int, len(c.Rows))
	for i, row := range t.Rows {
		jobs[row]++
		c.Rows[row] = chart.Row{Name: p.Jobs[i].Name, Style: row, Bars: []chart.Bar{}}
		if jobs[row] > 1 {
			c.Rows[row].Name = fmt.Sprintf("%d others", jobs[row])
		}
	}
	for _, h := range t.Holds {
		if h[1] < t.Shown {
			row := &c.Rows[t.Rows[int(h[0])]]
			row.Bars = append(row.Bars, chart.Bar{From: h[1], To: h[2], Height: h[4],
				Mark: h[3] > 0})
		}
	}
	return c
}

// maxMemory is how many jobs' memory is drawn one by one.
const maxMemory = 7

// memory draws what each job held in each phase under a policy.
func memory(r *scenario.Result) []figure {
	var figures []figure
	for i := range r.Results {
		if p := &r.Results[i]; len(p.Memory) > 0 {
			figures = append(figures, figure{Name: Name(*p), Open: i < maxOpen,
				Chart: page.Draw(memoryChart(p))})
		}
	}
	return figures
}

func memoryChart(p *scenario.Phase) *chart.XY {
	peak := make([]float64, len(p.Jobs))
	most := 0.0
	for _, s := range p.Memory {
		for i, b := range s.Held {
			peak[i] = max(peak[i], float64(b))
			most = max(most, peak[i])
		}
	}
	unit, name := float64(1<<20), "MiB"
	if most >= 4<<30 {
		unit, name = 1<<30, "GiB"
	}
	c := &chart.XY{Label: "Memory held by each job: " + Name(*p), Height: 190,
		X: chart.Axis{Label: "s"}, Y: chart.Axis{Label: name}}
	for style, jobs := range byMemory(peak) {
		s := chart.Series{Name: p.Jobs[jobs[0]].Name, Style: style, Steps: true}
		if len(jobs) > 1 {
			s.Name = fmt.Sprintf("%d others", len(jobs))
		}
		for _, span := range p.Memory {
			sum := 0.0
			for _, i := range jobs {
				sum += float64(span.Held[i]) / unit
			}
			s.X, s.Y = append(s.X, span.At.Seconds()), append(s.Y, sum)
			c.X.Max, c.Y.Max = max(c.X.Max, span.At.Seconds()), max(c.Y.Max, sum)
		}
		c.Series = append(c.Series, s)
		bound := float64(p.Jobs[jobs[0]].MemoryCapBytes) / unit
		if len(jobs) == 1 && bound > 0 && bound <= 2*most/unit {
			c.Series = append(c.Series, chart.Series{Name: "its cap", Style: style, Faint: true,
				X: []float64{0, math.Inf(1)}, Y: []float64{bound, bound}})
			c.Y.Max = max(c.Y.Max, bound)
		}
	}
	for i := range c.Series {
		if s := &c.Series[i]; s.Faint {
			s.X[1] = c.X.Max
		}
	}
	c.Y.Max *= 1.05
	return c
}

// byMemory returns the jobs of each line: one of those that held most, in their order, and the last
// for the others together.
func byMemory(peak []float64) [][]int {
	order := make([]int, len(peak))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(peak[b], peak[a]) })
	own := len(order)
	if own > maxMemory+1 {
		own = maxMemory
	}
	var lines [][]int
	for _, i := range slices.Sorted(slices.Values(order[:own])) {
		lines = append(lines, []int{i})
	}
	if own < len(order) {
		lines = append(lines, slices.Sorted(slices.Values(order[own:])))
	}
	return lines
}
