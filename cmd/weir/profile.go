package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/engine/roofline"
	"github.com/weirgpu/weir/scenario"
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
	return nil
}

// profileSteps fills in the profile of a result.
func profileSteps(c *cobra.Command, i *engine.Instance, on *machine.Machine, m *compiled,
	res *benchResult) error {
	limits, err := roofline.Measure(c.Context(), on.Target, on.Pool)
	if err != nil {
		return err
	}
	fill := func() error { return scenario.FillInputs(i, m.inputs) }
	res.Profile, err = roofline.Profile(c.Context(), limits, i, fill, res.Runs)
	return err
}

// write writes the page, if one is asked for.
func (f *profileFlags) write(t *roofline.Table, model string) (err error) {
	if f.html == "" {
		return nil
	}
	w, err := os.Create(f.html)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return t.HTML(w, "Roofline of "+filepath.Base(model), time.Now())
}

// print writes the profile as text of at most 100 columns.
func (f *profileFlags) print(w io.Writer, t *roofline.Table) {
	printLimits(w, t)
	fmt.Fprintln(w, profileHead, "step")
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
		kernel := s.Kernel
		if s.Measured {
			kernel += " (measured)"
		}
		head := workLine(&s.Work, s.LimitedBy, longest) + " " + s.Op + " " + kernel + " "
		fmt.Fprintln(w,
			cut(head+ending(s.Node, profileWidth-utf8.RuneCountInString(head)), profileWidth))
	}
	if rest := len(steps) - len(shown); rest > 0 {
		fmt.Fprintf(w, "and %d more: --top 0 prints all\n", rest)
	}
	printGroups(w, "operator", t.Operators)
	printGroups(w, "operator and kernel", t.Kernels)
	fmt.Fprintln(w, workLine(&t.Total, "", t.Total.MS)+" all steps")
}

const profileWidth = 100

func printGroups(w io.Writer, what string, groups []roofline.Group) {
	fmt.Fprintf(w, "\n%s steps, %s\n", profileHead, what)
	for i := range groups {
		g := &groups[i]
		fmt.Fprintln(
			w,
			cut(fmt.Sprintf("%s %5d  %s", workLine(&g.Work, "", groups[0].MS), g.Steps, g.Name),
				profileWidth),
		)
	}
}

const profileHead = "       ms  share  GFLOP/s    GB/s  FLOP/B of limit                "

// workLine is one row of figures, with a bar: its length is the time, and what of it the limit
// explains is solid.
func workLine(v *roofline.Work, by string, longest float64) string {
	if by != "" {
		by = by[:1]
	}
	of := fmt.Sprintf("%6.0f%%", 100*v.OfLimit)
	if v.LeastMS == 0 { // nothing to do, or no limits are known
		of = "      -"
	}
	return fmt.Sprintf("%9.3f %5.1f%% %8.1f %7.1f %7.1f %s%1s %s", v.MS, 100*v.Share, v.GFlopsPerS,
		v.GBPerS, v.Intensity, of, by, bar(v.MS, v.LeastMS, longest))
}

const barCells = 14

func bar(ms, least, longest float64) string {
	if longest <= 0 {
		return strings.Repeat(" ", barCells)
	}
	cells := func(v float64) int { return min(int(v/longest*barCells+0.5), barCells) }
	length := max(cells(ms), 1)
	solid := min(cells(least), length)
	return strings.Repeat("█", solid) + strings.Repeat("░", length-solid) +
		strings.Repeat(" ", barCells-length)
}

// cut keeps so many characters of the beginning of text.
func cut(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}

// ending keeps so many characters of the end of a node's name, which tells more than its beginning.
func ending(name string, width int) string {
	r := []rune(name)
	if len(r) <= width {
		return name
	}
	return "…" + string(r[len(r)-max(width-1, 0):])
}

func printLimits(w io.Writer, t *roofline.Table) {
	m := &t.Machine
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
		reads = append(reads, fmt.Sprintf("%.0f of %s", r.GBPerS, mib(r.Bytes)))
	}
	fmt.Fprintf(w, "  GFLOP/s: %s\n  GB/s read: %s and more\n", strings.Join(peaks, ", "),
		strings.Join(reads, ", "))
	fmt.Fprintf(w, "medians of %d runs; of limit: the part of the time that %s\n\n", t.Runs,
		"arithmetic (c) or memory (m) alone would take")
}
