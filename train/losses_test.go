package train_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// refused opens a run that is refused, and returns why.
func refused(t *testing.T, r *recipe.Recipe) error {
	t.Helper()
	on, err := machine.Open("cpu:0", machine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	run, err := train.Open(t.Context(), r, train.Options{Machine: on})
	if err == nil {
		err = run.Close()
		return err
	}
	if e := on.Close(); e != nil {
		t.Error(e)
	}
	return err
}

// put writes a file.
func put(t *testing.T, path string, b []byte) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// written is a folder with files, and models by their text, which ends with .graph.
func written(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		base, is := strings.CutSuffix(path, ".graph")
		if !is {
			put(t, path, []byte(text))
			continue
		}
		g, err := graph.Parse(text)
		if err == nil {
			err = onnx.WriteFile(base+".onnx", g, onnx.WriteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func loaded(t *testing.T, dir, text string) *recipe.Recipe {
	t.Helper()
	put(t, filepath.Join(dir, "recipe.yaml"), []byte(text))
	r, err := recipe.Load(filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// repeated is a list of n numbers, for the text of a graph.
func repeated(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%.3f", []string{", ", ""}[b2i(i == 0)], 0.3*math.Sin(float64(7*i+1)))
	}
	return "{" + b.String() + "}"
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestCTC: a model learns which labels a sequence has from those alone, and what labels cannot be
// is refused.
func TestCTC(t *testing.T) {
	var x, y strings.Builder
	for i := range 32 { // steps of 8 hold a letter, a gap and another letter
		a, b := i%3, (i/3)%3
		for s := range 8 {
			class := [8]int{3, a, a, 3, 3, b, 3, 3}[s]
			for c := range 4 {
				fmt.Fprintf(&x, "%d,", b2i(c == class))
			}
		}
		x.WriteString("0,0,0,0\n")
		fmt.Fprintf(&y, "%d,%d,-1\n", a+1, b+1)
	}
	dir := written(t, map[string]string{"x.csv": x.String(), "y.csv": y.String(),
		"wrong.csv": strings.Replace(y.String(), "1,1,-1", "1,0,-1", 1),
		"long.csv":  strings.Replace(y.String(), "1,1,-1", "1,1,1", 1),
		"m.graph": `graph "letters" {
  opset "" 17
  input %x: float32[n,36]
  const %steps: int64[3] = {0, 9, 4}
  const %w: float32[4,4] = ` + repeated(16) + `
  %r = Reshape@14 (%x, %steps)
  %y = MatMul@13 (%r, %w)
  output %y
}`, "few.graph": `graph "few" {
  opset "" 17
  input %x: float32[n,36]
  const %steps: int64[3] = {0, 4, 9}
  const %w: float32[9,4] = ` + repeated(36) + `
  %r = Reshape@14 (%x, %steps)
  %y = MatMul@13 (%r, %w)
  output %y
}`})
	text := `model: m.onnx
data: {inputs: {x: x.csv}, labels: y.csv, batch: 8, eval: {part: 0.25}}
loss: {ctc: {length: 3}}
optimizer: {adam: {rate: 0.1}}
epochs: 20
`
	res, err := open(t, loaded(t, dir, text), 1, train.Options{}).Train(t.Context())
	if err != nil || res.Metric != 1 || res.EvalLoss > 1 {
		t.Errorf("accuracy %v, loss %v: %v", res.Metric, res.EvalLoss, err)
	}
	first, err := open(t, loaded(t, dir, text+"steps: 1"), 1, train.Options{}).Train(t.Context())
	if err != nil || first.Metric == 1 {
		t.Errorf("accuracy %v after one update: %v", first.Metric, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"y.csv", "wrong.csv", "wrong.csv: unusable data: sample 0 has a label 0: want classes"},
		{"m.onnx\ndata: {inputs: {x: x.csv}, labels: y.csv", "few.onnx\ndata: {inputs: {x: x.csv}" +
			", labels: long.csv", "sample 0 has labels that take 5 steps, repeats with a blank"},
		{"{length: 3}", "{length: 2}", "a sample has 3 elements, the model takes 2"},
		{"{length: 3}", "{length: 3, blank: 4}", "blank 4: want the most labels"},
	} {
		r := loaded(t, dir, strings.Replace(text, c.from, c.to, 1))
		if err := refused(t, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}

// TestLosses: several losses, each with labels of its own, some of which do not count, train
// outputs of a model; each trains the weights that it is for, and no others.
func TestLosses(t *testing.T) {
	var x, kinds, sizes strings.Builder
	for i := range 40 {
		v := math.Sin(float64(3*i + 1))
		fmt.Fprintf(&x, "%v,%v\n", v, 1)
		fmt.Fprintf(&kinds, "%d\n", []int{b2i(v > 0), 9}[b2i(i%5 == 0)])
		fmt.Fprintf(&sizes, "%v\n", []float64{2 * v, -1000}[b2i(i%2 == 0)])
	}
	dir := written(t, map[string]string{"x.csv": x.String(), "kinds.csv": kinds.String(),
		"sizes.csv": sizes.String(), "m.graph": `graph "two" {
  opset "" 17
  input %x: float32[n,2]
  const %a: float32[2,2] = {0.1, -0.1, 0.2, 0.1}
  const %b: float32[2,1] = {0.1, 0.3}
  %kind = MatMul@13 (%x, %a)
  %size = MatMul@13 (%x, %b)
  output %kind
  output %size
}`})
	text := `model: m.onnx
data:
  inputs: {x: x.csv}
  labels: {kinds: kinds.csv, sizes: sizes.csv}
  batch: 8
  eval: {part: 0.25}
loss:
  - softmax-cross-entropy: {scores: kind, labels: kinds, ignore: 9}
  - mean-squared-error: {scores: size, labels: sizes, ignore: -1000, weight: 0.5}
optimizer: {adam: {rate: 0.05}}
epochs: 60
`
	res, err := open(t, loaded(t, dir, text), 2, train.Options{}).Train(t.Context())
	if err != nil || res.Metric < 0.9 || res.EvalLoss > 0.2 {
		t.Errorf("accuracy %v, loss %v: %v", res.Metric, res.EvalLoss, err)
	}
	own := strings.NewReplacer("ignore: 9}", "ignore: 9, train: [a]}", "0.5}",
		"0.5, train: [b]}").Replace(text)
	same, err := open(t, loaded(t, dir, own), 2, train.Options{}).Train(t.Context())
	if err != nil || math.Abs(same.EvalLoss-res.EvalLoss) > 1e-6 {
		t.Errorf("loss %v with weights of their own, %v else: %v", same.EvalLoss, res.EvalLoss, err)
	}
	other := strings.NewReplacer("ignore: 9}", "ignore: 9, train: [b]}", "0.5}",
		"0.5, train: [a]}").Replace(text)
	none, err := open(t, loaded(t, dir, other), 2, train.Options{}).Train(t.Context())
	if err != nil || none.EvalLoss < 0.5 {
		t.Errorf("loss %v where no loss depends on what it trains: %v", none.EvalLoss, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"ignore: 9", "train: [c]", `no weight of that name: "c"`},
		{"ignore: 9", "ignore: 8", "is of class 9: the model has 2"},
	} {
		r := loaded(t, dir, strings.Replace(text, c.from, c.to, 1))
		if err := refused(t, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}

// TestAdversaries: two networks that work against each other, from noise, learn in one run: what
// the one makes comes near to what the other is shown.
func TestAdversaries(t *testing.T) {
	var x strings.Builder
	for i := range 256 {
		fmt.Fprintf(&x, "%v\n", 3+0.5*math.Sin(float64(11*i)))
	}
	dir := written(t, map[string]string{"x.csv": x.String(), "m.graph": `graph "pair" {
  opset "" 17
  input %real: float32[n,1]
  input %z: float32[n,1]
  const %g.w: float32[1,1] = {1}
  const %g.b: float32[1] = {0}
  const %d.w: float32[1,8] = ` + repeated(8) + `
  const %d.b: float32[8] = ` + repeated(8) + `
  const %d.v: float32[8,1] = ` + repeated(8) + `
  %made = Gemm@13 (%z, %g.w, %g.b)
  %d1 = Gemm@13 (%real, %d.w, %d.b)
  %d2 = LeakyRelu@16 (%d1)
  %yes = MatMul@13 (%d2, %d.v)
  %d3 = Gemm@13 (%made, %d.w, %d.b)
  %d4 = LeakyRelu@16 (%d3)
  %no = MatMul@13 (%d4, %d.v)
  output %yes
  output %no
  output %made
}`})
	r := loaded(t, dir, `model: m.onnx
data: {inputs: {real: x.csv, z: {noise: uniform}}, batch: 64}
loss:
  - binary-cross-entropy: {scores: yes, value: 1, train: ["d.*"]}
  - binary-cross-entropy: {scores: no, value: 0, train: ["d.*"]}
  - binary-cross-entropy: {scores: no, value: 1, train: ["g.*"]}
optimizer: {adam: {rate: 0.02, beta1: 0.5}}
epochs: 60
output: made.onnx
`)
	if _, err := open(t, r, 2, train.Options{}).Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Open(r.Output, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, v := range m.Graph.Constants() {
		if v.Name != "g.b" {
			continue
		}
		if got, err := v.Const().Floats(); err != nil || math.Abs(got[0]-3) > 0.5 {
			t.Errorf("the mean of what is made is %v, of what is shown 3: %v", got, err)
		}
	}
}

// TestDistil: a model learns from a teacher what its labels do not say.
func TestDistil(t *testing.T) {
	var x, y strings.Builder
	for i := range 64 {
		fmt.Fprintf(&x, "%v,%v\n", math.Sin(float64(3*i+1)), math.Cos(float64(5*i)))
		fmt.Fprintf(&y, "0\n")
	}
	model := `graph "small" {
  opset "" 17
  input %x: float32[n,2]
  const %w: float32[2,2] = {W}
  %y = MatMul@13 (%x, %w)
  output %y
}`
	dir := written(t, map[string]string{"x.csv": x.String(), "y.csv": y.String(),
		"m.graph":       strings.Replace(model, "{W}", "{0.1, -0.1, 0.2, 0.1}", 1),
		"teacher.graph": strings.Replace(model, "{W}", "{1, -1, -2, 2}", 1),
		"wide.graph": strings.NewReplacer("{W}", "{1, -1, -2, 2, 0, 0}", "[2,2]", "[2,3]").
			Replace(model)})
	text := `model: m.onnx
data: {inputs: {x: x.csv}, labels: y.csv, batch: 16}
loss: softmax-cross-entropy
distil: {teacher: teacher.onnx, weight: 1, temperature: 2}
optimizer: {adam: {rate: 0.1}}
epochs: 40
output: out.onnx
`
	for _, of := range []string{"weight: 1, temperature: 2", "weight: 0, attention: {y: y}, " +
		"attending: 100"} {
		r := loaded(t, dir, strings.Replace(text, "weight: 1, temperature: 2", of, 1))
		if _, err := open(t, r, 2, train.Options{}).Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Open(r.Output, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := m.Graph.Constants()[0].Const().Floats()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if a, b := w[0]-w[1], w[2]-w[3]; err != nil || math.Abs(a-2) > 0.3 ||
			math.Abs(b+4) > 0.6 {
			t.Errorf("%s: %v learned of differences 2 and -4: %v", of, w, err)
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"teacher.onnx", "wide.onnx", "the teacher's scores are float32[16,3], the model's"},
		{"weight: 1,", "attention: {z: y},", `the model has no value "z": some are y`},
		{"weight: 1,", "attention: {y: z},", `the teacher has no value "z": some are y`},
		{"teacher.onnx", "teacher.onnx, scores: z", `scores "z": want one of the model's outputs: y`},
	} {
		r := loaded(t, dir, strings.Replace(text, c.from, c.to, 1))
		if err := refused(t, r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}
