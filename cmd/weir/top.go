package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/internal/terminal"
)

func newTop() *cobra.Command {
	var asJSON, fake bool
	var interval time.Duration
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the programs that share the GPUs, live",
		Long: `Show the programs under weir exec: memory against its cap, device time of the last second
against the share, what each waits for. On a terminal the table is live, until Ctrl-C; elsewhere,
and with --json, it is printed once.`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond || interval > time.Hour {
				return fmt.Errorf("--interval %v: want from 100ms to 1h", interval)
			}
			client, err := dialAgent(fake)
			if err != nil {
				return failed(err)
			}
			defer client.Close()
			out := c.OutOrStdout()
			live := !asJSON && terminal.Live(out)
			return failed(watchTop(c.Context(), client, out, asJSON, live, interval))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	addFakeAgent(c, &fake)
	c.Flags().DurationVar(&interval, "interval", time.Second, "how often the live table is drawn")
	return c
}

func dialTop(fake bool) (*agent.Client, error) {
	if !fake {
		if c, err := agent.Dial(agent.RuntimeDir(false)); err == nil {
			return c, nil
		}
	}
	return agent.Dial(agent.RuntimeDir(true))
}

// Control sequences of terminals (ECMA-48).
const (
	altScreen  = "\x1b[?1049h\x1b[?25l"
	mainScreen = "\x1b[?25h\x1b[?1049l"
	home       = "\x1b[H"
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
)

func watchTop(ctx context.Context, client *agent.Client, out io.Writer, asJSON, live bool,
	interval time.Duration) error {
	if !live {
		return client.Watch(ctx, 0, func(s agent.Snapshot) error {
			if asJSON {
				return printJSON(out, s)
			}
			_, err := io.WriteString(out, topText(&s, terminal.Width(out)))
			return err
		})
	}
	fmt.Fprint(out, altScreen)
	defer fmt.Fprint(out, mainScreen)
	err := client.Watch(ctx, interval, func(s agent.Snapshot) error {
		text := strings.ReplaceAll(topText(&s, terminal.Width(out)), "\n", eraseLine+"\n")
		_, err := io.WriteString(out, home+text+eraseBelow)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

var topColumns = []string{
	"",
	"class",
	"state",
	"device",
	"used",
	"promised",
	"limit",
	"memory",
	"cap",
	"launches",
	"processes",
}

// topText draws a snapshot in lines of so many columns, 0 for any.
func topText(s *agent.Snapshot, width int) string {
	var b strings.Builder
	for i := range s.Devices {
		d := &s.Devices[i]
		label := d.Name
		if d.Fake {
			label += " (FAKE: simulated, not a GPU)"
		}
		used := 0.0
		for k := range d.Jobs {
			used += d.Jobs[k].DeviceShare
		}
		head := fmt.Sprintf("%s  %s  %s of %s promised  device %s  policy %s", d.Device, label,
			terminal.Size(d.PromisedBytes), terminal.Size(d.MemoryBytes), points(used),
			cmp.Or(d.Policy, s.Policy))
		fmt.Fprintln(&b, terminal.Fit(head, width))
		if d.Unmeasured != "" {
			fmt.Fprintln(&b, terminal.Fit("  memory that programs do not count is not measured: "+
				d.Unmeasured, width))
		}
		t := table{topColumns}
		for k := range d.Jobs {
			t = append(t, topRow(&d.Jobs[k]))
		}
		if len(d.Jobs) == 0 {
			none := "  no programs"
			if d.Beside {
				none = "  no models"
			}
			fmt.Fprintln(&b, none)
			continue
		}
		t.write(&b, width)
	}
	return b.String()
}

func topRow(j *agent.JobSnapshot) []string {
	state := j.State
	if j.WaitingMS >= 1 {
		state = fmt.Sprintf("%s %.0f ms", state, j.WaitingMS)
	}
	memory := terminal.Size(int64(min(j.MemoryUsedBytes, 1<<62)))
	if j.DeniedAllocs > 0 {
		memory += fmt.Sprintf(" (%d refused)", j.DeniedAllocs)
	}
	return []string{
		"  " + j.Name,
		j.Class.String(),
		state,
		points(j.DeviceShare),
		points(j.UsedSeconds / max(j.DeviceSeconds, 1e-9)),
		points(j.Compute),
		points(j.Limit),
		memory,
		terminal.Size(j.MemoryCapBytes),
		fmt.Sprint(j.Launches),
		strings.Join(topProcesses(j), " "),
	}
}

// topProcesses tells of a job's first processes, and of how many more there are.
func topProcesses(j *agent.JobSnapshot) (pids []string) {
	for _, p := range j.Processes[:min(len(j.Processes), 3)] {
		pid := fmt.Sprint(p.PID)
		switch {
		case p.ThreadPercent > 0 && j.ThreadPercent > 0:
			pid += fmt.Sprintf(" (%d %%)", p.ThreadPercent)
		case slices.ContainsFunc(j.Keep(), func(k agent.ProcessSnapshot) bool {
			return k.PID == p.PID
		}):
			pid += " (no MPS)"
		}
		if p.Stalled > 0 {
			pid += " (stalls)"
		}
		pids = append(pids, pid)
	}
	if more := len(j.Processes) - len(pids); more > 0 {
		pids = append(pids, fmt.Sprintf("+%d", more))
	}
	return pids
}

func points(fraction float64) string { return fmt.Sprintf("%.1f %%", 100*fraction) }
