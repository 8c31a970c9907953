// Command weir shares devices between deep-learning jobs and runs their models.
//
// Data goes to standard output, talk to standard error; every reading command takes --json and then
// prints one JSON object. Exit codes: 0 done; 1 the work failed or a check did not hold; 2 the
// command line or a file is wrong; 128 and a signal's number when that ended the command, 130 after
// Ctrl-C. Those of exec are its program's.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/fault"
)

func main() {
	// Tensors lie outside Go's heap, which a few megabytes of graphs and plans make up. Collecting
	// it as often as by default takes a good part of the time that loading a model takes, and saves
	// next to nothing.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	// Timers and arrivals must be served while every core computes.
	cpu.ReserveProcs(2)
	ctx, stop := untilSignal(context.Background())
	defer stop()
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, talk io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	if in != nil {
		root.SetIn(&input{ctx: ctx, from: in})
	}
	stdout := newChecked(ctx, out)
	root.SetOut(stdout)
	root.SetErr(talk)
	addCompletion(root)
	err := fault.Do(func() error { return root.ExecuteContext(ctx) })
	if stdout.err != nil {
		err = failed(stdout.err)
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		fmt.Fprintln(talk, "weir: stopped")
		return stopCode(ctx)
	}
	return complain(talk, err)
}

// complain says what an error is and returns the exit code for it.
func complain(talk io.Writer, err error) int {
	if text := "weir: " + message(err); strings.Contains(text, "\n") {
		fmt.Fprintln(talk, text) // a bug report
	} else {
		say(talk, "%s", text)
	}
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return 2
}

// message puts an error on one line; the stack of a fault, which a bug report needs, stays below
// it.
func message(err error) string {
	text := strings.TrimSpace(err.Error())
	if errors.Is(err, engine.ErrFault) || errors.Is(err, compute.ErrPanic) ||
		errors.Is(err, fault.ErrPanic) {
		return text
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// failure is an error with the exit code that it means.
type failure struct {
	code int
	err  error
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap gives the cause to errors.Is.
func (f *failure) Unwrap() error { return f.err }

// failed marks an error as a failure of the work itself: exit code 1. Every other error means that
// the command line or a file is wrong: exit code 2.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{1, err}
}

func newRoot() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "weir",
		Short:         "Share devices between deep-learning jobs, and run their models",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommand,
		RunE: func(c *cobra.Command, _ []string) error {
			if !version {
				return c.Help()
			}
			v := thisVersion()
			v.print(c.OutOrStdout())
			return nil
		},
		// A run that was to be on other instructions must not pass for one.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return cpuinfo.EnvironmentError()
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w%s: see %s --help", err, meantFlag(c, err), c.CommandPath())
	})
	root.Flags().BoolVar(&version, "version", false, "say which weir this is")
	root.SetHelpFunc(writeHelp)
	root.SetHelpCommand(newHelp())
	addCommands(root)
	return root
}

// addCommands adds all commands, those of one section of the reference beside each other.
func addCommands(root *cobra.Command) {
	root.AddCommand(newUp(), newDemo(), newShare(), newSimulate(), newCluster(), newPolicies())
	root.AddCommand(newJob(), newAccount(), newAudit(), newBackup(), newRestore())
	root.AddCommand(newRun(), newInfer(), newBench(), newInspect(), newOptimize(), newVerify(),
		newTune(), newTrain(), newModel(), newDevice(), newCache(), newDebug())
	root.AddCommand(newExec(), newTop(), newSet(), newFreeze(), newThaw(), newPolicy(), newAgent())
	root.AddCommand(newDoctor(), newMan(), newVersion())
}

// exactly checks the number of arguments; the error shows how the command is used.
func exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("got %d arguments, want %s: see %s --help", len(args), c.UseLine(),
				c.CommandPath())
		}
		return nil
	}
}
