package main

import (
	"math"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device/machine"
)

// TestTraining trains the models that are compared without PyTorch, on one thread and on two: the
// losses fall, and are the same numbers.
func TestTraining(t *testing.T) {
	t.Chdir("../..")
	of, err := read()
	if err != nil {
		t.Fatal(err)
	}
	for i := range subjects {
		s := &subjects[i]
		t.Run(s.name, func(t *testing.T) {
			var first []float64
			for threads := 1; threads <= 2; threads++ {
				losses := trained(t, s, of, threads)
				if last := losses[len(losses)-1]; !(last < losses[0]) || math.IsNaN(last) {
					t.Errorf("%d threads: loss %v to %v", threads, losses[0], last)
				}
				if first == nil {
					first = losses
				}
				if !slices.Equal(losses, first) {
					t.Errorf("%d threads: losses %v, with one %v", threads, losses, first)
				}
			}
		})
	}
}

// trained returns the losses of a model's updates, and wants gradients of all its weights.
func trained(t *testing.T, s *subject, of *batches, threads int) []float64 {
	t.Helper()
	on, err := machine.Open("cpu:0", machine.Options{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	m, err := open(t.Context(), on, s, slow, of)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	losses, ds, err := m.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range ds {
		if !slices.ContainsFunc(d, func(v float32) bool { return v != 0 }) {
			t.Errorf("the gradient of %q is 0", name)
		}
	}
	return losses
}
