// Package machine opens devices by name: it is the one place that knows every kind of device which
// computes.
//
// Meet first: [Open], which turns "cpu:0" into a [Machine]: the device, what to compile for, and
// the host's workers.
//
// Concurrency: a Machine is safe for concurrent use until Close.
//
// What it refuses: a name that is none of this machine's ([device.ErrUnknownDevice]).
package machine

import (
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/device/far"
)

// Options say how a device is opened. The zero value suits most.
type Options struct {
	// Threads is the number of the host's workers, 0 for as many as the process may keep busy.
	Threads int
	// MemoryBytes caps the memory of the device; 0 stands for all that it has.
	MemoryBytes int64
}

// Machine is an open device with all that running models on it takes.
type Machine struct {
	Device device.Device
	Target compute.Target
	// Pool is the host's workers: on a CPU what computes, beside any other device what prepares.
	Pool *cpu.Pool
	// Host has the accounts of the host's memory beside a device whose memory that cannot address;
	// nil where the device's are the host's.
	Host device.Quota
}

// Open opens the device of that name. The caller owns it and must Close it. The error is that of
// the device's own Open, such as [device.ErrUnknownDevice].
func Open(id string, o Options) (*Machine, error) {
	if id == "far" || id == "far:0" {
		return openFar(id, o)
	}
	d, err := cpu.Open(id, cpu.Options{MemoryBytes: o.MemoryBytes})
	if err != nil {
		return nil, err
	}
	info := d.Info()
	if o.Threads <= 0 {
		o.Threads = info.Units // which costs no second look at the control groups
	}
	return &Machine{Device: d, Target: kernels.Target(info),
		Pool: cpu.NewPool(cpu.PoolOptions{Threads: o.Threads})}, nil
}

// openFar opens the device out of sight, beside a pool of the host.
func openFar(id string, o Options) (*Machine, error) {
	d, err := far.Open(id, far.Options{MemoryBytes: o.MemoryBytes})
	if err != nil {
		return nil, err
	}
	return &Machine{Device: d, Target: d.Target(),
		Pool: cpu.NewPool(cpu.PoolOptions{Threads: o.Threads}),
		Host: device.NewLedger("cpu:0", cpu.Discover().MemoryBytes)}, nil
}

// Close ends the workers and gives the device back; see [device.Device] Close for its error.
func (m *Machine) Close() error {
	m.Pool.Close()
	return m.Device.Close()
}
