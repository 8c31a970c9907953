package grad_test

import (
	"fmt"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/tensor"
)

// TestStateAlone: the gradient of a layer whose sequence of states nobody asked for is that of one
// whose is there.
func TestStateAlone(t *testing.T) {
	const layer = `input %%x: float64[T,2,2]
input %%w: float64[1,%[1]d,2]
input %%r: float64[1,%[1]d,3]
%[2]s = %[3]s
%%s = Mul@14 (%%h, %%h)
output %%s
`
	for _, c := range []struct {
		rows int
		call string
	}{{12, "LSTM@14 (%x, %w, %r) {hidden_size=3}"},
		{9, "GRU@14 (%x, %w, %r) {hidden_size=3, linear_before_reset=1}"}} {
		var got [2][]*tensor.Tensor
		for i, outs := range []string{"_, %h", "%y, %h"} {
			g := parse(t, fmt.Sprintf(layer, c.rows, outs, c.call))
			o := grad.Objective{Of: values(t, g, "s"), By: values(t, g, "x", "w", "r")}
			in := []*tensor.Tensor{rising(3, 2, 2), rising(1, c.rows, 2), rising(1, c.rows, 3)}
			got[i] = derive(t, g, o, in...)
		}
		expect(t, got[0], got[1]...)
	}
}

// TestNoSteps: a layer whose sequence is empty gives the states that it begins with, and so do
// their gradients; nothing depends on the rest.
func TestNoSteps(t *testing.T) {
	for _, c := range []struct {
		rows int
		call string
	}{{12, "LSTM@14 (%x, %w, %r, %b, _, %h0) {hidden_size=3}"},
		{9, "GRU@14 (%x, %w, %r, %b, _, %h0) {hidden_size=3, linear_before_reset=1}"}} {
		g := parse(t, fmt.Sprintf(`input %%x: float64[0,2,2]
input %%w: float64[1,%[1]d,2]
input %%r: float64[1,%[1]d,3]
input %%b: float64[1,%[2]d]
input %%h0: float64[1,2,3]
%%y, %%h = %[3]s
%%s = Mul@14 (%%h, %%h)
output %%s
`, c.rows, 2*c.rows, c.call))
		o := grad.Objective{Of: values(t, g, "s"), By: values(t, g, "x", "w", "r", "b", "h0")}
		h0 := rising(1, 2, 3)
		got := derive(t, g, o, rising(0, 2, 2), rising(1, c.rows, 2), rising(1, c.rows, 3),
			rising(1, 2*c.rows), h0)
		zeros := func(shape ...int) *tensor.Tensor {
			v, err := tensor.New(tensor.Float64, shape...)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		twice := rising(1, 2, 3)
		for i := range tensor.As[float64](twice) {
			tensor.As[float64](twice)[i] *= 2
		}
		expect(t, got, zeros(0, 2, 2), zeros(1, c.rows, 2), zeros(1, c.rows, 3),
			zeros(1, 2*c.rows), twice)
	}
}

// rising has small numbers of both signs.
func rising(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i*7%11)/10 - 0.5
	}
	return tensor.From(v, shape...)
}

// TestCutsOfOldModels: models of the first operator sets, whose Pad had attributes, have gradients
// of what they cut out, too.
func TestCutsOfOldModels(t *testing.T) {
	for line, want := range map[string]*tensor.Tensor{
		`%y = Slice@1 (%x) {starts=[1], ends=[3], axes=[0]}`: f64(0, 1, 1, 0),
		`%y = Slice@1 (%x) {starts=[-3], ends=[-1]}`:         f64(0, 1, 1, 0),
		`%y = Slice@1 (%x) {starts=[2], ends=[2147483647]}`:  f64(0, 0, 1, 1),
		`%y = Slice@1 (%x) {starts=[-100], ends=[1]}`:        f64(1, 0, 0, 0),
		`%y = Slice@1 (%x) {starts=[7], ends=[9]}`:           f64(0, 0, 0, 0),
		"const %i: int64[] = {-1}\n%y = Gather@1 (%x, %i)":   f64(0, 0, 0, 1),
		"const %i: int64[1] = {2}\n%y = Gather@1 (%x, %i)":   f64(0, 0, 1, 0),
	} {
		g := parse(t, "input %x: float64[4]\n"+line+"\noutput %y")
		o := grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}
		expect(t, derive(t, g, o, f64(1, 2, 3, 4)), want)
	}
}
