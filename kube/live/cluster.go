package live

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"

	"github.com/weirgpu/weir/kube/place"
)

// Node is a node of the cluster.
type Node struct {
	place.Node
	Names  []string // of its devices, in their order
	Closed bool     // nothing new is to be placed on it
}

// Part is what is held of a node: of its CPU and memory, and of each of the named devices. Devices
// that the node does not have (they are sick, or of another kind) count for nothing.
type Part struct {
	place.Request
	Devices []string
}

// Holder is who holds parts of a node.
type Holder struct {
	Key      string // unlike all others'
	Node     string // may be unknown yet
	Parts    []Part
	Owner    string // the pod that has to go for the parts to be free; "" for none that could
	Priority int32  // of the owner
	Yields   bool   // its devices may be taken for who has a higher priority
}

// Choice is a place for a request.
type Choice struct {
	Node    string
	Devices []string
}

// Options are how a [Cluster] chooses.
type Options struct {
	Policy place.Policy // one that draws no numbers
	// Workload is what policies measure fragmentation against; nil has it observed of the requests
	// that [Cluster.Saw] is told of.
	Workload place.Workload
}

// hold is a holder with what package place knows of it.
type hold struct {
	Holder
	seq  uint64
	ids  []place.ID
	over bool // it found less than it holds
}

// Cluster is nodes and who holds what of them. It is not to be used by several goroutines at a
// time.
type Cluster struct {
	options Options
	nodes   map[string]*Node
	holds   map[string]*hold
	on      map[string]map[string]*hold // by node and key
	seq     uint64
	freed   uint64
	seen    window
	pledges map[string]*pledge

	place *place.Cluster // nil where it has to be made anew of what is above
	order []string       // names of its nodes
	at    map[string]int
	over  int // holds that found less than they hold
}

// New makes an empty cluster. The error is of a policy that cannot be used.
func New(o Options) (*Cluster, error) {
	c := &Cluster{options: o, nodes: map[string]*Node{}, holds: map[string]*hold{},
		on: map[string]map[string]*hold{}, pledges: map[string]*pledge{}}
	p, err := place.NewCluster(nil, place.Options{Policy: o.Policy, Workload: o.Workload})
	if err != nil {
		return nil, err
	}
	_, _, err = p.Choose(place.Request{}, nil)
	if !errors.Is(err, place.ErrNoRoom) {
		return nil, err
	}
	return c, nil
}

// SetNode adds a node, or changes it to what it is now: who holds parts of it keeps them. The error
// says what of the node cannot be; the cluster is then as before.
func (c *Cluster) SetNode(n Node) error {
	old := c.nodes[n.Name]
	if old != nil && reflect.DeepEqual(*old, n) {
		return nil
	}
	if len(n.Names) != len(n.Devices) {
		return fmt.Errorf("node %q has %d devices and %d names of devices", n.Name, len(n.Devices),
			len(n.Names))
	}
	if err := n.Check(); err != nil {
		return err
	}
	c.nodes[n.Name] = &n
	c.freed++
	if old != nil && c.place != nil && c.over == 0 {
		was := *old
		if was.Closed = n.Closed; reflect.DeepEqual(was, n) {
			return c.place.Close(c.at[n.Name], n.Closed)
		}
	}
	c.place = nil
	return nil
}

// RemoveNode takes a node away. Who held parts of it holds them still, if it ever returns.
func (c *Cluster) RemoveNode(name string) {
	if c.nodes[name] != nil {
		delete(c.nodes, name)
		c.place = nil
	}
}

// Node returns a node as it was set.
func (c *Cluster) Node(name string) (Node, bool) {
	n := c.nodes[name]
	if n == nil {
		return Node{}, false
	}
	return *n, true
}

// Hold notes that somebody holds parts of a node, in place of what the holder of that key held
// before.
func (c *Cluster) Hold(h Holder) {
	old := c.holds[h.Key]
	if old != nil && reflect.DeepEqual(old.Holder, h) {
		return
	}
	if old != nil {
		c.remove(old)
	}
	c.seq++
	n := &hold{Holder: h, seq: c.seq}
	c.holds[h.Key] = n
	if c.on[h.Node] == nil {
		c.on[h.Node] = map[string]*hold{}
	}
	c.on[h.Node][h.Key] = n
	if c.place != nil {
		c.bind(n)
	}
}

