package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

// phaseName names a phase for people.
func phaseName(p *scenario.Phase) string {
	switch p.Mode {
	case scenario.Shared:
		return "weir, policy " + p.Policy
	case scenario.Threads:
		return "the OS, goroutine pools"
	case scenario.Processes:
		return "the OS, processes"
	}
	return "each job alone"
}

// printResult prints the table of a result and what it shows.
func printResult(w io.Writer, res *scenario.Result) {
	printPhases(w, res.Phases)
	printResidency(w, res.Phases)
	printComparison(w, res)
	if len(res.Results) > 3 {
		return // sentences with more figures than that say less than the table
	}
	for _, line := range explain(res.Phases) {
		fmt.Fprintf(w, "\n%s\n", terminal.Wrap(line, textWidth(w)))
	}
}

// table is text in columns, the first two to the left, the numbers to the right. A row of one cell
// is a heading.
type table [][]string

var phaseColumns = []string{
	"",
	"class",
	"promised",
	"device",
	"per s",
	"of alone",
	"p50 ms",
	"p99 ms",
	"memory",
	// by how much it was wrong; what became of a job that is not done, or how long it waited
	"forecast",
}

func printPhases(w io.Writer, phases []scenario.Phase) {
	t := table{phaseColumns}
	for i := range phases {
		p := &phases[i]
		heading := phaseName(p)
		if p.ThroughputVsSolo > 0 && p.Mode != scenario.Solo {
			heading += fmt.Sprintf(": total throughput %.2f of alone", p.ThroughputVsSolo)
		}
		t = append(t, []string{heading})
		for k := range p.Jobs {
			t = append(t, jobRow(p, &p.Jobs[k]))
		}
	}
	t.print(w)
}

func jobRow(p *scenario.Phase, j *scenario.JobResult) []string {
	row := []string{"  " + j.Name, j.Class.String(), promised(j), "", "", "", "", "", "", ""}
	switch {
	case j.Status != scenario.StatusDone:
		row[9] = j.Status
	case j.WaitedS > 0:
		row[9] = fmt.Sprintf("waited %s s", figure(j.WaitedS))
	case j.ForecastError > 0:
		row[9] = fmt.Sprintf("%.0f %% off", 100*j.ForecastError)
	}
	if j.Iterations == 0 {
		return row
	}
	if p.Mode == scenario.Shared || p.Mode == scenario.Solo {
		row[3] = fmt.Sprintf("%.0f %%", 100*j.DeviceShare)
	}
	row[4] = figure(j.IterationsPerS)
	if j.SoloPerS > 0 && p.Mode != scenario.Solo {
		row[5] = fmt.Sprintf("%.0f %%", 100*j.IterationsPerS/j.SoloPerS)
	}
	row[6], row[7] = figure(j.Latency.P50), figure(j.Latency.P99)
	if row[8] = terminal.Size(j.MemoryPeakBytes); j.SharedBytes > 0 {
		row[8] += ", " + terminal.Size(j.SharedBytes) + " shared"
	}
	return row
}

// promised shows a job's guarantee and its limit.
func promised(j *scenario.JobResult) string {
	guarantee := j.Compute > 0 && j.Class != share.Opportunistic
	limit := j.Limit > 0 && j.Limit < 1
	switch {
	case guarantee && limit:
		return fmt.Sprintf("%.0f-%.0f %%", 100*j.Compute, 100*j.Limit)
	case guarantee:
		return fmt.Sprintf("%.0f %%", 100*j.Compute)
	case limit:
		return fmt.Sprintf("0-%.0f %%", 100*j.Limit)
	}
	return ""
}

