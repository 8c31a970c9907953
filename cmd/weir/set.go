package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// setFlags are the flags of set.
type setFlags struct {
	memory, class, device string
	compute, limit        float64
	fake, asJSON          bool
}

func newSet() *cobra.Command {
	var f setFlags
	c := &cobra.Command{
		Use:   "set JOB [flags]",
		Short: "Give a program under weir exec another share while it runs",
		Long: `Give a job of weir exec another share while its programs run. What no flag names stays as
it is. What does not fit beside the other jobs is refused with the numbers, and so is a memory cap
below what the programs hold. Programs were told of the memory when they began and may not ask
again.`,
		Example:           "  weir set train --compute 0.5 --limit 0.8",
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := f.change(c, args[0])
			if err != nil {
				return err
			}
			client, err := dialAgent(f.fake)
			if err != nil {
				return failed(err)
			}
			defer client.Close()
			got, err := client.Set(r)
			if errors.Is(err, share.ErrInvalid) {
				return err
			}
			if err != nil {
				return failed(err)
			}
			if f.asJSON {
				err = printJSON(c.OutOrStdout(), shareOf(&got))
			} else {
				_, err = fmt.Fprintf(c.OutOrStdout(),
					"%s: memory %v, compute %g, limit %g, class %v\n", got.Name, got.Memory,
					got.Compute, got.Cap(), got.Class)
			}
			return errors.Join(err, failed(sayKept(c.ErrOrStderr(), f.fake, got.Name)))
		},
	}
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&f.memory, "memory", "", "cap on device memory, such as 8GiB")
	c.Flags().Float64Var(&f.compute, "compute", 0, "guaranteed fraction of device time, 0 to 1")
	c.Flags().Float64Var(&f.limit, "limit", 0, "fraction of device time never exceeded (0: 1)")
	c.Flags().StringVar(&f.class, "class", "", "latency, standard or opportunistic")
	c.Flags().StringVar(&f.device, "device", "",
		"GPU of the job, such as cuda:1 (needed if two have a job of this name)")
	addFakeAgent(c, &f.fake)
	completeFlag(c, "class", share.Latency.String(), share.Standard.String(),
		share.Opportunistic.String())
	return c
}

// policySet is what weir policy prints.
type policySet struct {
	Policy string `json:"policy"` // with its parameters
}

// shareInfo is a job's share in JSON, with the names that top has.
type shareInfo struct {
	Name           string      `json:"name"`
	Class          share.Class `json:"class"`
	Compute        float64     `json:"compute"`
	Limit          float64     `json:"limit"`
	MemoryCapBytes int64       `json:"memory_cap_bytes"`
}

func shareOf(j *share.Job) shareInfo {
	return shareInfo{Name: j.Name, Class: j.Class, Compute: j.Compute, Limit: j.Cap(),
		MemoryCapBytes: int64(j.Memory)}
}

// change is what the flags given ask for.
func (f *setFlags) change(c *cobra.Command, job string) (agent.ShareChange, error) {
	r, given := agent.ShareChange{Job: job}, c.Flags().Changed
	if given("memory") {
		n, err := share.ParseBytes(f.memory)
		if err == nil && n <= 0 {
			err = errors.New("must be above 0")
		}
		if err != nil {
			return r, fmt.Errorf("--memory %s: %w", f.memory, err)
		}
		r.Memory = &n
	}
	if given("compute") {
		r.Compute = &f.compute
	}
	if given("limit") {
		r.Limit = &f.limit
	}
	if given("class") {
		class, err := share.ParseClass(f.class)
		if err != nil {
			return r, fmt.Errorf("--class: %w", err)
		}
		r.Class = &class
	}
	if r == (agent.ShareChange{Job: job}) {
		return r, errors.New("nothing to set: give --compute, --limit, --memory or --class")
	}
	var err error
	r.Device, err = deviceFlag(c, f.device)
	return r, err
}

// deviceFlag is the ordinal that --device names, nil if it was not given.
func deviceFlag(c *cobra.Command, device string) (*uint32, error) {
	if !c.Flags().Changed("device") {
		return nil, nil
	}
	var n uint32
	if _, err := fmt.Sscanf(device, "cuda:%d", &n); err != nil ||
		(agent.Device{Ordinal: n}).ID() != device {
		return nil, fmt.Errorf("--device %s: want cuda:N", device)
	}
	return &n, nil
}

func newPolicy() *cobra.Command {
	var fake, asJSON bool
	c := &cobra.Command{
		Use:   "policy NAME[:PARAMETER=VALUE,...]",
		Short: "Change how the running agent shares the GPUs",
		Long: `Make another sharing policy decide for the programs under weir exec, while they run. It holds
until the agent ends; weir agent --policy says which it begins with. Programs give the GPU back and
are granted it again by the new policy. weir policies lists the policies with what they need: one
that programs on a GPU cannot be held to is refused.`,
		Example:           "  weir policy fair:slice=5ms",
		Args:              exactly(1),
		ValidArgsFunction: firstOf(policyNames()),
		RunE: func(c *cobra.Command, args []string) error {
			spec := strings.TrimSpace(args[0])
			if _, err := policy.New(spec); err != nil {
				return err
			}
			client, err := dialAgent(fake)
			if err != nil {
				return failed(err)
			}
			defer client.Close()
			if err := client.SetPolicy(spec); err != nil {
				return failed(err)
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), policySet{spec})
			} else {
				_, err = fmt.Fprintln(c.OutOrStdout(), "policy", spec)
			}
			return errors.Join(err, failed(sayKept(c.ErrOrStderr(), fake, "")))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	addFakeAgent(c, &fake)
	return c
}

// sayKept names the processes of the job, or of all, that a change does not reach.
func sayKept(w io.Writer, fake bool, job string) error {
	client, err := dialAgent(fake)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Watch(context.Background(), 0, func(s agent.Snapshot) error {
		for i := range s.Devices {
			for k := range s.Devices[i].Jobs {
				if j := &s.Devices[i].Jobs[k]; job == "" || j.Name == job {
					sayKeptBy(w, j)
				}
			}
		}
		return nil
	})
}

func sayKeptBy(w io.Writer, j *agent.JobSnapshot) {
	for _, p := range j.Keep() {
		had := "is no client of MPS and has all of the GPU in turns"
		if p.ThreadPercent > 0 {
			had = fmt.Sprintf("keeps the %d %% of the GPU that it began with", p.ThreadPercent)
		}
		fmt.Fprintf(w, "weir: %s: process %d %s: %d %% hold for those that begin from here on\n",
			j.Name, p.PID, had, j.ThreadPercent)
	}
}

func addFakeAgent(c *cobra.Command, fake *bool) {
	c.Flags().BoolVar(fake, "fake-gpu", false,
		"programs on the simulated GPU (default: if no agent of a real one runs)")
}

// dialAgent connects to the agent that runs.
func dialAgent(fake bool) (*agent.Client, error) {
	c, err := dialTop(fake)
	if errors.Is(err, agent.ErrNotRunning) {
		return nil, errors.New("no agent is running, so no program runs under weir exec")
	}
	return c, err
}
