//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"errors"
	"fmt"

	"github.com/weirgpu/weir/device"
)

// mostDevices bounds the count that a library may tell.
const mostDevices = 1024

// Devices describes all GPUs, as "cuda:0" and so on in the order of the bus, which is also CUDA's
// order where CUDA_DEVICE_ORDER is PCI_BUS_ID. What a GPU or the driver does not tell is left zero.
// A GPU that fails altogether is left out, and the error beside the others names it and its
// [Result].
func (l *Library) Devices() ([]device.Info, error) {
	var n uint32
	if r := l.call.count(&n); r != Success {
		return nil, fmt.Errorf("count of GPUs: %w", r)
	}
	if n > mostDevices {
		return nil, fmt.Errorf("count of GPUs: the library tells %d, more than %d", n, mostDevices)
	}
	var (
		gpus   []gpu
		faults []error
	)
	for i := range n {
		g := gpu{index: i}
		if r := l.call.byIndex(i, &g.handle); r != Success {
			faults = append(faults, fmt.Errorf("cuda:%d: %w", i, r))
			continue
		}
		l.describe(&g)
		gpus = append(gpus, g)
	}
	l.connect(gpus)
	infos := make([]device.Info, len(gpus))
	for i := range gpus {
		infos[i] = gpus[i].info
	}
	return infos, errors.Join(faults...)
}

// gpu is a device under description.
type gpu struct {
	index  uint32
	handle deviceHandle
	info   device.Info
	direct map[string]int // active NVLink connections to other GPUs, by place on the bus
	hub    int            // active NVLink connections into switches
}

func (l *Library) describe(g *gpu) {
	g.info = device.Info{
		ID:     fmt.Sprintf("%s:%d", device.CUDA, g.index),
		Kind:   device.CUDA,
		Driver: &l.driver,
	}
	g.info.Name, g.info.UUID = l.string(l.call.name, g.handle), l.string(l.call.uuid, g.handle)
	g.info.MemoryBytes, g.info.FreeBytes = l.memory(g.handle)
	var pci pciInfo
	if l.call.pci(g.handle, &pci) == Success {
		g.info.PCI = busName(pci.Domain, pci.Bus, pci.Dev)
		g.info.NUMANode = l.host.numaNode(g.info.PCI)
		g.info.CPUs = l.host.cpus(g.info.PCI)
	}
	if cpus := l.affinity(g.handle); cpus != nil {
		g.info.CPUs = cpus
	}
	l.units(g)
	l.instances(g)
}

// string calls a function that writes text.
func (l *Library) string(call func(deviceHandle, *byte, uint32) Result, d deviceHandle) string {
	var b [96]byte
	if call(d, &b[0], uint32(len(b))) != Success {
		return ""
	}
	return text(b[:])
}

// memory returns what programs can hold on the device, which is all but what the driver reserves,
// and what of it is free.
func (l *Library) memory(d deviceHandle) (total, free int64) {
	m2 := memory2{Version: memory2Version}
	if l.call.memory2(d, &m2) == Success && m2.Total >= m2.Reserved {
		return int64(m2.Total - m2.Reserved), int64(m2.Free)
	}
	var m memory
	if l.call.memory(d, &m) == Success {
		return int64(m.Total), int64(m.Free)
	}
	return 0, 0
}

func (l *Library) affinity(d deviceHandle) []int {
	var set [128]uint64
	if l.call.cpuAffinity(d, uint32(len(set)), &set[0]) != Success {
		return nil
	}
	return bits(set[:])
}

// units fills the compute capability and the number of multiprocessors, which NVML tells for whole
// GPUs through the number of cores only.
func (l *Library) units(g *gpu) {
	var major, minor int32
	if l.call.capability(g.handle, &major, &minor) != Success {
		return
	}
	g.info.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
	var cores uint32
	if per := coresPerMultiprocessor(major, minor); per > 0 &&
		l.call.cores(g.handle, &cores) == Success {
		g.info.Units = int(cores) / per
	}
}
