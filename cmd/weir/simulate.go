package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/scenario/report"
	"github.com/weirgpu/weir/share/catalogue"
)

func newSimulate() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate SCENARIO.yaml",
		Short: "Share a device that you need not have between jobs, in virtual time",
		Long: "Carry out a scenario in virtual time, on a device of the catalogue (" +
			strings.Join(catalogueNames(), ", ") + ")\nor as many units as this machine has " +
			"cores (cpu:0). Iterations take what the scenario says (iteration,\nkernel), or what " +
			"the steps of a model's plan take by the device's data sheet. With several\n" +
			"policies, or all, the same requests arrive under each. - reads the scenario from " +
			"standard input.",
		Args: exactly(1),

		ValidArgsFunction: files("yaml", "yml"),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.add(c)
	return c
}

// simulateFlags are those of weir simulate.
type simulateFlags struct {
	override                scenarioFlags
	options                 scenario.Options
	asJSON, noSolo, noCache bool
	page                    string
}

func (f *simulateFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&f.page, "html", "", "write a report page to this file")
	c.Flags().BoolVar(&f.noSolo, "no-solo", false, "do not simulate each job alone")
	c.Flags().IntVar(&f.options.Threads, "threads", 0,
		"units of cpu:0 (default: the cores this process may use)")
	addNoCache(c, &f.noCache)
	f.override.addCommon(c)
	completeFlag(c, "device", append(catalogueNames(), "cpu:0")...)
}

// run simulates a scenario, with what flags change of it, and tells of it.
func (f *simulateFlags) run(c *cobra.Command, path string) error {
	s, err := f.override.load(c, path)
	if err != nil {
		return err
	}
	if err := writable(f.page); err != nil {
		return err
	}
	o := f.options
	o.Threads = threads(o.Threads)
	o.Solo, o.Plans = !f.noSolo, planCache(f.noCache)
	o.Progress = func(stage string) { fmt.Fprintln(c.ErrOrStderr(), stage) }
	res, err := scenario.Simulate(c.Context(), s, o)
	if err != nil {
		return err
	}
	if !f.asJSON {
		printResult(c.OutOrStdout(), res)
	}
	return errors.Join(finishShare(c, res, f.asJSON), failed(comparePage(c, f.page, path, res)))
}

func catalogueNames() []string {
	var names []string
	for _, d := range catalogue.All() {
		names = append(names, d.Name)
	}
	return names
}

// writable reports whether a page can be written to a path, before anything runs for it.
func writable(path string) error {
	if path == "" {
		return nil
	}
	return wholefile.Check(path)
}

// comparePage writes the report page of a scenario that a command ran, if it is asked for.
func comparePage(c *cobra.Command, path, file string, res *scenario.Result) error {
	if path == "" {
		return nil
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if file == "-" {
		name = "standard input"
	}
	where := "on " + res.Device
	if res.VirtualS > 0 {
		where = "in virtual time " + where
	}
	under := "under each policy"
	if len(res.Results) == 1 {
		under = "alone and together"
	}
	return writePage(c.Context(), path, report.Head{Title: name + " " + where,
		Intro:   "The same jobs with the same arrivals, " + where + ", " + under + ".",
		Command: c.CommandPath() + " --html", When: time.Now()}, res)
}

func writePage(ctx context.Context, path string, h report.Head, res *scenario.Result) error {
	return writeOut(ctx, path, func() error {
		return wholefile.Write(path, func(w io.Writer) error { return report.Write(w, h, res) })
	})
}

// printComparison prints policies side by side, and those that were left out.
func printComparison(w io.Writer, res *scenario.Result) {
	if len(res.Results) > 1 {
		fmt.Fprintln(w)
		t := table{{"policy", "", "p99 of alone", "batch of alone", "total of alone", "Jain",
			"makespan s", "completion s", "in time"}}
		for i := range res.Results {
			t = append(t, comparisonRow(&res.Results[i]))
		}
		t.print(w)
	}
	for _, l := range res.LeftOut {
		fmt.Fprintf(w, "left out: %s\n", l.Reason)
	}
}

func comparisonRow(p *scenario.Phase) []string {
	row := []string{p.Policy, "", "", "", "", "", "", "", ""}
	set := func(i int, v float64) {
		if v > 0 {
			row[i] = figure(v)
		}
	}
	set(2, p.LatencyVsSolo)
	set(3, p.BatchVsSolo)
	set(4, p.ThroughputVsSolo)
	set(5, p.Jain)
	set(6, p.MakespanS)
	set(7, p.MeanCompletionS)
	if p.TargetsMet != nil {
		row[8] = fmt.Sprintf("%.1f %%", 100**p.TargetsMet)
	}
	return row
}
