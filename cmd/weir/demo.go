package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/scenario/report"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

const demoIntro = "Three deep-learning jobs on one device. A latency job answers requests that " +
	"come at random and keep the device busy for " +
	"30 % of the time; a standard job is guaranteed 30 % and never gets more than 35 %; an " +
	"opportunistic batch job takes whatever is " +
	"left. First each runs alone, " +
	"then all three together: left to the operating system, and shared by weir under two policies."

// demoNotes say what to look at.
func demoNotes(res *scenario.Result) []string {
	notes := append(
		explain(res.Phases),
		"Under priority the opportunistic job runs in the gaps that the others leave; under fair, "+
			"guarantees and what is left over "+
			"are shared by weight. Zoom into the two timelines to see it.",
	)
	for _, p := range res.Phases {
		for _, j := range p.Jobs {
			if j.MemoryPeakBytes != j.PlanBytes {
				return notes
			}
		}
	}
	return append(notes,
		"Every job held, to the byte, the memory that its plan predicted before it ran.")
}

func newDemo() *cobra.Command {
	var f shareFlags
	var d demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Share this machine between three jobs and show what each gets",
		Long: demoIntro + "\n\nWith --model, the models given take the places of the jobs: the " +
			"first the latency job, the second the opportunistic one,\n" +
			"the third the standard one.\n\nWith --memory, twenty models, or those given, " +
			"have so much memory in turn instead, about a gigabyte of\nthem: the report shows " +
			"which were on the device when.",
		Example: "  weir demo\n  weir demo --memory 300MiB",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if d.duration < time.Second || d.duration > time.Hour {
				return fmt.Errorf("--duration %v: want from 1s to 1h", d.duration)
			}
			memory, err := d.memory.value(c)
			switch {
			case err != nil:
				return err
			case memory == 0 && d.memory.eviction != "":
				return errors.New("--eviction is for --memory: give that too")
			}
			return demo(c, &f, &d, memory)
		},
	}
	f.add(c)
	d.memory.add(c)
	c.Flags().
		StringArrayVar(&d.models, "model", nil,
			"an ONNX model of your own in place of the built-in ones (up to three, more "+
				"with --memory)")
	c.Flags().
		StringVar(&d.dir, "output", "weir-report", "folder for the report page and the timeline")
	c.Flags().
		DurationVar(&d.duration, "duration", 6*time.Second,
			"how long the jobs run together under each policy")
	return c
}

// demoFlags are those of demo alone.
type demoFlags struct {
	memory   memoryFlags
	models   []string
	dir      string
	duration time.Duration
}

// shown is what a demo runs and says.
type shown struct {
	title, intro, command string

	scenario *scenario.Scenario
	close    func()
	options  func(o *scenario.Options)
	notes    func(res *scenario.Result) []string
}

// chosen returns the demo of three jobs, or, under a bound on memory, of many.
func (d *demoFlags) chosen(memory share.Bytes) (*shown, error) {
	if memory > 0 {
		s, err := crowdScenario(d.models, memory, d.memory.eviction, d.duration)
		return &shown{title: "Many models share the memory of a few", intro: crowdIntro,
			command: "weir demo --memory " + memory.String(), scenario: s, close: func() {},
			options: func(o *scenario.Options) { o.Solo = false }, notes: crowdNotes}, err
	}
	s, closeModels, err := demoScenario(d.models, d.duration)
	return &shown{title: "Three jobs share one device", intro: demoIntro, command: "weir demo",
		scenario: s, close: closeModels, notes: demoNotes,
		options: func(o *scenario.Options) {
			o.SoloDuration = d.duration / 2
			o.Compare = []scenario.Mode{scenario.Threads, scenario.Processes}
			o.Policies = []string{"fair", "priority"}
		}}, err
}

