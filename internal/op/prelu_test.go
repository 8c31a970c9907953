package op

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestSlopesThatDoNotBroadcast holds that the shape rule refuses what the evaluation does: kernels
// rely on it.
func TestSlopesThatDoNotBroadcast(t *testing.T) {
	o, err := Lookup("", "PRelu", latest)
	if err != nil {
		t.Fatal(err)
	}
	call := &Call{Type: "PRelu", Version: latest, NumIn: 2, NumOut: 1}
	x := Concrete(tensor.Float32, 3, 4, 5)
	for _, c := range []struct {
		slope Type
		ok    bool
	}{
		{Concrete(tensor.Float32, 5), true},
		{Concrete(tensor.Float32, 3, 1, 1), true},
		{Concrete(tensor.Float32), true},
		{Ranked(tensor.Float32, Sym("N")), true},
		{Unranked(tensor.Float32), true},
		{Concrete(tensor.Float32, 2), false},
		{Concrete(tensor.Float32, 3, 4), false},
		{Concrete(tensor.Float32, 1, 3, 4, 5), false},
	} {
		if _, err := InferTypes(o, call, []Type{x, c.slope}, nil); c.ok != (err == nil) ||
			err != nil && !errors.Is(err, ErrInput) {
			t.Errorf("slope %v: %v", c.slope, err)
		}
	}
}
