package place

import (
	"fmt"
	"math/bits"
	"strings"
)

// Whole is the compute units of one whole device: units are thousandths of a device.
const Whole = 1000

// MaxDevices is the most devices that a node may have: a set of them is the bits of a [Set].
const MaxDevices = 64

// MaxNodes is the most nodes of a [Cluster].
const MaxNodes = 1 << 20

// Set is a set of a node's devices: bit i stands for device i.
type Set uint64

// Len returns how many devices are in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// Indices returns the devices in rising order.
func (s Set) Indices() []int {
	var all []int
	for ; s != 0; s &= s - 1 {
		all = append(all, bits.TrailingZeros64(uint64(s)))
	}
	return all
}

// Device is a device of a node. A device has [Whole] compute units.
type Device struct {
	Memory int64 // bytes; 0 where memory is not counted, which nobody may then ask for
	NUMA   int   // the NUMA node that it hangs on
	Link   int   // devices of one node with the same number reach each other without the host
}

// Node is a machine and what it offers.
type Node struct {
	Name    string // unlike all others'
	Model   string // of its devices; "" where nobody asks for one
	CPU     int64  // thousandths of a core
	Memory  int64  // bytes of the host's memory
	Devices []Device
}

// Check reports what of a node cannot be.
func (n *Node) Check() error {
	if n.CPU < 0 || n.Memory < 0 {
		return fmt.Errorf("node %q has %d thousandths of a core and %d bytes: neither may be "+
			"negative", n.Name, n.CPU, n.Memory)
	}
	if len(n.Devices) > MaxDevices {
		return fmt.Errorf("node %q has %d devices, more than %d", n.Name, len(n.Devices),
			MaxDevices)
	}
	for i, d := range n.Devices {
		if d.Memory < 0 {
			return fmt.Errorf("node %q: device %d has %d bytes, fewer than none", n.Name, i,
				d.Memory)
		}
	}
	return nil
}

// Topology says how the devices of a request must lie to each other, in the words of the kubelet's
// Topology Manager.
type Topology uint8

// The topologies.
const (
	Anywhere   Topology = iota // the devices of the lowest numbers
	BestEffort                 // linked or on one NUMA node where that is free, else anywhere
	Restricted                 // on one NUMA node, unless the machine has none with as many devices
	SingleNUMA                 // on one NUMA node
)

// Request is what a pod asks for. Two requests that compare equal are of one shape.
type Request struct {
	CPU    int64 // thousandths of a core
	Memory int64 // bytes of the host's memory

	Count        int   // devices; 0 for a pod that needs none
	Units        int   // of each device, 1 to Whole
	DeviceMemory int64 // bytes of each device, on top of which a whole device's rest is taken too

	Models   string // "A|B": on devices of these models only; "" for any
	Topology Topology
}

// Share reports whether a request is for a part of one device.
func (r *Request) Share() bool { return r.Count == 1 && r.Units < Whole }

// TotalUnits returns the compute units of all its devices together.
func (r *Request) TotalUnits() int64 { return int64(r.Count) * int64(r.Units) }

// Check reports what of a request no node could give. Its error names the field and its bounds.
func (r *Request) Check() error {
	switch {
	case r.CPU < 0 || r.Memory < 0 || r.DeviceMemory < 0:
		return fmt.Errorf("a request for %d thousandths of a core, %d bytes and %d bytes of each "+
			"device: none may be negative", r.CPU, r.Memory, r.DeviceMemory)
	case r.Count < 0 || r.Count > MaxDevices:
		return fmt.Errorf("a request for %d devices: 0 to %d can be asked for", r.Count,
			MaxDevices)
	case r.Count == 0 && (r.Units != 0 || r.DeviceMemory != 0):
		return fmt.Errorf("a request for no device, but %d units and %d bytes of each: say how "+
			"many devices", r.Units, r.DeviceMemory)
	case r.Count > 0 && (r.Units < 1 || r.Units > Whole):
		return fmt.Errorf("a request for %d units of each device: 1 to %d can be asked for, "+
			"and more of whole devices only", r.Units, Whole)
	case r.Topology > SingleNUMA:
		return fmt.Errorf("a request with topology %d: 0 to %d are known", r.Topology, SingleNUMA)
	}
	return nil
}

// Takes reports whether a request may have devices of a model.
func (r *Request) Takes(model string) bool {
	if r.Models == "" {
		return true
	}
	for _, m := range strings.Split(r.Models, "|") {
		if m == model && m != "" {
			return true
		}
	}
	return false
}
