package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// renewed is a step of Adam on a weight and its moments.
const renewed = `input %g: float32[4]
	input %w: float32[4]
	input %m: float32[4]
	input %v: float32[4]
	const %rate: float32[] = {0.5}
	const %root: float32[] = {1}
	%w2, %m2, %v2 = weir:Adam@1 (%w, %g, %m, %v, %rate, %root) {keep1=0.5, keep2=0.25,
 take1=0.5, take2=0.75, epsilon=0.1}
`

// TestStateRenewed: an optimizer replaces a weight and its moments where they lie, all but what has
// a reader left.
func TestStateRenewed(t *testing.T) {
	s, err := NewState(variables("w", "m", "v"))
	if err != nil {
		t.Fatal(err)
	}
	var in []*tensor.Tensor
	for range 4 {
		in = append(in, tensor.From([]float32{1, 2, 3, 4}, 4))
	}
	updates := []Update{{0, "w"}, {1, "m"}, {2, "v"}}
	const outs = "output %w2\n\toutput %m2\n\toutput %v2\n"
	for name, c := range map[string]struct {
		text   string
		copied []string
	}{
		"all":    {renewed + outs, nil},
		"weight": {renewed + "%y = Mul@14 (%w, %w2)\n" + outs + "output %y\n", []string{"w"}},
		"twice": {strings.Replace(renewed, "%m, %v, %rate", "%m, %m, %rate", 1) + outs +
			"%y = Mul@14 (%v, %v)\noutput %y\n", []string{"m", "v"}},
		"moment": {renewed + "%y = Mul@14 (%v, %w2)\n" + outs + "output %y\n", []string{"v"}},
	} {
		o := Options{Target: host, State: s, Updates: updates}
		p := iterate(t, newPool(t), parse(t, c.text), o, in)
		var copied []string
		for _, u := range p.updates {
			copied = append(copied, p.Slots[u.to].Value.Name)
		}
		if !slices.Equal(copied, c.copied) {
			t.Errorf("%s: %q are copied, want %q", name, copied, c.copied)
		}
	}
}

// TestRenewedLast: whatever order nodes come in, an optimizer replaces moments after all others
// that read them, and runs once.
func TestRenewedLast(t *testing.T) {
	s, err := NewState(variables("w", "m", "v"))
	if err != nil {
		t.Fatal(err)
	}
	g := parse(t, strings.Replace(renewed, "\t%w2", "\t%h = Neg@13 (%g)\n\t%y = Mul@14 (%v, %v)\n"+
		"\t%w2", 1)+"output %y\n\toutput %w2\n\toutput %m2\n\toutput %v2\n")
	g.Nodes[2].In[1] = g.Nodes[0].Out[0]
	c, err := compiled(t.Context(), g, Options{Target: host, State: s,
		Updates: []Update{{1, "w"}, {2, "m"}, {3, "v"}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	of := newSchedule(g, c.traits())
	of.survey()
	for _, name := range []string{"w", "m", "v"} {
		if at, ok := of.replaced[g.Input(name)]; !ok || at != 2 {
			t.Errorf("%q is replaced by node %d, %v", name, at, ok)
		}
	}
	if of.traits[g.Nodes[2]].again {
		t.Error("the optimizer may run twice")
	}
	if order := newReadiness(of).order(); order[2].Type != "Adam" {
		t.Errorf("%v: Adam is not the last", order)
	}
}