// figure shows three digits and more of a number where they are.
func figure(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// print writes the table. Where lines are too short, it comes in blocks, one below the other: each
// has the first column and as many of the others as fit, and no figure is broken.
func (t table) print(w io.Writer) { t.write(w, terminal.Width(w)) }

// write is print for lines of so many columns, 0 for any.
func (t table) write(w io.Writer, most int) {
	widths := t.widths()
	if most == 0 {
		most = math.MaxInt
	}
	others := 0
	for _, n := range widths[1:] {
		others += len(gap) + n
	}
	widths[0] = min(widths[0], max(most-others, most/3, 8))
	for from := 1; ; {
		to, used := from, widths[0]
		for to < len(widths) && (to == from || used+len(gap)+widths[to] <= most) {
			used += len(gap) + widths[to]
			to++
		}
		t.printBlock(w, widths, from, to, most)
		if from = to; from >= len(widths) {
			return
		}
		fmt.Fprintln(w)
	}
}

// widths are those of the columns. Cells that nobody vouches for lose what a terminal would obey.
func (t table) widths() []int {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			cell = terminal.Plain(cell) // names may come from anybody
			row[i] = cell
			if len(row) > 1 {
				widths[i] = max(widths[i], terminal.Columns(cell))
			}
		}
	}
	return widths
}

const gap = "  " // between columns

// printBlock writes the first column and those from one to another.
func (t table) printBlock(w io.Writer, widths []int, from, to, most int) {
	for _, row := range t {
		if len(row) == 1 {
			fmt.Fprintln(w, terminal.Text(terminal.Wrap(row[0], most)))
			continue
		}
		cells := []string{terminal.Pad(terminal.Cut(row[0], widths[0]), widths[0])}
		for i := from; i < to; i++ {
			width := -min(widths[i], most-widths[0]-len(gap))
			cell := terminal.Cut(row[i], -width)
			if i == 1 {
				width = -width
			}
			cells = append(cells, terminal.Pad(cell, width))
		}
		fmt.Fprintln(w, terminal.Text(strings.TrimRight(strings.Join(cells, gap), " ")))
	}
}

// explain says in two lines what the phases show: how long the most urgent job's requests take, and
// what is left for the least urgent one. It says nothing of one job.
func explain(phases []scenario.Phase) []string {
	last := &phases[len(phases)-1]
	urgent, patient := -1, -1
	for i, j := range last.Jobs {
		if j.Class == share.Latency && urgent < 0 {
			urgent = i
		}
		if j.Class == share.Opportunistic && patient < 0 {
			patient = i
		}
	}
	var lines []string
	if urgent >= 0 && len(last.Jobs) > 1 {
		lines = append(lines, acrossPhases(phases, urgent, "answers 99 of 100 requests within",
			func(_ *scenario.Phase, j *scenario.JobResult) string {
				return figure(j.Latency.P99) + " ms"
			}))
	}
	if patient >= 0 && len(last.Jobs) > 1 && last.Jobs[patient].SoloPerS > 0 {
		lines = append(lines, acrossPhases(phases, patient, "meanwhile runs, against alone, at",
			soloFraction))
	}
	return lines
}

// soloFraction is a job's throughput in a phase against alone, "" for the phase in which it is.
func soloFraction(p *scenario.Phase, j *scenario.JobResult) string {
	if p.Mode == scenario.Solo {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*j.IterationsPerS/j.SoloPerS)
}

// acrossPhases is one sentence about one job, a figure a phase; phases in which the job did nothing
// are left out.
func acrossPhases(phases []scenario.Phase, job int, verb string,
	value func(*scenario.Phase, *scenario.JobResult) string) string {
	name := phases[len(phases)-1].Jobs[job].Name
	where := map[scenario.Mode]string{
		scenario.Solo:      "alone",
		scenario.Threads:   "as goroutine pools under the OS",
		scenario.Processes: "as processes under the OS",
	}
	var parts []string
	for i := range phases {
		p := &phases[i]
		text := ""
		if j := &p.Jobs[job]; j.Iterations > 0 {
			text = value(p, j)
		}
		if text == "" {
			continue
		}
		place := where[p.Mode]
		if place == "" {
			place = "under weir's " + p.Policy
		}
		parts = append(parts, text+" "+place)
	}
	return fmt.Sprintf("%s %s %s.", name, verb, strings.Join(parts, ", "))
}