// Held returns what a holder holds.
func (c *Cluster) Held(key string) (Holder, bool) {
	h := c.holds[key]
	if h == nil {
		return Holder{}, false
	}
	return h.Holder, true
}

// Drop notes that a holder is gone, and returns the keys of promises that are kept by it: see
// [Cluster.Promise]. A key that nobody has is nothing.
func (c *Cluster) Drop(key string) []string {
	h := c.holds[key]
	if h == nil {
		return nil
	}
	c.remove(h)
	return c.left(h)
}

// remove forgets a hold.
func (c *Cluster) remove(h *hold) {
	delete(c.holds, h.Key)
	delete(c.on[h.Node], h.Key)
	if len(c.on[h.Node]) == 0 {
		delete(c.on, h.Node)
	}
	c.freed++
	if c.over > 0 {
		c.place = nil
	}
	c.free(h)
}

// free gives back what a hold has in package place.
func (c *Cluster) free(h *hold) {
	if c.place == nil {
		h.ids = nil
		return
	}
	for _, id := range h.ids {
		if c.place.Release(id) != nil {
			c.place = nil // it is made anew of what is
			return
		}
	}
	h.ids = nil
}

// bind takes what a hold has, as far as the node is known. Where it finds less, the node is closed.
func (c *Cluster) bind(h *hold) {
	i, ok := c.at[h.Node]
	if !ok {
		return
	}
	for _, part := range h.Parts {
		r, set := c.nodes[h.Node].known(part)
		if r == (place.Request{}) {
			continue
		}
		p, err := c.place.Bind(r, i, set)
		if err != nil {
			c.free(h)
			h.over = true
			c.over++
			if err := c.place.Close(i, true); err != nil {
				c.place = nil
			}
			return
		}
		h.ids = append(h.ids, p.ID)
	}
}

// known is a part as far as it is of devices that the node has.
func (n *Node) known(p Part) (place.Request, place.Set) {
	r, set := p.Request, place.Set(0)
	for _, name := range p.Devices {
		if i := slices.Index(n.Names, name); i >= 0 {
			set |= 1 << i
		}
	}
	if r.Count = set.Len(); r.Count == 0 {
		r.Units, r.DeviceMemory = 0, 0
	}
	r.Models, r.Topology = "", place.Anywhere
	return r, set
}

// names returns the names of devices.
func (n *Node) names(set place.Set) []string {
	names := make([]string, 0, set.Len())
	for ; set != 0; set &= set - 1 {
		names = append(names, n.Names[bits.TrailingZeros64(uint64(set))])
	}
	return names
}

// ready makes what package place knows of all that is.
func (c *Cluster) ready() error {
	if c.place != nil {
		return nil
	}
	c.order = c.order[:0]
	for name := range c.nodes {
		c.order = append(c.order, name)
	}
	slices.Sort(c.order)
	c.at = make(map[string]int, len(c.order))
	nodes := make([]place.Node, len(c.order))
	for i, name := range c.order {
		nodes[i], c.at[name] = c.nodes[name].Node, i
	}
	o := place.Options{Policy: c.options.Policy, Workload: c.options.Workload}
	if o.Workload == nil {
		o.Workload = c.seen.workload()
	}
	p, err := place.NewCluster(nodes, o)
	if err != nil {
		return err
	}
	c.place, c.over = p, 0
	return c.again()
}

// again closes nodes and binds holds, in the order in which they were told.
func (c *Cluster) again() error {
	for i, name := range c.order {
		if c.nodes[name].Closed {
			if err := c.place.Close(i, true); err != nil {
				return err
			}
		}
	}
	all := make([]*hold, 0, len(c.holds))
	for _, h := range c.holds {
		h.ids, h.over = nil, false
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(a.seq, b.seq) })
	for _, h := range all {
		c.bind(h)
	}
	return nil
}
