package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/internal/wholefile"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/report"
)

// trainFlags are the flags of train and of train plan.
type trainFlags struct {
	dev    deviceFlags
	memory share.Bytes
	resume bool
	anew   bool
	steps  int64
	report string
	trace  string
	asJSON bool
	team   processFlags
}

func newTrain() *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "train RECIPE",
		Short: "Train the weights of a model",
		Long: `Train the weights of an ONNX model by a recipe, a YAML file that names the model,
its data, the loss and the optimizer; docs/train.md tells what it may say. Ctrl-C ends the run after
the update under way, and keeps a checkpoint where the recipe has a folder for them; --resume goes
on from there, to the same bits as a run that was never interrupted. --processes has several
processes of this machine share each batch of a recipe with shards, to the same bits, too.`,
		Example: "  weir train examples/digits/recipe.yaml\n" +
			"  weir train recipe.yaml --resume --report run.html",
		Args:              exactly(1),
		ValidArgsFunction: files("yaml"),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.add(c)
	c.Flags().
		BoolVar(&f.resume, "resume", false, "go on from the newest checkpoint, if there is one")
	c.Flags().
		BoolVar(&f.anew, "anew", false, "begin again, over what an interrupted run has kept")
	c.MarkFlagsMutuallyExclusive("resume", "anew")
	c.Flags().Int64Var(&f.steps, "steps", 0,
		"end after so many updates, as if interrupted there (0: at the end of the recipe)")
	c.Flags().StringVar(&f.report, "report", "", "write a page about the run to this file")
	c.Flags().StringVar(&f.trace, "trace", "", "write a Chrome trace of the shards of batches, "+
		"and of their sums, to this file (Perfetto opens it)")
	f.team.add(c)
	c.AddCommand(newTrainPlan())
	return c
}

func newTrainPlan() *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "plan RECIPE",
		Short: "Say what a recipe takes: memory, time, and operators without gradients",
		Long: `Say what a recipe takes, before it is followed: bytes of memory, exact; the time of
an update, measured; and the operators of the model that have no gradient.`,
		Args:              exactly(1),
		ValidArgsFunction: files("yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.plan(c, args[0])
		},
	}
	f.add(c)
	return c
}

