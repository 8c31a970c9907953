package place

import (
	"fmt"
	"slices"
	"strings"
)

// NoRoom is the error of a request that fits nowhere. It is of kind [ErrNoRoom].
type NoRoom struct {
	Request
	cluster *Cluster
	allow   func(node int) bool
}

// Is makes it of kind [ErrNoRoom].
func (e *NoRoom) Is(target error) bool { return target == ErrNoRoom }

// Error says what the nodes want, as the cluster is when it is called.
func (e *NoRoom) Error() string { return "no room: " + e.cluster.why(e.Request, e.allow) }

// Why says why a request fits nowhere: how many nodes are down, of another model, too small ever,
// or now short of CPU, memory or devices, and what would fit where it is devices that are short.
func (c *Cluster) Why(r Request) string { return c.why(r, nil) }

func (c *Cluster) why(r Request, allow func(node int) bool) string {
	s := newShape(r, c.models)
	var count [shortDevices + 1]int
	widest := 0
	for i, n := range c.nodes {
		why := n.why(s)
		if allow != nil && n.up && !allow(i) {
			why = notAllowed
		}
		count[why]++
		if why == shortDevices {
			for _, f := range n.free {
				widest = max(widest, int(f.units))
			}
		}
	}
	var parts []string
	for why, text := range reasons {
		if count[why] > 0 && text != "" {
			parts = append(parts, fmt.Sprintf("%d %s", count[why], text))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("all %d nodes fit", len(c.nodes))
	}
	text := fmt.Sprintf("of %d nodes %s", len(c.nodes), strings.Join(parts, ", "))
	if r.Share() && count[shortDevices] > 0 {
		text += fmt.Sprintf("; on those %d units of one device are the most that would fit", widest)
	}
	return text
}

// Reasons why a node does not fit.
const (
	nothing = iota
	nodeDown
	nodeClosed
	notAllowed
	otherModel
	tooSmall
	shortCPU
	shortMemory
	shortDevices
)

var reasons = [...]string{nodeDown: "are down", nodeClosed: "take nothing new",
	notAllowed: "are not for this request",
	otherModel: "have devices of another model or none", tooSmall: "are too small",
	shortCPU: "are short of CPU", shortMemory: "are short of memory",
	shortDevices: "are short of free devices"}

// why returns which of the reasons keeps a shape from a node.
func (n *node) why(s *shape) int {
	switch {
	case !n.up:
		return nodeDown
	case n.closed:
		return nodeClosed
	case s.Count > 0 && (!s.models[n.model] || len(n.free) == 0):
		return otherModel
	case !newNode(n.spec, n.model).fits(s):
		return tooSmall
	case n.cpu < s.CPU:
		return shortCPU
	case n.mem < s.Memory:
		return shortMemory
	case !n.fits(s):
		return shortDevices
	}
	return nothing
}

func sortIDs(ids []ID) { slices.Sort(ids) }
