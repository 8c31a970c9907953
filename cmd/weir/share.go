package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/clock"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/internal/trace"
	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/scenario/view"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/evict"
)

// textWidth is how wide paragraphs on w may be.
func textWidth(w io.Writer) int {
	const most = 100
	if n := terminal.Width(w); n > 0 {
		return min(n, most)
	}
	return most
}

// shareFlags are those of share and demo.
type shareFlags struct {
	noSolo  bool
	asJSON  bool
	trace   string
	threads int
	verbose bool
	noCache bool
}

func (f *shareFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().
		StringVar(&f.trace, "trace", "", "write a Chrome trace (Perfetto opens it) to this file")
	c.Flags().
		IntVar(&f.threads, "threads", 0, "cores to share (default: the cores this process may use)")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what happens to jobs")
	addNoCache(c, &f.noCache)
}

// options makes the scenario options that the flags say.
func (f *shareFlags) options(c *cobra.Command, rec *trace.Recorder) scenario.Options {
	o := scenario.Options{
		Threads: threads(f.threads),
		Solo:    !f.noSolo,
		Trace:   rec,
		Plans:   planCache(f.noCache),
		Trainer: trainer,
	}
	if f.verbose {
		o.Log = slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	}
	if exe, err := os.Executable(); err == nil {
		o.Child = []string{exe, "debug", "job"}
	}
	return o
}

// traceEvents bounds a trace file: about 100 MB of JSON at most.
const traceEvents = 1 << 20

// openTrace checks that the file can be written before anything runs, so that a path where it
// cannot costs no run. Without a path, there is no recorder, and write does nothing.
func openTrace(ctx context.Context, path string) (rec *trace.Recorder, write func() error,
	err error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	if err := wholefile.Check(path); err != nil {
		return nil, nil, err
	}
	rec = trace.New(clock.NewReal(), traceEvents)
	return rec, func() error {
		return writeOut(ctx, path, func() error { return wholefile.Write(path, rec.WriteJSON) })
	}, nil
}

// memoryFlags say what of the device's memory jobs share, and which job's weights leave it first.
type memoryFlags struct{ memory, eviction string }

func (f *memoryFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.memory, "memory", "",
		"memory of the device that the jobs share, such as 300MiB")
	c.Flags().StringVar(&f.eviction, "eviction", "", "whose weights leave the device first when "+
		"others need the room: "+strings.Join(evict.Names(), ", "))
	completeFlag(c, "eviction", evict.Names()...)
}

// value returns what --memory says, 0 where it is not given.
func (f *memoryFlags) value(c *cobra.Command) (share.Bytes, error) {
	if !c.Flags().Changed("memory") {
		return 0, nil
	}
	n, err := share.ParseBytes(f.memory)
	if err == nil && n <= 0 {
		err = errors.New("must be above 0")
	}
	if err != nil {
		return 0, fmt.Errorf("--memory %s: %w", f.memory, err)
	}
	return n, nil
}

// scenarioFlags replace what a scenario file says.
type scenarioFlags struct {
	device   string
	policy   string
	duration time.Duration
	seed     uint64
	compare  []string
	memory   memoryFlags

	precision []string
}

func (f *scenarioFlags) add(c *cobra.Command) {
	f.addCommon(c)
	f.memory.add(c)
	c.Flags().
		StringSliceVar(&f.compare, "compare", nil, "also run without a broker: threads, processes")
	completeFlag(c, "device", "cpu:0")
	completeFlag(c, "compare", modeNames()...)
}

// addCommon adds what running and simulating have in common.
func (f *scenarioFlags) addCommon(c *cobra.Command) {
	c.Flags().StringVar(&f.device, "device", "", "device in place of the scenario's")
	c.Flags().StringVar(&f.policy, "policy", "", "policies in place of the scenario's, each as "+
		"NAME or NAME:KEY=VALUE,...: "+strings.Join(policyNames(), ", ")+", or all")
	c.Flags().DurationVar(&f.duration, "duration", 0, "duration in place of the scenario's")
	c.Flags().StringSliceVar(&f.precision, "precision", nil,
		"precision in place of the scenario's, of all jobs, or of one as JOB=PRECISION: fp32, "+
			"bf16, auto (repeat for more)")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "seed in place of the scenario's")
	completeFlag(c, "policy", append(policyNames(), scenario.AllPolicies)...)
	completeFlag(c, "precision", "fp32", "bf16", "auto")
}

