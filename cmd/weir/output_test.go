package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// firstOutput is what --json tells of the first output of a run.
func firstOutput(t *testing.T, args ...string) map[string]any {
	t.Helper()
	list := done(t, append(args, "--json")...).object(t)["outputs"].([]any)
	return list[0].(map[string]any)
}

// TestValuesAndStatistics holds which outputs --json has all elements of, and what it tells of
// those that have more.
func TestValuesAndStatistics(t *testing.T) {
	model := identityModel(t, "float32[N]")
	counted := func(n, notFinite int) string {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i + 1)
		}
		for i := range notFinite {
			x[i] = []float32{float32(math.Inf(1)), float32(math.NaN())}[i%2]
		}
		return "x=" + npyFile(t, tensor.From(x, n))
	}
	for _, c := range []struct {
		n    int
		args []string
		all  bool
	}{{256, nil, true}, {257, nil, false}, {257, []string{"--values", "257"}, true},
		{257, []string{"--values", "256"}, false}, {10, []string{"--values", "1"}, true}} {
		args := append([]string{"run", model, "--input", counted(c.n, 0)}, c.args...)
		o := firstOutput(t, args...)
		values, _ := o["values"].([]any)
		if (len(values) == c.n) != c.all || (o["statistics"] == nil) != c.all {
			t.Errorf("%d elements, %v: %d values, statistics %v", c.n, c.args, len(values),
				o["statistics"])
		}
	}
	s := firstOutput(t, "run", model, "--input", counted(300, 2))["statistics"].(map[string]any)
	const n = 298 // of 3 to 300
	std := math.Sqrt((n*n - 1) / 12.0)
	if s["not_finite"] != 2.0 || s["min"] != 3.0 || s["max"] != 300.0 ||
		math.Abs(s["mean"].(float64)-151.5) > 1e-9 || math.Abs(s["std"].(float64)-std) > 1e-9 {
		t.Errorf("got %v, want a deviation of %v", s, std)
	}
	s = firstOutput(t, "run", model, "--input", counted(300, 300))["statistics"].(map[string]any)
	if s["not_finite"] != 300.0 || s["min"] != 0.0 || s["max"] != 0.0 {
		t.Errorf("of no finite element: %v", s)
	}
}

// TestValuesWithoutForm holds that numbers for which JSON has no form are told as text.
func TestValuesWithoutForm(t *testing.T) {
	for _, c := range []struct {
		typ  string
		x    *tensor.Tensor
		want []any
	}{
		{"float32[3]", tensor.From([]float32{float32(math.NaN()), float32(math.Inf(1)), 1}, 3),
			[]any{"NaN", "+Inf", 1.0}},
		{"float64[3]", tensor.From([]float64{math.NaN(), math.Inf(-1), 1}, 3),
			[]any{"NaN", "-Inf", 1.0}},
		{"complex64[1]", tensor.From([]complex64{complex(1, 2)}, 1), []any{"(1+2i)"}},
	} {
		o := firstOutput(t, "run", identityModel(t, c.typ), "--input", "x="+npyFile(t, c.x))
		if got, _ := o["values"].([]any); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.typ, o["values"], c.want)
		}
	}
}

// TestPrintedOutputs holds how many elements and rows of an output are printed, and that more of
// them are told of.
func TestPrintedOutputs(t *testing.T) {
	model := identityModel(t, "float32[N,3]")
	labels := func(text string) string {
		path := filepath.Join(t.TempDir(), "labels.txt")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(args ...string) string {
		t.Helper()
		return done(t, append([]string{"run", model}, args...)...).out
	}
	three := "x=[1,3,2]"
	for _, c := range []struct{ got, want string }{
		{of("--input", three), "y\tfloat32\t[1 3]\t1 3 2 \n"},
		{of("--input", three, "--values", "2"), "y\tfloat32\t[1 3]\t1 3 ...\n"},
		{of("--input", three, "--values", "0"), "y\tfloat32\t[1 3]\t...\n"},
		{of("--input", three, "--top", "1"), "y\tfloat32\t[1 3]\n           3       1\n"},
	} {
		if c.got != c.want {
			t.Errorf("printed %q, want %q", c.got, c.want)
		}
	}
	if got := of("--shape", "x=8x3", "--top", "1"); strings.Count(got, "row ") != 8 ||
		strings.Contains(got, "more rows") {
		t.Errorf("of eight rows:\n%s", got)
	}
	if got := of("--shape", "x=10x3", "--top", "1"); strings.Count(got, "row ") != 8 ||
		!strings.HasSuffix(got, "and 2 more rows: --json has all\n") {
		t.Errorf("of ten rows:\n%s", got)
	}
	t.Setenv("COLUMNS", "80") // as a terminal has them
	if got := of("--input", three); got != "y  float32  [1 3]  1 3 2 \n" {
		t.Errorf("for people: %q", got)
	}
	t.Setenv("COLUMNS", "")
	wide := identityModel(t, "float32[1,9]")
	nine := labels(strings.Repeat("a\n", 9))
	if got := done(t, "run", wide, "--labels", nine).out; strings.Count(got, "  a\n") != 5 {
		t.Errorf("with labels alone:\n%s", got)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", model, "--labels", labels("")}, "it is empty"},
		{[]string{"run", model, "--labels", labels("a\nb\n")}, "2 lines"},
		{[]string{"run", model, "--labels", labels("a\nb\nc\nd\n")}, "4 lines"},
		{[]string{"run", model, "--values", "-1"}, "want 0 or more"},
		{[]string{"run", model, "--top", "-1"}, "want 0 or more"},
		{[]string{"run", identityModel(t, "float32[]"), "--top", "1"}, "no output has rows"},
	} {
		if got := weir(t, c.args...); got.code != 2 || !strings.Contains(got.talk, c.want) {
			t.Errorf("%v: exit code %d, %q, want %q", c.args, got.code, got.talk, c.want)
		}
	}
}
