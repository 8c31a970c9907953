package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/wholefile"
	kubeplace "github.com/weirgpu/weir/kube/place"
	"github.com/weirgpu/weir/kube/sim"
)

// chosen returns the policies that the flag names.
func (f *clusterFlags) chosen() ([]kubeplace.Policy, error) {
	if f.policy == "all" {
		return kubeplace.Policies(), nil
	}
	var all []kubeplace.Policy
	for _, name := range strings.Split(f.policy, ",") {
		p, ok := kubeplace.Named(name)
		if !ok {
			return nil, fmt.Errorf("no placement policy %q: there are %s, and all", name,
				strings.Join(placements(), ", "))
		}
		all = append(all, p)
	}
	return all, nil
}

// traces reads what is to be replayed.
func (f *clusterFlags) traces(args []string) ([]*sim.Trace, error) {
	path := f.pods
	if len(args) == 1 {
		path = args[0]
	}
	if path == "" || (len(args) == 1 && f.pods != "") {
		return nil, fmt.Errorf("give one file of pods, or a folder of them, as the argument or " +
			"with --pods")
	}
	names, err := sim.Files(path)
	if err != nil {
		return nil, err
	}
	var all []*sim.Trace
	for _, name := range names {
		t, err := sim.Open(name, f.nodes)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// maxSeeds bounds --seeds.
const maxSeeds = 1000

func (f *clusterFlags) run(c *cobra.Command, args []string) error {
	policies, err := f.chosen()
	if err != nil {
		return err
	}
	if f.seeds < 1 || f.seeds > maxSeeds {
		return fmt.Errorf("--seeds %d: 1 to %d can be", f.seeds, maxSeeds)
	}
	if f.options.Arrive == 0 {
		return fmt.Errorf("--arrive 0: nothing would come")
	}
	if err := writable(f.page); err != nil {
		return err
	}
	traces, err := f.traces(args)
	if err != nil {
		return err
	}
	all, err := f.simulate(c.Context(), c.ErrOrStderr(), traces, policies)
	if err != nil {
		return err
	}
	if f.page != "" {
		if err := failed(writeOut(c.Context(), f.page, func() error {
			return wholefile.Write(f.page, func(w io.Writer) error {
				return sim.WritePage(w, c.CommandPath()+" --html", all)
			})
		})); err != nil {
			return err
		}
	}
	if f.asJSON {
		return printJSON(c.OutOrStdout(), newClusterResult(all))
	}
	printCluster(c.OutOrStdout(), all)
	return nil
}

// simulate runs all policies with all seeds on all traces.
func (f *clusterFlags) simulate(ctx context.Context, talk io.Writer, traces []*sim.Trace,
	policies []kubeplace.Policy) ([]sim.Summary, error) {
	b := newBar(talk, "simulate", int64(len(traces)*len(policies)*f.seeds)*100)
	defer b.end()
	var all []sim.Summary
	done := int64(0)
	for _, t := range traces {
		for _, p := range policies {
			var runs []sim.Result
			o, start := f.options, time.Now()
			for i := range f.seeds {
				o.Policy, o.Seed = p, int64(f.first+i)
				o.Progress = func(n, of int) {
					b.show(done+100*int64(n)/int64(of), t.Name+" "+p.Name)
				}
				r, err := sim.Run(ctx, t, o)
				if err != nil {
					return nil, err
				}
				runs = append(runs, *r)
				done += 100
			}
			all = append(all, sim.Mean(t.Name, p.Name, runs, time.Since(start).Seconds()))
		}
	}
	return all, nil
}
