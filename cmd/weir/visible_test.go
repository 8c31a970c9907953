package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
)

// TestBusIndexes counts GPUs as CUDA does in the order of the bus, whatever NVML's is.
func TestBusIndexes(t *testing.T) {
	at := func(mig bool, places ...string) []device.Info {
		var all []device.Info
		for _, p := range places {
			all = append(all, device.Info{PCI: p})
		}
		all[0].MIGEnabled = mig
		return all
	}
	for _, c := range []struct {
		name  string
		found []device.Info
		want  []int
	}{
		{"in order", at(false, "0000:17:00.0", "0000:2a:00.0"), []int{0, 1}},
		{"another order", at(false, "0000:ca:00.0", "0000:17:00.0", "0000:2a:00.0"),
			[]int{2, 0, 1}},
		{"a long domain", at(false, "10000:01:00.0", "0002:ff:00.0"), []int{1, 0}},
		{"a place not told", at(false, "0000:17:00.0", ""), []int{-1, -1}},
		{"instances", at(true, "0000:17:00.0", "0000:2a:00.0"), []int{-1, -1}},
	} {
		if got := busIndexes(c.found); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := busIndexes(nil); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

// TestVisible holds that programs that take the variable for a number find one.
func TestVisible(t *testing.T) {
	d := agent.Device{UUID: [16]byte{0xab, 15: 1}, BusIndex: 2}
	const uuid = "CUDA_VISIBLE_DEVICES=GPU-ab000000-0000-0000-0000-000000000001"
	index := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=2"}
	if got := visible(&d, false); !slices.Equal(got, index) {
		t.Errorf("got %v, want %v", got, index)
	}
	if got := visible(&d, true); !slices.Equal(got, []string{uuid}) {
		t.Errorf("a client of MPS: got %v, want %s", got, uuid)
	}
	d.BusIndex = -1
	if got := visible(&d, false); !slices.Equal(got, []string{uuid}) {
		t.Errorf("an index that is not certain: got %v, want %s", got, uuid)
	}
}

// TestChoose holds that what a scheduler leaves visible is what weir exec runs on.
func TestChoose(t *testing.T) {
	const bus = "CUDA_DEVICE_ORDER=PCI_BUS_ID"
	// NVML counts them from the end of the bus.
	devices := []agent.Device{
		{Ordinal: 0, Name: "a", BusIndex: 2, UUID: [16]byte{0xaa, 1}},
		{Ordinal: 1, Name: "a", BusIndex: 1, UUID: [16]byte{0xaa, 2}},
		{Ordinal: 2, Name: "a", BusIndex: 0, UUID: [16]byte{0xbb}},
	}
	mixed := slices.Clone(devices)
	mixed[2].Name = "b"
	for _, c := range []struct {
		name, flag string
		env        []string
		devices    []agent.Device
		want       int // ordinal, or -1
	}{
		{"nothing said", "", nil, devices, 0},
		{"named", "cuda:2", nil, devices, 2},
		{"named, and another visible", "cuda:2", []string{"CUDA_VISIBLE_DEVICES=1"}, devices, 2},
		{"none of that name", "cuda:3", nil, devices, -1},
		{"an index", "", []string{"CUDA_VISIBLE_DEVICES=2,0"}, devices, 0},
		{"an index by the bus", "", []string{"CUDA_VISIBLE_DEVICES=0", bus}, mixed, 2},
		{"an index by speed", "", []string{"CUDA_VISIBLE_DEVICES=0"}, mixed, -1},
		{"an index too high", "", []string{"CUDA_VISIBLE_DEVICES=3"}, devices, -1},
		{"a UUID", "", []string{
			"CUDA_VISIBLE_DEVICES=GPU-aa020000-0000-0000-0000-000000000000"}, mixed, 1},
		{"the beginning of one", "", []string{"CUDA_VISIBLE_DEVICES=GPU-bb"}, mixed, 2},
		{"the beginning of two", "", []string{"CUDA_VISIBLE_DEVICES=GPU-AA"}, mixed, -1},
		{"no UUID", "", []string{"CUDA_VISIBLE_DEVICES=GPU-"}, devices, -1},
		{"another's UUID", "", []string{"CUDA_VISIBLE_DEVICES=GPU-cc"}, devices, -1},
		{"an instance", "", []string{"CUDA_VISIBLE_DEVICES=MIG-aa"}, devices, -1},
		{"all hidden", "", []string{"CUDA_VISIBLE_DEVICES="}, devices, -1},
		{"all hidden by a number", "", []string{"CUDA_VISIBLE_DEVICES=-1"}, devices, -1},
	} {
		lookup := func(name string) (string, bool) {
			for _, v := range c.env {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		}
		d, err := choose(c.devices, c.flag, lookup)
		if (err != nil) != (c.want < 0) || err == nil && int(d.Ordinal) != c.want {
			t.Errorf("%s: %+v, %v, want %d", c.name, d, err, c.want)
		}
	}
	_, err := choose(devices, "", func(string) (string, bool) { return "GPU-aa0", true })
	for _, candidate := range []string{"cuda:0 (GPU-aa010000-0000-0000-0000-000000000000)",
		"cuda:1 (GPU-aa020000-0000-0000-0000-000000000000)"} {
		if err == nil || !strings.Contains(err.Error(), candidate) {
			t.Errorf("the beginning of two: %v, want %s among the candidates", err, candidate)
		}
	}
}
