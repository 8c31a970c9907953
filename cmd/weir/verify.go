package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/conformance"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

type verifyFlags struct {
	dev               deviceFlags
	asJSON, reference bool
}

func newVerify() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Run ONNX test cases with ONNX's own tolerances",
		Long: "Run ONNX test cases: folders with model.onnx and test_data_set_*, trees of such " +
			"folders, or a .tar.xz of them, which is\n" +
			"unpacked to the user's cache folder once. The exit code is 0 only if all passed; " +
			"operators that weir does not have count\n" +
			"as unsupported, not as passed.",
		RunE: f.run,
	}
	f.dev.add(c)
	c.Flags().BoolVar(&f.reference, "reference", false,
		"run the operators' plain evaluations instead of the device's kernels")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return c
}

// run runs the cases at the paths. It fails unless all pass.
func (f *verifyFlags) run(c *cobra.Command, paths []string) error {
	if len(paths) == 0 {
		return fmt.Errorf("no folders of test cases given: see %s --help", c.CommandPath())
	}
	folders, err := unpacked(paths)
	if err != nil {
		return err
	}
	cases, err := conformance.Find(folders...)
	if err != nil {
		return err
	}
	run, closeDevice, err := verifyRunner(&f.dev, f.reference)
	if err != nil {
		return err
	}
	defer closeDevice()
	return f.print(c.OutOrStdout(), verifyAll(c, cases, run))
}

// print shows a report. It fails if a case did not pass.
func (f *verifyFlags) print(w io.Writer, rep *conformance.Report) error {
	if f.asJSON {
		if err := printJSON(w, rep); err != nil {
			return failed(err)
		}
	} else {
		rep.Summarize(&fitted{w: w})
	}
	if n := rep.Failed + rep.Unsupported; n > 0 {
		return failed(fmt.Errorf("%d of %d cases did not pass", n, len(rep.Cases)))
	}
	return nil
}

// unpacked gives, for every archive among paths, the folder of what it holds.
func unpacked(paths []string) ([]string, error) {
	out := slices.Clone(paths)
	for i, p := range paths {
		if !strings.HasSuffix(p, ".tar.xz") {
			continue
		}
		if info, err := os.Stat(p); err != nil || info.IsDir() {
			continue // Find says what is wrong with it
		}
		var err error
		if out[i], err = archive.Unpacked(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// verifyAll runs case by case, and counts them where a person watches.
func verifyAll(c *cobra.Command, cases []*conformance.Case,
	run conformance.Runner) *conformance.Report {
	threads := runtime.GOMAXPROCS(0)
	w := c.ErrOrStderr()
	if !terminal.Live(w) {
		return conformance.RunAll(c.Context(), cases, run, threads)
	}
	const eraseLine = "\r\x1b[K" // ECMA-48: EL
	var done atomic.Int64
	counted := func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor,
		error) {
		defer func() {
			fmt.Fprintf(w, "%sverifying %d of %d", eraseLine, done.Add(1), len(cases))
		}()
		return run(ctx, m, in)
	}
	rep := conformance.RunAll(c.Context(), cases, counted, threads)
	fmt.Fprint(w, eraseLine)
	return rep
}

func verifyRunner(dev *deviceFlags, reference bool) (conformance.Runner, func(), error) {
	if reference {
		return conformance.Reference, func() {}, nil
	}
	on, err := dev.open()
	if err != nil {
		return nil, nil, err
	}
	return (&conformance.Engine{Device: on.Device, Pool: on.Pool, HostQuota: on.Host,
		Plan: plan.Options{Target: on.Target}}).Run, func() { _ = on.Close() }, nil
}
