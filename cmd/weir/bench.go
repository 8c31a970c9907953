package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/process"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/scenario"
)

type benchResult struct {
	MedianMS      float64         `json:"median_ms"`
	MinMS         float64         `json:"min_ms"`
	P90MS         float64         `json:"p90_ms"`
	P99MS         float64         `json:"p99_ms"`
	LoadMS        float64         `json:"load_ms"`
	FirstOutputMS float64         `json:"first_output_ms"`
	Cached        bool            `json:"cached"`             // whether the plan came from the cache
	Uncached      string          `json:"uncached,omitempty"` // why no kept plan was used
	PeakRSSBytes  int64           `json:"peak_rss_bytes"`
	PlanBytes     int64           `json:"plan_bytes"`
	WeightBytes   int64           `json:"weight_bytes"`
	Steps         int             `json:"steps"`
	Threads       int             `json:"threads"`
	Precision     string          `json:"precision"`
	Device        string          `json:"device"`
	Runs          int             `json:"runs"`
	Flops         int64           `json:"flops"`
	GFlopsPerS    float64         `json:"gflops_per_s"`
	GCCycles      uint32          `json:"gc_cycles"`    // during the measured runs
	HeapObjects   uint64          `json:"heap_objects"` // allocated during the measured runs
	Profile       *roofline.Table `json:"profile,omitempty"`
}

// benchFlags are the flags of bench.
type benchFlags struct {
	dev          deviceFlags
	model        modelFlags
	runs, warmup int
	asJSON       bool
	profile      profileFlags
	compare      compareFlags
	load         loadFlags
}

func newBench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench MODEL|URL",
		Short: "Measure the latency of a model, alone or beside another runtime, or of a server",
		Long: `Measure the latency of one model. Ctrl-C ends it early: what was measured is shown.

With --compare, this weir and another precision, another weir or another runtime have turns on the
same inputs with the same threads, and the verdict says whether they differ. onnxruntime and
openvino are packages of the python3 in $PATH.

A URL (http, https, grpc, grpcs) is that of a server of the Open Inference Protocol, such as weir
up. Requests are sent at times that do not depend on its answers, and latencies count from those:
what a slow server makes wait is not left out. The token in $WEIR_TOKEN is sent, if there is one.`,
		Example: "  weir bench resnet50.onnx --profile\n" +
			"  weir bench resnet50.onnx --compare onnxruntime\n" +
			"  weir bench http://localhost:8000 --rate 500 --deadline 20ms",
		Args: exactly(1),

		ValidArgsFunction: files("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			server := isServer(args[0])
			if err := f.load.check(c, server); err != nil {
				return err
			}
			if server {
				return f.load.run(c, args[0], &f.model.inputFlags, f.asJSON)
			}
			if err := f.check(c, args[0]); err != nil {
				return err
			}
			if f.compare.with != "" {
				return f.runCompare(c, args[0])
			}
			return f.run(c, args[0])
		},
	}
	f.dev.add(c)
	f.model.add(c)
	f.model.addRun(c)
	c.Flags().IntVar(&f.runs, "runs", 30, "measured runs")
	c.Flags().
		IntVar(&f.warmup, "warmup", 5, "runs before measuring, with --compare before each turn")
	f.profile.add(c)
	f.compare.add(c)
	f.load.add(c)
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return c
}

func (f *benchFlags) check(c *cobra.Command, model string) error {
	if f.runs < 1 || f.warmup < 0 {
		return fmt.Errorf("--runs %d --warmup %d: want at least 1 run and 0 warm-ups", f.runs,
			f.warmup)
	}
	return errors.Join(f.profile.check(), f.compare.check(c, model, f.profile.wanted))
}

// runCompare shows a comparison, that of the rounds until a signal where one comes.
func (f *benchFlags) runCompare(c *cobra.Command, path string) error {
	res, err := compareModel(c, path, f)
	if err != nil {
		return err
	}
	if f.asJSON {
		return errors.Join(printJSON(c.OutOrStdout(), res), c.Context().Err())
	}
	res.print(c.OutOrStdout())
	return c.Context().Err()
}

// run shows what was measured, until a signal where one comes.
func (f *benchFlags) run(c *cobra.Command, path string) error {
	res, err := f.measure(c, path)
	if err != nil {
		return err
	}
	if res.Profile != nil {
		if err := f.profile.write(c.Context(), res.Profile, path); err != nil {
			return failed(err)
		}
	}
	if f.asJSON {
		return errors.Join(printJSON(c.OutOrStdout(), res), c.Context().Err())
	}
	printBench(c.OutOrStdout(), res)
	if res.Profile != nil {
		f.profile.print(c.OutOrStdout(), res.Profile)
	}
	return c.Context().Err()
}

