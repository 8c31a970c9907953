package live

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/kube/place"
)

// Allow reports whether a node may be chosen; nil allows all.
type Allow func(node string) bool

// among is an Allow in the numbers of package place.
func (c *Cluster) among(allow Allow) func(int) bool {
	if allow == nil {
		return nil
	}
	return func(i int) bool { return allow(c.order[i]) }
}

// Choose returns where the policy places a request, and holds nothing there. The error is of kind
// place.ErrNoRoom where it fits nowhere, and says what is wanting.
func (c *Cluster) Choose(r place.Request, allow Allow) (Choice, error) {
	if err := c.ready(); err != nil {
		return Choice{}, err
	}
	i, set, err := c.place.Choose(r, c.among(allow))
	if err != nil {
		return Choice{}, err
	}
	name := c.order[i]
	return Choice{name, c.nodes[name].names(set)}, nil
}

// Rank returns all places where a request fits, the one that [Cluster.Choose] chooses first.
func (c *Cluster) Rank(r place.Request, allow Allow) ([]Choice, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	type scored struct {
		score int64
		Choice
	}
	var all []scored
	for i, name := range c.order {
		if allow != nil && !allow(name) {
			continue
		}
		if score, set, ok := c.place.Score(r, i); ok {
			all = append(all, scored{score, Choice{name, c.nodes[name].names(set)}})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return -cmp.Compare(a.score, b.score) })
	choices := make([]Choice, len(all))
	for i := range all {
		choices[i] = all[i].Choice
	}
	return choices, nil
}

// Freed changes whenever a request that fitted nowhere may fit: somebody is gone, a node came or
// changed. While it stays as it was, asking again is in vain.
func (c *Cluster) Freed() uint64 { return c.freed }

// Units returns the compute units of all devices, and how many of them are held.
func (c *Cluster) Units() (all, used int64, err error) {
	if err := c.ready(); err != nil {
		return 0, 0, err
	}
	all, used = c.place.Units()
	return all, used, nil
}

// Member is one of a gang.
type Member struct {
	Key string // of the holder that it becomes
	place.Request
	Allow Allow
}

// Gang holds a seat for each of some requests, chosen in their order, under the members' keys, or
// for none of them: then the error says which one did not fit and what is wanting.
func (c *Cluster) Gang(members []Member) ([]Choice, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	choices, freed := make([]Choice, 0, len(members)), c.freed
	for i, m := range members {
		choice, err := c.Choose(m.Request, m.Allow)
		if err != nil {
			err = fmt.Errorf("member %d of %d: %w", i+1, len(members), told{err, err.Error()})
			for _, m := range members[:i] {
				c.Drop(m.Key)
			}
			c.freed = freed // all is as it was
			return nil, err
		}
		c.Hold(Holder{Key: m.Key, Node: choice.Node,
			Parts: []Part{{Request: m.Request, Devices: choice.Devices}}})
		choices = append(choices, choice)
	}
	return choices, nil
}

// told is an error as it read at a time.
type told struct {
	error
	text string
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.error }