func (f *scenarioFlags) apply(c *cobra.Command, s *scenario.Scenario) error {
	given := c.Flags().Changed
	for name, value := range map[string]string{"device": f.device, "policy": f.policy,
		"eviction": f.memory.eviction} {
		if given(name) && value == "" {
			return fmt.Errorf("--%s is empty: name one, or leave it out for the scenario's", name)
		}
	}
	if given("device") {
		s.Device = f.device
	}
	if given("policy") {
		s.Policy = f.policy
	}
	if given("duration") {
		s.Duration = f.duration
	}
	if given("seed") {
		s.Seed = f.seed
	}
	if given("eviction") {
		s.Eviction = f.memory.eviction
	}
	if memory, err := f.memory.value(c); err != nil {
		return err
	} else if memory > 0 {
		s.Memory = memory
	}
	return f.setPrecisions(s)
}

// load reads a scenario and applies the flags to it.
func (f *scenarioFlags) load(c *cobra.Command, path string) (*scenario.Scenario, error) {
	s, err := loadScenario(c, path)
	if err == nil {
		err = f.apply(c, s)
	}
	return s, err
}

// setPrecisions replaces the precision of all jobs, or of those named.
func (f *scenarioFlags) setPrecisions(s *scenario.Scenario) error {
	for _, text := range f.precision {
		job, name, one := strings.Cut(text, "=")
		if !one {
			name = job
		}
		var p pass.Precision
		if err := p.UnmarshalText([]byte(name)); err != nil || p == "" {
			return fmt.Errorf("--precision %s: want fp32, bf16 or auto, or JOB=PRECISION", text)
		}
		found := false
		for i := range s.Jobs {
			if !one || s.Jobs[i].Name == job {
				s.Jobs[i].Precision, found = p, true
			}
		}
		if !found {
			return fmt.Errorf("--precision %s: the scenario has no job %q", text, job)
		}
	}
	return nil
}

func newShare() *cobra.Command {
	var f shareFlags
	var override scenarioFlags
	var page string
	c := &cobra.Command{
		Use:   "share SCENARIO.yaml",
		Short: "Run several jobs on one device under a policy or several, each also alone",
		Long: `Run several jobs on one device under a policy or several, each also alone. - reads
the scenario from standard input; files that it names are then relative to the working folder.`,
		Args: exactly(1),

		ValidArgsFunction: files("yaml", "yml"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c, args[0], &override, page)
		},
	}
	f.add(c)
	override.add(c)
	c.Flags().BoolVar(&f.noSolo, "no-solo", false, "do not run each job alone")
	c.Flags().StringVar(&page, "html", "", "write a report page to this file")
	return c
}

// run carries a scenario out, with what flags change of it, and tells of it.
func (f *shareFlags) run(c *cobra.Command, path string, override *scenarioFlags,
	page string) error {
	s, err := override.load(c, path)
	if err != nil {
		return err
	}
	rec, writeTrace, err := openTrace(c.Context(), f.trace)
	if err != nil {
		return err
	}
	if err := writable(page); err != nil {
		return err
	}
	o := f.options(c, rec)
	for _, m := range override.compare {
		o.Compare = append(o.Compare, scenario.Mode(m))
	}
	res, err := runScenario(c, s, o)
	if err != nil {
		return err
	}
	if !f.asJSON {
		printResult(c.OutOrStdout(), res)
	}
	return errors.Join(finishShare(c, res, f.asJSON), failed(writeTrace()),
		failed(comparePage(c, page, path, res)))
}

// loadScenario reads a scenario file, or the scenario on standard input for "-".
func loadScenario(c *cobra.Command, path string) (*scenario.Scenario, error) {
	if path != "-" {
		return fault.Await(c.Context(), func() (*scenario.Scenario, error) {
			return scenario.Load(path)
		})
	}
	s, err := scenario.Parse(c.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return s, nil
}

// runScenario runs a scenario with the view that fits standard error.
func runScenario(c *cobra.Command, s *scenario.Scenario, o scenario.Options) (*scenario.Result,
	error) {
	stop := controlled(c.Context(), &o)
	defer stop()
	v := view.New(c.ErrOrStderr())
	o.Live, o.Progress = v.Live, v.Stage
	res, err := scenario.Run(c.Context(), s, o)
	v.Close()
	if err != nil && !errors.Is(err, scenario.ErrScenario) {
		return nil, failed(err)
	}
	return res, err
}

// finishShare prints the JSON form of a result where it is asked for; a job that did not run to its
// end makes exit code 1.
func finishShare(c *cobra.Command, res *scenario.Result, asJSON bool) error {
	if asJSON {
		if err := printJSON(c.OutOrStdout(), res); err != nil {
			return failed(err)
		}
	}
	var bad []error
	for _, p := range res.Phases {
		for _, j := range p.Jobs {
			if j.Status != scenario.StatusDone {
				bad = append(bad, fmt.Errorf("%s, %s: %s", phaseName(&p), j.Status, j.Error))
			}
		}
	}
	return failed(errors.Join(bad...))
}