func (f *benchFlags) measure(c *cobra.Command, path string) (*benchResult, error) {
	start := time.Now()
	on, err := f.dev.open()
	if err != nil {
		return nil, err
	}
	defer on.Close()
	m, err := compileModel(c, path, &f.model, &f.dev, on)
	if err != nil {
		return nil, err
	}
	defer m.model.Close()
	i, unload, err := m.load(on, &f.model)
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w", path, err))
	}
	defer unload()
	res := newBenchResult(m, on)
	res.LoadMS, res.Runs = ms(time.Since(start)), f.runs
	if err := m.bench(c, path, i, on, res, f.warmup, f.profile.wanted); err != nil {
		return nil, err
	}
	m.keep()
	return res, nil
}

// newBenchResult is what is known before a run.
func newBenchResult(m *compiled, on *machine.Machine) *benchResult {
	return &benchResult{
		Cached:      m.cached.Cached(),
		Uncached:    m.cached.Reason,
		PlanBytes:   m.plan.PeakBytes(1),
		WeightBytes: m.plan.ConstBytes,
		Steps:       len(m.plan.Steps),
		Threads:     on.Pool.Threads(),
		Precision:   string(scenario.PrecisionOf(m.plan)),
		Device:      on.Device.Info().ID,
		Flops:       m.plan.Flops,
	}
}

// bench measures the runs of a loaded model.
func (m *compiled) bench(c *cobra.Command, path string, i *engine.Instance, on *machine.Machine,
	res *benchResult, warmup int, profile bool) error {
	if err := i.Run(c.Context(), device.Open); err != nil {
		return failedRun(path, err)
	}
	res.FirstOutputMS = ms(process.SinceStart())
	i.Settle()
	times, err := timeRuns(c, i, m, res, res.Runs, warmup)
	if err != nil {
		return failed(err)
	}
	res.Runs = len(times)
	summarise(res, times)
	res.PeakRSSBytes = process.PeakRSS()
	if !profile || c.Context().Err() != nil {
		return nil
	}
	err = profileSteps(c, i, on, m, res)
	if c.Context().Err() != nil { // the runs before it stay worth showing
		return nil
	}
	return failed(err)
}

// timeRuns measures runs, fewer where a signal ends them after the first.
func timeRuns(c *cobra.Command, i *engine.Instance, m *compiled, res *benchResult,
	runs, warmup int) ([]time.Duration, error) {
	times := make([]time.Duration, 0, min(runs, 1<<16))
	var before, after runtime.MemStats
	for k := range warmup + runs {
		if k == warmup {
			runtime.ReadMemStats(&before)
		}
		if err := feed.Fill(i.Inputs(), m.inputs); err != nil {
			return nil, err
		}
		t := time.Now()
		err := i.Run(c.Context(), device.Open)
		if err != nil && len(times) > 0 && c.Context().Err() != nil {
			break
		}
		if err != nil {
			return nil, err
		}
		if k >= warmup {
			times = append(times, time.Since(t))
		}
	}
	runtime.ReadMemStats(&after)
	res.GCCycles, res.HeapObjects = after.NumGC-before.NumGC, after.Mallocs-before.Mallocs
	return times, nil
}

func summarise(res *benchResult, times []time.Duration) {
	slices.Sort(times)
	at := func(q float64) float64 {
		return ms(times[min(len(times)-1, int(q*float64(len(times))))])
	}
	res.MedianMS, res.MinMS, res.P90MS, res.P99MS = at(0.5), at(0), at(0.9), at(0.99)
	if res.MedianMS > 0 {
		res.GFlopsPerS = float64(res.Flops) / res.MedianMS / 1e6
	}
}

func printBench(w io.Writer, r *benchResult) {
	say(w, "median %.3f ms, min %.3f ms, p90 %.3f ms, p99 %.3f ms over %d runs on %d threads of %s",
		r.MedianMS, r.MinMS, r.P90MS, r.P99MS, r.Runs, r.Threads, r.Device)
	say(w, "load %.1f ms, first output %.1f ms after process start", r.LoadMS, r.FirstOutputMS)
	if r.Uncached != "" {
		say(w, "no kept plan was used: %s", r.Uncached)
	}
	say(w, "%d steps, plan %s beside %s of mapped weights, peak resident %s", r.Steps,
		terminal.Size(r.PlanBytes), terminal.Size(r.WeightBytes), terminal.Size(r.PeakRSSBytes))
	say(w, "%.1f GFLOP/s; %d garbage collections, %d heap objects during the runs", r.GFlopsPerS,
		r.GCCycles, r.HeapObjects)
}
