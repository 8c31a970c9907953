package evict

// GreedyDual is GreedyDual-Size: Cao and Irani, "Cost-aware WWW proxy caching algorithms", USITS
// 1997, figure 1.
//
//	paper                                here
//	cost c(p) of fetching a document     Use.Reload, in nanoseconds
//	size s(p)                            Use.Size, in bytes
//	value H(p) = L + c(p)/s(p)           the rank
//	L, the lowest H in the cache         aged, set to the rank of whoever is chosen
//
// Departures: a job may give back a part of what it holds, which counts as evicted; where the time
// is not known, it is taken to be as for any other byte, [assumed], which leaves the order of LRU.
type GreedyDual struct{ aged float64 }

// assumed is the cost of loading a byte where nothing is known of it, in nanoseconds: that of a
// link of 1 GB/s.
const assumed = 1.0

// Name returns "greedydual".
func (*GreedyDual) Name() string { return "greedydual" }

// Used returns what the job is worth from now on.
func (g *GreedyDual) Used(u Use) float64 {
	if u.Reload <= 0 || u.Size <= 0 {
		return g.aged + assumed
	}
	return g.aged + float64(u.Reload)/float64(u.Size)
}

// Evicted lets all others age by what the chosen one was worth.
func (g *GreedyDual) Evicted(rank float64) { g.aged = max(g.aged, rank) }
