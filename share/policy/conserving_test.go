package policy_test

import (
	"testing"

	"github.com/weirgpu/weir/share/policy"
)

// TestConserving: whether idle time is lent hangs on parameters, where a policy has such.
func TestConserving(t *testing.T) {
	for spec, want := range map[string]bool{
		"fair": true, "fair:await=1ms": true, "fgpu": false,
		"cgpu": true, "cgpu:mode=fair": true, "cgpu:mode=strict": false,
		"vgpu": true, "vgpu:mode=equal-share": false, "vgpu:mode=fixed-share": false,
		"gaia": true, "gaia:mode=hard": false,
		"fill": true, "fill:strict=true": false,
	} {
		s, err := policy.ParseSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Conserving(); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", spec, got, err, want)
		}
	}
	for _, row := range policy.All() {
		if got, err := (policy.Spec{Name: row.Name}).Conserving(); got != row.Honours.Conserving {
			t.Errorf("%s: %v, its row says otherwise: %v", row.Name, got, err)
		}
	}
}
