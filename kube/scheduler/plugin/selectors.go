package plugin

import (
	"context"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// selectors keeps which nodes have devices that a list of CEL expressions selects. Upstream
// evaluates them for each device at each pod.
type selectors struct {
	cache *cel.Cache
	known map[string]*selection // by the expressions
}

// selection is what a list of expressions selects, by node.
type selection struct {
	expressions []string
	verdicts    map[string]verdict
	partial     int   // nodes on which it selects other than all or none of the shared devices
	none        int   // nodes on which it selects none
	others      *bool // it selects other drivers' devices; nil: not known
}

type verdict uint8

const (
	unknown verdict = iota
	all
	none
	partial
)

// mostSelections bounds what is kept; of more, all are found anew.
const mostSelections = 256

func newSelectors() selectors {
	return selectors{cache: cel.NewCache(64, cel.Features{EnableConsumableCapacity: true}),
		known: map[string]*selection{}}
}

// changed forgets what is known of a node.
func (s *selectors) changed(node string) {
	for _, k := range s.known {
		k.count(k.verdicts[node], -1)
		delete(k.verdicts, node)
	}
}

// othersChanged forgets what is known of other drivers' devices.
func (s *selectors) othersChanged() {
	for _, k := range s.known {
		k.others = nil
	}
}

// selectsOthers reports whether other drivers' devices are selected. What cannot be evaluated of
// them is not: upstream is never shown them for a pod that is chosen for.
func (p *Plugin) selectsOthers(k *selection) bool {
	if k.others == nil {
		k.others = new(bool)
		for _, s := range p.others {
			for i := range s.Spec.Devices {
				is, err := p.selectors.selects(k.expressions, &s.Spec.Devices[i], s.Spec.Driver)
				*k.others = *k.others || err == nil && is
			}
		}
	}
	return *k.others
}

func (k *selection) count(v verdict, by int) {
	switch v {
	case partial:
		k.partial += by
	case none:
		k.none += by
	}
}

// selected returns what expressions select.
func (p *Plugin) selected(expressions []string) *selection {
	s := &p.selectors
	key := strings.Join(expressions, "\x00")
	k := s.known[key]
	if k == nil {
		if len(s.known) >= mostSelections {
			clear(s.known)
		}
		k = &selection{expressions: expressions, verdicts: map[string]verdict{}}
		s.known[key] = k
	}
	if len(k.verdicts) != len(p.nodes) {
		for name := range p.nodes {
			if k.verdicts[name] == unknown {
				v := p.verdict(name, expressions)
				k.verdicts[name] = v
				k.count(v, 1)
			}
		}
	}
	return k
}

// verdict evaluates expressions on the devices of a node. A device that is sick counts neither way.
func (p *Plugin) verdict(node string, expressions []string) verdict {
	yes, no, others := 0, 0, 0
	for _, d := range p.devices(node) {
		is, err := p.selectors.selects(expressions, d, p.args.Driver)
		switch {
		case err != nil:
			return partial // upstream says what is wrong
		case !shared(d) && is:
			others++
		case !shared(d) || sick(d):
		case is:
			yes++
		default:
			no++
		}
	}
	switch {
	case others > 0 || yes > 0 && no > 0:
		return partial
	case yes > 0:
		return all
	}
	return none
}

func (s *selectors) selects(expressions []string, d *resourceapi.Device, driver string) (bool,
	error) {
	for _, e := range expressions {
		compiled := s.cache.GetOrCompile(e)
		if compiled.Error != nil {
			return false, compiled.Error
		}
		ok, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: driver,
			AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes,
			Capacity: d.Capacity})
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
