package share_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

func TestValidateReportsAllFaults(t *testing.T) {
	for _, tc := range []struct {
		name  string
		share share.Share
		want  []string // fields at fault, with value
	}{
		{"zero", share.Share{}, nil},
		{"full", share.Share{Memory: 1, Compute: 1, Limit: 1, Class: share.Opportunistic}, nil},
		{"limit is compute", share.Share{Compute: 0.3, Limit: 0.3}, nil},
		{"compute over limit", share.Share{Compute: 0.5, Limit: 0.3}, []string{"compute is 0.5"}},
		{"all", share.Share{Memory: -1, Compute: 1.5, Limit: -2, Class: 9},
			[]string{"memory is -1B", "compute is 1.5", "limit is -2", "class is class(9)"}},
		{"not a number", share.Share{Compute: math.NaN(), Limit: math.NaN()},
			[]string{"compute is NaN", "limit is NaN"}},
		{"infinite", share.Share{Limit: math.Inf(1)}, []string{"limit is +Inf"}},
	} {
		err := share.Job{Name: "a", Share: tc.share}.Validate()
		if tc.want == nil {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		var faults share.Faults
		if !errors.Is(err, share.ErrInvalid) || !errors.As(err, &faults) {
			t.Errorf("%s: error is %v, want an ErrInvalid", tc.name, err)
			continue
		}
		if len(faults.List) != len(tc.want) || !strings.HasPrefix(err.Error(), "job a: ") {
			t.Errorf("%s: %v, want %d faults", tc.name, err, len(tc.want))
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", tc.name, err, want)
			}
		}
	}
	err := share.Job{Name: " ", Iterations: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "name is") ||
		!strings.Contains(err.Error(), "iterations is -1") {
		t.Errorf("nameless job: %v", err)
	}
}

func TestShareDefaults(t *testing.T) {
	none := share.Share{}
	if none.Guarantee() != 0 || none.Weight() != share.DefaultWeight || none.Cap() != 1 {
		t.Errorf("empty share: guarantee %v weight %v cap %v", none.Guarantee(), none.Weight(),
			none.Cap())
	}
	gaps := share.Share{Compute: 0.4, Class: share.Opportunistic}
	if gaps.Guarantee() != 0 || gaps.Weight() != 0.4 {
		t.Errorf("opportunistic share: guarantee %v weight %v", gaps.Guarantee(), gaps.Weight())
	}
}
