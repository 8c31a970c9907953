package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/scenario"
)

// stripWidth is how many columns show a phase from its begin to its end.
const stripWidth = 32

// printResidency shows which weights were on the device when, of phases whose jobs have its memory
// in turn.
func printResidency(w io.Writer, phases []scenario.Phase) {
	t := table{{"on the device when", "", "weights", "kept", "on device", "evicted", "requests",
		"found away", "p50 ms", "away p50 ms"}}
	for i := range phases {
		p := &phases[i]
		if rows := residencyRows(p); len(rows) > 0 {
			t = append(append(t, []string{switchesHeading(p)}), rows...)
		}
	}
	if len(t) > 1 {
		fmt.Fprintln(w)
		t.print(w)
	}
}

// switchesHeading says how often weights came back in a phase.
func switchesHeading(p *scenario.Phase) string {
	var requests, missed int64
	for i := range p.Jobs {
		j := &p.Jobs[i]
		requests, missed = requests+j.Iterations, missed+j.Missed
	}
	weights, returned := scenario.Weights(p.Jobs)
	return fmt.Sprintf("%s: weights of %s, %d of %d requests found some away, %s came back",
		phaseName(p), terminal.Size(weights), missed, requests, terminal.Size(returned))
}

func residencyRows(p *scenario.Phase) (rows [][]string) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if j.WeightBytes == 0 {
			continue
		}
		row := []string{"  " + j.Name, strip(p, j), terminal.Size(j.WeightBytes),
			terminal.Size(j.MemoryKeptBytes), fmt.Sprintf("%.0f %%", 100*j.Resident),
			fmt.Sprint(j.Evictions), fmt.Sprint(j.Iterations), fmt.Sprint(j.Missed), "", ""}
		if j.Iterations > 0 {
			row[8] = figure(j.Latency.P50)
		}
		if j.Missed > 0 {
			row[9] = figure(j.MissedLatency.P50)
		}
		rows = append(rows, row)
	}
	return rows
}

// strip draws which part of a job's weights was on the device in each part of a phase: a full block
// for all of them all the time, a dot for none.
func strip(p *scenario.Phase, j *scenario.JobResult) string {
	var b strings.Builder
	for i := range stripWidth {
		from, to := p.Wall*time.Duration(i)/stripWidth, p.Wall*time.Duration(i+1)/stripWidth
		b.WriteRune([]rune("·░▒▓█")[level(j.MeanResidency(from, to))])
	}
	return b.String()
}

// level is 0 for nothing, 4 for all, and between for what is between.
func level(part float64) int {
	switch {
	case part <= 0:
		return 0
	case part >= 1:
		return 4
	}
	return 1 + min(2, int(3*part))
}
