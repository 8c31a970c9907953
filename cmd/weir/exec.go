package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/share"
)

// execFlags are the flags of exec.
type execFlags struct {
	share.Job
	memory, class string
	device        string
	shim          string
	gang          string
	ranks         int
	oversubscribe bool
	spill         string
	fake, verbose bool
}

const execLong = `Run a CUDA program, unchanged, with a part of an NVIDIA GPU. It sees a GPU with
as much memory as its cap, gets CUDA's ordinary out-of-memory error beyond that, and launches work
while it is its turn. All that the program starts shares with it.

The exit code is the program's, or 128 plus the number of the signal that ended it; 125 if the
program was not started, 126 if it could not be, 127 if it was not found.`

func newExec() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG...]",
		Short: "Run an unmodified CUDA program under a share of a GPU",
		Long:  execLong,
		Example: "  weir exec --memory 8GiB --compute 0.3 --limit 0.5 --class opportunistic -- " +
			"python train.py",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := f.prepare(c.Context(), args)
			if err != nil {
				return notStarted(err)
			}
			return notStarted(p.run(c.Context()))
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return notStarted(fmt.Errorf("%w: see %s --help", err, c.CommandPath()))
	})
	f.add(c)
	return c
}

func (f *execFlags) add(c *cobra.Command) {
	c.Flags().SetInterspersed(false)
	c.Flags().
		StringVar(&f.memory, "memory", "",
			"cap on device memory, such as 8GiB (default: all that is not promised)")
	c.Flags().Float64Var(&f.Compute, "compute", 0, "guaranteed fraction of device time, 0 to 1")
	c.Flags().Float64Var(&f.Limit, "limit", 0, "fraction of device time never exceeded (default 1)")
	c.Flags().
		StringVar(&f.class, "class", share.Standard.String(), "latency, standard or opportunistic")
	c.Flags().StringVar(&f.Name, "name", "", "name of the job (default: that of the program)")
	c.Flags().StringVar(&f.device, "device", "",
		"GPU to run on (default: the first of CUDA_VISIBLE_DEVICES, else cuda:0)")
	c.Flags().StringVar(&f.gang, "gang", "",
		"gang whose jobs, one a GPU, run at the same time: ranks that wait for each other")
	c.Flags().IntVar(&f.ranks, "ranks", 0,
		"start once so many jobs of the gang have come; none is started if one does not fit")
	c.Flags().BoolVar(&f.oversubscribe, "oversubscribe", false,
		"hold memory that can be moved to the host: for turns of others, and by weir freeze")
	c.Flags().StringVar(&f.spill, "spill", "",
		"folder for what the host's memory has no room for (needs --oversubscribe)")
	c.Flags().
		StringVar(&f.shim, "shim", "",
			"compiled library to preload (default: the one in this weir)")
	c.Flags().
		BoolVar(&f.fake, "fake-gpu", false, "run on a simulated GPU; without a CMD, run an example")
	c.Flags().
		BoolVarP(&f.verbose, "verbose", "v", false,
			"name driver calls that this weir does not know, and so does not count")
	completeFlag(c, "class", share.Latency.String(), share.Standard.String(),
		share.Opportunistic.String())
}

// Exit codes of exec when the program does not run: those of env(1) and docker run.
const (
	exitNotStarted = 125
	exitNotRunning = 126
	exitNotFound   = 127
)

// notStarted is an error with the exit code that tells it from the program's own, unless it has one
// already: what is wrong on the command line of exec is no code 2 of the program.
func notStarted(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &failure{exitNotStarted, err}
}

// lookPath finds the program that a name means.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return "", &failure{exitNotFound, err}
	}
	return "", &failure{exitNotRunning, err}
}

// program is a program about to run under a share.
type program struct {
	path    string
	args    []string
	request agent.JobRequest
	dir     string // runtime folder
	agent   []string
	shim    string
	verbose bool
	device  *agent.Device
	env     []string
	grant   *agent.JobGrant
}

