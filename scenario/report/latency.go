package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/chart"
	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

// percentilePoints is at how many percentiles a curve is drawn.
const percentilePoints = 160

// percentileTicks are the percentiles that have a mark, by the part of requests that are slower.
var percentileTicks = []struct {
	slower float64
	text   string
}{{1, "0 %"}, {0.5, "50 %"}, {0.1, "90 %"}, {0.01, "99 %"}, {0.001, "99.9 %"},
	{0.0001, "99.99 %"}, {0.00001, "99.999 %"}}

// awaited returns the jobs that somebody waits for and that answered requests, or all that did
// where nobody waits for any.
func awaited(r *scenario.Result) []int {
	var all, waiting []int
	for i := range r.Phase.Jobs {
		j := &r.Phase.Jobs[i]
		if !slices.ContainsFunc(r.Phases, func(p scenario.Phase) bool {
			return len(p.Jobs[i].Latencies) > 0
		}) {
			continue
		}
		all = append(all, i)
		if j.Class == share.Latency || j.TargetMS > 0 {
			waiting = append(waiting, i)
		}
	}
	if len(waiting) > 0 {
		return waiting
	}
	return all
}

// percentiles draws the latencies of the jobs that somebody waits for, a curve a phase. One job's
// are in milliseconds, those of several in parts of the median that each has when alone, where all
// have one.
func percentiles(r *scenario.Result) figure {
	jobs := awaited(r)
	if len(jobs) == 0 {
		return figure{}
	}
	c := chart.XY{Label: "Latency by percentile, a line for each way to share",
		X: chart.Axis{Label: "part of the requests"}, Y: chart.Axis{Label: "ms", Log: true},
		Height: 300}
	unit := make([]float64, len(jobs)) // ms
	relative := len(jobs) > 1
	for k, i := range jobs {
		relative = relative && r.Phase.Jobs[i].SoloLatency.P50 > 0
		unit[k] = 1
	}
	f := figure{Note: fmt.Sprintf("Within how many ms requests to %s were answered, and what part "+
		"of them: the right end is the slowest.", whose(r, jobs))}
	if relative {
		for k, i := range jobs {
			unit[k] = r.Phase.Jobs[i].SoloLatency.P50
		}
		c.Y.Label = "times the median alone"
		f.Note = fmt.Sprintf("How long requests to %s took, in times of what the median request "+
			"to the same job takes when it is alone: the right end is the slowest.", whose(r, jobs))
	}
	c.Y.Min, c.Y.Max = math.Inf(1), 0
	for n := range r.Phases {
		p := &r.Phases[n]
		var all []float64
		for k, i := range jobs {
			for _, d := range p.Jobs[i].Latencies {
				all = append(all, ms(max(d, 1))/unit[k])
			}
		}
		s := curve(all)
		s.Name, s.Style = shortName(p), n
		for _, v := range s.Y {
			c.Y.Min, c.Y.Max = min(c.Y.Min, v), max(c.Y.Max, v)
		}
		c.X.Max = max(c.X.Max, math.Log10(float64(max(len(all), 1))))
		c.Series = append(c.Series, s)
	}
	for _, t := range percentileTicks {
		if at := -math.Log10(t.slower); at <= c.X.Max || len(c.X.Ticks) < 2 {
			c.X.Ticks = append(c.X.Ticks, chart.Tick{At: at, Text: t.text})
		}
	}
	f.Chart = page.Draw(&c)
	return f
}

// whose names the jobs that a figure is about.
func whose(r *scenario.Result, jobs []int) string {
	if len(jobs) == 1 {
		return chart.Short(r.Phase.Jobs[jobs[0]].Name, page.NameLength)
	}
	return fmt.Sprintf("%d jobs", len(jobs))
}

// curve returns the percentiles of values, by nearest rank, over the decimal logarithm of how many
// requests one slower comes to: 1 for 90 %, 2 for 99 %.
func curve(values []float64) chart.Series {
	slices.Sort(values)
	var s chart.Series
	end := math.Log10(float64(len(values)))
	for k := range percentilePoints {
		if len(values) == 0 {
			break
		}
		u := end * float64(k) / (percentilePoints - 1)
		rank := int(math.Ceil((1 - math.Pow(10, -u)) * float64(len(values))))
		if k == percentilePoints-1 {
			rank = len(values)
		}
		s.X, s.Y = append(s.X, u), append(s.Y, values[max(rank, 1)-1])
	}
	return s
}

// maxRanges bounds the rows of the chart of ranges.
const maxRanges = 48

// ranges draws, for each job, the latencies in every phase.
func ranges(r *scenario.Result) figure {
	jobs := worstFirst(r)
	all := len(jobs)
	shown := min(all, MaxJobs, max(2, maxRanges/max(1, len(r.Phases))))
	jobs = slices.Sorted(slices.Values(jobs[:shown]))
	c := chart.Rows{Label: "Latency of each job: least, median, 99th percentile and most",
		X: chart.Axis{Label: "ms", Log: true, Min: math.Inf(1)}}
	for _, i := range jobs {
		c.Rows = append(c.Rows, chart.Row{Name: r.Phase.Jobs[i].Name})
		for n := range r.Phases {
			p := &r.Phases[n]
			j := &p.Jobs[i]
			if len(j.Latencies) == 0 {
				continue
			}
			least := ms(max(slices.Min(j.Latencies), 1))
			d := chart.Range{Least: least, Low: j.Latency.P50, High: j.Latency.P99,
				Most: j.Latency.Max, Tip: fmt.Sprintf("p50 %s, p99 %s, most %s ms",
					chart.Number(j.Latency.P50), chart.Number(j.Latency.P99),
					chart.Number(j.Latency.Max))}
			c.X.Min, c.X.Max = min(c.X.Min, least), max(c.X.Max, d.Most)
			c.Rows = append(c.Rows, chart.Row{Name: shortName(p), Style: n, Range: &d,
				Note: "p99 " + chart.Number(d.High)})
		}
	}
	f := figure{Note: "Job by job: the thick line goes from the median to the 99th percentile, " +
		"the thin one from the fastest to the slowest request."}
	if shown < all {
		f.Note += fmt.Sprintf(" Of %d jobs, the %d whose 99th percentile grows most; the others "+
			"are in the tables.", all, shown)
	}
	if len(jobs) > 0 {
		f.Chart = page.Draw(&c)
	}
	return f
}

// worstFirst returns the jobs that answered requests, those first that somebody waits for, and
// among them those whose p99 over the least of it grows most.
func worstFirst(r *scenario.Result) []int {
	waits := make([]bool, len(r.Phase.Jobs))
	for _, i := range awaited(r) {
		waits[i] = true
	}
	growth := make([]float64, len(r.Phase.Jobs))
	var jobs []int
	for i := range r.Phase.Jobs {
		least, most := math.Inf(1), 0.0
		for n := range r.Phases {
			if j := &r.Phases[n].Jobs[i]; len(j.Latencies) > 0 {
				least, most = min(least, j.Latency.P99), max(most, j.Latency.P99)
			}
		}
		if most > 0 {
			growth[i] = most / least
			jobs = append(jobs, i)
		}
	}
	slices.SortStableFunc(jobs, func(a, b int) int {
		if waits[a] != waits[b] {
			if waits[a] {
				return -1
			}
			return 1
		}
		return cmp.Compare(growth[b], growth[a])
	})
	return jobs
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
