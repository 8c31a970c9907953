package view

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/scenario"
)

// live draws a table in place.
type live struct {
	w io.Writer

	mu     sync.Mutex
	screen screen
	drawn  int // lines
	closed bool
}

// Control sequences of terminals (ECMA-48).
const (
	up         = "\x1b[%dA" // CUU
	eraseLine  = "\x1b[K"   // EL
	eraseBelow = "\x1b[J"   // ED
)

// Stage implements View.
func (v *live) Stage(what string) {
	v.draw(func(s *screen) {
		s.stages = append(s.stages, what)
		s.now = scenario.Live{}
	})
}

// Live implements View.
func (v *live) Live(l scenario.Live) { v.draw(func(s *screen) { s.now = l }) }

// Close implements View.
func (v *live) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
}

// draw shows the screen after a change, over what is shown.
func (v *live) draw(change func(*screen)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	change(&v.screen)
	v.screen.width, v.screen.color = defaultWidth, terminal.Color(v.w)
	if n := terminal.Width(v.w); n > 0 {
		v.screen.width = n
	}
	lines := v.screen.lines()
	if n := terminal.Height(v.w); n > 1 && len(lines) > n-1 { // nothing above the top is drawn over
		lines = lines[len(lines)-(n-1):]
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, up, v.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r" + terminal.Text(line) + eraseLine + "\n")
	}
	b.WriteString(eraseBelow)
	v.drawn = len(lines)
	// A terminal that cannot be drawn on costs the view, not the run.
	_, _ = io.WriteString(v.w, b.String())
}

// defaultWidth is assumed of a terminal that does not tell its own.
const defaultWidth = 80

// screen is what is drawn: the stages so far and the running phase.
type screen struct {
	stages []string
	now    scenario.Live
	width  int
	color  bool
}

// style is how text stands out (ECMA-48, SGR), "" for not at all.
type style string

const (
	faint   style = "2"
	bold    style = "1"
	warning style = "38;5;208"
)

// palette tells jobs apart. Its colours differ in lightness, too.
var palette = []style{"38;5;39", "38;5;208", "38;5;78", "38;5;170"}

// paint styles text where colours are asked for.
func (s *screen) paint(how style, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + string(how) + "m" + text + "\x1b[m"
}

// lines draws the screen; none is wider than the terminal, which would break drawing in place.
func (s *screen) lines() []string {
	var lines []string
	for i, stage := range s.stages {
		if i < len(s.stages)-1 {
			lines = append(lines, s.paint(faint, terminal.Cut("done  "+stage, s.width)))
			continue
		}
		stage = terminal.Cut(stage, s.width)
		rest := terminal.Cut(progress(s.now), s.width-terminal.Columns(stage))
		lines = append(lines, s.paint(bold, stage)+s.paint(faint, rest))
	}
	if len(s.now.Jobs) > 0 {
		lines = append(lines, s.table()...)
	}
	return lines
}

// column is one column of the table. A terminal narrower than from does without it.
type column struct {
	title string
	width int // negative: to the right
	from  int
	cell  func(j scenario.LiveJob) string
}

var columns = []column{
	{"job", 14, 0, func(j scenario.LiveJob) string { return terminal.Cut(j.Name, 14) }},
	{"class", 13, 96, func(j scenario.LiveJob) string { return j.Class.String() }},
	{"device", barWidth, 70, bar},
	{"", -5, 0, func(j scenario.LiveJob) string {
		if j.Recent < 0 {
			return ""
		}
		return fmt.Sprintf("%.0f %%", 100*j.Recent)
	}},
	{"", -1, 0, func(j scenario.LiveJob) string {
		if j.Running {
			return "▶"
		}
		return ""
	}},
	{"queue", -5, 0, func(j scenario.LiveJob) string { return fmt.Sprint(j.Queue) }},
	{"memory of cap", -20, 88, memory},
	{"p50 ms", -8, 48, func(j scenario.LiveJob) string { return latency(j, j.Latency.P50) }},
	{"p99 ms", -8, 0, func(j scenario.LiveJob) string { return latency(j, j.Latency.P99) }},
}

// row lays cells out in the columns that fit; how styles the text of one.
func (s *screen) row(cell func(c *column) string, how func(c *column, text string) string) string {
	var cells []string
	for i := range columns {
		if c := &columns[i]; s.width >= c.from {
			cells = append(cells, how(c, terminal.Pad(cell(c), c.width)))
		}
	}
	return strings.TrimRight(strings.Join(cells, " "), " ")
}

func (s *screen) table() []string {
	titles := s.row(func(c *column) string { return c.title },
		func(_ *column, text string) string { return text })
	lines := []string{s.paint(faint, terminal.Cut(titles, s.width))}
	for i, j := range s.now.Jobs {
		line := s.row(func(c *column) string { return c.cell(j) },
			func(c *column, text string) string {
				if c.title != "device" {
					return text
				}
				return s.paint(palette[i%len(palette)], text)
			})
		if s.width < narrowest {
			line = terminal.Cut(line, s.width)
		}
		lines = append(lines, line)
		if j.Place > 0 {
			lines = append(lines, s.paint(faint, terminal.Cut(waits(j), s.width)))
		}
		if j.Error != "" {
			lines = append(lines, s.paint(warning, terminal.Cut("  "+j.Error, s.width)))
		}
	}
	return lines
}

// waits says at which place a job waits, and for what.
func waits(j scenario.LiveJob) string {
	return fmt.Sprintf("  waits at place %d: %s", j.Place, j.Waits)
}

// narrowest is the width below which not even the columns that are always there fit.
const narrowest = 37

func progress(l scenario.Live) string {
	if l.Elapsed == 0 {
		return ""
	}
	if l.Window == 0 {
		return fmt.Sprintf("  %.0f s", l.Elapsed.Seconds())
	}
	return fmt.Sprintf("  %.0f of %.0f s", l.Elapsed.Seconds(), l.Window.Seconds())
}

const barWidth = 14

func bar(j scenario.LiveJob) string {
	if j.Recent < 0 {
		return "the OS decides"
	}
	n := min(barWidth, int(j.Recent*barWidth+0.5))
	return strings.Repeat("█", n) + strings.Repeat("·", barWidth-n)
}

func memory(j scenario.LiveJob) string {
	if j.Cap == 0 {
		return terminal.Size(j.Held)
	}
	held, limit := terminal.Size(j.Held), terminal.Size(j.Cap)
	if unit := limit[strings.LastIndexByte(limit, ' '):]; strings.HasSuffix(held, unit) {
		held = strings.TrimSuffix(held, unit)
	}
	return held + " of " + limit
}

func latency(j scenario.LiveJob, ms float64) string {
	if j.Iterations == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", ms)
}
