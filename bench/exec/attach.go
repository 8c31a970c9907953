package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
)

// crowd is how many programs attach at once.
const crowd = 300

// each is what every program of the crowd may hold: together they hold all of the device.
const each = 200 << 20

// attach: many weir exec at once, whose programs then use the device at the same moment; and how soon what a killed one held
// can be given to another.
func attach(r *results, h *host, _ int) error {
	n := pick(r, crowd, 30)
	begin := monotonic()
	all := make([]*program, n)
	for i := range all {
		var err error
		if all[i], err = h.start([]string{"--memory", fmt.Sprint(each), "--compute", "0.003"}, "hold"); err != nil {
			return err
		}
		defer all[i].kill()
	}
	for _, p := range all {
		if err := within(2*time.Minute, "the program starts", func() bool { return strings.Contains(p.out.String(), "ready\n") }); err != nil {
			return fmt.Errorf("%s: %w: %s", p.name, err, p.err.String())
		}
	}
	r.note(fmt.Sprintf("%d weir exec until all programs run, s", n), float64(monotonic()-begin)/1e9)
	begin = monotonic()
	for _, p := range all {
		if _, err := p.in.Write([]byte("go\n")); err != nil {
			return err
		}
	}
	last, pids := begin, make([]int, n)
	for i, p := range all {
		var got struct {
			PID      int
			Attached int64 `json:"attached_ns"`
		}
		if err := within(time.Minute, "the program attaches", func() bool { return strings.Contains(p.out.String(), "}\n") }); err != nil {
			return fmt.Errorf("%s: %w: %s", p.name, err, p.err.String())
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(p.out.String(), "ready\n")), &got); err != nil {
			return err
		}
		pids[i], last = got.PID, max(last, got.Attached)
	}
	r.Claims.Check(fmt.Sprintf("%d programs attach, allocate and run a kernel, s", n), float64(last-begin)/1e9, 1, true)
	return killed(r, h, pids)
}

// killed ends some of the programs and measures how soon the agent gives their share to another.
func killed(r *results, h *host, pids []int) error {
	client, err := agent.Dial(h.dir)
	if err != nil {
		return err
	}
	defer client.Close()
	// All that is left is taken, so that only what the killed one held can be given.
	rest, err := client.Create(agent.JobRequest{Fake: true, Job: share.Job{Name: "rest", Share: share.Share{Compute: 1 - 0.003*float64(len(pids)) - 1e-6}}})
	if err != nil {
		return err
	}
	defer rest.Page.Close()
	var took []float64
	for _, i := range rand.Perm(len(pids))[:min(20, len(pids))] {
		from := time.Now()
		if err := syscall.Kill(pids[i], syscall.SIGKILL); err != nil {
			return err
		}
		if err := h.takeOver(from); err != nil {
			return err
		}
		took = append(took, float64(time.Since(from))/1e6)
	}
	slices.Sort(took)
	r.note("share of a killed program given to another, most, ms", took[len(took)-1])
	r.Claims.Check("share of a killed program given to another, p50, ms", took[len(took)/2], 10, true)
	return nil
}

// takeOver asks for a job of the size of one program until there is room, and keeps it for as long as the process lives.
func (h *host) takeOver(from time.Time) error {
	for time.Since(from) < 5*time.Second {
		c, err := agent.Dial(h.dir)
		if err != nil {
			return err
		}
		g, err := c.Create(agent.JobRequest{Fake: true, Job: share.Job{Name: "heir", Share: share.Share{Memory: each, Compute: 0.003}}})
		if err == nil {
			h.kept = append(h.kept, c)
			return g.Page.Close()
		}
		_ = c.Close()
		time.Sleep(100 * time.Microsecond)
	}
	return fmt.Errorf("what a killed program held was not given on in 5 s: %w", errMeasure)
}

// monotonic is the time on the clock of the programs.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
