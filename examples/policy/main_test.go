package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share/policy"
)

// TestPolicy: a policy of a program's own decides on a host, in a simulation, where jobs that
// always have work get their parts by weight, and in a scenario that is run; and it is listed.
func TestPolicy(t *testing.T) {
	if err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
	usage, err := live(t.Context())
	if err != nil || usage.Runs != 10 || usage.Grants < 10 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	parts, err := simulate(t.Context())
	if err != nil || math.Abs(parts["light"]-0.25) > 0.01 || math.Abs(parts["heavy"]-0.75) > 0.01 {
		t.Errorf("parts %v, %v", parts, err)
	}
	if !slices.ContainsFunc(policy.All(),
		func(r policy.Row) bool { return r.Name == "least-served" }) {
		t.Error("the policy is not listed")
	}
	s, err := scenario.Parse(strings.NewReader(`
policy: least-served
jobs:
  - {name: a, model: ../digits/digits.onnx, iterations: 20}
  - {name: b, model: ../digits/digits.onnx, iterations: 20}
`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := scenario.Run(t.Context(), s, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range res.Jobs {
		if j.Status != scenario.StatusDone || j.Iterations != 20 {
			t.Errorf("%s: %s: %s", j.Name, j.Status, j.Error)
		}
	}
}
