package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/server/web"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// setFlags are the flags of set.
type setFlags struct {
	memory, class, device string
	compute, limit        float64
	fake, asJSON          bool
	remoteFlags
}

func newSet() *cobra.Command {
	var f setFlags
	c := &cobra.Command{
		Use:   "set JOB [flags]",
		Short: "Give a job another share while it runs: of weir exec, weir share or weir up",
		Long: `Give a job of weir exec another share while its programs run, a job of weir share while its
scenario does, or a model of weir up while it answers. With --server that is asked, for a model or
for a program that it shows; else the agent is, which knows the models of a weir up that it is part
of. What no flag names stays as it is. What does not fit beside the other jobs is refused with the numbers, and so is a memory cap
below what the job holds. Programs were told of the memory when they began and may not ask again. A
job of weir share, and a model, goes on with a smaller plan where its own does not fit the cap, and
with its own once the cap is raised; a model's requests do not raise a cap that was set. Of weir
exec and weir share, the one that has a job of this name is asked; --device is for the former.`,
		Example: "  weir set train --compute 0.5 --limit 0.8\n" +
			"  weir set resnet50 --server http://localhost:8000 --class latency",
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.add(c)
	return c
}

func (f *setFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&f.memory, "memory", "", "cap on device memory, such as 8GiB")
	c.Flags().Float64Var(&f.compute, "compute", 0, "guaranteed fraction of device time, 0 to 1")
	c.Flags().Float64Var(&f.limit, "limit", 0, "fraction of device time never exceeded (0: 1)")
	c.Flags().StringVar(&f.class, "class", "", "latency, standard or opportunistic")
	c.Flags().StringVar(&f.device, "device", "",
		"GPU of the job, such as cuda:1 (needed if two have a job of this name)")
	f.remoteFlags.add(c)
	addFakeAgent(c, &f.fake)
	completeFlag(c, "class", share.Latency.String(), share.Standard.String(),
		share.Opportunistic.String())
}

