package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/plan"
)

type inspectResult struct {
	Name        string         `json:"name"`
	Inputs      []valueLine    `json:"inputs"`
	Outputs     []valueLine    `json:"outputs"`
	Opsets      map[string]int `json:"opsets"`
	Nodes       int            `json:"nodes"`
	Operators   map[string]int `json:"operators"`
	Parameters  int64          `json:"parameters"`
	WeightBytes int64          `json:"weight_bytes"`
	PeakBytes   int64          `json:"peak_bytes"`
	ArenaBytes  int64          `json:"arena_bytes"`
	PackedBytes int64          `json:"packed_bytes"`
	Steps       int            `json:"steps"`
	Flops       int64          `json:"flops"`
	PlanError   string         `json:"plan_error,omitempty"`
}

type valueLine struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

func newInspect() *cobra.Command {
	var dev deviceFlags
	var model modelFlags
	var dump, until string
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show a model's graph, operators, shapes, cost and memory plan",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			m, err := onnx.Open(args[0], onnx.Options{})
			if err != nil {
				return err
			}
			defer m.Close()
			if dump != "" {
				return dumpGraph(c, m.Graph, &model, dump, until)
			}
			res := inspect(c, m.Graph, &dev, &model)
			if asJSON {
				return printJSON(c.OutOrStdout(), res)
			}
			printInspect(c.OutOrStdout(), res)
			return nil
		},
	}
	dev.add(c)
	model.add(c)
	c.Flags().StringVar(&dump, "dump", "", "print the graph instead: text, dot or html")
	c.Flags().StringVar(&until, "pass", "", "with --dump: the stage after this pass, or all for every stage (html)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func inspect(c *cobra.Command, g *graph.Graph, dev *deviceFlags, model *modelFlags) *inspectResult {
	res := &inspectResult{Name: g.Name, Inputs: lines(g.Inputs), Outputs: lines(g.Outputs), Opsets: g.Opsets, Operators: map[string]int{}}
	g.Walk(func(b *graph.Graph) {
		for _, n := range b.Nodes {
			res.Nodes++
			res.Operators[n.Call().Name()]++
		}
		for _, v := range b.Constants() {
			res.WeightBytes += int64(len(v.Const().Data))
			if v.Type.DType.IsFloat() {
				res.Parameters += int64(v.Const().Len())
			}
		}
	})
	p, err := inspectPlan(c, g, dev, model)
	if err != nil {
		res.PlanError = err.Error()
		return res
	}
	res.PeakBytes, res.ArenaBytes, res.PackedBytes = p.PeakBytes(1), p.ArenaBytes, p.PackedBytes
	res.Steps, res.Flops = len(p.Steps), p.Flops
	return res
}

func inspectPlan(c *cobra.Command, g *graph.Graph, dev *deviceFlags, model *modelFlags) (*plan.Plan, error) {
	_, pool, closeDevice, err := dev.open()
	if err != nil {
		return nil, err
	}
	defer closeDevice()
	shapes, _, _, err := model.resolve(g)
	if err != nil {
		return nil, err
	}
	return plan.Compile(c.Context(), g, plan.Options{Shapes: shapes, Threads: pool.Threads()})
}

func lines(vs []*graph.Value) []valueLine {
	out := make([]valueLine, len(vs))
	for i, v := range vs {
		out[i] = valueLine{v.Name, v.Type.String()}
	}
	return out
}

func printInspect(w io.Writer, r *inspectResult) {
	for _, v := range r.Inputs {
		fmt.Fprintf(w, "input   %s  %s\n", v.Name, v.Type)
	}
	for _, v := range r.Outputs {
		fmt.Fprintf(w, "output  %s  %s\n", v.Name, v.Type)
	}
	fmt.Fprintf(w, "nodes %d, parameters %.2f M, weights %.1f MiB\n", r.Nodes, float64(r.Parameters)/1e6, float64(r.WeightBytes)/(1<<20))
	if r.PlanError != "" {
		fmt.Fprintf(w, "no plan: %s\n", r.PlanError)
	} else {
		fmt.Fprintf(w, "plan: %d steps, %.2f GFLOP, peak memory %.1f MiB (arena %.1f, packed weights %.1f)\n", r.Steps,
			float64(r.Flops)/1e9, float64(r.PeakBytes)/(1<<20), float64(r.ArenaBytes)/(1<<20), float64(r.PackedBytes)/(1<<20))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Operators)) {
		fmt.Fprintf(w, "%6d  %s\n", r.Operators[name], name)
	}
}

// dumpGraph prints a graph, or what the passes make of it.
func dumpGraph(c *cobra.Command, g *graph.Graph, model *modelFlags, form, until string) error {
	stages := []graph.Stage{{Name: "as read", Graph: g}}
	if until != "" {
		shapes, _, _, err := model.resolve(g)
		if err != nil {
			return err
		}
		s, err := g.Specialize(shapes)
		if err != nil {
			return err
		}
		stages = nil
		record := func(name string, g *graph.Graph) {
			stages = append(stages, graph.Stage{Name: name, Graph: g.Clone()})
		}
		if _, err := pass.Run(c.Context(), s, pass.Options{Dump: record}); err != nil {
			return err
		}
		if stages, err = stagesUntil(stages, until); err != nil {
			return err
		}
	}
	last := stages[len(stages)-1].Graph
	switch form {
	case "text":
		return graph.Print(c.OutOrStdout(), last)
	case "dot":
		return graph.Dot(c.OutOrStdout(), last)
	case "html":
		return graph.HTML(c.OutOrStdout(), stages)
	}
	return fmt.Errorf("--dump %s: want text, dot or html", form)
}

// stagesUntil keeps the stages up to the last one of the named pass.
func stagesUntil(stages []graph.Stage, until string) ([]graph.Stage, error) {
	if until == "all" {
		return stages, nil
	}
	for i := len(stages) - 1; i >= 0; i-- {
		if stages[i].Name == until {
			return stages[:i+1], nil
		}
	}
	var names []string
	for _, s := range stages {
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("--pass %s: no such stage of this model; stages are %v, or all", until, names)
}

// countNodes counts the nodes of a graph and its bodies.
func countNodes(g *graph.Graph) int {
	n := 0
	g.Walk(func(b *graph.Graph) { n += len(b.Nodes) })
	return n
}
