package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/internal/tune"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/scenario"
)

type tuneResult struct {
	*tune.Result
	Threads   int    `json:"threads"`
	Precision string `json:"precision"`
	Device    string `json:"device"`
	Kept      bool   `json:"kept"` // whether starts to come use what was chosen
}

func newTune() *cobra.Command {
	var dev deviceFlags
	var model modelFlags
	var measure time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use: "tune MODEL",
		Short: "Measure which way of computing each step is the fastest, and keep that for " +
			"starts to come",
		Long: `Measure the ways of computing each step that has several, such as a convolution as a
product or in tiles, and keep the fastest beside the compiled plans for every later start on this
processor, of any model with such a step. Without it a cost model chooses. Outputs may change by
rounding, once; they do not depend on when or on how many threads a model runs then. Run it on an
idle machine; measuring again replaces what was kept of the same steps, and --no-cache keeps
nothing.`,
		Args:              exactly(1),
		ValidArgsFunction: files("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			if measure <= 0 {
				return fmt.Errorf("--time %v: want more than nothing, such as 4s", measure)
			}
			res, err := tuneModel(c, args[0], &dev, &model, measure)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), res)
			}
			printTune(c.OutOrStdout(), res)
			return nil
		},
	}
	dev.add(c)
	model.add(c)
	model.addRun(c)
	c.Flags().
		DurationVar(&measure, "time", tune.DefaultTime,
			"how long each of the two measurements takes")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func tuneModel(c *cobra.Command, path string, dev *deviceFlags, model *modelFlags,
	measure time.Duration) (*tuneResult, error) {
	plans := planCache(model.noCache)
	if plans == nil && !model.noCache {
		return nil, errors.New("nowhere to keep what is measured: let " + cache.EnvDir +
			" name a folder, or measure only with --no-cache")
	}
	on, err := dev.open()
	if err != nil {
		return nil, err
	}
	defer on.Close()
	fresh := *model
	fresh.noCache = true // so that the cost model chooses
	m, err := compileModel(c, path, &fresh, dev, on)
	if err != nil {
		return nil, err
	}
	defer m.model.Close()
	res := &tuneResult{
		Threads:   on.Pool.Threads(),
		Precision: string(scenario.PrecisionOf(m.plan)),
		Device:    on.Device.Info().ID,
	}
	if res.Result, err = m.tune(c, on, model, measure); err != nil {
		return nil, failed(fmt.Errorf("%s: %w", path, err))
	}
	if plans == nil || len(res.Choices) == 0 {
		return res, nil
	}
	if err := plans.KeepChoices(on.Target, res.Choices); err != nil {
		return nil, failed(fmt.Errorf("what was measured is not kept: %w", err))
	}
	res.Kept = true
	return res, nil
}

// tune measures the ways of a compiled model.
func (m *compiled) tune(c *cobra.Command, on *machine.Machine, f *modelFlags,
	measure time.Duration) (*tune.Result, error) {
	src, err := m.model.Source()
	if err != nil {
		return nil, err
	}
	progress, done := percent(c.ErrOrStderr(), "measuring")
	defer done()
	return tune.Run(c.Context(), tune.Options{
		Compile: func(ctx context.Context, choices compute.Choices) (*plan.Plan, error) {
			if choices == nil {
				return m.plan, nil
			}
			o := m.cached.Options
			o.Choices = choices
			return plan.Compile(ctx, src.Graph, o)
		},
		Engine: engine.Options{
			Device:    on.Device,
			Pool:      on.Pool,
			Quota:     seat.NewCounted("--memory", f.memory),
			HostQuota: on.Host,
		},
		Fill:     func(i *engine.Instance) error { return feed.Fill(i.Inputs(), m.inputs) },
		Time:     measure,
		Progress: progress,
	})
}

// percent shows how much of some work is done, where a person watches.
func percent(w io.Writer, what string) (show func(done float64), end func()) {
	if !terminal.Live(w) {
		return nil, func() {}
	}
	const eraseLine, cells = "\r\x1b[K", 30 // ECMA-48: EL
	show = func(done float64) {
		full := int(done * cells)
		bar := terminal.Text(strings.Repeat("█", full) + strings.Repeat("░", cells-full))
		if terminal.Width(w) < cells+20 {
			bar = ""
		}
		fmt.Fprintf(w, "%s%s %s %3.0f %%", eraseLine, what, bar, 100*done)
	}
	return show, func() { fmt.Fprint(w, eraseLine) }
}

func printTune(w io.Writer, r *tuneResult) {
	if len(r.Problems) == 0 {
		fmt.Fprintln(w,
			"no step that runs has more than one way of computing: there is nothing to measure")
		return
	}
	t := table{
		{"problem", "ms of each way, that of the cost model first", "steps", "chosen", "saves"},
	}
	better := 0
	for i := range r.Problems {
		if r.Problems[i].Gain > 0 {
			better++
		}
		t = append(t, tuneRow(&r.Problems[i]))
	}
	t.print(w)
	fmt.Fprintf(w,
		"\n%d of %d problems are computed faster in another way than the cost model chooses",
		better, len(r.Problems))
	if better > 0 {
		fmt.Fprintf(w, ": all steps take %.4g ms instead of %.4g, %.1f %% less", r.AfterMS,
			r.BeforeMS, 100*(1-r.AfterMS/r.BeforeMS))
	}
	fmt.Fprintf(w, "\nmedians of %d rounds", r.Rounds)
	if r.Confirming > 0 {
		fmt.Fprintf(w, ", confirmed by %d", r.Confirming)
	}
	fmt.Fprintf(w, ", on %d threads of %s\n", r.Threads, r.Device)
}

// tuneRow shows what was measured of a problem.
func tuneRow(p *tune.Problem) []string {
	var times []string
	for _, c := range p.Candidates {
		times = append(times, fmt.Sprintf("%s %.4g", c.Algorithm, c.MS))
	}
	saves := ""
	if p.Gain > 0 {
		saves = fmt.Sprintf("%.1f %%", 100*p.Gain)
	}
	return []string{p.Problem, strings.Join(times, ", "), fmt.Sprint(len(p.Steps)), p.Chosen, saves}
}
