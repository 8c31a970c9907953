package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
)

// This file is about which GPU CUDA_VISIBLE_DEVICES means. An entry of it is an index, counted from
// the fastest GPU or, where CUDA_DEVICE_ORDER is PCI_BUS_ID, in the order of the bus, or a UUID, or
// its beginning (CUDA programming guide, "CUDA Environment Variables"). A UUID is the better name,
// but programs read an index from the variable: vLLM ends with a UUID in it (vllm-project/vllm
// issues 13815, 20939).

const (
	visibleVariable = "CUDA_VISIBLE_DEVICES"
	orderVariable   = "CUDA_DEVICE_ORDER"
	busOrder        = "PCI_BUS_ID"
)

// busIndexes returns the number of each GPU among all in the order of the bus, which CUDA counts by
// too; -1 for all where that is not certain, because one is cut into MIG instances, of which CUDA
// counts what it finds, or does not tell its place.
func busIndexes(found []device.Info) []int {
	order := make([]int, len(found))
	for i := range found {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := found[a].PCI, found[b].PCI
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	indexes := make([]int, len(found))
	for n, i := range order {
		indexes[i] = n
	}
	if slices.ContainsFunc(found, func(d device.Info) bool { return d.MIGEnabled || d.PCI == "" }) {
		for i := range indexes {
			indexes[i] = -1
		}
	}
	return indexes
}

// visible is the environment in which a program sees one GPU. A client of MPS gets the UUID,
// because the daemon numbers those that were visible to itself anew, and so does one of a GPU whose
// index is not certain. The library checks the UUID in either case.
func visible(d *agent.Device, client bool) []string {
	switch {
	case d.BusIndex >= 0 && !client:
		return []string{orderVariable + "=" + busOrder,
			visibleVariable + "=" + strconv.Itoa(d.BusIndex)}
	case d.UUID != [16]byte{}:
		return []string{visibleVariable + "=" + uuidText(d.UUID)}
	}
	return nil
}

// choose finds the GPU to run on: the one that is named, or else the first that the environment
// leaves visible, as a scheduler does for its jobs and weir exec for what it runs.
func choose(devices []agent.Device, name string, lookup func(string) (string, bool)) (*agent.Device,
	error) {
	text, inherited := lookup(visibleVariable)
	if name == "" && !inherited {
		name = "cuda:0"
	}
	if name != "" {
		i := slices.IndexFunc(devices, func(d agent.Device) bool { return d.ID() == name })
		if i < 0 {
			return nil, fmt.Errorf(
				"--device %s: there is none: weir device list shows those there are", name)
		}
		return &devices[i], nil
	}
	order, _ := lookup(orderVariable)
	i, why := visibleFirst(devices, text, order)
	if i < 0 {
		return nil, fmt.Errorf("%s=%s %s: choose one with --device", visibleVariable, text, why)
	}
	return &devices[i], nil
}

// visibleFirst is the GPU that the list of visible ones, in an order, names first; -1 and why it is
// none that weir can share.
func visibleFirst(devices []agent.Device, text, order string) (i int, why string) {
	entry, _, _ := strings.Cut(text, ",")
	entry = strings.TrimSpace(entry)
	i, why = -1, "names none that weir can share"
	switch n, err := strconv.Atoi(entry); {
	case entry == "" || n < 0:
		why = "hides all GPUs"
	case strings.HasPrefix(entry, "MIG-"):
		why = "is an instance of a GPU, which weir exec does not share yet"
	case err != nil:
		var other string
		if i, other = named(devices, entry); other != "" {
			why = "begins the UUID of more than one GPU, " + other
		}
	case order != busOrder && !alike(devices):
		why = "counts GPUs from the fastest, which weir does not: set " + orderVariable + "=" +
			busOrder
	default:
		i = slices.IndexFunc(devices, func(d agent.Device) bool { return d.BusIndex == n })
	}
	return i, why
}

// named finds the GPU whose UUID begins so, and where several do, which CUDA refuses, lists them.
func named(devices []agent.Device, prefix string) (i int, several string) {
	var found []string
	i = -1
	for n := range devices {
		d := &devices[n]
		if len(prefix) > len("GPU-") && d.UUID != [16]byte{} &&
			strings.HasPrefix(strings.ToLower(uuidText(d.UUID)), strings.ToLower(prefix)) {
			i = n
			found = append(found, d.ID()+" ("+uuidText(d.UUID)+")")
		}
	}
	if len(found) < 2 {
		return i, ""
	}
	return -1, strings.Join(found, ", ")
}

// alike reports whether the GPUs are of one kind, among which CUDA counts in the order of the bus.
func alike(devices []agent.Device) bool {
	return !slices.ContainsFunc(devices, func(d agent.Device) bool {
		return d.Name != devices[0].Name
	})
}
