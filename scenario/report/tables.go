package report

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

// phaseTables is what the jobs got in one phase.
type phaseTables struct {
	Name, Note string
	Open       bool       // unfolded
	Classes    page.Table // in place of the jobs, where there are many
	Jobs       page.Table
}

func tables(r *scenario.Result) []phaseTables {
	var out []phaseTables
	shared := 0
	for i := range r.Phases {
		p := &r.Phases[i]
		t := phaseTables{Name: Name(*p), Jobs: jobTable(p)}
		if p.Mode == scenario.Shared {
			shared++
		}
		if p.Mode != scenario.Solo && p.ThroughputVsSolo > 0 {
			t.Note = fmt.Sprintf("total throughput %.2f of alone", p.ThroughputVsSolo)
		}
		t.Open = len(r.Phases) <= 2*maxOpen || p.Mode == scenario.Shared && shared <= maxOpen
		if len(p.Jobs) > MaxJobs {
			t.Classes = classTable(p)
		}
		out = append(out, t)
	}
	return out
}

// number returns v in that form where it says something.
func number(says bool, form string, v float64) string {
	if !says {
		return ""
	}
	return fmt.Sprintf(form, v)
}

func mib(n int64) string {
	return number(n > 0, "%.1f", float64(n)/(1<<20))
}

// comparison shows the policies side by side.
func comparison(r *scenario.Result) page.Table {
	t := page.Table{
		Caption: "The same requests arrive under each policy. Jobs that somebody waits for are " +
			"those of class latency or with a target: the worst of their p99 over p99 alone. The " +
			"others' speed over alone is the mean. Jain's index is 1 where all are slowed down " +
			"alike.",
		Heads: []string{"policy", "p99 of alone", "others' speed of alone",
			"total throughput of alone", "Jain's index", "makespan s", "mean completion s",
			"in time"}}
	for _, p := range compared(r) {
		met := ""
		if p.TargetsMet != nil {
			met = fmt.Sprintf("%.1f %%", 100**p.TargetsMet)
		}
		row := page.Row{Name: p.Policy}
		for _, v := range []float64{p.LatencyVsSolo, p.BatchVsSolo, p.ThroughputVsSolo, p.Jain,
			p.MakespanS, p.MeanCompletionS} {
			row.Cells = append(row.Cells, number(v > 0, "%.2f", v))
		}
		row.Cells = append(row.Cells, met)
		t.Rows = append(t.Rows, row)
	}
	return t
}

// askedTable shows what each job asked for.
func askedTable(r *scenario.Result) page.Table {
	t := page.Table{Caption: "What each job asked for", Left: 2, Heads: []string{"job", "class",
		"requests", "guarantee", "limit", "memory cap MiB", "kept MiB"}}
	for i := range r.Phase.Jobs {
		j := &r.Phase.Jobs[i]
		t.Rows = append(t.Rows, page.Row{Name: j.Name, Cells: []string{j.Class.String(), j.Arrival,
			number(j.Compute > 0, "%.0f %%", 100*j.Compute),
			number(j.Limit > 0 && j.Limit < 1, "%.0f %%", 100*j.Limit), mib(j.MemoryCapBytes),
			mib(j.MemoryKeptBytes)}})
	}
	return t
}

// jobTable shows what each job got in a phase.
func jobTable(p *scenario.Phase) page.Table {
	t := page.Table{Caption: Name(*p) + ": by job", Quiet: true, Heads: []string{"job",
		"device time", "share error, points", "per second", "of alone", "p50 ms", "p99 ms",
		"memory MiB", "of it shared MiB", "on device", "evicted", "found away", "away p50 ms"}}
	together := p.Mode != scenario.Solo
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if j.Error != "" {
			t.Rows = append(t.Rows, page.Row{Name: j.Name, Bad: j.Status + ": " + j.Error})
			continue
		}
		t.Rows = append(t.Rows, page.Row{Name: j.Name, Cells: []string{
			number(j.DeviceShare > 0, "%.1f %%", 100*j.DeviceShare),
			number(p.Mode == scenario.Shared, "%.1f", j.ShareErrorP95),
			number(true, "%.1f", j.IterationsPerS),
			number(together && j.SoloPerS > 0, "%.0f %%", 100*j.IterationsPerS/j.SoloPerS),
			number(j.Latency.Max > 0, "%.2f", j.Latency.P50), // nothing without an answer
			number(j.Latency.Max > 0, "%.2f", j.Latency.P99), mib(j.MemoryPeakBytes),
			mib(j.SharedBytes), number(j.WeightBytes > 0, "%.0f %%", 100*j.Resident),
			number(j.Evictions > 0, "%.0f", float64(j.Evictions)),
			number(j.Missed > 0, "%.0f", float64(j.Missed)),
			number(j.Missed > 0, "%.2f", j.MissedLatency.P50)}})
	}
	return t
}

// classTable adds the jobs of a phase up by class, in the order in which the classes first come.
func classTable(p *scenario.Phase) page.Table {
	var classes []share.Class
	for i := range p.Jobs {
		if c := p.Jobs[i].Class; !slices.Contains(classes, c) {
			classes = append(classes, c)
		}
	}
	t := page.Table{Caption: Name(*p) + ": by class", Quiet: true, Heads: []string{"class", "jobs",
		"not done", "device time", "per second", "slowest, of alone", "worst p99 ms",
		"memory MiB"}}
	for _, c := range classes {
		t.Rows = append(t.Rows, classRow(p, c))
	}
	return t
}

func classRow(p *scenario.Phase, c share.Class) page.Row {
	jobs, failed := 0, 0
	device, perS, slowest, p99 := 0.0, 0.0, 0.0, 0.0
	var held []scenario.JobResult
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if j.Class != c {
			continue
		}
		jobs++
		if j.Error != "" {
			failed++
			continue
		}
		device, perS, p99 = device+j.DeviceShare, perS+j.IterationsPerS, max(p99, j.Latency.P99)
		held = append(held, *j)
		if j.SoloPerS > 0 && (slowest == 0 || j.IterationsPerS/j.SoloPerS < slowest) {
			slowest = j.IterationsPerS / j.SoloPerS
		}
	}
	return page.Row{Name: c.String(), Cells: []string{fmt.Sprint(jobs),
		number(failed > 0, "%.0f", float64(failed)), number(device > 0, "%.1f %%", 100*device),
		number(true, "%.1f", perS),
		number(p.Mode != scenario.Solo && slowest > 0, "%.0f %%", 100*slowest),
		number(p99 > 0, "%.2f", p99), mib(scenario.Held(held))}}
}