// run asks the agent, or a server, to change the share of a job.
func (f *setFlags) run(c *cobra.Command, job string) error {
	r, err := f.change(c, job)
	if err != nil {
		return err
	}
	if c.Flags().Changed("server") {
		return f.changeRemote(c, r)
	}
	if r.Device == nil && !f.fake {
		if now, found, err := setScenario(r); err != nil {
			return err
		} else if found {
			return f.print(c.OutOrStdout(), shareOf(&now))
		}
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
	err = f.print(c.OutOrStdout(), shareOf(&got))
	return errors.Join(err, failed(sayKept(c.ErrOrStderr(), f.fake, got.Name)))
}

// print prints the share that a job has now.
func (f *setFlags) print(w io.Writer, s shareInfo) error {
	if f.asJSON {
		return printJSON(w, s)
	}
	_, err := fmt.Fprintf(w, "%s: memory %v, compute %g, limit %g, class %v\n", s.Name,
		share.Bytes(s.MemoryCapBytes), s.Compute, s.Limit, s.Class)
	return err
}

// changeRemote gives a model of a server another share or, where it has none of that name, a
// program that the server shows.
func (f *setFlags) changeRemote(c *cobra.Command, to agent.ShareChange) error {
	if f.fake {
		return errors.New("--server: which GPUs programs have is the server's to say: leave " +
			"--fake-gpu out")
	}
	r, err := f.open()
	if err != nil {
		return err
	}
	var got web.Changed[web.Share]
	ask := func(path string) error {
		return r.do(c.Context(), "POST", path, webShare(to), &got)
	}
	job := url.PathEscape(to.Job)
	program := "/v1/programs/" + job + "/share?device=" + url.QueryEscape(f.device)
	var none *missing
	if f.device != "" { // only a program's can be named
		err = ask(program)
	} else if err = ask("/v1/models/" + job + "/share"); errors.As(err, &none) {
		if also := ask(program); errors.As(also, &none) {
			err = failed(fmt.Errorf("%w; and there is no program of that name", err))
		} else {
			err = also
		}
	}
	if err != nil {
		return err
	}
	now := shareInfo{Name: to.Job, Compute: *got.Now.Compute, Limit: *got.Now.Limit,
		MemoryCapBytes: *got.Now.Memory}
	if now.Class, err = share.ParseClass(*got.Now.Class); err != nil {
		return failed(err)
	}
	return f.print(c.OutOrStdout(), now)
}

// webShare is a change of a share as servers are asked for it.
func webShare(to agent.ShareChange) web.Share {
	s := web.Share{Compute: to.Compute, Limit: to.Limit}
	if to.Class != nil {
		class := to.Class.String()
		s.Class = &class
	}
	if to.Memory != nil {
		n := int64(*to.Memory)
		s.Memory = &n
	}
	return s
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
		n, err := parseMemory(f.memory)
		if err != nil {
			return r, err
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

// parseMemory reads flag --memory, a size above 0.
func parseMemory(text string) (share.Bytes, error) {
	n, err := share.ParseBytes(text)
	if err == nil && n <= 0 {
		err = errors.New("must be above 0")
	}
	if err != nil {
		return 0, fmt.Errorf("--memory %s: %w", text, err)
	}
	return n, nil
}

// deviceFlag is the ordinal that --device names, nil if it was not given.
func deviceFlag(c *cobra.Command, device string) (*uint32, error) {
	if !c.Flags().Changed("device") {
		return nil, nil
	}
	n, err := ordinalOf(device)
	if err != nil {
		return nil, fmt.Errorf("--device %w", err)
	}
	return n, nil
}

// ordinalOf is the number of a GPU by its name.
func ordinalOf(device string) (*uint32, error) {
	var n uint32
	if _, err := fmt.Sscanf(device, "cuda:%d", &n); err != nil ||
		(agent.Device{Ordinal: n}).ID() != device {
		return nil, fmt.Errorf("%s: want cuda:N", device)
	}
	return &n, nil
}

func newPolicy() *cobra.Command {
	var fake, asJSON bool
	var on remoteFlags
	c := &cobra.Command{
		Use:   "policy NAME[:PARAMETER=VALUE,...]",
		Short: "Change how the running agent shares the GPUs, or a server its device",
		Long: `Make another sharing policy decide for the programs under weir exec, while they run, or, with
--server, for the models of weir up; where weir up is the agent of the programs (on a machine with
GPUs it is, unless another one runs), for both. It holds until the agent or server ends; weir agent
--policy and weir up --policy say which they begin with. Programs give the GPU back and
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
			if c.Flags().Changed("server") {
				return setServerPolicy(c, &on, spec, asJSON)
			}
			return setAgentPolicy(c, fake, spec, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	on.add(c)
	addFakeAgent(c, &fake)
	return c
}

// setAgentPolicy makes a policy decide for the programs under weir exec.
func setAgentPolicy(c *cobra.Command, fake bool, spec string, asJSON bool) error {
	client, err := dialAgent(fake)
	if err != nil {
		return failed(err)
	}
	defer client.Close()
	if err := client.SetPolicy(spec); err != nil {
		return failed(err)
	}
	return errors.Join(sayPolicy(c.OutOrStdout(), spec, asJSON),
		failed(sayKept(c.ErrOrStderr(), fake, "")))
}

func sayPolicy(w io.Writer, spec string, asJSON bool) error {
	if asJSON {
		return printJSON(w, policySet{spec})
	}
	_, err := fmt.Fprintln(w, "policy", spec)
	return err
}

// setServerPolicy has another policy decide for the models of a server.
func setServerPolicy(c *cobra.Command, on *remoteFlags, spec string, asJSON bool) error {
	r, err := on.open()
	if err != nil {
		return err
	}
	var got web.Changed[web.Chosen]
	if err := r.do(c.Context(), "POST", "/v1/policy", web.Chosen{Policy: spec},
		&got); err != nil {
		return err
	}
	return sayPolicy(c.OutOrStdout(), got.Now.Policy, asJSON)
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
