package scenario

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// childEnv makes this test binary the child process of the mode Processes.
const childEnv = "WEIR_SCENARIO_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "broken":
		fmt.Fprintln(os.Stderr, "the child has no device")
		os.Exit(3)
	case "silent":
		lines := bufio.NewScanner(os.Stdin)
		lines.Scan()
		fmt.Println("ready")
		lines.Scan()
		os.Exit(4)
	}
	if err := RunChild(context.Background(), os.Stdin, os.Stdout, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// parseGraph reads a graph in the form of graph.Print.
func parseGraph(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(text)
	if err == nil {
		err = g.InferTypes()
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// denseGraph is a layer with batch N.
func denseGraph(t testing.TB) *graph.Graph {
	return parseGraph(t, `graph "dense" {
  opset "" 17
  input %x: float32[N,8]
  const %w: float32[8,4] = {`+strings.TrimSuffix(strings.Repeat("1, ", 32), ", ")+`}
  %y: float32[N,4] = MatMul@13 "dense" (%x, %w)
  %z: float32[N,4] = Relu@14 "act" (%y)
  output %z
}`)
}

// gatherGraph looks up rows by indices, which can be out of range.
func gatherGraph(t testing.TB) *graph.Graph {
	return parseGraph(t, `graph "lookup" {
  opset "" 17
  input %i: int64[2]
  input %table: float32[4,3]
  %y: float32[2,3] = Gather@13 "lookup" (%table, %i) {axis=0}
  output %y
}`)
}

// nonzeroGraph has a value whose shape depends on data.
func nonzeroGraph(t testing.TB) *graph.Graph {
	return parseGraph(t, `graph "where" {
  opset "" 17
  input %x: float32[64]
  %i: int64[1,count] = NonZero@13 "find" (%x)
  output %i
}`)
}

// vision is a small variant of an image network.
func vision(t testing.TB, name string) *graph.Graph {
	t.Helper()
	g, err := zoo.New(name, zoo.Options{Seed: 1, Layers: 1, Width: 0.125, Resolution: 32,
		Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// closedJob is a job of n iterations (0: until the duration) whose next request follows the last.
func closedJob(name string, g *graph.Graph, n int64) Job {
	return Job{Job: share.Job{Name: name, Iterations: n}, Model: name, Graph: g,
		Arrival: Arrival{Closed: 1}}
}

func run1(t testing.TB, s *Scenario, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func indices(values ...int64) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"i": tensor.From(values, len(values))}
}
