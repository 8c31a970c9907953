package place

var dotProd = Policy{
	Name:   "dotprod",
	Source: published + "; R. Grandl et al., Tetris, SIGCOMM 2014",
	What:   "the node whose free CPU and devices have the smallest product with the request",
	score:  dotProdScore,
}

func dotProdScore(_ *fragments, n *node, s *shape) (int64, Set) {
	cpu := float64(n.cpu) / mostCPU * (float64(s.CPU) / mostCPU)
	units := float64(n.units) / mostUnits * (float64(s.TotalUnits()) / mostUnits)
	// Conversions keep a compiler from fusing operations: the same choice on every processor.
	product := float64(cpu) + float64(units)
	return rounded(1 - product/2), devices(n, s)
}

// rounded returns a score between 0 and 1 in whole hundredths, rounded down; below 0 it is 0.
func rounded(score float64) int64 { return max(0, int64(score*percent)) }
