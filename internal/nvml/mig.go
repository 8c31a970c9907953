//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import "github.com/weirgpu/weir/device"

// mostInstances bounds the count that a library may tell; today's GPUs have 7.
const mostInstances = 128

// instances fills the Multi-Instance GPU mode and the instances there are. Places for instances may
// be empty in between.
func (l *Library) instances(g *gpu) {
	var current, pending, most uint32
	if l.call.migMode(g.handle, &current, &pending) != Success || current == 0 {
		return
	}
	g.info.MIGEnabled = true
	if l.call.migMost(g.handle, &most) != Success {
		return
	}
	for i := range min(most, mostInstances) {
		var d deviceHandle
		if l.call.migByIndex(g.handle, i, &d) == Success {
			g.info.MIG = append(g.info.MIG, l.instance(d))
		}
	}
}

func (l *Library) instance(d deviceHandle) device.Instance {
	var (
		a        attributes
		gi, ci   uint32
		instance = device.Instance{UUID: l.string(l.call.uuid, d)}
	)
	instance.MemoryBytes, instance.FreeBytes = l.memory(d)
	if l.call.attributes(d, &a) == Success {
		instance.Units = int(a.Multiprocessors)
	}
	instance.Profile = profile(l.string(l.call.name, d), &a)
	if l.call.gpuInstance(d, &gi) == Success {
		instance.GPUInstance = int(gi)
	}
	if l.call.computeInstance(d, &ci) == Success {
		instance.ComputeInstance = int(ci)
	}
	return instance
}
