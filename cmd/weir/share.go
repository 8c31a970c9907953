package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirgpu/weir/internal/clock"
	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/scenario/view"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// shareFlags are those of share and demo.
type shareFlags struct {
	noSolo  bool
	asJSON  bool
	trace   string
	threads int
	verbose bool
}

func (f *shareFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&f.trace, "trace", "", "write a Chrome trace (Perfetto opens it) to this file")
	c.Flags().IntVar(&f.threads, "threads", 0, "cores to share (default: the cores this process may use)")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what happens to jobs")
}

// options makes the scenario options that the flags say.
func (f *shareFlags) options(rec *trace.Recorder) scenario.Options {
	o := scenario.Options{Threads: f.threads, Solo: !f.noSolo, Trace: rec}
	if f.verbose {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if exe, err := os.Executable(); err == nil {
		o.Child = []string{exe, "debug", "job"}
	}
	return o
}

// traceEvents bounds a trace file: about 100 MB of JSON at most.
const traceEvents = 1 << 20

func newRecorder(path string) *trace.Recorder {
	if path == "" {
		return nil
	}
	return trace.New(clock.NewReal(), traceEvents)
}

func newShare() *cobra.Command {
	var f shareFlags
	var policy string
	var duration time.Duration
	var compare []string
	var seed uint64
	c := &cobra.Command{
		Use:   "share SCENARIO.yaml",
		Short: "Run several jobs on one device under a policy, each also alone first",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := scenario.Load(args[0])
			if err != nil {
				return err
			}
			if policy != "" {
				s.Policy = policy
			}
			if duration > 0 {
				s.Duration = duration
			}
			if c.Flags().Changed("seed") {
				s.Seed = seed
			}
			rec := newRecorder(f.trace)
			o := f.options(rec)
			for _, m := range compare {
				o.Compare = append(o.Compare, scenario.Mode(m))
			}
			res, err := runScenario(c, s, o)
			if err != nil {
				return err
			}
			if err := writeTrace(f.trace, rec); err != nil {
				return failed(err)
			}
			return finishShare(c, res, f.asJSON)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.noSolo, "no-solo", false, "do not run each job alone first")
	c.Flags().StringVar(&policy, "policy", "", "policy to use in place of the scenario's")
	c.Flags().DurationVar(&duration, "duration", 0, "duration in place of the scenario's")
	c.Flags().StringSliceVar(&compare, "compare", nil, "also run without a broker: threads, processes")
	c.Flags().Uint64Var(&seed, "seed", 0, "seed in place of the scenario's")
	return c
}

// runScenario runs a scenario with the view that fits standard error.
func runScenario(c *cobra.Command, s *scenario.Scenario, o scenario.Options) (*scenario.Result, error) {
	v := view.New(os.Stderr)
	o.Live, o.Progress = v.Live, v.Stage
	res, err := scenario.Run(c.Context(), s, o)
	v.Close()
	if err != nil && !errors.Is(err, scenario.ErrScenario) && c.Context().Err() != nil {
		return nil, failed(err)
	}
	return res, err
}

func writeTrace(path string, rec *trace.Recorder) (err error) {
	if rec == nil {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return rec.WriteJSON(f)
}

// finishShare prints a result; a job that did not run to its end makes exit code 1.
func finishShare(c *cobra.Command, res *scenario.Result, asJSON bool) error {
	if asJSON {
		if err := printJSON(c.OutOrStdout(), res); err != nil {
			return failed(err)
		}
	} else {
		printPhases(c.OutOrStdout(), res.Phases)
	}
	var bad []error
	for _, p := range res.Phases {
		for _, j := range p.Jobs {
			if j.Status != scenario.StatusDone {
				bad = append(bad, fmt.Errorf("%s under %s: %s", j.Name, phaseName(p), firstLine(j.Error)))
			}
		}
	}
	return failed(errors.Join(bad...))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// phaseName names a phase for people.
func phaseName(p scenario.Phase) string {
	switch p.Mode {
	case scenario.Shared:
		return "weir, " + p.Policy
	case scenario.Threads:
		return "OS, goroutine pools"
	case scenario.Processes:
		return "OS, processes (nice)"
	}
	return "alone"
}

func printPhases(w io.Writer, phases []scenario.Phase) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "job\tclass\tclaims\tgot\tit/s\tslowdown\tp50 ms\tp99 ms\tmemory\tcap\tstatus\t")
	for _, p := range phases {
		fmt.Fprintf(t, "-- %s\t\t\t\t\t\t\t\t\t\t\t\n", phaseName(p))
		for _, j := range p.Jobs {
			got, slow := "", ""
			if p.Mode == scenario.Shared {
				got = fmt.Sprintf("%.0f %%", 100*j.DeviceShare)
			}
			if j.Slowdown > 0 && p.Mode != scenario.Solo {
				slow = fmt.Sprintf("%.2f", j.Slowdown)
			}
			fmt.Fprintf(t, "%s\t%v\t%.0f %%\t%s\t%.1f\t%s\t%.2f\t%.2f\t%.0f MiB\t%s\t%s\t\n", j.Name, j.Class, 100*j.Compute, got, j.IterationsPerS,
				slow, j.Latency.P50, j.Latency.P99, float64(j.MemoryPeakBytes)/(1<<20), capText(j.MemoryCapBytes), j.Status)
		}
		if p.ThroughputVsSolo > 0 && p.Mode != scenario.Solo {
			fmt.Fprintf(t, "sum of throughput against alone\t\t\t\t%.2f\t\t\t\t\t\t\t\n", p.ThroughputVsSolo)
		}
	}
	t.Flush()
}

func capText(n int64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
}
