package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	kubeplace "github.com/weirgpu/weir/kube/place"
	"github.com/weirgpu/weir/kube/sim"
)

func newCluster() *cobra.Command {
	c := &cobra.Command{Use: "cluster", Short: "Place pods on the devices of a cluster"}
	c.AddCommand(newClusterSimulate())
	return c
}

// clusterFlags are those of weir cluster simulate.
type clusterFlags struct {
	nodes, pods, policy, page string
	first, seeds              int
	options                   sim.Options
	asJSON                    bool
}

func newClusterSimulate() *cobra.Command {
	f := clusterFlags{}
	c := &cobra.Command{
		Use:   "simulate [TRACE]",
		Short: "Replay a trace of a cluster under placement policies",
		Long: "Replay a trace of a cluster, a file of pods beside one of nodes or a folder of " +
			"such files, under policies:\n" + strings.Join(placements(), ", ") + ", a list, " +
			"or all. Pods come in a random order for each\nseed and stay, until they have " +
			"asked for 1.3 times what there is. The columns are those of the\nopenb traces " +
			"of Alibaba.",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: files("csv"),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	c.Flags().StringVar(&f.pods, "pods", "", "the file of pods, in place of an argument")
	c.Flags().StringVar(&f.nodes, "nodes", "",
		"the file of nodes (default: openb_node_list_gpu_node.csv beside that of pods)")
	c.Flags().StringVar(&f.policy, "policy", "prices", "policies, with commas between, or all")
	c.Flags().IntVar(&f.first, "seed", 42, "the first seed")
	c.Flags().IntVar(&f.seeds, "seeds", 1, "how many seeds, one after the other")
	c.Flags().Float64Var(&f.options.Arrive, "arrive", sim.Arrive,
		"what arrivals ask for together, as a part of all devices")
	c.Flags().BoolVar(&f.options.Times, "times", false,
		"pods come and go at the times of the trace, each once")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&f.page, "html", "", "write a report page to this file")
	completeFlag(c, "policy", append(placements(), "all")...)
	return c
}

// placements are the names of the placement policies.
func placements() (names []string) {
	for _, p := range kubeplace.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// clusterResult is what weir cluster simulate prints as JSON: of one policy on one trace its
// figures stand outside, too.
type clusterResult struct {
	*sim.Summary
	Results []sim.Summary `json:"results"`
}

func newClusterResult(all []sim.Summary) clusterResult {
	r := clusterResult{Results: all}
	if len(all) == 1 {
		r.Summary = &all[0]
	}
	return r
}

func printCluster(w io.Writer, all []sim.Summary) {
	t := table{{"trace", "policy", "allocated", "at 100 %", "fragmented", "placed", "rejected",
		"per s"}}
	for i := range all {
		s := &all[i]
		at := ""
		if s.AtCapacity > 0 {
			at = fmt.Sprintf("%.2f %%", 100*s.AtCapacity)
		}
		t = append(t, []string{filepath.Base(s.Trace), s.Policy,
			fmt.Sprintf("%.2f %%", 100*s.Allocation), at,
			fmt.Sprintf("%.2f %%", 100*s.Fragmentation), fmt.Sprint(s.Placed),
			fmt.Sprint(s.Rejected), fmt.Sprintf("%.0f", s.PerSecond)})
	}
	t.print(w)
}