func demo(c *cobra.Command, f *shareFlags, d *demoFlags, memory share.Bytes) error {
	show, err := d.chosen(memory)
	if err != nil {
		return err
	}
	defer show.close()
	talk := c.ErrOrStderr()
	fmt.Fprintf(talk, "%s\n\n", terminal.Wrap(show.intro, textWidth(talk)))
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return failed(err)
	}
	if f.trace == "" {
		f.trace = filepath.Join(d.dir, "timeline.json")
	}
	rec, writeTrace, err := openTrace(c.Context(), f.trace)
	if err != nil {
		return err
	}
	o := f.options(c, rec)
	show.options(&o)
	res, err := runScenario(c, show.scenario, o)
	if err != nil {
		return err
	}
	if !f.asJSON {
		printResult(c.OutOrStdout(), res)
	}
	page := filepath.Join(d.dir, "report.html")
	if err := errors.Join(writeTrace(), writePage(c.Context(), page, report.Head{Title: show.title,
		Intro: show.intro, Command: show.command, Notes: show.notes(res), When: time.Now()},
		res)); err != nil {
		return failed(err)
	}
	fmt.Fprintf(talk, "\nreport    %s\ntimeline  %s  (open it at ui.perfetto.dev)\n", page,
		f.trace)
	return finishShare(c, res, f.asJSON)
}

// demoRoles are the shares of the demo's jobs, in the order in which models given by the user take
// them.
var demoRoles = []scenario.Job{
	{
		Job:     share.Job{Name: "latency", Share: share.Share{Class: share.Latency, Compute: 0.4}},
		Arrival: scenario.Arrival{Load: 0.3},
	},
	{
		Job:     share.Job{Name: "batch", Share: share.Share{Class: share.Opportunistic}},
		Arrival: scenario.Arrival{Closed: 1},
	},
	{
		Job: share.Job{
			Name:  "standard",
			Share: share.Share{Class: share.Standard, Compute: 0.3, Limit: 0.35},
		},
		Arrival: scenario.Arrival{Closed: 1},
	},
}

func demoScenario(models []string, duration time.Duration) (*scenario.Scenario, func(), error) {
	if len(models) > len(demoRoles) {
		return nil, nil, fmt.Errorf("--model: %d models given, the demo has %d jobs", len(models),
			len(demoRoles))
	}
	s := &scenario.Scenario{Policy: "priority", Duration: duration, Seed: 1}
	if len(models) == 0 {
		return builtinScenario(s)
	}
	for i, path := range models {
		j := demoRoles[i]
		j.Model = path
		j.Name = fmt.Sprintf("%s (%s)", j.Name, strings.TrimSuffix(filepath.Base(path), ".onnx"))
		s.Jobs = append(s.Jobs, j)
	}
	return s, func() {}, nil
}

// builtinScenario serves the trained digits classifier, on real images, beside two standard
// networks with random weights.
func builtinScenario(s *scenario.Scenario) (*scenario.Scenario, func(), error) {
	m, err := onnx.Decode(digits.Model, "", onnx.Options{})
	if err != nil {
		return nil, nil, err
	}
	images, err := digits.Images()
	if err != nil {
		return nil, nil, err
	}
	const batch = 512
	latency, opportunistic, standard := demoRoles[0], demoRoles[1], demoRoles[2]
	latency.Name, latency.Model, latency.Graph = "digits", "digits", m.Graph
	latency.Given = map[string]*tensor.Tensor{
		"image": tensor.From(digits.Input(images[:batch]...), batch, 1, digits.Side, digits.Side),
	}
	standard.Name, standard.Model = "mobilenetv2", "mobilenetv2"
	if standard.Graph, err = zoo.New("mobilenetv2", zoo.Options{Seed: 1}); err != nil {
		return nil, nil, err
	}
	opportunistic.Name, opportunistic.Model = "resnet50", "resnet50"
	if opportunistic.Graph, err = zoo.New("resnet50", zoo.Options{Seed: 1}); err != nil {
		return nil, nil, err
	}
	s.Jobs = []scenario.Job{latency, standard, opportunistic}
	return s, func() { _ = m.Close() }, nil
}
