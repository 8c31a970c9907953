package report

import (
	_ "embed"
	"io"
	"time"

	"github.com/weirgpu/weir/internal/page"
	"github.com/weirgpu/weir/scenario"
)

//go:embed timeline.js
var script string

// Bounds of a page.
const (
	// MaxHolds bounds the intervals of all timelines together, of which each has as many.
	MaxHolds = 20000
	// MaxJobs is how many jobs are shown one by one in charts and in open tables.
	MaxJobs = 12
	// maxOpen is how many phases are unfolded where there are more of them.
	maxOpen = 2
)

// Head says what the page is about.
type Head struct {
	Title   string
	Intro   string   // one paragraph for a person who has not seen weir
	Command string   // the command that makes such a page
	Notes   []string // what to look at
	When    time.Time
}

// Write writes the page. The error is the writer's.
func Write(w io.Writer, h Head, r *scenario.Result) error {
	lines, data := timelines(r)
	p := page.Page{Title: h.Title, Script: script, JSON: data, Body: func(b *page.Body) {
		h.body(b, r)
		compare(b, r)
		latencies(b, r)
		got(b, r)
		held(b, lines)
		inMemory(b, memory(r))
		weights(b, residencies(r))
	}}
	return p.Write(w)
}

// figure is a drawn chart with what is said above it.
type figure struct {
	Name  string
	Note  string
	Open  bool
	Index int // of its data, for the script
	Chart page.HTML
}

// compared returns the phases to show side by side, none where there is only one.
func compared(r *scenario.Result) []scenario.Phase {
	if len(r.Results) < 2 {
		return nil
	}
	return r.Results
}

// shortName names a phase in a chart.
func shortName(p *scenario.Phase) string {
	switch p.Mode {
	case scenario.Shared:
		return "weir, " + p.Policy
	case scenario.Threads:
		return "OS, pools"
	case scenario.Processes:
		return "OS, processes"
	}
	return "alone"
}

// Name names a phase for people.
func Name(p scenario.Phase) string {
	switch p.Mode {
	case scenario.Shared:
		return "weir, policy " + p.Policy
	case scenario.Threads:
		return "operating system, goroutine pools"
	case scenario.Processes:
		return "operating system, processes (nice 0 and 19)"
	}
	return "each job alone"
}
