package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/graph/stages"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/onnx"
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
	// HostBytes is what a run holds on the host beside a device whose memory that cannot address.
	HostBytes int64 `json:"host_bytes"`
	Steps     int   `json:"steps"`
	Flops     int64 `json:"flops"`
	// Amp tells what mixed precision makes of each node; absent in fp32.
	Amp       *pass.AmpReport `json:"amp,omitempty"`
	PlanError string          `json:"plan_error,omitempty"`
	// Unknown are the operators that weir does not have.
	Unknown []unknownLine `json:"unknown,omitempty"`
	// Warnings are those of the model, see onnx.Model, and that of the processor: cpuinfo.Doubt.
	Warnings []string `json:"warnings,omitempty"`
}

type valueLine struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type inspectFlags struct {
	dev         deviceFlags
	model       modelFlags
	dump, until string
	asJSON      bool
}

func newInspect() *cobra.Command {
	var f inspectFlags
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Show a model's graph, operators, shapes, cost and memory plan",
		Args:  exactly(1),

		ValidArgsFunction: files("onnx"),
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	f.dev.add(c)
	f.model.add(c)
	c.Flags().
		StringVar(&f.dump, "dump", "",
			"print the graph instead: text, exact (with all weights), dot or html")
	c.Flags().
		StringVar(&f.until, "pass", "",
			"the stage after this pass, or all for every stage (with --dump)")
	completeFlag(c, "dump", "text", "exact", "dot", "html")
	completeFlag(c, "pass", stageNames()...)
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return c
}

// run prints what is asked for of the model in the file at path.
func (f *inspectFlags) run(c *cobra.Command, path string) error {
	if f.asJSON && (f.dump != "" || f.until != "") {
		return errors.New("--json prints figures, --dump and --pass print the graph: choose one")
	}
	m, unknown, err := readToShow(c, path)
	if err != nil {
		return err
	}
	defer m.Close()
	if f.dump != "" || f.until != "" {
		return dumpGraph(c, path, m.Graph, &f.dev, &f.model, f.dump, f.until)
	}
	res := describeModel(m.Graph)
	res.Warnings = m.Warnings
	if unknown != nil {
		res.Unknown, res.PlanError = unknownLines(unknown), unknown.Error()
	} else if err := res.plan(c, m.Graph, &f.dev, &f.model); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if doubt := cpuinfo.Doubt(); doubt != "" { // the plan may be what has asked for tiles
		res.Warnings = append(slices.Clip(res.Warnings), doubt)
	}
	return f.print(c.OutOrStdout(), path, res)
}

// readToShow is readModel that also reads a model with operators that weir does not have, without
// the types of what nodes compute.
func readToShow(c *cobra.Command, path string) (*onnx.Model, *graph.UnknownError, error) {
	read, err := modelReader(c, path)
	if err != nil {
		return nil, nil, err
	}
	m, err := read(onnx.Options{})
	var unknown *graph.UnknownError
	if errors.As(err, &unknown) {
		m, err = read(onnx.Options{SkipCheck: true})
	}
	return m, unknown, err
}

