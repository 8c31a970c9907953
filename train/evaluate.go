package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// Evaluation is how good a model is on samples that it was not trained on.
type Evaluation struct {
	Loss    float64 `json:"loss"` // mean over the samples
	Metric  float64 `json:"metric"`
	Name    string  `json:"metric_name,omitempty"` // "accuracy"; "" for losses that have none
	Samples int     `json:"samples"`
}

// Evaluate tries the model as it is.
func (r *Run) Evaluate(ctx context.Context) (*Evaluation, error) {
	if r.eval == nil {
		return nil, fmt.Errorf("%w: the run has ended", ErrDiverged)
	}
	rows := r.data.eval.rows
	e := &Evaluation{Samples: len(rows)}
	right, judged := 0, 0
	batch := make([]int, r.data.batch)
	for at := 0; at < len(rows); at += len(batch) {
		n := copy(batch, rows[at:])
		for i := n; i < len(batch); i++ { // the rest of the last batch counts for nothing
			batch[i] = rows[at]
		}
		if err := r.fill(r.eval, &r.data.eval, batch, -1); err != nil {
			return nil, fmt.Errorf("evaluation: %w", err)
		}
		var labels *tensor.Tensor // which a run may write over
		if in := r.eval.input(r.step.Labels.Name); in != nil {
			labels = in.Clone()
		}
		if err := r.run(ctx, r.eval); err != nil {
			return nil, fmt.Errorf("evaluation: %w", err)
		}
		out := r.eval.instance.Outputs()
		for _, v := range tensor.As[float32](out[0])[:n] {
			e.Loss += float64(v)
		}
		if labels != nil {
			hits, of := r.hits(out[1], labels, n)
			right, judged = right+hits, judged+of
		}
	}
	e.Loss /= float64(len(rows))
	if judged > 0 {
		e.Name, e.Metric = "accuracy", float64(right)/float64(judged)
	}
	if unbounded(e.Loss) {
		return nil, fmt.Errorf("%w: the loss of the evaluation after update %d is %v", ErrDiverged,
			r.done, e.Loss)
	}
	return e, nil
}

// hits counts the labels of the first n samples that scores name, and all of them that count.
func (r *Run) hits(scores, labels *tensor.Tensor, n int) (hits, of int) {
	v, ignore := tensor.As[float32](scores), r.recipe.Loss.Ignore
	switch r.recipe.Loss.Kind {
	case step.CrossEntropy:
		classes, inner := scores.Shape[1], 1
		for _, d := range scores.Shape[2:] {
			inner *= d
		}
		want := tensor.As[int64](labels)[:n*inner]
		for i, w := range want {
			if ignore != nil && float64(w) == *ignore {
				continue
			}
			of++
			at, best := (i/inner)*classes*inner+i%inner, 0
			for c := range classes {
				if v[at+c*inner] > v[at+best*inner] {
					best = c
				}
			}
			if int64(best) == w {
				hits++
			}
		}
		return hits, of
	case step.CTC:
		return r.paths(scores, labels, n), n
	case step.BinaryCrossEntropy, step.Dice:
		border := float32(0)
		if r.step.Labels.Probabilities {
			border = 0.5
		}
		want := tensor.As[float32](labels)
		want = want[:len(want)/scores.Shape[0]*n]
		for i, w := range want {
			if ignore != nil && float64(w) == *ignore {
				continue
			}
			if of++; (v[i] > border) == (w > 0.5) {
				hits++
			}
		}
		return hits, of
	}
	return 0, 0
}

// paths counts the first n samples whose labels are what the best classes of all steps become when
// repeats, and then blanks, are taken out.
func (r *Run) paths(scores, labels *tensor.Tensor, n int) (hits int) {
	v, steps, classes := tensor.As[float32](scores), scores.Shape[1], scores.Shape[2]
	want := tensor.As[int64](labels)
	for i := range n {
		var got []int64
		before := -1
		for t := range steps {
			row := v[(i*steps+t)*classes:][:classes]
			best := 0
			for k := range row {
				if row[k] > row[best] {
					best = k
				}
			}
			if best != before && best != r.recipe.Loss.Blank {
				got = append(got, int64(best))
			}
			before = best
		}
		row := want[i*labels.Shape[1]:][:labels.Shape[1]]
		if at := slices.Index(row, -1); at >= 0 {
			row = row[:at]
		}
		if slices.Equal(got, row) {
			hits++
		}
	}
	return hits
}
