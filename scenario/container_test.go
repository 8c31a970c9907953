package scenario

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// listed is a graph that takes and gives values that are no tensors.
func listed(t *testing.T) *graph.Graph {
	return parseGraph(t, `graph "listed" {
  opset "" 21
  input %s: sequence(float32[N,2])
  input %o: optional(sequence(int64[3]))
  input %m: sequence(map(string, float32[]))
  input %x: float32[N,2]
  %y = SequenceInsert@11 "insert" (%s, %x)
  output %y
  output %o
  output %m
}`)
}

// TestContainerInputs holds what is made up for values that are no tensors, and what is given for
// them, also to another process.
func TestContainerInputs(t *testing.T) {
	g := listed(t)
	shapes, err := feed.Shapes(g.Inputs, map[string]feed.Shape{"x": {3, 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := feed.Make(g.Inputs, shapes, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s := in[0]; s.Check() != nil || len(s.Items) != 1 || s.Items[0].Shape[1] != 2 {
		t.Errorf("a made-up sequence is %v", s)
	}
	if got := in[1].String(); got != "optional[1]{sequence[1]{int64[3]{1, 1, 1}}}" {
		t.Errorf("a made-up optional is %s", got)
	}
	if got := in[2].String(); got != "sequence[1]{map[0]{}}" {
		t.Errorf("made-up maps are %s", got)
	}
	m, err := tensor.NewMap(tensor.FromStrings([]string{"cat", "dog"}, 2),
		tensor.From([]float32{1, 2}, 2))
	if err != nil {
		t.Fatal(err)
	}
	job := Job{Given: map[string]*tensor.Tensor{"s": in[0], "o": tensor.NewOptional(nil),
		"m": tensor.NewSequence(m, m), "x": in[3]}}
	files, err := saveInputs(&job, filepath.Join(t.TempDir(), "job"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := reader(g, 0).Files(files)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range job.Given {
		if !tensor.Equal(got[name], v) {
			t.Errorf("input %s became %v", name, got[name])
		}
	}
	for say, c := range map[string]struct {
		asked map[string]feed.Shape
		given map[string]*tensor.Tensor
	}{
		"only tensors have a shape": {map[string]feed.Shape{"s": {3, 2}}, nil},
		"given float32":             {nil, map[string]*tensor.Tensor{"s": in[3]}},
		"int64": {nil,
			map[string]*tensor.Tensor{"s": tensor.NewSequence(tensor.Scalar(int64(1)))}},
	} {
		if _, err := feed.Shapes(g.Inputs, c.asked, c.given); !errors.Is(err, feed.ErrInput) ||
			!strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q", err, say)
		}
	}
	files["s"] = files["m"] // maps where tensors are wanted
	if _, err := reader(g, 0).Files(files); err == nil ||
		!strings.Contains(err.Error(), files["m"]) {
		t.Errorf("a file of another type: %v", err)
	}
}

// TestContainerJobs runs jobs on such values, in this process and in another.
func TestContainerJobs(t *testing.T) {
	job := closedJob("listed", listed(t), 20)
	job.Given = map[string]*tensor.Tensor{
		"s": tensor.NewSequence(tensor.From([]float32{1, 2}, 1, 2))}
	res := run1(t, &Scenario{Jobs: []Job{job}},
		Options{Threads: 1, Compare: []Mode{Processes}, Child: asChild(t, "yes")})
	for _, p := range res.Phases {
		if j := p.Jobs[0]; j.Status != StatusDone || j.Iterations != 20 {
			t.Errorf("%v: %s after %d iterations: %s", p.Mode, j.Status, j.Iterations, j.Error)
		}
	}
}