// modelReader returns what reads the same model each time: that in the file at path, or the one on
// standard input or in a pipe, which can be read but once.
func modelReader(c *cobra.Command, path string) (func(onnx.Options) (*onnx.Model, error), error) {
	if path != "-" && isRegular(path) {
		return func(o onnx.Options) (*onnx.Model, error) { return onnx.Open(path, o) }, nil
	}
	name, dir := path, filepath.Dir(path)
	if path == "-" {
		name, dir = "standard input", ""
	}
	data, err := fault.Await(c.Context(), func() ([]byte, error) {
		if path == "-" {
			return onnx.ReadAll(c.InOrStdin())
		}
		return readFile(path)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return func(o onnx.Options) (*onnx.Model, error) {
		m, err := onnx.Decode(data, dir, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return m, nil
	}, nil
}

// readFile reads what is no regular file, such as a pipe, as far as a model may be long.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return onnx.ReadAll(f)
}

// unknownLine is an operator that weir does not have.
type unknownLine struct {
	Operator string `json:"operator"`
	Version  int    `json:"version"` // of its operator set
	Nodes    int    `json:"nodes"`
	First    string `json:"first_node"`
}

func unknownLines(e *graph.UnknownError) []unknownLine {
	var all []unknownLine
	for _, u := range e.Operators {
		all = append(all, unknownLine{(&op.Call{Domain: u.Domain, Type: u.Type}).Name(), u.Version,
			u.Nodes, u.First})
	}
	return all
}

// print writes the figures. It fails where the model has no plan.
func (f *inspectFlags) print(w io.Writer, path string, res *inspectResult) error {
	if f.asJSON {
		if err := printJSON(w, res); err != nil {
			return err
		}
	} else {
		printInspect(&fitted{w: w}, res)
	}
	if res.PlanError != "" {
		return fmt.Errorf("%s: no plan: %s", path, res.PlanError)
	}
	return nil
}

// describeModel is what is known of a model without a plan.
func describeModel(g *graph.Graph) *inspectResult {
	res := &inspectResult{
		Name:      g.Name,
		Inputs:    lines(g.Inputs),
		Outputs:   lines(g.Outputs),
		Opsets:    g.Opsets,
		Operators: map[string]int{},
	}
	g.Walk(res.count)
	return res
}

// plan adds what is known of the model's plan, or why there is none.
func (r *inspectResult) plan(c *cobra.Command, g *graph.Graph, dev *deviceFlags,
	model *modelFlags) error {
	on, err := dev.open()
	if err != nil {
		return err
	}
	defer on.Close()
	asked, err := model.resolve(c, "", g.Inputs, 0) // inspect takes no inputs
	if err != nil {
		return err
	}
	passes, err := dev.passes(on)
	if err != nil {
		return err
	}
	p, err := plan.Compile(
		c.Context(),
		g,
		plan.Options{Target: on.Target, Shapes: asked.shapes, Threads: on.Pool.Threads(),
			Passes: passes},
	)
	if err != nil {
		r.PlanError = model.hint(g, asked, err).Error()
		return nil
	}
	r.addPlan(p)
	if passes.Precision != pass.FP32 {
		r.Amp = pass.Amp(p.Graph, passes.Precision, on.Target.Features())
	}
	return nil
}

// addPlan takes the figures of a plan.
func (r *inspectResult) addPlan(p *plan.Plan) {
	r.PeakBytes, r.ArenaBytes, r.PackedBytes = p.PeakBytes(1), p.ArenaBytes, p.PackedBytes
	r.HostBytes = p.HostBytes
	r.Steps, r.Flops = len(p.Steps), p.Flops
}

// count adds one graph's nodes and constants. Running statistics and scalars, such as bounds, are
// constants but no parameters: nobody trained them.
func (r *inspectResult) count(b *graph.Graph) {
	statistics := map[*graph.Value]bool{}
	for _, n := range b.Nodes {
		r.Nodes++
		r.Operators[n.Call().Name()]++
		if n.Domain == "" && n.Type == "BatchNormalization" && len(n.In) >= 5 {
			statistics[n.In[3]], statistics[n.In[4]] = true, true
		}
	}
	for _, v := range b.Constants() {
		r.WeightBytes += int64(len(v.Const().Data))
		if v.Type.DType.IsFloat() && len(v.Const().Shape) > 0 && !statistics[v] {
			r.Parameters += int64(v.Const().Len())
		}
	}
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
	for _, text := range r.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	fmt.Fprintf(w, "nodes %d, parameters %.2f M, weights %s\n", r.Nodes,
		float64(r.Parameters)/1e6, terminal.Size(r.WeightBytes))
	printPlan(w, r)
	for _, name := range slices.Sorted(maps.Keys(r.Operators)) {
		fmt.Fprintf(w, "%6d  %s\n", r.Operators[name], name)
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(w, "unknown %s, version %d: %d nodes, the first %q\n", u.Operator, u.Version,
			u.Nodes, u.First)
	}
	printAmp(w, r.Amp)
}

// printPlan says what the plan needs, or why there is none.
func printPlan(w io.Writer, r *inspectResult) {
	if r.PlanError != "" {
		fmt.Fprintf(w, "no plan: %s\n", r.PlanError)
		return
	}
	fmt.Fprintf(w, "plan: %d steps, %.2f GFLOP, peak memory %s (arena %s, packed weights %s)\n",
		r.Steps, float64(r.Flops)/1e9, terminal.Size(r.PeakBytes), terminal.Size(r.ArenaBytes),
		terminal.Size(r.PackedBytes))
	if r.HostBytes > 0 {
		fmt.Fprintf(w, "beside it %s of the host's\n", terminal.Size(r.HostBytes))
	}
}

// dumpGraph prints a graph, or what the passes make of it.
func dumpGraph(c *cobra.Command, path string, g *graph.Graph, dev *deviceFlags, model *modelFlags,
	form, until string) error {
	if !slices.Contains([]string{"", "text", "exact", "dot", "html"}, form) {
		return fmt.Errorf("--dump %s: want text, exact, dot or html", form)
	}
	drawn := []stages.Stage{{Name: "as read", Graph: g}}
	if until != "" {
		var err error
		if drawn, err = runStages(c, g, dev, model); err == nil {
			drawn, err = stagesUntil(drawn, until)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	w := c.OutOrStdout()
	if form == "html" {
		return stages.HTML(w, filepath.Base(path), drawn)
	}
	if until != "all" {
		drawn = drawn[len(drawn)-1:]
	}
	return failed(writeStages(w, form, drawn))
}

// writeStages writes each graph in a form, below its name where there are several.
func writeStages(w io.Writer, form string, drawn []stages.Stage) error {
	write := map[string]func(io.Writer, *graph.Graph) error{"": graph.Brief, "text": graph.Brief,
		"exact": graph.Print, "dot": graph.Dot}[form]
	for _, s := range drawn {
		if len(drawn) > 1 && form != "dot" {
			fmt.Fprintf(w, "# %s\n", s.Name)
		}
		if err := write(w, s.Graph); err != nil {
			return err
		}
	}
	return nil
}

// runStages runs the passes and keeps the graph after each.
func runStages(c *cobra.Command, g *graph.Graph, dev *deviceFlags,
	model *modelFlags) ([]stages.Stage, error) {
	r, err := model.resolve(c, "", g.Inputs, 0)
	if err != nil {
		return nil, err
	}
	s, err := g.Specialize(r.shapes)
	if err != nil {
		return nil, err
	}
	on, err := dev.open()
	if err != nil {
		return nil, err
	}
	defer on.Close()
	var all []stages.Stage
	record := func(name string, g *graph.Graph) {
		all = append(all, stages.Stage{Name: name, Graph: g.Clone()})
	}
	_, err = pass.Run(c.Context(), s, pass.Options{Dump: record, Features: on.Target.Features()})
	return all, err
}

// stagesUntil keeps the stages up to the last one of the named pass.
func stagesUntil(all []stages.Stage, until string) ([]stages.Stage, error) {
	if until == "all" {
		return all, nil
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name == until {
			return all[:i+1], nil
		}
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("--pass %s: no such stage of this model; stages are %v, or all", until,
		names)
}

// countNodes counts the nodes of a graph and its bodies.
func countNodes(g *graph.Graph) int {
	n := 0
	g.Walk(func(b *graph.Graph) { n += len(b.Nodes) })
	return n
}
