// Command weir shares devices between deep-learning jobs and runs their models.
//
// Data goes to standard output, talk to standard error; every reading command takes --json and then prints one JSON object.
// Exit codes: 0 done; 1 the work failed or a check did not hold; 2 the command line or a file is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/cpu"
)

func main() {
	// Timers and arrivals must be served while every core computes.
	cpu.ReserveProcs(2)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(execute(ctx, os.Args[1:]))
}

func execute(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "weir:", err)
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return 2
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

// failed marks an error as a failure of the work itself: exit code 1. Every other error means that the command line or a
// file is wrong: exit code 2.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{1, err}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "Share devices between deep-learning jobs, and run their models",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newDemo(), newShare(), newRun(), newBench(), newInspect(), newOptimize(), newVerify(), newModel(), newDevice(), newDebug())
	return root
}
