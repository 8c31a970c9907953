package dra

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

// TestWhySaysWhatWouldFit holds each reason, and what of the devices it names.
func TestWhySaysWhatWouldFit(t *testing.T) {
	all := []Stock{
		{Node: "n1", Device: "cuda-0", Memory: 16 * share.GiB, Free: 2 * share.GiB, Left: 700},
		{Node: "n1", Device: "cuda-1", Memory: 16 * share.GiB, Free: 5 * share.GiB, Left: 100},
		{Node: "n2", Device: "cuda-0", Memory: 40 * share.GiB, Free: 40 * share.GiB, Left: 1000,
			Sick: "gpu.weir.dev/agent-gone"},
		{Node: "n3", Device: "cpu-0", CPU: true, Memory: 99 * share.GiB, Free: 99 * share.GiB,
			Left: 1000},
	}
	for _, c := range []struct {
		want   Want
		reason string
		words  []string
	}{
		{Want{Memory: 2 * share.GiB, Compute: 700}, "", nil},
		{Want{Memory: 5 * share.GiB, Compute: 100}, "", nil},
		{Want{CPU: true, Memory: 99 * share.GiB, Compute: 1000}, "", nil},
		{Want{Memory: 5 * share.GiB, Compute: 101}, NoRoom, []string{
			"5GiB of memory and 101m of time",
			"memory is 5GiB (device cuda-1 of node n1, beside 100m",
			"time 700m (device cuda-0 of node n1, beside 2GiB)"}},
		{Want{Compute: 701}, NoRoom, []string{"asks for 701m of time"}},
		{Want{Memory: 17 * share.GiB}, NoneTakes, []string{"device cuda-0 of node n2",
			"agent-gone", "17GiB"}},
		{Want{Memory: 41 * share.GiB}, NeverFits, []string{"41GiB", "40GiB",
			"device cuda-0 of node n2", "at most that"}},
		{Want{Compute: 1001}, NeverFits, []string{"1001m"}},
		{Want{CPU: true, Memory: 100 * share.GiB}, NeverFits, []string{"one CPU", "node n3"}},
	} {
		reason, text := c.want.Why(all)
		if reason != c.reason || (reason == "") != (text == "") {
			t.Errorf("%v: %s: %s: want %q", c.want, reason, text, c.reason)
		}
		for _, w := range c.words {
			if !strings.Contains(text, w) {
				t.Errorf("%v: %q: want %q in it", c.want, text, w)
			}
		}
	}
	reason, text := Want{CPU: true}.Why(all[:3])
	if reason != NoDevices || !strings.Contains(text, "class cpu.weir.dev") {
		t.Errorf("%s: %s", reason, text)
	}
}
