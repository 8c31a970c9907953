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
	// Input is left to the shell, so that an interrupt reaches the process as a signal as everywhere else.
	v.program = tea.NewProgram(screen{}, tea.WithOutput(f), tea.WithInput(nil), tea.WithoutSignalHandler())
	go func() {
		defer close(v.done)
		// A terminal that cannot be drawn on costs the view, not the run.
		_, _ = v.program.Run()
	}()
	return v
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
		s.width = m.Width
	}
	return s, nil
}

var (
	faint   = lipgloss.NewStyle().Faint(true)
	bold    = lipgloss.NewStyle().Bold(true)
	palette = []lipgloss.Style{
		lipgloss.NewStyle().Foreground(lipgloss.Color("39")), lipgloss.NewStyle().Foreground(lipgloss.Color("208")),
		lipgloss.NewStyle().Foreground(lipgloss.Color("78")), lipgloss.NewStyle().Foreground(lipgloss.Color("170")),
	}
)

// View implements tea.Model.
func (s screen) View() tea.View { return tea.NewView(s.text()) }

func (s screen) text() string {
	var b strings.Builder
	for i, stage := range s.stages {
		if i < len(s.stages)-1 {
			fmt.Fprintln(&b, faint.Render("done  "+stage))
			continue
		}
		fmt.Fprintln(&b, bold.Render(stage)+faint.Render(progress(s.now)))
	}
	if len(s.now.Jobs) == 0 {
		return b.String()
	}
	fmt.Fprintln(&b, faint.Render(fmt.Sprintf("%-14s %-13s %-22s %6s %16s %9s %9s", "job", "class", "device time", "queue", "memory / cap", "p50 ms", "p99 ms")))
	for i, j := range s.now.Jobs {
		fmt.Fprintln(&b, row(j, palette[i%len(palette)]))
	}
	return b.String()
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

func row(j scenario.LiveJob, color lipgloss.Style) string {
	bar, share := strings.Repeat("·", barWidth), "     "
	if j.Recent >= 0 {
		n := min(barWidth, int(j.Recent*barWidth+0.5))
		bar = color.Render(strings.Repeat("█", n)) + faint.Render(strings.Repeat("·", barWidth-n))
		share = fmt.Sprintf("%4.0f%%", 100*j.Recent)
	}
	running := " "
	if j.Running {
		running = "▶"
	}
	line := fmt.Sprintf("%-14s %-13v %s %s %s %6d %16s %9.2f %9.2f", clip(j.Name, 14), j.Class, bar, share, running, j.Queue,
		memory(j), j.Latency.P50, j.Latency.P99)
	if j.Error != "" {
		line += "  " + clip(j.Error, 60)
	}
	return line
}

func memory(j scenario.LiveJob) string {
	const mib = 1 << 20
	if j.Cap == 0 {
		return fmt.Sprintf("%d MiB", int64(j.Held)/mib)
	}
	return fmt.Sprintf("%d / %d MiB", int64(j.Held)/mib, int64(j.Cap)/mib)
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}