// prepare checks all that can be checked before a job is made.
func (f *execFlags) prepare(ctx context.Context, args []string) (*program, error) {
	p := &program{dir: agent.RuntimeDir(f.fake), args: args, verbose: f.verbose}
	var err error
	if p.request, err = f.job(args); err != nil {
		return nil, err
	}
	if err := f.spillTo(p); err != nil {
		return nil, err
	}
	if len(args) > 0 {
		if p.path, err = lookPath(args[0]); err != nil {
			return nil, err
		}
	}
	devices, err := gpus(f.fake)
	if err != nil {
		return nil, err
	}
	if p.device, err = choose(devices, f.device, os.LookupEnv); err != nil {
		return nil, err
	}
	p.request.Device = p.device.Ordinal
	if p.shim, err = shimLibrary(ctx, f.shim); err != nil {
		return nil, err
	}
	if err := p.surround(ctx, f.fake); err != nil {
		return nil, err
	}
	if err := agent.CheckExecutable(p.path); err != nil {
		return nil, &failure{exitNotRunning, fmt.Errorf("refused: %w", err)}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.agent = []string{exe, "agent", "--idle-exit", "60s"}
	if f.fake {
		p.agent = append(p.agent, "--fake-gpu")
	}
	return p, nil
}

// spillTo has the program find the folder that it may spill memory to.
func (f *execFlags) spillTo(p *program) error {
	if f.spill == "" {
		return nil
	}
	if !f.oversubscribe {
		return errors.New("--spill: without --oversubscribe no memory is moved: give both")
	}
	folder, err := filepath.Abs(f.spill)
	if err != nil {
		return fmt.Errorf("--spill %s: %w", f.spill, err)
	}
	// The programs make a file there when they must, which is too late to find that they cannot.
	probe, err := os.CreateTemp(folder, "weir-spill-*")
	if err != nil {
		return fmt.Errorf("--spill %s: want a folder to write to: %w", f.spill, err)
	}
	p.env = append(p.env, "WEIR_SPILL="+folder)
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// job is the job that the flags ask for.
func (f *execFlags) job(args []string) (agent.JobRequest, error) {
	r := agent.JobRequest{Job: f.Job, Fake: f.fake, Gang: f.gang, Ranks: f.ranks,
		Oversubscribe: f.oversubscribe}
	var err error
	if f.memory != "" {
		if r.Memory, err = share.ParseBytes(f.memory); err != nil {
			return r, fmt.Errorf("--memory %s: %w", f.memory, err)
		}
	}
	if r.Class, err = share.ParseClass(f.class); err != nil {
		return r, fmt.Errorf("--class: %w", err)
	}
	if r.Ranks != 0 && (r.Gang == "" || r.Ranks < 0) {
		return r, fmt.Errorf("--ranks %d: want how many jobs the --gang has", r.Ranks)
	}
	if len(args) == 0 && !f.fake {
		return r, errors.New("no program to run: weir exec [flags] -- CMD [ARG...]")
	}
	if r.Name == "" {
		r.Name = jobName(args)
	}
	return r, r.Validate()
}

// jobName names a job by its program, and a script by itself and not by its interpreter.
func jobName(args []string) string {
	if len(args) == 0 {
		return "example"
	}
	name := filepath.Base(args[0])
	if strings.HasPrefix(name, "python") {
		for i, a := range args[1:] {
			switch {
			case a == "-m" && i+2 < len(args):
				return args[i+2]
			case !strings.HasPrefix(a, "-"):
				return strings.TrimSuffix(filepath.Base(a), ".py")
			}
		}
	}
	return name
}

// surround makes the environment in which the program finds the driver.
func (p *program) surround(ctx context.Context, fake bool) error {
	// The loader takes spaces and colons in LD_PRELOAD as ends of names.
	if strings.ContainsAny(p.shim, " :") {
		return fmt.Errorf(
			"%s: a library whose path has a space or a colon cannot be preloaded: give another "+
				"with --shim", p.shim)
	}
	if p.verbose {
		p.env = append(p.env, "WEIR_VERBOSE=1")
	}
	if !fake {
		return nil
	}
	driver, example, err := fakeDriver(ctx)
	if err != nil {
		return err
	}
	path := driver
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	p.env = append(p.env, "LD_LIBRARY_PATH="+path)
	if os.Getenv("WEIR_FAKE_DIR") == "" {
		p.env = append(p.env, "WEIR_FAKE_DIR="+fakeGPUDir(p.dir))
	}
	if len(p.args) == 0 {
		p.path, p.args = example, []string{example}
	}
	return nil
}

// run makes the job, runs the program in it, and exits with its code.
func (p *program) run(ctx context.Context) error {
	client, err := p.create(ctx)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.path, p.args[1:]...)
	cmd.Args[0] = p.args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = agent.Environment(os.Environ(), agent.SocketPath(p.dir), p.grant, p.shim,
		append(p.env, visible(p.device, p.grant.ThreadPercent > 0)...)...)
	p.say()
	forward := catchSignals()
	if err := cmd.Start(); err != nil {
		_ = client.Close()
		return &failure{exitNotRunning, err}
	}
	ended := make(chan struct{})
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		p.keep(client, ended)
	}()
	go forward(cmd.Process)
	err = cmd.Wait()
	close(ended)
	<-kept
	if state := cmd.ProcessState; state != nil {
		os.Exit(exitCode(state))
	}
	return &failure{exitNotRunning, err}
}

