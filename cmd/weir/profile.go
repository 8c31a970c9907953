package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/internal/wholefile"
)

// profileFlags ask for the time of each step beside what the machine allows.
type profileFlags struct {
	wanted bool
	sort   string
	top    int
	html   string
}

func (f *profileFlags) add(c *cobra.Command) {
	c.Flags().
		BoolVar(&f.wanted, "profile", false,
			"also time each step, beside what this machine was measured to allow")
	c.Flags().
		StringVar(&f.sort, "sort", string(roofline.ByTime), "order of the steps of --profile: "+
			"time, loss (time beyond the limit) or order (as they run)")
	c.Flags().IntVar(&f.top, "top", 20, "steps that --profile prints; 0: all")
	c.Flags().
		StringVar(&f.html, "html", "", "write the --profile as a page with a picture to this file")
	completeFlag(c, "sort", string(roofline.ByTime), string(roofline.ByLoss),
		string(roofline.ByOrder))
}

func (f *profileFlags) check() error {
	switch o := roofline.Order(f.sort); {
	case o != roofline.ByTime && o != roofline.ByLoss && o != roofline.ByOrder:
		return fmt.Errorf("--sort %s: want time, loss or order", f.sort)
	case f.top < 0:
		return fmt.Errorf("--top %d: want a number of steps, or 0 for all", f.top)
	case f.html != "" && !f.wanted:
		return fmt.Errorf("--html %s is for the steps of --profile: add it", f.html)
	}
	return writable(f.html)
}

// profileSteps fills in the profile of a result.
func profileSteps(c *cobra.Command, i *engine.Instance, on *machine.Machine, m *compiled,
	res *benchResult) error {
	limits, err := roofline.Measure(c.Context(), on.Target, on.Pool)
	if err != nil {
		return err
	}
	fill := func() error { return feed.Fill(i.Inputs(), m.inputs) }
	if res.Profile, err = roofline.Profile(c.Context(), limits, i, fill, res.Runs); err != nil {
		return err
	}
	if limits, err = roofline.Again(c.Context(), on.Target, on.Pool); err != nil {
		return err
	}
	res.Profile.Against(limits)
	return nil
}

// write writes the page, if one is asked for.
func (f *profileFlags) write(ctx context.Context, t *roofline.Table, model string) error {
	if f.html == "" {
		return nil
	}
	return writeOut(ctx, f.html, func() error {
		return wholefile.Write(f.html, func(w io.Writer) error {
			return t.HTML(w, "Roofline of "+filepath.Base(model), time.Now())
		})
	})
}

// print writes the profile as text of at most 100 columns.
func (f *profileFlags) print(w io.Writer, t *roofline.Table) {
	printLimits(w, t)
	l := layoutFor(textWidth(w))
	l.line(w, l.head(), "step")
	steps := t.Sorted(roofline.Order(f.sort))
	shown := steps
	if f.top > 0 {
		shown = steps[:min(f.top, len(steps))]
	}
	longest := 0.0
	for i := range steps {
		longest = max(longest, steps[i].MS)
	}
	for i := range shown {
		s := &shown[i]
		figures, what := l.work(&s.Work, s.LimitedBy, longest), s.Op+" "+s.Way()+" "
		l.line(w, figures, what+ending(s.Node, l.room(figures)-terminal.Columns(what)))
	}
	if rest := len(steps) - len(shown); rest > 0 {
		say(w, "and %d more: --top 0 prints all", rest)
	}
	l.groups(w, "operator", t.Operators)
	l.groups(w, "operator and kernel", t.Kernels)
	l.line(w, l.work(&t.Total, "", t.Total.MS), "all steps")
}

// profileLayout is how a profile fits lines of a width.
type profileLayout struct {
	width int
	// whole says that figures and what they are of are in one line; else that is in a line of its
	// own below them.
	whole bool
	// rates says that there is room for all figures, and cells how long a bar is.
	rates bool
	cells int
}

// layoutFor chooses the layout for lines of so many columns.
func layoutFor(width int) profileLayout {
	l := profileLayout{width: width, cells: 14}
	const figures, few = 52, 25 // columns of all figures, and of those that are always there
	switch {
	case width >= 90:
		l.whole, l.rates = true, true
	case width >= figures+l.cells+1:
		l.rates = true
	default:
		l.cells = max(0, min(l.cells, width-few-1))
	}
	return l
}

