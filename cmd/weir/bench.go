package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/engine/roofline"
	"github.com/weirgpu/weir/internal/process"
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

func newBench() *cobra.Command {
	var dev deviceFlags
	var model modelFlags
	var runs, warmup int
	var asJSON bool
	var profile profileFlags
	c := &cobra.Command{
		Use:   "bench MODEL",
		Short: "Measure the latency of one model, alone",
		Args:  exactly(1),

		ValidArgsFunction: files("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			if runs < 1 || warmup < 0 {
				return fmt.Errorf("--runs %d --warmup %d: want at least 1 run and 0 warm-ups", runs,
					warmup)
			}
			if err := profile.check(); err != nil {
				return err
			}
			res, err := benchModel(c, args[0], &dev, &model, runs, warmup, profile.wanted)
			if err != nil {
				return err
			}
			if res.Profile != nil {
				if err := profile.write(res.Profile, args[0]); err != nil {
					return failed(err)
				}
			}
			if asJSON {
				return errors.Join(printJSON(c.OutOrStdout(), res), c.Context().Err())
			}
			printBench(c, res)
			if res.Profile != nil {
				profile.print(c.OutOrStdout(), res.Profile)
			}
			return c.Context().Err() // what was measured until a signal is shown
		},
	}
	dev.add(c)
	model.add(c)
	model.addRun(c)
	c.Flags().IntVar(&runs, "runs", 30, "measured runs")
	c.Flags().IntVar(&warmup, "warmup", 5, "runs before measuring")
	profile.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func benchModel(c *cobra.Command, path string, dev *deviceFlags, model *modelFlags,
	runs, warmup int, profile bool) (*benchResult, error) {
	start := time.Now()
	on, err := dev.open()
	if err != nil {
		return nil, err
	}
	defer on.Close()
	m, err := compileModel(c, path, model, dev, on)
	if err != nil {
		return nil, err
	}
	defer m.model.Close()
	i, unload, err := m.load(on, model)
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w", path, err))
	}
	defer unload()
	res := newBenchResult(m, on)
	res.LoadMS, res.Runs = ms(time.Since(start)), runs
	if err := m.bench(c, path, i, on, res, warmup, profile); err != nil {
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
	if profile && c.Context().Err() == nil {
		return failed(profileSteps(c, i, on, m, res))
	}
	return nil
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
		if err := scenario.FillInputs(i, m.inputs); err != nil {
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

func printBench(c *cobra.Command, r *benchResult) {
	w := c.OutOrStdout()
	fmt.Fprintf(w,
		"median %.3f ms, min %.3f, p90 %.3f, p99 %.3f over %d runs on %d threads of %s\n",
		r.MedianMS, r.MinMS, r.P90MS, r.P99MS, r.Runs, r.Threads, r.Device)
	fmt.Fprintf(w, "load %.1f ms, first output %.1f ms after process start\n", r.LoadMS,
		r.FirstOutputMS)
	if r.Uncached != "" {
		fmt.Fprintln(w, "no kept plan was used:", r.Uncached)
	}
	fmt.Fprintf(w,
		"%d steps, plan %.1f MiB beside %.1f MiB of mapped weights, peak resident %.1f MiB\n",
		r.Steps, float64(r.PlanBytes)/(1<<20), float64(r.WeightBytes)/(1<<20),
		float64(r.PeakRSSBytes)/(1<<20))
	fmt.Fprintf(w, "%.1f GFLOP/s; %d garbage collections, %d heap objects during the runs\n",
		r.GFlopsPerS, r.GCCycles, r.HeapObjects)
}
