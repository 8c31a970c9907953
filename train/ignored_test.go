package train_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/checkpoint"
)

// TestIgnoredLabels: labels that do not count are neither right nor wrong: a model that names all
// others has an accuracy of 1.
func TestIgnoredLabels(t *testing.T) {
	const ignored = 9
	var x, classes, answers strings.Builder
	for i := range 64 {
		v := 2*(i%2) - 1
		fmt.Fprintf(&x, "%d,%d\n", -v, v)
		label := []int{i % 2, ignored}[b2i(i%3 == 0)]
		fmt.Fprintf(&classes, "%d\n", label)
		fmt.Fprintf(&answers, "%d,%d\n", []int{1 - i%2, ignored}[b2i(i%3 == 0)], label)
	}
	dir := written(t, map[string]string{"x.csv": x.String(), "classes.csv": classes.String(),
		"answers.csv": answers.String(), "m.graph": `graph "known" {
  opset "" 17
  input %x: float32[n,2]
  const %w: float32[2,2] = {4, 0, 0, 4}
  %y = MatMul@13 (%x, %w)
  output %y
}`})
	for labels, loss := range map[string]string{
		"classes.csv": "softmax-cross-entropy: {ignore: 9}",
		"answers.csv": "binary-cross-entropy: {ignore: 9}",
	} {
		r := loaded(t, dir, `model: m.onnx
data: {inputs: {x: x.csv}, labels: `+labels+`, batch: 8, eval: {part: 0.5}}
loss: {`+loss+`}
optimizer: {sgd: {rate: 0.01}}
epochs: 1
`)
		e, err := open(t, r, 1, train.Options{}).Evaluate(t.Context())
		if err != nil || e.Metric != 1 || e.Name != "accuracy" || e.Samples != 32 {
			t.Errorf("%s: %+v, %v", loss, e, err)
		}
	}
}

// TestNoLabelCounts: a batch of which no label counts changes nothing, and is no number divided by
// none.
func TestNoLabelCounts(t *testing.T) {
	dir := written(t, map[string]string{"x.csv": strings.Repeat("1,2\n", 16),
		"y.csv": strings.Repeat("-100\n", 16), "m.graph": `graph "m" {
  opset "" 17
  input %x: float32[n,2]
  const %w: float32[2,2] = {4, 0, 0, 4}
  %y = MatMul@13 (%x, %w)
  output %y
}`})
	run := open(t, loaded(t, dir, `model: m.onnx
data: {inputs: {x: x.csv}, labels: y.csv, batch: 8}
loss: {softmax-cross-entropy: {ignore: -100}}
optimizer: {sgd: {rate: 1}}
epochs: 2
`), 1, train.Options{})
	res, err := run.Train(t.Context())
	if err != nil || res.Loss != 0 || !slices.Equal(run.Variable("w"), []float32{4, 0, 0, 4}) {
		t.Errorf("%+v, %v: weights %v", res, err, run.Variable("w"))
	}
}

// TestOtherTeacher: a run does not go on with updates by another teacher.
func TestOtherTeacher(t *testing.T) {
	model := `graph "small" {
  opset "" 17
  input %x: float32[n,2]
  const %w: float32[2,2] = {1, -1, -2, 2}
  %y = MatMul@13 (%x, %w)
  output %y
}`
	dir := written(t, map[string]string{"x.csv": strings.Repeat("1,2\n3,4\n", 16),
		"y.csv": strings.Repeat("0\n1\n", 16), "m.graph": model, "teacher.graph": model,
		"other.graph": strings.Replace(model, "{1,", "{1.5,", 1)})
	r := loaded(t, dir, `model: m.onnx
data: {inputs: {x: x.csv}, labels: y.csv, batch: 8}
loss: softmax-cross-entropy
distil: {teacher: teacher.onnx, weight: 1, temperature: 2}
optimizer: {adam: {rate: 0.1}}
epochs: 4
`)
	r.Checkpoint.To = t.TempDir()
	if _, err := open(t, r, 1, train.Options{Steps: 3}).Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	same := r.Distil.Teacher
	r.Distil.Teacher = filepath.Join(dir, "other.onnx")
	err := open(t, r, 1, train.Options{}).Resume()
	if !errors.Is(err, checkpoint.ErrCheckpoint) ||
		!strings.Contains(err.Error(), "another model file") {
		t.Errorf("another teacher: %v", err)
	}
	r.Distil.Teacher = same
	if err := open(t, r, 1, train.Options{}).Resume(); err != nil {
		t.Errorf("the same teacher: %v", err)
	}
}
