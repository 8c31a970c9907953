package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/tensor"
)

type runResult struct {
	Outputs []outputResult `json:"outputs"`
	LoadMS  float64        `json:"load_ms"`
	RunMS   float64        `json:"run_ms"`
	Cached  bool           `json:"cached"` // whether the plan came from the cache
	// Uncached says why a plan that was kept of this model was not used.
	Uncached string `json:"uncached,omitempty"`
}

// runFlags are the flags of run.
type runFlags struct {
	dev   deviceFlags
	model modelFlags
	resultFlags
}

func newRun() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run MODEL",
		Short: "Run one inference",
		Long: `Run one inference of an ONNX model; - reads it from standard input. Inputs that are not
given are made up: floats uniform from 0 to 1, integers 1, booleans true, symbolic dimensions 1
unless --shape says otherwise, sequences and optionals of one value. A .pb file holds a TensorProto,
SequenceProto, OptionalProto or MapProto.

An image is scaled to the size that the model takes, stretched where its sides differ. Its samples
are from 0 to 1, less --mean, divided by --std; a model that takes bytes gets them from 0 to 255.`,
		Example: "  weir run resnet50.onnx --input input=photo.jpg --mean 0.485,0.456,0.406 \\\n" +
			"      --std 0.229,0.224,0.225 --labels imagenet.txt\n" +
			"  weir run bert.onnx --input ids=[101,7592,102] --json",
		Args:              exactly(1),
		ValidArgsFunction: files("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return f.run(c, args[0])
		},
	}
	f.dev.add(c)
	f.model.add(c)
	f.model.addRun(c)
	f.resultFlags.add(c)
	return c
}

// check refuses flags that exclude each other.
func (f *runFlags) check(c *cobra.Command) error {
	return errors.Join(f.resultFlags.check(c), f.model.images.Check())
}

// print shows a result: on standard error where an output has the other.
func (f *runFlags) print(c *cobra.Command, res *runResult, outs []*tensor.Tensor) error {
	if f.asJSON {
		return printJSON(c.OutOrStdout(), res)
	}
	f.printOutputs(c, res.Outputs, outs)
	from := ""
	switch {
	case res.Cached:
		from = " from the plan cache"
	case res.Uncached != "":
		from = " (no kept plan was used: " + res.Uncached + ")"
	}
	say(c.ErrOrStderr(), "load %.1f ms%s, run %.2f ms", res.LoadMS, from, res.RunMS)
	return nil
}

// run runs a model once and shows the result, before the plan is kept for the next start.
func (f *runFlags) run(c *cobra.Command, path string) error {
	start := time.Now()
	on, err := f.dev.open()
	if err != nil {
		return err
	}
	defer on.Close()
	m, err := compileModel(c, path, &f.model, &f.dev, on)
	if err != nil {
		return err
	}
	defer m.model.Close()
	if len(m.made) > 0 {
		say(c.ErrOrStderr(), "made up: %s (floats 0 to 1 from seed %d, integers 1)",
			strings.Join(m.made, ", "), f.model.seed)
	}
	i, unload, err := m.load(on, &f.model)
	if err != nil {
		return failed(fmt.Errorf("%s: %w", path, err))
	}
	defer unload()
	loaded := time.Now()
	err = i.Run(c.Context(), device.Open)
	if err := cmp.Or(m.model.Unchanged(), err); err != nil {
		return failedRun(path, err)
	}
	res := &runResult{
		LoadMS:   ms(loaded.Sub(start)),
		RunMS:    ms(time.Since(loaded)),
		Cached:   m.cached.Cached(),
		Uncached: m.cached.Reason,
	}
	var names []string
	for _, v := range m.plan.Graph.Outputs {
		names = append(names, v.Name)
	}
	outs := i.Outputs() // valid until the model is unloaded
	if res.Outputs, err = f.take(c, names, outs); err != nil {
		return err
	}
	if err := f.print(c, res, outs); err != nil {
		return err
	}
	m.keep()
	return nil
}

// failedRun is the error of a run: an operator that refuses its operands means that the model or an
// input file is wrong.
func failedRun(path string, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	for _, kind := range []error{op.ErrInput, op.ErrAttr, op.ErrUnsupported, tensor.ErrShape} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return failed(err)
}

// load makes an instance with its inputs filled; unload gives its memory back.
func (m *compiled) load(on *machine.Machine, f *modelFlags) (i *engine.Instance, unload func(),
	err error) {
	m.model.Evict(nil)
	s, err := engine.Load(
		m.plan,
		engine.Options{
			Device:    on.Device,
			Pool:      on.Pool,
			PackPool:  on.Pool,
			Quota:     seat.NewCounted("--memory", f.memory),
			HostQuota: on.Host,
			Weights:   m.cached.Weights,
			Packed:    m.model.Evict,
		},
	)
	if err != nil {
		return nil, nil, err
	}
	if err = m.model.Unchanged(); err == nil {
		i, err = s.Take()
	}
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	m.session = s
	unload = func() { i.Put(); s.Close() }
	if err := feed.Fill(i.Inputs(), m.inputs); err != nil {
		unload()
		return nil, nil, err
	}
	return i, unload, nil
}

// keep puts the plan of a loaded model into the cache, which is no part of the work: what keeps it
// from that is nobody's trouble.
func (m *compiled) keep() {
	if m.cached.Fresh() {
		_ = m.session.WithWeights(context.Background(), m.cached.Save)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