// say tells what a person must know who gave no number, asked for a fake, or named a guarantee
// under a policy that takes it for a bound.
func (p *program) say() {
	if p.request.Fake {
		fmt.Fprintln(os.Stderr, "weir: FAKE GPU: simulated, nothing is computed")
	}
	if p.request.Memory == 0 {
		fmt.Fprintf(os.Stderr,
			"weir: job %s: memory cap %v, all that was not promised: --memory says how much\n",
			p.grant.Name, p.grant.Memory)
	}
	if n := p.grant.ThreadPercent; n > 0 && n < 100 {
		fmt.Fprintf(os.Stderr,
			"weir: job %s: beside others under MPS, on at most %d %% of the GPU, alone or not\n",
			p.grant.Name, n)
	}
}

// creations bounds how often a job is asked for when the agent closes down at that moment.
const creations = 3

// create connects to the agent, or starts one, and makes the job.
func (p *program) create(ctx context.Context) (*agent.Client, error) {
	for n := 1; ; n++ {
		client, err := agent.Connect(ctx, p.dir, p.agent)
		if err != nil {
			return nil, err
		}
		if p.grant, err = client.Create(p.request); err == nil {
			err = p.awaitRanks(ctx, client)
		}
		if err == nil {
			return client, nil
		}
		_ = client.Close()
		if errors.Is(err, agent.ErrRefused) && !errors.Is(err, agent.ErrBusy) || n == creations {
			return nil, err
		}
	}
}

// awaitRanks waits for the other jobs of the program's gang.
func (p *program) awaitRanks(ctx context.Context, client *agent.Client) error {
	if p.request.Ranks == 0 {
		return nil
	}
	told := time.AfterFunc(time.Second, func() {
		fmt.Fprintf(os.Stderr, "weir: job %s: waits for all %d ranks of gang %s\n", p.grant.Name,
			p.request.Ranks, p.request.Gang)
	})
	defer told.Stop()
	return client.AwaitRanks(ctx)
}

// rejoinEvery is how often a job is brought back to an agent that ended.
const rejoinEvery = 200 * time.Millisecond

// keep holds the job until the program has ended: if the agent ends, it brings the job to the next
// one, which it starts if nobody else has after a while.
func (p *program) keep(client *agent.Client, ended <-chan struct{}) {
	for {
		lost := make(chan struct{})
		go func() {
			defer close(lost)
			client.WaitClosed()
		}()
		select {
		case <-ended:
			_ = client.Close()
			<-lost
			return
		case <-lost:
			_ = client.Close()
		}
		if client = p.rejoin(ended); client == nil {
			return
		}
	}
}

// rejoin brings the job to the next agent; nil if the program ends before.
func (p *program) rejoin(ended <-chan struct{}) *agent.Client {
	ctx, cancel := until(ended)
	defer cancel()
	request := p.request
	request.Again = p.grant
	patience := 2
	if p.grant.Service {
		patience = 25 // whoever keeps the agent running starts it again
	}
	for n := 0; ; n++ {
		select {
		case <-time.After(rejoinEvery):
		case <-ended:
			return nil
		}
		client, err := agent.Dial(p.dir)
		if err != nil && n >= patience {
			client, err = agent.Connect(ctx, p.dir, p.agent)
		}
		if err != nil {
			continue
		}
		if grant, err := client.Create(request); err == nil {
			_ = p.grant.Page.Close()
			p.grant, request.Again = grant, grant
			return client
		}
		_ = client.Close()
	}
}

// until is a context that ends when a channel is closed.
func until(ended <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
