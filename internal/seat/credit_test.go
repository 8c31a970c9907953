package seat_test

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// brokerOf is a broker of a device under a policy, for the caller to close.
func brokerOf(t *testing.T, device core.Config, policy string) *broker.Broker {
	t.Helper()
	c, err := device.ForPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCreditOutlastsARefusal asks for more than was reserved and the cap allows: the refusal takes
// nothing of what was reserved, which is granted afterwards without being counted again.
func TestCreditOutlastsARefusal(t *testing.T) {
	b := brokerOf(t, core.Config{Device: "test:0", Units: 1, Memory: 100}, "fair")
	defer b.Close()
	job, err := b.Admit(share.Job{Name: "job", Share: share.Share{Elastic: true, Memory: 100}}, 10)
	if err != nil {
		t.Fatal(err)
	}
	e := seat.NewElastic(job)
	if err := e.Reserve(t.Context(), 60, 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Weights().Reserve(101); !errors.Is(err, core.ErrOverCap) {
		t.Errorf("one byte over the cap: error %v, want %v", err, core.ErrOverCap)
	}
	if err := e.Weights().Reserve(60); err != nil {
		t.Error(err)
	}
	if held := job.Status().Memory.Resident(); held != 60 {
		t.Errorf("%v held after what was reserved was asked for, want 60 bytes", held)
	}
	if err := e.Weights().Reserve(40); err != nil {
		t.Errorf("the rest of the cap: error %v", err)
	}
}
