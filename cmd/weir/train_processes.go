package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/dist"
)

// processFlags say by how many processes a recipe is followed, and which of them this one is.
type processFlags struct {
	processes, rank int
}

func (f *processFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.processes, "processes", 1, "processes that share each batch, of a recipe "+
		"with at least as many shards; --threads and --memory are of each")
	c.Flags().IntVar(&f.rank, "rank", 0, "which of the processes this one is, as weir starts them")
	_ = c.Flags().MarkHidden("rank") // which fails for flags that there are not
}

// perProcess are the threads of each process, where none are asked for.
func (f *processFlags) perProcess(threads int) int {
	if threads != 0 || f.processes < 2 {
		return threads
	}
	return max(1, runtime.NumCPU()/f.processes)
}

// workers are the processes beside the leader.
type workers struct {
	cmds []*exec.Cmd
	done []chan error
}

// mostProcesses bounds the processes of a run.
const mostProcesses = 64

// start starts the workers, and returns the team that this process leads; nil where it trains
// alone.
func (f *processFlags) start(path string, threads int, memory string) (*dist.Team, *workers,
	error) {
	w := &workers{}
	if f.processes < 1 || f.processes > mostProcesses {
		return nil, nil, fmt.Errorf("--processes %d: want 1 to %d", f.processes, mostProcesses)
	}
	if f.processes == 1 {
		return nil, w, nil
	}
	links, err := dist.Pipe(f.processes)
	if err != nil {
		return nil, nil, failed(err)
	}
	for rank := 1; rank < f.processes; rank++ {
		// the file that runs, also where another has taken its name
		cmd := exec.Command("/proc/self/exe", "train", path, "--processes",
			strconv.Itoa(f.processes), "--rank", strconv.Itoa(rank), "--threads",
			strconv.Itoa(threads), "--memory", memory)
		cmd.Stderr, cmd.ExtraFiles = os.Stderr, links[rank].Files()
		if err = cmd.Start(); err != nil {
			break
		}
		w.add(cmd)
	}
	for _, l := range links[1:] {
		l.Close()
	}
	if err != nil {
		links[0].Close()
		return nil, nil, failed(errors.Join(err, w.end()))
	}
	team, err := dist.NewTeam(links[0])
	if err != nil {
		return nil, nil, failed(errors.Join(err, w.end()))
	}
	return team, w, nil
}

func (w *workers) add(cmd *exec.Cmd) {
	done := make(chan error, 1)
	w.cmds, w.done = append(w.cmds, cmd), append(w.done, done)
	go func() { done <- cmd.Wait() }()
}

// grace is how long workers have to end once the run has.
const grace = 10 * time.Second

// end waits for workers to end, ends those that do not, and tells of those that ended by
// themselves in another way than by what they say to the leader.
func (w *workers) end() (err error) {
	late := time.After(grace)
	for i, cmd := range w.cmds {
		select {
		case e := <-w.done[i]:
			var exit *exec.ExitError
			if errors.As(e, &exit) && exit.ExitCode() != 1 {
				err = errors.Join(err, fmt.Errorf("worker %d (process %d): %w", i+1,
					cmd.Process.Pid, e))
			}
		case <-late:
			slog.Warn("a worker does not end: it is killed", "process", cmd.Process.Pid)
			err = errors.Join(err, cmd.Process.Kill())
			<-w.done[i]
		}
	}
	w.cmds, w.done = nil, nil
	return err
}

// work is what a worker does.
func (f *trainFlags) work(c *cobra.Command, path string) (err error) {
	r, o, err := f.open(c, path)
	if err != nil {
		return err
	}
	defer closeMachine(o.Machine, &err)
	links, err := dist.Inherit(f.team.rank, f.team.processes)
	if err != nil {
		return err
	}
	if o.Team, err = dist.NewTeam(links); err != nil {
		return failed(err)
	}
	ctx := context.WithoutCancel(c.Context()) // the leader says when to end
	run, err := train.Open(ctx, r, o)
	if err != nil {
		return failed(err)
	}
	return failed(errors.Join(run.Work(ctx), run.Close()))
}
