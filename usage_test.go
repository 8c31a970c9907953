package weir_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/tensor"
)

// TestHolds: a job holds its device while it computes, and not after that.
func TestHolds(t *testing.T) {
	h, err := weir.NewHost(weir.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var job *weir.Tenant
	held := false
	look := weir.Operator{Domain: "com.example", Name: "Look", Random: true,
		Infer: func(c *op.Infer) error { c.Out[0] = op.Concrete(tensor.Float32, 1); return nil },
		Eval: func(c *op.Eval) error {
			held = job.Usage().Holds
			_, err := c.Output(0, tensor.Float32, []int{1})
			return err
		}}
	m := load(t, `graph "look" {
		opset "com.example" 1
		%y: float32[1] = com.example:Look@1 ()
		output %y
	}`, weir.WithOperators(look))
	if job, err = h.Admit(t.Context(), m, weir.Job{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if !held || job.Usage().Holds || h.Status().Jobs[0].Holds {
		t.Errorf("held while it computed: %v; after it: %v", held, job.Usage().Holds)
	}
}

// TestHostPolicies: a host without jobs takes the policies that it lists, and no others.
func TestHostPolicies(t *testing.T) {
	h, err := weir.NewHost(weir.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	can := h.Policies()
	if !slices.Contains(can, "fair") || len(can) == len(policy.All()) || !slices.IsSorted(can) {
		t.Errorf("policies %v", can)
	}
	for _, r := range policy.All() {
		err := h.SetPolicy(r.Name)
		if listed := slices.Contains(can, r.Name); listed != (err == nil) ||
			err != nil && !errors.Is(err, weir.ErrOption) {
			t.Errorf("policy %s: listed %v, %v", r.Name, listed, err)
		}
	}
}
