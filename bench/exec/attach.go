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

// each is the bytes that every program of the crowd may hold: together they hold all of the device.
const each = 200 << 20

// gathered is a crowd of programs that have begun to use the device at the same moment, with the
// time until the last of them had a share, had memory and had run a kernel, in seconds.
type gathered struct {
	all               []*program
	pids              []int
	init, memory, ran float64
}

func (g *gathered) kill() {
	for _, p := range g.all {
		p.kill()
	}
}

// gather starts programs, lets them all use the device at once, and waits until they have.
func gather(h *host, n int, flags []string) (*gathered, error) {
	g := &gathered{}
	for range n {
		p, err := h.start(flags, "hold")
		if err != nil {
			return g, err
		}
		g.all = append(g.all, p)
	}
	for _, p := range g.all {
		if err := within(2*time.Minute, "the program starts",
			func() bool { return strings.Contains(p.out.String(), "ready\n") }); err != nil {
			return g, fmt.Errorf("%s: %w: %s", p.name, err, p.err.String())
		}
	}
	begin := monotonic()
	for _, p := range g.all {
		if _, err := p.in.Write([]byte("go\n")); err != nil {
			return g, err
		}
	}
	for _, p := range g.all {
		var got struct {
			PID    int
			Init   int64 `json:"init_ns"`
			Memory int64 `json:"memory_ns"`
			Ran    int64 `json:"ran_ns"`
		}
		if err := within(time.Minute, "the program runs a kernel",
			func() bool { return strings.Contains(p.out.String(), "}\n") }); err != nil {
			return g, fmt.Errorf("%s: %w: %s", p.name, err, p.err.String())
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(p.out.String(), "ready\n")),
			&got); err != nil {
			return g, err
		}
		g.pids = append(g.pids, got.PID)
		g.init = max(g.init, float64(got.Init-begin)/1e9)
		g.memory = max(g.memory, float64(got.Memory-begin)/1e9)
		g.ran = max(g.ran, float64(got.Ran-begin)/1e9)
	}
	return g, nil
}

// attach: many weir exec at once, whose programs then use the device at the same moment, and the
// same programs without weir, for what the simulated driver takes by itself; and how soon what a
// killed one held can be given to another.
func attach(r *results, h *host, _ int) error {
	n := pick(r, crowd, 30)
	if _, err := h.ledger(); err != nil { // makes the device
		return err
	}
	bare, err := gather(h, n, nil)
	var kept float64
	if err == nil {
		kept, err = h.keeps(bare.pids)
	}
	bare.kill()
	if err != nil {
		return err
	}
	begin := time.Now()
	all, err := gather(h, n, []string{"--memory", fmt.Sprint(each, "B"), "--compute", "0.003"})
	defer all.kill()
	if err != nil {
		return err
	}
	r.note(fmt.Sprintf("%d weir exec from the start until all programs have run a kernel, s", n),
		time.Since(begin).Seconds())
	r.note("without weir, until all have memory, s", bare.memory)
	r.note("without weir, until all have run a kernel, s", bare.ran)
	r.note("until all have memory, s", all.memory)
	r.note("until all have run a kernel, s", all.ran)
	r.Claims.Check(fmt.Sprintf("%d programs have their share, s", n), all.init, 1, true)
	r.note("without weir, until the driver has a killed program's memory back, p50, ms", kept)
	return killed(r, h, all.pids, kept)
}

// victims is how many of the programs are killed.
const victims = 20

// keeps ends some of the programs, which run without weir, and returns for how many milliseconds
// the driver keeps what such a one held, in the middle: until the beginning of the last look at
// which that was not free, so that it is never too long.
func (h *host) keeps(pids []int) (float64, error) {
	var took []float64
	for _, i := range rand.Perm(len(pids))[:min(victims, len(pids))] {
		ms, err := h.keepsOne(pids[i])
		if err != nil {
			return 0, err
		}
		took = append(took, ms)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// keepsOne ends a program, and looks at what the device holds in a process that has begun before.
func (h *host) keepsOne(pid int) (float64, error) {
	p, err := h.start(nil, "smi", "freed")
	if err != nil {
		return 0, err
	}
	defer p.kill()
	if err := within(5*time.Second, "the device is looked at",
		func() bool { return strings.Contains(p.out.String(), "ready\n") }); err != nil {
		return 0, err
	}
	from := monotonic()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	var got struct {
		Kept int64 `json:"kept_ns"`
	}
	err = p.result(&got)
	return float64(max(0, got.Kept-from)) / 1e6, err
}

// killed ends some of the programs and measures how soon the agent gives their share to another,
// once the driver has back what they held: it keeps that for as many milliseconds, in which it is
// nobody's to give.
func killed(r *results, h *host, pids []int, kept float64) error {
	client, err := agent.Dial(h.dir)
	if err != nil {
		return err
	}
	defer client.Close()
	// All that is left is taken, so that only what the killed one held can be given.
	rest, err := client.Create(
		agent.JobRequest{
			Fake: true,
			Job: share.Job{
				Name:  "rest",
				Share: share.Share{Compute: 1 - 0.003*float64(len(pids)) - 1e-6},
			},
		},
	)
	if err != nil {
		return err
	}
	defer rest.Page.Close()
	var took []float64
	for _, i := range rand.Perm(len(pids))[:min(victims, len(pids))] {
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
	r.note("share of a killed program given to another, p50, ms", took[len(took)/2])
	r.Claims.Check("share of a killed program given to another once the driver has its memory "+
		"back, p50, ms", max(0, took[len(took)/2]-kept), 10, true)
	return nil
}

// takeOver asks for a job of the size of one program until there is room, and keeps it for as long
// as the process lives.
func (h *host) takeOver(from time.Time) error {
	for time.Since(from) < 5*time.Second {
		c, err := agent.Dial(h.dir)
		if err != nil {
			return err
		}
		g, err := c.Create(
			agent.JobRequest{
				Fake: true,
				Job:  share.Job{Name: "heir", Share: share.Share{Memory: each, Compute: 0.003}},
			},
		)
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
