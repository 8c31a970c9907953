package live

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weirgpu/weir/kube/place"
)

// pledge is a place that is kept for a request until those who have to go are gone.
type pledge struct {
	key     string
	request place.Request
	node    string
	owners  []string
	ghosts  int
}

// Promise keeps for a request what some owners leave on a node, under a key: nobody else is given
// it. When the last of them is gone the request is given its place, which is then held by a holder
// of that key; [Cluster.Drop] says so. An earlier promise of that key is withdrawn.
func (c *Cluster) Promise(key string, r place.Request, node string, owners []string) {
	c.Withdraw(key)
	c.pledges[key] = &pledge{key: key, request: r, node: node, owners: owners}
}

// Promised returns the node of a promise that is not kept yet.
func (c *Cluster) Promised(key string) (node string, ok bool) {
	p := c.pledges[key]
	if p == nil {
		return "", false
	}
	return p.node, true
}

// Withdraw takes back a promise and what is held by it, kept or not.
func (c *Cluster) Withdraw(key string) {
	if p := c.pledges[key]; p != nil {
		delete(c.pledges, key)
		c.exorcise(p)
	}
	c.Drop(key)
}

// exorcise frees what the gone have left to a promise.
func (c *Cluster) exorcise(p *pledge) {
	for i := range p.ghosts {
		if h := c.holds[ghost(p.key, i)]; h != nil {
			c.remove(h)
		}
	}
	p.ghosts = 0
}

// ghost is the key of what a promise has been left.
func ghost(key string, i int) string { return key + "\x00" + strconv.Itoa(i) }

// left passes what a hold had on to the promise that waits for it, and keeps the promise if it was
// the last. It returns the keys of promises kept.
func (c *Cluster) left(h *hold) []string {
	if h.Owner == "" {
		return nil
	}
	var waiting []*pledge
	for _, p := range c.pledges {
		if p.node == h.Node && slices.Contains(p.owners, h.Owner) {
			waiting = append(waiting, p)
		}
	}
	slices.SortFunc(waiting, func(a, b *pledge) int { return cmp.Compare(a.key, b.key) })
	var kept []string
	for i, p := range waiting {
		if i == 0 {
			c.Hold(Holder{Key: ghost(p.key, p.ghosts), Node: h.Node, Parts: h.Parts})
			p.ghosts++
		}
		if !c.remain(p) {
			c.keep(p)
			kept = append(kept, p.key)
		}
	}
	return kept
}

// remain reports whether any of those who have to go is still there.
func (c *Cluster) remain(p *pledge) bool {
	for _, h := range c.on[p.node] {
		if h.Owner != "" && slices.Contains(p.owners, h.Owner) {
			return true
		}
	}
	return false
}

// keep gives the request of a promise its place, if there still is one; it asks like any other if
// not.
func (c *Cluster) keep(p *pledge) {
	delete(c.pledges, p.key)
	c.exorcise(p)
	choice, err := c.Choose(p.request, func(node string) bool { return node == p.node })
	if err == nil {
		c.Hold(Holder{Key: p.key, Node: p.node,
			Parts: []Part{{Request: p.request, Devices: choice.Devices}}})
	}
}
