package place

import "math/bits"

// slot is what is free of a device.
type slot struct {
	units int32
	mem   int64
}

// holds reports whether a device with this much free can serve a request.
func (s slot) holds(r *Request) bool {
	return int(s.units) >= r.Units && s.mem >= r.DeviceMemory
}

// without returns what is free after a request took its part. Who has all units has all memory.
func (s slot) without(r *Request) slot {
	if r.Units == Whole {
		return slot{}
	}
	return slot{s.units - int32(r.Units), s.mem - r.DeviceMemory}
}

// kinds are what policies tell apart that gather like with like: no device, a part of one, and each
// number of more.
const kinds = MaxDevices + 2

// kind of a request.
func (r *Request) kind() int {
	if r.Count == 0 || r.Share() {
		return min(r.Count, 1)
	}
	return r.Count + 1
}

// node is a node and what is free of it, which [node.take] and [node.give] alone change.
type node struct {
	spec   *Node
	model  int32 // index in the cluster's models
	up     bool
	closed bool // for choices

	cpu, mem int64
	free     []slot
	units    int64 // free of all devices together
	idle     int   // devices of which nothing is taken

	pods  [kinds]int32 // placements of each kind
	mixed int          // of how many kinds with devices there are any

	class      *class // of what is free, where a memo has looked it up since the last change
	changed    uint64 // when it last changed; see index
	prev, next int32  // the nodes that changed before and after; see index
}

func newNode(spec *Node, model int32) *node {
	n := &node{spec: spec, model: model, up: true, free: make([]slot, len(spec.Devices))}
	n.clear()
	return n
}

// clear frees all of a node.
func (n *node) clear() {
	n.cpu, n.mem = n.spec.CPU, n.spec.Memory
	for i, d := range n.spec.Devices {
		n.free[i] = slot{Whole, d.Memory}
	}
	n.units, n.idle = int64(len(n.free))*Whole, len(n.free)
	n.pods, n.mixed, n.class = [kinds]int32{}, 0, nil
}

// grants reports whether a node can give a request exactly these devices now.
func (n *node) grants(r *Request, set Set) bool {
	if !n.up || n.cpu < r.CPU || n.mem < r.Memory || set.Len() != r.Count ||
		bits.Len64(uint64(set)) > len(n.free) {
		return false
	}
	for s := set; s != 0; s &= s - 1 {
		if !n.free[bits.TrailingZeros64(uint64(s))].holds(r) {
			return false
		}
	}
	return true
}

// take gives devices of the node to a request, and reports false, with nothing changed, where they
// are not free: nothing is ever taken that is not there.
func (n *node) take(r *Request, set Set) bool {
	if !n.grants(r, set) {
		return false
	}
	n.cpu -= r.CPU
	n.mem -= r.Memory
	for s := set; s != 0; s &= s - 1 {
		f := &n.free[bits.TrailingZeros64(uint64(s))]
		if f.units == Whole {
			n.idle--
		}
		n.units -= int64(r.Units)
		*f = f.without(r)
	}
	n.count(r, 1)
	return true
}

// give undoes a take.
func (n *node) give(r *Request, set Set) {
	n.cpu += r.CPU
	n.mem += r.Memory
	for s := set; s != 0; s &= s - 1 {
		i := bits.TrailingZeros64(uint64(s))
		f := &n.free[i]
		if f.units += int32(r.Units); r.Units == Whole {
			f.mem = n.spec.Devices[i].Memory
		} else {
			f.mem += r.DeviceMemory
		}
		if f.units == Whole {
			n.idle++
		}
		n.units += int64(r.Units)
	}
	n.count(r, -1)
}

// count keeps the number of placements of each kind.
func (n *node) count(r *Request, by int32) {
	n.class = nil
	k := r.kind()
	before := n.pods[k]
	n.pods[k] += by
	if k == 0 || (before == 0) == (n.pods[k] == 0) {
		return
	}
	n.mixed += int(by)
}

// fits reports whether a request could be placed on the node, whatever the devices.
func (n *node) fits(s *shape) bool {
	if !n.up || n.closed || n.cpu < s.CPU || n.mem < s.Memory {
		return false
	}
	if s.Count == 0 {
		return true
	}
	if !s.models[n.model] || n.units < s.TotalUnits() {
		return false
	}
	if s.Count == 1 || s.Topology < Restricted {
		left := s.Count
		for i := range n.free {
			if n.free[i].holds(&s.Request) {
				if left--; left == 0 {
					return true
				}
			}
		}
		return false
	}
	return n.several(&s.Request) != 0
}

// shape is a request with what the cluster knows of it.
type shape struct {
	Request
	models []bool // of the cluster's models, which it takes
	demand int32  // in the memo: of how much of a device, see memo
	at     uint64 // see index
	tree   []uint64
	used   uint64
}

// newShape prepares a request for a cluster with these models.
func newShape(r Request, models []string) *shape {
	s := &shape{Request: r, models: make([]bool, len(models)), demand: -1}
	for i, m := range models {
		s.models[i] = r.Takes(m)
	}
	return s
}
