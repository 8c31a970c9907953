package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"
)

type optimizeResult struct {
	NodesBefore int          `json:"nodes_before"`
	NodesAfter  int          `json:"nodes_after"`
	Passes      []passResult `json:"passes"`
}

type passResult struct {
	Name    string  `json:"name"`
	Changes int     `json:"changes"`
	MS      float64 `json:"ms"`
}

func newOptimize() *cobra.Command {
	var asJSON bool
	var o pass.Options
	c := &cobra.Command{
		Use:   "optimize IN OUT",
		Short: "Run the portable passes and write ONNX that other runtimes load too",
		Long: "Run the portable passes and write ONNX that other runtimes load too. - as IN is " +
			"standard input, - as OUT is standard output, with the figures on standard error.",
		Args: exactly(2),

		ValidArgsFunction: files("onnx"),
		RunE: func(c *cobra.Command, args []string) error {
			w := c.OutOrStdout()
			if args[1] == "-" {
				w = c.ErrOrStderr()
			}
			if asJSON && args[1] == "-" {
				return errors.New("--json and - as OUT both want standard output: choose one")
			}
			res, err := optimize(c, args[0], args[1], o)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(w, res)
			}
			res.print(&fitted{w: w})
			return nil
		},
	}
	c.Flags().StringSliceVar(&o.Off, "off", nil, "passes to leave out")
	completeFlag(c, "off", pass.Names()...)
	c.Flags().
		IntVar(&o.StopAfter, "stop-after", 0,
			"stop after that many patches, to find a wrong one by halving (0: do all)")
	c.Flags().BoolVar(&o.Check, "check", false, "check the graph before and after every patch")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (r *optimizeResult) print(w io.Writer) {
	for _, p := range r.Passes {
		fmt.Fprintf(w, "%5d changes  %8.2f ms  %s\n", p.Changes, p.MS, p.Name)
	}
	fmt.Fprintf(w, "nodes: %d before, %d after\n", r.NodesBefore, r.NodesAfter)
}

// optimize reads a model, runs the passes and writes it.
func optimize(c *cobra.Command, in, out string, o pass.Options) (*optimizeResult, error) {
	m, err := readModel(c, in)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	res := &optimizeResult{NodesBefore: countNodes(m.Graph), Passes: []passResult{}}
	g, report, err := plan.SimplifyWith(c.Context(), m.Graph, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in, err)
	}
	for _, p := range report {
		res.Passes = append(res.Passes, passResult{p.Name, p.Changes, ms(p.Duration)})
	}
	res.NodesAfter = countNodes(g)
	if err := writeOptimized(c, out, g); err != nil {
		return res, failed(err)
	}
	if err := m.Unchanged(); err != nil {
		return res, failed(fmt.Errorf("%s is of no use: %w", out, err))
	}
	return res, nil
}

// writeOptimized writes a graph to a file, or for - to standard output.
func writeOptimized(c *cobra.Command, out string, g *graph.Graph) error {
	if out == "-" {
		_, err := fault.Await(c.Context(), func() (struct{}, error) { // for whoever reads a pipe
			return struct{}{}, onnx.Write(c.OutOrStdout(), g, onnx.WriteOptions{})
		})
		return err
	}
	return writeOut(c.Context(), out, func() error {
		return onnx.WriteFile(out, g, onnx.WriteOptions{})
	})
}
