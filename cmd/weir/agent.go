package main

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
)

func newAgent() *cobra.Command {
	var fake, verbose bool
	var policy, host string
	var idle time.Duration
	var moving float64
	var allow []uint
	c := &cobra.Command{
		Use:   "agent",
		Short: "Serve the programs of weir exec, as the first of them does by itself",
		Long: `Share this machine's NVIDIA GPUs between your programs that run under weir exec. The first
weir exec starts an agent where none runs; this command is for running one as a service. It listens
on agent.sock in the folder $WEIR_RUNTIME_DIR, else $XDG_RUNTIME_DIR/weir, else /tmp/weir-UID. When
it ends, programs keep running, and rejoin the next one.`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if idle < 0 {
				return fmt.Errorf("--idle-exit %v: want a time, or 0 for never", idle)
			}
			uids, err := userIDs(allow)
			if err != nil {
				return err
			}
			hostMemory, err := share.ParseBytes(host)
			if host != "" && (err != nil || hostMemory <= 0) {
				return fmt.Errorf("--host-memory %s: want a size above 0, such as 32GiB", host)
			}
			if !(moving > 0 && moving < 1) {
				return fmt.Errorf("--moving %v: want a part above 0 and below 1, such as 0.1",
					moving)
			}
			devices, err := gpus(fake)
			if err != nil {
				return failed(err)
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			m := management{ctx: c.Context(), fake: fake}
			a, err := agent.Start(agent.Config{
				Dir:        agent.RuntimeDir(fake),
				Devices:    devices,
				Policy:     policy,
				HostMemory: hostMemory,
				Moving:     moving,
				MPS:        func() (agent.MPS, error) { return findMPS(c.Context(), fake) },
				Holds:      m.holds,
				Used:       m.used,
				Limits:     m.limiter(),
				AllowUIDs:  uids,
				IdleExit:   idle,
				Log: slog.New(
					slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
			})
			if err != nil {
				return failed(err)
			}
			select {
			case <-c.Context().Done():
			case <-a.Done():
			}
			return failed(a.Close())
		},
	}
	c.Flags().StringVar(&policy, "policy", agent.DefaultPolicy, "sharing policy")
	c.Flags().DurationVar(&idle, "idle-exit", 0, "end after so long without a program (0: never)")
	c.Flags().UintSliceVar(&allow, "allow-uid", nil,
		"another user whose programs may join jobs, such as 0 for root in containers")
	c.Flags().StringVar(&host, "host-memory", "",
		"memory of the host for what is moved there (default: half of the machine's)")
	c.Flags().Float64Var(&moving, "moving", 0.1,
		"part of the time that moving memory for programs' turns may take")
	c.Flags().BoolVar(&fake, "fake-gpu", false, "share the simulated GPUs of the fake driver")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log every process that comes and goes")
	completeFlag(c, "policy", policyNames()...)
	return c
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
