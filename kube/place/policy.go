package place

// Policy is a rule that chooses among the nodes which have what a request asks for. All policies
// of this package are rows of [Policies].
type Policy struct {
	Name   string // as on the command line
	Source string // where it is described
	What   string // in a sentence

	// score says how good a node that fits is for a shape, and with which of its devices: the
	// highest score wins, among equals the node that was given to the cluster first. It is at least
	// 0 and below maxScore, and depends on nothing but what it is given and what is free of the
	// node.
	score func(f *fragments, n *node, s *shape) (int64, Set)

	random bool // any node that fits, as likely as any other, with random devices
}

// maxScore bounds scores, so that they are kept in one word together with a node's place.
const maxScore = 1 << 42

// percent is the highest score of policies that count as Kubernetes does, in whole hundredths.
const percent = 100

// Policies returns all policies, in the order of the published table and ours last.
func Policies() []Policy {
	return []Policy{random, dotProd, clustering, packing, bestFit, fgd, prices}
}

// Named returns the policy of a name.
func Named(name string) (Policy, bool) {
	for _, p := range Policies() {
		if p.Name == name {
			return p, true
		}
	}
	return Policy{}, false
}

// published is where the six policies stand that the authors of FGD compare, of whose simulator
// each is a statement in other words: the scores, their rounding, and which device of a node.
const published = "F. Weng et al., Beware of Fragmentation, USENIX ATC 2023, section 6.1"

// devices returns which devices a policy without a view of its own takes: the tightest for a part
// of one, by number and topology for whole ones.
func devices(n *node, s *shape) Set {
	switch {
	case s.Count == 0:
		return 0
	case s.Share():
		return n.tightest(&s.Request)
	}
	return n.several(&s.Request)
}

// mostCPU and mostUnits are the largest node of the published traces, which scores are scaled by:
// 128 cores and 8 devices.
const (
	mostCPU   = 128 * 1000
	mostUnits = 8 * Whole
)
