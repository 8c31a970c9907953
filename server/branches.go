package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// This file lets a model that answers several times be a step of a pipeline (Triton,
// docs/user_guide/decoupled_models.md): the steps behind it compute each of its answers by itself,
// and the pipeline answers as often.

// several reports whether a step answers a request several times.
func (e *ensemble) several() bool {
	return slices.ContainsFunc(e.steps, func(st *stage) bool { return st.member.decoupled })
}

// branches are a request on its way through the steps of a pipeline.
type branches struct {
	v    *version
	r    *oip.Request
	t    *task
	rows int   // answers that are computed, where there are several
	held int64 // bytes of the server's for bodies, of those
}

// from computes steps, of which values are what those before them have made, and adds the task's
// outputs.
func (b *branches) from(ctx context.Context, steps []*stage,
	values map[string]*tensor.Tensor) error {
	for i, st := range steps {
		rows, err := b.v.stage(ctx, st, b.r, values, b.t)
		if err != nil {
			return fmt.Errorf("ensemble %s: step %s: %w", b.v.name, st.name, err)
		}
		if rows >= 0 {
			return b.each(ctx, st, rows, steps[i+1:], values)
		}
	}
	for _, f := range b.v.ensemble.outputs {
		i, ok := b.v.outputs[f.Name]
		if !ok {
			continue
		}
		if !b.v.ensemble.several() {
			b.t.out[i] = values[f.Name]
		} else if err := b.add(&b.t.out[i], f.Name, values[f.Name]); err != nil {
			return err
		}
	}
	b.rows++
	return nil
}

// each computes the steps behind one that has answered so many times, for each of its answers.
func (b *branches) each(ctx context.Context, st *stage, rows int, behind []*stage,
	values map[string]*tensor.Tensor) error {
	if b.rows+rows > mostAnswers {
		return oip.Faultf(oip.Invalid, "ensemble %s: step %s: %d answers to one request, and "+
			"there may be %d", b.v.name, st.name, b.rows+rows, mostAnswers)
	}
	for row := range rows {
		one := maps.Clone(values)
		for _, to := range st.OutputMap {
			one[to] = part(values[to], row, 1)
		}
		before := len(b.t.parts)
		if err := b.from(ctx, behind, one); err != nil {
			return err
		}
		for _, p := range b.t.parts[before:] { // of whose outputs there are copies
			p.free()
		}
		b.t.parts = b.t.parts[:before]
	}
	return nil
}

// add adds a row to an output, which has memory of its own: what the steps have computed is given
// back before the next answer.
func (b *branches) add(to **tensor.Tensor, name string, row *tensor.Tensor) error {
	if len(row.Shape) == 0 || row.Shape[0] != 1 || *to != nil &&
		!slices.Equal((*to).Shape[1:], row.Shape[1:]) {
		return fmt.Errorf("ensemble %s: output %s is %v in an answer of several: they are rows of "+
			"one shape", b.v.name, name, row.Shape)
	}
	if err := b.v.server.Hold(row.Size()); err != nil {
		return err
	}
	b.held += row.Size()
	if *to == nil {
		*to = row.Clone()
		return nil
	}
	(*to).Shape[0]++
	(*to).Data = append((*to).Data, row.Data...)
	(*to).Strings = append((*to).Strings, row.Strings...)
	return nil
}

// none is an output of a pipeline whose steps have not answered.
func none(f *oip.TensorFields) *tensor.Tensor {
	d, _ := oip.ParseDatatype(f.Datatype) // a model that is served has it
	t := &tensor.Tensor{DType: d, Shape: []int{0}}
	for _, n := range f.Shape[min(1, len(f.Shape)):] {
		t.Shape = append(t.Shape, int(max(n, 0)))
	}
	return t
}
