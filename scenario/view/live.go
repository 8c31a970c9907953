package view

import (
	"fmt"
	"os"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/weirgpu/weir/scenario"
)

// live draws a table in place.
type live struct {
	program *tea.Program
	done    chan struct{}
	once    sync.Once
}

func newLive(f *os.File) *live {
	v := &live{done: make(chan struct{})}
	// Input is left to the shell, so that an interrupt reaches the process as a signal as
	// everywhere else.
	v.program = tea.NewProgram(screen{width: defaultWidth}, tea.WithOutput(f), tea.WithInput(nil),
		tea.WithoutSignalHandler(), tea.WithEnvironment(quiet(os.Environ())))
	go func() {
		defer close(v.done)
		// A terminal that cannot be drawn on costs the view, not the run.
		_, _ = v.program.Run()
	}()
	return v
}

// quiet is an environment in which Bubble Tea asks the terminal nothing: since nobody reads the
// input, an answer would end up on the shell's next command line. It asks terminals that it takes
// for modern ones, and none across ssh.
func quiet(environ []string) []string {
	env := []string{"SSH_TTY=/dev/tty"}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "SSH_TTY", "WT_SESSION", "TERM_PROGRAM":
			continue
		case "TERM":
			if value != "dumb" {
				e = "TERM=xterm-256color"
			}
		}
		env = append(env, e)
	}
	return env
}

type stageMsg string

// Stage implements View.
func (v *live) Stage(what string) { v.program.Send(stageMsg(what)) }

// Live implements View.
func (v *live) Live(l scenario.Live) { v.program.Send(l) }

// Close implements View.
func (v *live) Close() {
	v.once.Do(func() {
		v.program.Quit()
		<-v.done
	})
}

// defaultWidth is assumed until the terminal has told its own.
const defaultWidth = 80

// screen is what is drawn: the stages so far and the running phase.
type screen struct {
	stages []string
	now    scenario.Live
	width  int
}

// Init implements tea.Model.
func (s screen) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (s screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case stageMsg:
		s.stages = append(s.stages[:len(s.stages):len(s.stages)], string(m))
		s.now = scenario.Live{}
	case scenario.Live:
		s.now = m
	case tea.WindowSizeMsg:
		if m.Width > 0 {
			s.width = m.Width
		}
	}
	return s, nil
}

// View implements tea.Model.
func (s screen) View() tea.View { return tea.NewView(s.text()) }

var (
	faint   = lipgloss.NewStyle().Faint(true)
	bold    = lipgloss.NewStyle().Bold(true)
	warning = lipgloss.NewStyle().Foreground(lipgloss.Color("208"))
	palette = []lipgloss.Style{
		lipgloss.NewStyle().Foreground(lipgloss.Color("39")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("208")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("78")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("170")),
	}
)

// text draws the screen; no line is wider than the terminal, which would break drawing in place.
func (s screen) text() string {
	var lines []string
	for i, stage := range s.stages {
		if i < len(s.stages)-1 {
			lines = append(lines, faint.Render("done  "+stage))
			continue
		}
		lines = append(lines, bold.Render(stage)+faint.Render(progress(s.now)))
	}
	if len(s.now.Jobs) > 0 {
		lines = append(lines, s.table()...)
	}
	fit := lipgloss.NewStyle().MaxWidth(s.width)
	for i, line := range lines {
		lines[i] = fit.Render(line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// column is one column of the table. A terminal narrower than from does without it.
type column struct {
	title string
	width int // negative: to the left
	from  int
	cell  func(j scenario.LiveJob, color lipgloss.Style) string
}

var columns = []column{
	{"job", -14, 0, func(j scenario.LiveJob, _ lipgloss.Style) string { return clip(j.Name, 14) }},
	{"class", -13, 96, func(j scenario.LiveJob, _ lipgloss.Style) string {
		return j.Class.String()
	}},
	{"device", -barWidth, 70, bar},
	{"", 5, 0, func(j scenario.LiveJob, _ lipgloss.Style) string {
		if j.Recent < 0 {
			return ""
		}
		return fmt.Sprintf("%.0f %%", 100*j.Recent)
	}},
	{"", 1, 0, func(j scenario.LiveJob, _ lipgloss.Style) string {
		if j.Running {
			return "▶"
		}
		return ""
	}},
	{"queue", 5, 0, func(j scenario.LiveJob, _ lipgloss.Style) string {
		return fmt.Sprint(j.Queue)
	}},
	{"memory of cap", 16, 84, func(j scenario.LiveJob, _ lipgloss.Style) string {
		return memory(j)
	}},
	{"p50 ms", 8, 0, func(j scenario.LiveJob, _ lipgloss.Style) string {
		return latency(j, j.Latency.P50)
	}},
	{"p99 ms", 8, 0, func(j scenario.LiveJob, _ lipgloss.Style) string {
		return latency(j, j.Latency.P99)
	}},
}

func (s screen) table() []string {
	head := make([]string, 0, len(columns))
	for _, c := range columns {
		if s.width >= c.from {
			head = append(head, pad(c.title, c.width))
		}
	}
	lines := []string{faint.Render(strings.Join(head, " "))}
	for i, j := range s.now.Jobs {
		var cells []string
		for _, c := range columns {
			if s.width >= c.from {
				cells = append(cells, pad(c.cell(j, palette[i%len(palette)]), c.width))
			}
		}
		lines = append(lines, strings.Join(cells, " "))
		if j.Error != "" {
			lines = append(lines, warning.Render("  "+j.Error))
		}
	}
	return lines
}

// pad widens a styled cell to the column.
func pad(cell string, width int) string {
	if width < 0 {
		return cell + strings.Repeat(" ", max(0, -width-lipgloss.Width(cell)))
	}
	return strings.Repeat(" ", max(0, width-lipgloss.Width(cell))) + cell
}

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

func bar(j scenario.LiveJob, color lipgloss.Style) string {
	if j.Recent < 0 {
		return faint.Render("the OS decides")
	}
	n := min(barWidth, int(j.Recent*barWidth+0.5))
	return color.Render(strings.Repeat("█", n)) + faint.Render(strings.Repeat("·", barWidth-n))
}

func memory(j scenario.LiveJob) string {
	const mib = 1 << 20
	if j.Cap == 0 {
		return fmt.Sprintf("%.0f MiB", float64(j.Held)/mib)
	}
	return fmt.Sprintf("%.0f of %.0f MiB", float64(j.Held)/mib, float64(j.Cap)/mib)
}

func latency(j scenario.LiveJob, ms float64) string {
	if j.Iterations == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", ms)
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
