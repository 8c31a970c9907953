package scenario

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
)

// TestFar shares a device whose memory the host cannot address, and that runs work in an order of
// its own.
func TestFar(t *testing.T) {
	s := &Scenario{Device: "far:0", Duration: time.Minute, Seed: 3, Jobs: []Job{
		{Job: share.Job{Name: "a", Iterations: 6, Share: share.Share{Class: share.Latency}},
			Model: "a", Graph: vision(t, "mobilenetv2"), Arrival: Arrival{Closed: 1}},
		{Job: share.Job{Name: "b", Iterations: 3, Share: share.Share{Class: share.Opportunistic}},
			Model: "b", Graph: vision(t, "resnet50"), Arrival: Arrival{Closed: 1}},
	}}
	res := run1(t, s, Options{Threads: 2, Solo: true, Policies: []string{"fair"}})
	for _, p := range res.Phases {
		checkPhase(t, &p)
		if p.Device != "far:0" {
			t.Errorf("phase on %q", p.Device)
		}
	}
}
