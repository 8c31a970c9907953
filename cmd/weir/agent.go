package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
)

func newAgent() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Serve the programs of weir exec, as the first of them does by itself",
		Long: `Share this machine's NVIDIA GPUs between your programs that run under weir exec. The first
weir exec starts an agent where none runs; this command is for running one as a service. It listens
on agent.sock in the folder $WEIR_RUNTIME_DIR, else $XDG_RUNTIME_DIR/weir, else /tmp/weir-UID. When
it ends, programs keep running, and rejoin the next one.`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.add(c)
	return c
}

// agentFlags are those of weir agent.
type agentFlags struct {
	fake, verbose bool
	containers    bool
	policy, host  string
	idle          time.Duration
	moving        float64
	allow         []uint
}

func (f *agentFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.policy, "policy", agent.DefaultPolicy, "sharing policy")
	c.Flags().DurationVar(&f.idle, "idle-exit", 0, "end after so long without a program (0: never)")
	c.Flags().UintSliceVar(&f.allow, "allow-uid", nil,
		"another user whose programs may join jobs, such as 0 for root in containers")
	c.Flags().BoolVar(&f.containers, "containers", false,
		"open a second socket, in the folder join of the runtime folder, by which programs of any "+
			"user join the jobs whose tokens they know, and can do nothing else")
	c.Flags().StringVar(&f.host, "host-memory", "",
		"memory of the host for what is moved there (default: half of the machine's)")
	c.Flags().Float64Var(&f.moving, "moving", 0.1,
		"part of the time that moving memory for programs' turns may take")
	c.Flags().BoolVar(&f.fake, "fake-gpu", false, "share the simulated GPUs of the fake driver")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false,
		"log every process that comes and goes")
	completeFlag(c, "policy", policyNames()...)
}

// run serves programs until the command is to end, or the agent ends by itself.
func (f *agentFlags) run(c *cobra.Command) error {
	config, err := f.config(c)
	if err != nil {
		return err
	}
	a, err := agent.Start(*config)
	if err != nil {
		return failed(err)
	}
	select {
	case <-c.Context().Done():
	case <-a.Done():
	}
	return failed(a.Close())
}

// config checks the flags and looks for the GPUs.
func (f *agentFlags) config(c *cobra.Command) (*agent.Config, error) {
	uids, memory, err := f.values()
	if err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	a, err := agentConfig(c.Context(), f.fake, slog.New(slog.NewTextHandler(c.ErrOrStderr(),
		&slog.HandlerOptions{Level: level})))
	if err != nil {
		return nil, failed(err)
	}
	a.Policy, a.HostMemory, a.Moving = f.policy, memory, f.moving
	a.AllowUIDs, a.IdleExit, a.Door = uids, f.idle, f.containers
	return a, nil
}

// agentConfig is that of an agent of the GPUs there are; the error says why there are none.
func agentConfig(ctx context.Context, fake bool, log *slog.Logger) (*agent.Config, error) {
	devices, err := gpus(fake)
	if err != nil {
		return nil, err
	}
	m := management{ctx: ctx, fake: fake}
	return &agent.Config{
		Dir:     agent.RuntimeDir(fake),
		Devices: devices,
		MPS:     func() (agent.MPS, error) { return findMPS(ctx, fake) },
		Holds:   m.holds,
		Used:    m.used,
		Limits:  m.limiter(),
		Log:     log,
	}, nil
}

// values checks the flags that have limits, and reads those that are written as text.
func (f *agentFlags) values() (uids []uint32, memory share.Bytes, err error) {
	if f.idle < 0 {
		return nil, 0, fmt.Errorf("--idle-exit %v: want a time, or 0 for never", f.idle)
	}
	if uids, err = userIDs(f.allow); err != nil {
		return nil, 0, err
	}
	memory, err = share.ParseBytes(f.host)
	if f.host != "" && (err != nil || memory <= 0) {
		return nil, 0, fmt.Errorf("--host-memory %s: want a size above 0, such as 32GiB", f.host)
	}
	if !(f.moving > 0 && f.moving < 1) {
		return nil, 0, fmt.Errorf("--moving %v: want a part above 0 and below 1, such as 0.1",
			f.moving)
	}
	return uids, memory, nil
}

// userIDs checks the numbers of users.
func userIDs(given []uint) ([]uint32, error) {
	var uids []uint32
	for _, n := range given {
		if n >= math.MaxUint32 {
			return nil, fmt.Errorf("--allow-uid %d: want a user's number", n)
		}
		uids = append(uids, uint32(n))
	}
	return uids, nil
}
