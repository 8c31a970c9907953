package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/conformance"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

func newVerify() *cobra.Command {
	var dev deviceFlags
	var asJSON, reference bool
	c := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Run ONNX test cases with ONNX's own tolerances",
		Long: "Run ONNX test cases: folders with model.onnx and test_data_set_*, or trees of such folders. The exit code is 0 only if all\n" +
			"passed; operators that weir does not have count as unsupported, not as passed.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("no folders of test cases given: see %s --help", c.CommandPath())
			}
			cases, err := conformance.Find(args...)
			if err != nil {
				return err
			}
			run, closeDevice, err := verifyRunner(&dev, reference)
			if err != nil {
				return err
			}
			defer closeDevice()
			rep := verifyAll(c, cases, run)
			if asJSON {
				if err := printJSON(c.OutOrStdout(), rep); err != nil {
					return failed(err)
				}
			} else {
				printReport(c.OutOrStdout(), rep)
			}
			if rep.Failed+rep.Unsupported > 0 {
				return failed(fmt.Errorf("%d of %d cases did not pass", rep.Failed+rep.Unsupported, len(rep.Cases)))
			}
			return nil
		},
	}
	dev.add(c)
	c.Flags().BoolVar(&reference, "reference", false, "run the operators' plain evaluations instead of the device's kernels")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printReport(w io.Writer, rep *conformance.Report) {
	for _, r := range rep.Cases {
		if r.Status != conformance.Passed {
			fmt.Fprintf(w, "%s  %s: %s\n", r.Status, r.Name, r.Detail)
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d unsupported\n", rep.Passed, rep.Failed, rep.Unsupported)
}

// verifyAll runs case by case, with a progress bar where a person watches.
func verifyAll(c *cobra.Command, cases []*conformance.Case, run conformance.Runner) *conformance.Report {
	bar := progressbar.NewOptions(len(cases), progressbar.OptionSetWriter(c.ErrOrStderr()), progressbar.OptionSetVisibility(isTerminal(c.ErrOrStderr())),
		progressbar.OptionSetDescription("verifying"), progressbar.OptionClearOnFinish())
	counted := func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		defer bar.Add(1)
		return run(ctx, m, in)
	}
	rep := conformance.RunAll(c.Context(), cases, counted, runtime.GOMAXPROCS(0))
	_ = bar.Finish()
	return rep
}

func verifyRunner(dev *deviceFlags, reference bool) (conformance.Runner, func(), error) {
	if reference {
		return conformance.Reference, func() {}, nil
	}
	d, pool, closeDevice, err := dev.open()
	if err != nil {
		return nil, nil, err
	}
	return engineRunner(d, pool), closeDevice, nil
}

// engineRunner computes a case the way that jobs do: plan, load, one iteration.
func engineRunner(d device.Device, pool *cpu.Pool) conformance.Runner {
	return func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) (outs []*tensor.Tensor, err error) {
		if len(in) != len(m.Graph.Inputs) {
			return nil, errors.New("the case gives another number of inputs than the model takes")
		}
		shapes := map[string][]int{}
		for i, v := range m.Graph.Inputs {
			shapes[v.Name] = in[i].Shape
		}
		p, err := plan.Compile(ctx, m.Graph, plan.Options{Shapes: shapes, Threads: pool.Threads()})
		if err != nil {
			return nil, err
		}
		i, unload, err := (&compiled{plan: p, inputs: in}).load(d, pool, &modelFlags{})
		if err != nil {
			return nil, err
		}
		defer unload()
		if err := i.Run(ctx, device.Open); err != nil {
			return nil, err
		}
		for _, t := range i.Outputs() {
			outs = append(outs, t.Clone())
		}
		return outs, nil
	}
}
