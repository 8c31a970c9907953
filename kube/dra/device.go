package dra

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share"
)

// Device is a device of the node as the cluster is told of it.
type Device struct {
	// Name is unique on the node and fit for a ResourceSlice: "cuda-0" or "cpu-0".
	Name string
	// Ordinal is the agent's number of a GPU.
	Ordinal uint32
	CPU     bool // it is the node's CPU, which no agent shares; else a GPU
	Memory  share.Bytes
	Units   int // processors of a CPU
	// Fake: it is one of the fake driver.
	Fake bool
	// Attributes are the same ones for every device, so that a selector that asks for one finds it:
	// type, model, uuid, fake, numaNode (-1: not known), pciBusID, nvlinkGroup (devices with the
	// same number above 0 are linked), computeCapability. Values are string, int64 or bool.
	Attributes map[string]any
	// Sick says why nothing new is to be placed on it; empty: it is well.
	Sick []Sickness
}

// Sickness is a reason to place nothing new on a device: a taint.
type Sickness struct {
	Key  string // "gpu.weir.dev/agent-gone"
	Text string // for people
}

// Keys of sickness.
const (
	AgentGone  = DriverName + "/agent-gone"
	DeviceGone = DriverName + "/device-gone"
	NoAnswer   = DriverName + "/no-answer"
)

// Inventory is what a node has: the GPUs of the agent's snapshot, and, if it has memory, the node's
// CPU. Infos say more of GPUs by their UUIDs, as discovery found them; those that the agent does
// not share are left out. The result is in the order of names.
func Inventory(s agent.Snapshot, infos []device.Info, cpu device.Info) []Device {
	var all []Device
	groups := linked(infos)
	for i := range s.Devices {
		d := &s.Devices[i]
		ordinal, ok := ordinalOf(d.Device)
		if d.Beside || !ok {
			continue
		}
		v := Device{Name: "cuda-" + d.Device[len("cuda:"):], Ordinal: ordinal, Fake: d.Fake,
			Memory: share.Bytes(d.MemoryBytes), Attributes: attributes("gpu", d.Name, d.UUID)}
		v.Attributes["fake"] = d.Fake
		n := slices.IndexFunc(infos, func(i device.Info) bool {
			return d.UUID != "" && i.UUID == d.UUID
		})
		if n >= 0 {
			place(v.Attributes, &infos[n], groups[infos[n].ID])
		}
		if d.Unmeasured != "" {
			v.Sick = []Sickness{{NoAnswer, d.Unmeasured}}
		}
		all = append(all, v)
	}
	if cpu.MemoryBytes > 0 {
		v := Device{Name: "cpu-0", CPU: true, Memory: share.Bytes(cpu.MemoryBytes),
			Units: cpu.Units, Attributes: attributes("cpu", cpu.Name, "")}
		if len(cpu.NUMA) == 1 {
			v.Attributes["numaNode"] = int64(cpu.NUMA[0].ID)
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func attributes(kind, model, uuid string) map[string]any {
	return map[string]any{"type": kind, "model": cut(model), "uuid": uuid, "fake": false,
		"numaNode": int64(-1), "pciBusID": "", "nvlinkGroup": int64(0), "computeCapability": ""}
}

// cut is a text that fits into an attribute, which has 64 bytes at most (resource.k8s.io/v1,
// DeviceAttributeMaxValueLength).
func cut(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 64)], "")
}

// place adds where a device is.
func place(to map[string]any, d *device.Info, group int64) {
	to["pciBusID"], to["computeCapability"], to["nvlinkGroup"] = d.PCI, d.ComputeCapability, group
	if d.NUMANode != nil {
		to["numaNode"] = int64(*d.NUMANode)
	}
}

// linked numbers the groups of GPUs that reach each other over NVLink, from 1 on; one alone is in
// none.
func linked(infos []device.Info) map[string]int64 {
	groups := map[string]int64{}
	var reach func(id string, group int64)
	reach = func(id string, group int64) {
		groups[id] = group
		for i := range infos {
			for _, l := range infos[i].Links {
				if infos[i].ID == id && l.NVLinks > 0 && groups[l.To] == 0 {
					reach(l.To, group)
				}
			}
		}
	}
	next := int64(0)
	for i := range infos {
		peers := slices.ContainsFunc(infos[i].Links,
			func(l device.Link) bool { return l.NVLinks > 0 })
		if peers && groups[infos[i].ID] == 0 {
			next++
			reach(infos[i].ID, next)
		}
	}
	return groups
}

// ordinalOf reads the number in "cuda:0".
func ordinalOf(id string) (uint32, bool) {
	digits, ok := strings.CutPrefix(id, "cuda:")
	n, err := ParseMilli(digits + "m")
	return uint32(n), ok && err == nil && digits != ""
}

// Follow is what to publish now, after what was published before: a device that the agent no longer
// has, or all when it is gone (found nil), stay published and are sick, so that pods that have them
// are seen and no new one comes.
func Follow(before, found []Device, gone error) []Device {
	now := slices.Clone(found)
	for _, d := range before {
		if slices.ContainsFunc(found, func(f Device) bool { return f.Name == d.Name }) {
			continue
		}
		switch {
		case gone == nil:
			d.Sick = []Sickness{{DeviceGone, "the node's agent has it no more"}}
		case !d.CPU:
			d.Sick = []Sickness{{AgentGone, gone.Error()}}
		}
		now = append(now, d)
	}
	slices.SortFunc(now, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return now
}
