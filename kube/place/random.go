package place

var random = Policy{
	Name:   "random",
	Source: published,
	What:   "any node that fits, and a random device of it for a part of one",
	random: true,
	score:  func(_ *fragments, n *node, s *shape) (int64, Set) { return 0, devices(n, s) },
}
