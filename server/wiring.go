package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirgpu/weir/server/oip"
)

// This file holds what an ensemble's configuration says of values between its steps against the
// models of those. Its errors have the words of Triton's.

// wiring is an ensemble while that is checked.
type wiring struct {
	name   string
	values map[string]*flow
}

// flow is a value of the ensemble: what is known of it, from whom, and who computes it.
type flow struct {
	fields oip.TensorFields
	from   string // the model, or the ensemble, that says so
	by     *stage // nil for an input
	read   bool
}

// check checks all, orders the steps, and finds what inputs and outputs are.
func (w *wiring) check(e *ensemble, c *oip.Config) error {
	batch := c.MaxBatchSize > 0
	for i := range c.Input {
		w.values[c.Input[i].Name] = &flow{fields: full(&c.Input[i], batch), from: w.name}
	}
	if err := w.outputs(e); err != nil {
		return err
	}
	for _, st := range e.steps {
		if err := w.inputs(st); err != nil {
			return err
		}
	}
	if err := e.order(w); err != nil {
		return err
	}
	for _, in := range c.Input {
		v := w.values[in.Name]
		if !v.read {
			return fmt.Errorf("input %s is read by no step", in.Name)
		}
		e.inputs = append(e.inputs, v.fields)
	}
	for i := range c.Output {
		out := full(&c.Output[i], batch)
		v := w.values[out.Name]
		if v == nil || v.by == nil {
			return fmt.Errorf("output %s is computed by no step", out.Name)
		}
		if err := v.agree(&out, w.name); err != nil {
			return err
		}
		e.outputs = append(e.outputs, v.fields)
	}
	return nil
}

// full is an input or output of a configuration with all of its dimensions, as the model has it.
func full(item *oip.ConfigItem, batch bool) oip.TensorFields {
	dims := item.Dims
	if item.Reshape != nil {
		dims = item.Reshape.Shape
	}
	f := oip.TensorFields{Name: item.Name, Datatype: strings.TrimPrefix(item.DataType, "TYPE_")}
	if f.Datatype == "STRING" {
		f.Datatype = "BYTES"
	}
	if batch {
		f.Shape = append(f.Shape, -1)
	}
	f.Shape = append(f.Shape, dims...)
	return f
}

// outputs notes who computes what.
func (w *wiring) outputs(e *ensemble) error {
	for _, st := range e.steps {
		has := st.member.shown().Outputs
		st.made = map[string]string{}
		for _, own := range slices.Sorted(maps.Keys(st.OutputMap)) {
			to := st.OutputMap[own]
			f := named(has, own)
			if f == nil {
				return fmt.Errorf("ensemble tensor %s is mapped from non-existing output %s in "+
					"model %s", to, own, st.ModelName)
			}
			if was := w.values[to]; was != nil {
				return fmt.Errorf("ensemble tensor %s is computed by %s, and given by %s already",
					to, st.ModelName, was.from)
			}
			v := &flow{fields: *f, from: st.ModelName, by: st}
			v.fields.Name = to
			w.values[to] = v
			st.made[own] = to
		}
		for _, f := range st.member.results {
			if st.made[f.Name] == "" {
				st.made[f.Name] = st.name + "/" + f.Name
			}
		}
	}
	return nil
}

// inputs holds what a step reads against what is known of it.
func (w *wiring) inputs(st *stage) error {
	has := st.member.shown().Inputs
	for _, own := range slices.Sorted(maps.Keys(st.InputMap)) {
		if named(has, own) == nil {
			return fmt.Errorf("ensemble tensor %s is mapping to non-existing input %s in model %s",
				st.InputMap[own], own, st.ModelName)
		}
	}
	for i := range has {
		to := st.InputMap[has[i].Name]
		v := w.values[to]
		switch {
		case to == "":
			return fmt.Errorf("input %s in model %s is not mapped to any ensemble tensors",
				has[i].Name, st.ModelName)
		case v == nil:
			return fmt.Errorf("ensemble tensor %s, which model %s reads, is no input and computed "+
				"by no step", to, st.ModelName)
		}
		if err := v.agree(&has[i], st.ModelName); err != nil {
			return err
		}
		v.read = true
	}
	return nil
}

// agree holds that a value may be what somebody else says of it, too.
func (v *flow) agree(f *oip.TensorFields, from string) error {
	if v.fields.Datatype != f.Datatype {
		return fmt.Errorf("ensemble tensor %s: inconsistent data type: %s is inferred from model "+
			"%s while %s is inferred from model %s", v.fields.Name, v.fields.Datatype, v.from,
			f.Datatype, from)
	}
	fits := len(v.fields.Shape) == len(f.Shape)
	for i := 0; fits && i < len(f.Shape); i++ {
		a, b := v.fields.Shape[i], f.Shape[i]
		fits = a < 0 || b < 0 || a == b
	}
	if !fits {
		return fmt.Errorf("ensemble tensor %s: inconsistent shape: %v is inferred from model %s "+
			"while %v is inferred from model %s", v.fields.Name, v.fields.Shape, v.from, f.Shape,
			from)
	}
	return nil
}

// named is the input or output of a name, nil where there is none.
func named(list []oip.TensorFields, name string) *oip.TensorFields {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// order puts each step behind those that it reads from.
func (e *ensemble) order(w *wiring) error {
	var list []*stage
	done := map[*stage]bool{nil: true}
	ready := func(st *stage) bool {
		for _, to := range st.InputMap {
			if !done[w.values[to].by] {
				return false
			}
		}
		return !done[st]
	}
	for len(list) < len(e.steps) {
		i := slices.IndexFunc(e.steps, ready)
		if i < 0 {
			var names []string
			for _, st := range e.steps {
				if !done[st] {
					names = append(names, st.ModelName)
				}
			}
			return fmt.Errorf("the steps of %s wait for each other", strings.Join(names, ", "))
		}
		done[e.steps[i]] = true
		list = append(list, e.steps[i])
	}
	e.steps = list
	return nil
}