func (f *trainFlags) add(c *cobra.Command) {
	f.dev.addPlace(c)
	c.Flags().TextVar(&f.memory, "memory", share.Bytes(0), "most memory that the run may hold, a "+
		"`SIZE` such as 4GiB (0B: what the device has)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
}

// open reads the recipe and opens the device, which the caller closes.
func (f *trainFlags) open(c *cobra.Command, path string) (*recipe.Recipe, train.Options, error) {
	var o train.Options
	if f.steps < 0 {
		return nil, o, fmt.Errorf("--steps %d: want none below 0", f.steps)
	}
	r, err := recipe.Load(path)
	if err != nil {
		return nil, o, err
	}
	on, err := f.dev.open()
	if err != nil {
		return nil, o, err
	}
	return r, train.Options{Machine: on, Quota: seat.NewCounted("--memory", f.memory),
		Memory: int64(f.memory), Steps: f.steps, Anew: f.anew, Log: slog.Default()}, nil
}

func (f *trainFlags) run(c *cobra.Command, path string) (err error) {
	f.dev.threads = f.team.perProcess(f.dev.threads)
	if f.team.rank > 0 {
		return f.work(c, path)
	}
	r, o, err := f.open(c, path)
	if err != nil {
		return err
	}
	defer closeMachine(o.Machine, &err)
	rec, writeTrace, err := openTrace(c.Context(), f.trace)
	if err != nil {
		return err
	}
	o.Trace = rec
	if f.report = cmp.Or(f.report, r.Report); f.report != "" {
		if err := wholefile.Check(f.report); err != nil {
			return failed(err)
		}
	}
	b := newBar(c.ErrOrStderr(), "training", 1)
	o.Progress = func(e train.Event) { b.trained(c.ErrOrStderr(), e) }
	o.Room = waitForRoom
	var others *workers
	if o.Team, others, err = f.team.start(path, f.dev.threads, f.memory.String()); err != nil {
		return err
	}
	res, err := f.follow(c, r, o)
	b.end()
	if err = errors.Join(err, failed(others.end())); res == nil {
		return err
	}
	return errors.Join(err, f.show(c, path, res), writeTrace())
}

// follow follows a recipe to its end, or to where it is ended.
func (f *trainFlags) follow(c *cobra.Command, r *recipe.Recipe, o train.Options) (
	res *train.Result, err error) {
	run, err := train.Open(c.Context(), r, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if f.resume {
		if err := run.Resume(); err != nil {
			return nil, err
		}
	}
	res, err = run.Train(c.Context())
	return res, failed(err)
}

// waitForRoom waits a while where a disk is full. A second signal ends the process meanwhile.
func waitForRoom(err error) bool {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return false
	}
	slog.Warn("waiting for room: make some, or press Ctrl-C twice to lose the updates since the "+
		"last checkpoint", "error", err)
	time.Sleep(10 * time.Second)
	return true
}

func closeMachine(on *machine.Machine, err *error) { *err = errors.Join(*err, on.Close()) }

// show prints what a run came to, and writes its page.
func (f *trainFlags) show(c *cobra.Command, path string, res *train.Result) error {
	if f.report != "" {
		err := wholefile.Write(f.report, func(w io.Writer) error {
			return report.Write(w, "Training of "+filepath.Base(path), res)
		})
		if err != nil {
			return failed(err)
		}
	}
	if f.asJSON {
		return printJSON(c.OutOrStdout(), res)
	}
	w := c.OutOrStdout()
	drawCurve(w, res.Curve.Losses)
	say(w, "%d updates, loss %.4g%s", res.Steps, res.Loss, metricOf(res))
	say(w, "%.2f ms an update, %.0f samples/s, device idle for data %.1f %% of it; %s of arenas "+
		"beside %s of state", res.StepMS, res.SamplesPerS, 100*res.DataWaitShare,
		terminal.Size(res.ArenaBytes), terminal.Size(res.StateBytes))
	if res.Processes > 1 {
		say(w, "%d processes: %.1f %% of the time waiting for others, %.0f %% of their sums "+
			"beside the backward half", res.Processes, 100*res.PeerWaitShare, 100*res.OverlapShare)
	}
	say(w, "digest %s", res.Digest)
	for _, file := range []string{res.Model, f.report} {
		if file != "" {
			say(w, "wrote %s", file)
		}
	}
	return nil
}

func metricOf(res *train.Result) string {
	if res.MetricName == "" {
		return ""
	}
	return fmt.Sprintf(", %s %.2f %% of samples it has not seen", res.MetricName, 100*res.Metric)
}

// trained shows how far a run is, and a line for each evaluation.
func (b *bar) trained(w io.Writer, e train.Event) {
	if b != nil {
		b.all = max(e.Updates, 1)
	}
	if e.Eval == nil {
		text := fmt.Sprintf("epoch %d loss %.4g", e.Epoch, e.Loss)
		if e.Idle >= 0.01 {
			text += fmt.Sprintf(", device idle %.0f %%", 100*e.Idle)
		}
		b.show(e.Update, text)
		return
	}
	b.end()
	text := fmt.Sprintf("epoch %d: loss %.4g, evaluation %.4g", e.Epoch, e.Loss, e.Eval.Loss)
	if e.Eval.Name != "" {
		text += fmt.Sprintf(", %s %.2f %%", e.Eval.Name, 100*e.Eval.Metric)
	}
	say(w, "%s", text)
}

func (f *trainFlags) plan(c *cobra.Command, path string) (err error) {
	r, o, err := f.open(c, path)
	if err != nil {
		return err
	}
	defer closeMachine(o.Machine, &err)
	p, err := train.Plan(c.Context(), r, o)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(c.OutOrStdout(), p)
	}
	w := c.OutOrStdout()
	for _, m := range p.Missing {
		say(w, "no gradient: %s, node %q", m.Operator, m.Node)
	}
	if len(p.Missing) > 0 {
		return failed(errors.New("the model cannot be trained: freeze the weights before these " +
			"nodes, or write them with operators that have gradients (docs/operators.md)"))
	}
	say(w, "%d weights are trained in %d updates of %.2f ms", p.Parameters, p.Updates, p.StepMS)
	say(w, "%s of arenas beside %s of state", terminal.Size(p.ArenaBytes),
		terminal.Size(p.StateBytes))
	for _, t := range p.Recompute {
		say(w, "%s of them for an update by --memory, which computes and moves %.2f times what "+
			"one that keeps all does", terminal.Size(t.ArenaBytes), t.Time)
	}
	return nil
}
