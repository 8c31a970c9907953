package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// freezeFlags are the flags of freeze and thaw.
type freezeFlags struct {
	device             string
	fake, asJSON, wait bool
}

func newFreeze() *cobra.Command {
	var f freezeFlags
	c := &cobra.Command{
		Use:   "freeze JOB [flags]",
		Short: "Move a program's device memory to the host, until weir thaw",
		Long: `Move the device memory of a job of weir exec --oversubscribe to memory of the host. Its
programs do not notice, but for the time: what they launch, copy or allocate waits until weir thaw
brings everything back to the same addresses. The memory is promised to others meanwhile.

What cannot be moved stays on the device and is named with its size: contexts, managed memory,
arrays, memory that the program maps itself, pools, allocations below 2MiB, and memory of other
processes. If the host has no room, or work in flight does not end, nothing is moved and the job
goes on. What the host has no room for goes to the folder that exec --spill names, if it does.`,
		Example:           "  weir freeze train",
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c, args[0], (*agent.Client).Freeze)
		},
	}
	f.add(c)
	return c
}

func newThaw() *cobra.Command {
	var f freezeFlags
	c := &cobra.Command{
		Use:   "thaw JOB [flags]",
		Short: "Bring a frozen program's memory back and let it go on",
		Long: `Bring the device memory of a frozen job back, unchanged and to the addresses that it had, and
let its programs go on. If others have been promised the memory meanwhile, or hold it, this is
refused with the numbers and the job stays frozen, or waits with --wait.`,
		Example:           "  weir thaw train --wait",
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c, args[0], (*agent.Client).Thaw)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until the device has room for it")
	return c
}

func (f *freezeFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&f.device, "device", "",
		"GPU of the job, such as cuda:1 (needed if two have a job of this name)")
	addFakeAgent(c, &f.fake)
}

// thawAgain is how often a thaw that waits is tried.
const thawAgain = 200 * time.Millisecond

// run asks for a freeze or a thaw and prints what was done.
func (f *freezeFlags) run(c *cobra.Command, job string, ask func(*agent.Client, context.Context,
	string, *uint32) (agent.FreezeReport, error)) error {
	device, err := deviceFlag(c, f.device)
	if err != nil {
		return err
	}
	said := false
	for {
		r, err := f.once(c.Context(), job, device, ask)
		var refused *agent.RefusedError
		full := errors.As(err, &refused) && refused.Code == wire.RefusedFull
		if !f.wait || !full {
			if err != nil {
				return failed(err)
			}
			return f.print(c.OutOrStdout(), &r)
		}
		if !said {
			fmt.Fprintf(c.ErrOrStderr(), "weir: waits: %v\n", err)
			said = true
		}
		select {
		case <-c.Context().Done():
			return failed(c.Context().Err())
		case <-time.After(thawAgain):
		}
	}
}

func (f *freezeFlags) once(ctx context.Context, job string, device *uint32,
	ask func(*agent.Client, context.Context, string, *uint32) (agent.FreezeReport, error)) (
	agent.FreezeReport, error) {
	client, err := dialAgent(f.fake)
	if err != nil {
		return agent.FreezeReport{}, err
	}
	defer client.Close()
	return ask(client, ctx, job, device)
}

func (f *freezeFlags) print(w io.Writer, r *agent.FreezeReport) error {
	if f.asJSON {
		return printJSON(w, r)
	}
	_, err := fmt.Fprintf(w, "%s: %s, %v moved in %.3g s, %v away\n", r.Job, r.State,
		share.Bytes(r.MovedBytes), r.Seconds, share.Bytes(r.AwayBytes))
	if err == nil && r.SpilledBytes > 0 {
		_, err = fmt.Fprintf(w, "  on disk: %v\n", share.Bytes(r.SpilledBytes))
	}
	for _, s := range r.Stays {
		if err == nil {
			_, err = fmt.Fprintf(w, "  stays: %v of %s\n", share.Bytes(s.Bytes), s.What)
		}
	}
	return err
}
