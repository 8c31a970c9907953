package share_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

// TestEnforces: what can part jobs can limit them too, and not the other way round; a refusal names
// what is missing and what is there.
func TestEnforces(t *testing.T) {
	limits := share.Can{Limit: true, Overlap: true}
	parts := share.Can{Partition: true, Overlap: true}
	for _, c := range []struct {
		can, needs share.Can
		says       string // empty: can be enforced
	}{
		{limits, limits, ""}, {parts, limits, ""}, {share.Can{}, share.Can{}, ""},
		{limits, parts, "needs partition, the device has limit, overlap"},
		{share.Can{Launches: true}, limits, "needs limit, overlap, the device has launches"},
		{share.Can{}, limits, "the device has nothing of the kind"},
		{share.Can{}.With(limits), limits, ""},
	} {
		err := c.can.Enforces("p", c.needs, "cuda:0")
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v for %v: %v", c.can.Names(), c.needs.Names(), err)
		case c.says != "" && (!errors.Is(err, share.ErrCannot) ||
			!strings.Contains(err.Error(), c.says)):
			t.Errorf("%v for %v: %v, want %q", c.can.Names(), c.needs.Names(), err, c.says)
		}
	}
	all := share.Can{Partition: true, Limit: true, Overlap: true, Resize: true, Spill: true,
		Preempt: true, Launches: true, Copies: true, Bandwidth: true}
	if got := all.Names(); len(got) != 9 || !slices.Equal((share.Can{}).With(all).Names(), got) ||
		len(all.Without(all).Names()) != 0 {
		t.Errorf("all there is is %v", got)
	}
}
