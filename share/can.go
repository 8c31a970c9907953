package share

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCannot is the kind of the error for a policy that cannot be enforced on a device.
var ErrCannot = errors.New("cannot be enforced")

// Can says what can be enforced on a device for its jobs, and what a policy needs to be enforced.
type Can struct {
	// Partition: a job can be held to some of the units, so that jobs on disjoint sets do not take
	// each other's.
	Partition bool `json:"partition"`
	// Limit: a job can be held to a number of units, though not to which, and none is set apart for
	// it. What has Partition can do this too.
	Limit bool `json:"limit"`
	// Overlap: several jobs can use the same units at once.
	Overlap bool `json:"overlap"`
	// Resize: a running job can be given more units.
	Resize bool `json:"resize"`
	// Spill: memory can be moved to the host while its job lives.
	Spill bool `json:"spill"`
	// Preempt: a job gives way within a kernel.
	Preempt bool `json:"preempt"`
	// Launches: kernels can be held back and let through one by one, by their predicted length.
	Launches bool `json:"launches"`
	// Copies: traffic between host and device can be bounded.
	Copies bool `json:"copies"`
	// Bandwidth: the memory bandwidth can be divided between jobs on disjoint units.
	Bandwidth bool `json:"bandwidth"`
}

// Names lists what is set, in the words of a table: "partition", "limit", "overlap", "resize",
// "spill", "preempt", "launches", "copies", "bandwidth".
func (c Can) Names() []string {
	var names []string
	for _, x := range []struct {
		has  bool
		name string
	}{{c.Partition, "partition"}, {c.Limit, "limit"}, {c.Overlap, "overlap"},
		{c.Resize, "resize"}, {c.Spill, "spill"}, {c.Preempt, "preempt"},
		{c.Launches, "launches"}, {c.Copies, "copies"}, {c.Bandwidth, "bandwidth"}} {
		if x.has {
			names = append(names, x.name)
		}
	}
	return names
}

// Without returns what is set in c and cannot be done where o can.
func (c Can) Without(o Can) Can {
	return Can{Partition: c.Partition && !o.Partition,
		Limit: c.Limit && !o.Limit && !o.Partition, Overlap: c.Overlap && !o.Overlap,
		Resize: c.Resize && !o.Resize, Spill: c.Spill && !o.Spill, Preempt: c.Preempt && !o.Preempt,
		Launches: c.Launches && !o.Launches, Copies: c.Copies && !o.Copies,
		Bandwidth: c.Bandwidth && !o.Bandwidth}
}

// With returns what is set in c or in o.
func (c Can) With(o Can) Can {
	return Can{Partition: c.Partition || o.Partition, Limit: c.Limit || o.Limit,
		Overlap: c.Overlap || o.Overlap, Resize: c.Resize || o.Resize, Spill: c.Spill || o.Spill,
		Preempt: c.Preempt || o.Preempt, Launches: c.Launches || o.Launches,
		Copies: c.Copies || o.Copies, Bandwidth: c.Bandwidth || o.Bandwidth}
}

// Enforces returns nil if a policy of this name that needs so much can be enforced where c can be
// done, else an [ErrCannot] that says what is missing.
func (c Can) Enforces(policy string, needs Can, device string) error {
	missing := needs.Without(c).Names()
	if len(missing) == 0 {
		return nil
	}
	has := strings.Join(c.Names(), ", ")
	if has == "" {
		has = "nothing of the kind"
	}
	return fmt.Errorf("policy %s: %w on device %s: needs %s, the device has %s: choose another "+
		"policy", policy, ErrCannot, device, strings.Join(missing, ", "), has)
}
