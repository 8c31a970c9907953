package dra

import (
	"fmt"
	"strings"

	"github.com/weirgpu/weir/share"
)

// Stock is a device of the cluster, with what of it is free.
type Stock struct {
	Node, Device string
	CPU          bool
	Memory, Free share.Bytes
	// Left is what of its time nobody is promised, in thousandths.
	Left int
	// Sick is why it takes nothing new; empty: it is well.
	Sick string
}

func (s *Stock) name() string { return "device " + s.Device + " of node " + s.Node }

// Want is what a request of a claim asks of one device; Compute is in thousandths.
type Want struct {
	CPU     bool
	Memory  share.Bytes
	Compute int
}

// Reasons why a pod with a claim waits, as events name them.
const (
	NoDevices = "WeirNoDevices" // no node has a device of the kind
	NeverFits = "WeirNeverFits" // none is large enough, whatever ends
	NoneTakes = "WeirNoneTakes" // those that are large enough take nothing new
	NoRoom    = "WeirNoRoom"    // others have it
)

// Why says why a request has no device, and what to do; both are empty if it would fit.
func (w Want) Why(all []Stock) (reason, text string) {
	kind, class := "GPU", DriverName
	if w.CPU {
		kind, class = "CPU", CPUClass
	}
	var largest, memory, compute, sick *Stock
	for i := range all {
		s := &all[i]
		switch {
		case s.CPU != w.CPU:
			continue
		case s.Sick == "" && w.Memory <= s.Free && w.Compute <= s.Left:
			return "", ""
		}
		largest = more(largest, s, func(s *Stock) int64 { return int64(s.Memory) })
		switch {
		case s.Memory < w.Memory:
		case s.Sick != "":
			sick = s
		default:
			memory = more(memory, s, func(s *Stock) int64 { return int64(s.Free) })
			compute = more(compute, s, func(s *Stock) int64 { return int64(s.Left) })
		}
	}
	switch {
	case largest == nil:
		return NoDevices, fmt.Sprintf("no node has a %s of class %s: look for the DaemonSet "+
			"weir-node on the nodes that should: kubectl get resourceslices", kind, class)
	case w.Compute > Whole:
		return NeverFits, fmt.Sprintf("asks for %v of one %s, and none has more than %dm: it can "+
			"never fit: ask for at most that", w, kind, Whole)
	case w.Memory > largest.Memory:
		return NeverFits, fmt.Sprintf("asks for %v of one %s, and the largest there is has "+
			"%v (%s): it can never fit: ask for at most that, or add a node with more",
			w, kind, largest.Memory, largest.name())
	case memory == nil:
		return NoneTakes, fmt.Sprintf("asks for %v, and every %s that is large enough takes "+
			"nothing new, such as %s: %s: see the events of that node", w, kind, sick.name(),
			sick.Sick)
	}
	return NoRoom, fmt.Sprintf("asks for %v of one %s: the most free memory is %v (%s, beside "+
		"%dm of its time), the most free time %dm (%s, beside %v): it starts when others end; "+
		"what is free would fit at once", w, kind, memory.Free, memory.name(), memory.Left,
		compute.Left, compute.name(), compute.Free)
}

// more is the one of two of which there is more; the first of equals.
func more(a, b *Stock, of func(*Stock) int64) *Stock {
	if a == nil || of(b) > of(a) {
		return b
	}
	return a
}

// String is what is asked for.
func (w Want) String() string {
	var parts []string
	if w.Memory > 0 {
		parts = append(parts, w.Memory.String()+" of memory")
	}
	if w.Compute > 0 || len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("%dm of time", w.Compute))
	}
	return strings.Join(parts, " and ")
}