func (l *profileLayout) head() string {
	if !l.rates {
		return "       ms  share of limit"
	}
	head := "       ms  share  GFLOP/s    GB/s  FLOP/B of limit"
	return head + strings.Repeat(" ", l.cells+2)
}

// room is how many columns there are beside figures for what they are of.
func (l *profileLayout) room(figures string) int {
	if l.whole {
		return l.width - terminal.Columns(figures) - 1
	}
	return l.width - 4
}

// line writes figures and what they are of.
func (l *profileLayout) line(w io.Writer, figures, what string) {
	what = terminal.Cut(what, l.room(figures))
	if l.whole {
		fmt.Fprintln(w, terminal.Text(figures+" "+what))
		return
	}
	fmt.Fprintln(w, terminal.Text(strings.TrimRight(figures, " ")+"\n    "+what))
}

func (l *profileLayout) groups(w io.Writer, what string, groups []roofline.Group) {
	fmt.Fprintln(w)
	l.line(w, l.head(), "steps, "+what)
	for i := range groups {
		g := &groups[i]
		l.line(w, l.work(&g.Work, "", groups[0].MS), fmt.Sprintf("%5d  %s", g.Steps, g.Name))
	}
}

// work is one row of figures, with a bar: its length is the time, and what of it the limit explains
// is solid.
func (l *profileLayout) work(v *roofline.Work, by string, longest float64) string {
	if by != "" {
		by = by[:1]
	}
	of := fmt.Sprintf("%6.0f%%", 100*v.OfLimit)
	if v.LeastMS == 0 { // nothing to do, or no limits are known
		of = "      -"
	}
	rates := ""
	if l.rates {
		rates = fmt.Sprintf(" %8.1f %7.1f %7.1f", v.GFlopsPerS, v.GBPerS, v.Intensity)
	}
	return fmt.Sprintf("%9.3f %5.1f%%%s %s%1s %s", v.MS, 100*v.Share, rates, of, by,
		l.bar(v.MS, v.LeastMS, longest))
}

func (l *profileLayout) bar(ms, least, longest float64) string {
	if longest <= 0 {
		return strings.Repeat(" ", l.cells)
	}
	cells := func(v float64) int {
		return min(int(v/longest*float64(l.cells)+0.5), l.cells)
	}
	length := min(max(cells(ms), 1), l.cells)
	solid := min(cells(least), length)
	return strings.Repeat("█", solid) + strings.Repeat("░", length-solid) +
		strings.Repeat(" ", l.cells-length)
}

// ending keeps so many characters of the end of a node's name, which tells more than its beginning.
func ending(name string, width int) string {
	r := []rune(name)
	if len(r) <= width {
		return name
	}
	if width <= 1 {
		return ""
	}
	return "…" + string(r[len(r)-width+1:])
}

func printLimits(w io.Writer, t *roofline.Table) {
	m := &t.Machine
	w = &fitted{w: w}
	if !m.Known() {
		fmt.Fprintf(w, "\nmedians of %d runs; the limits of %s are not known\n\n", t.Runs, m.Device)
		return
	}
	fmt.Fprintf(w, "\nlimits measured on %d threads in %.0f ms:\n", m.Threads, m.TookMS)
	var peaks, reads []string
	for _, p := range []roofline.Format{roofline.FP32, roofline.BF16, roofline.Int8} {
		if v := m.Peak[p]; v > 0 {
			peaks = append(peaks, fmt.Sprintf("%s %.0f", p, v))
		}
	}
	for _, r := range m.Read {
		reads = append(reads, fmt.Sprintf("%.0f of %s", r.GBPerS, terminal.Size(r.Bytes)))
	}
	fmt.Fprintf(w, "  arithmetic, GFLOP/s: %s\n  reading, GB/s: %s and more\n",
		strings.Join(peaks, ", "), strings.Join(reads, ", "))
	fmt.Fprintf(w, "medians of %d runs; of limit: the part of the time that %s\n\n", t.Runs,
		"arithmetic (c) or memory (m) alone would take")
}
