package place

var bestFit = Policy{
	Name:   "bestfit",
	Source: published + "; after R. Panigrahy et al., Heuristics for Vector Bin Packing, 2011",
	What:   "the node that has least left, of CPU and devices alike",
	score:  bestFitScore,
}

func bestFitScore(_ *fragments, n *node, s *shape) (int64, Set) {
	cpu := float64(n.cpu-s.CPU) / mostCPU * 0.5
	units := float64(n.units-s.TotalUnits()) / mostUnits * 0.5
	return rounded(1 - (float64(cpu) + float64(units))), devices(n, s)
}
