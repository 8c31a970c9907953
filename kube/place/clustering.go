package place

var clustering = Policy{
	Name:   "clustering",
	Source: published + "; Q. Weng et al., MLaaS in the Wild, NSDI 2022",
	What:   "nodes where requests of the same kind are: parts of a device, one device, two",
	score:  clusteringScore,
}

func clusteringScore(_ *fragments, n *node, s *shape) (int64, Set) {
	if s.Count == 0 {
		return 0, 0
	}
	const quarter = percent / 4
	score := quarter * (mostUnits - n.units) / mostUnits
	switch {
	case n.pods[s.kind()] > 0 && n.mixed == 1:
		score += 3 * quarter
	case n.pods[s.kind()] > 0:
		score += 2 * quarter
	case n.mixed == 0:
		score += quarter
	}
	return max(0, score), devices(n, s)
}
