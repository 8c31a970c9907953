package evict

// GreedyDual is GreedyDual-Size-Frequency: Cherkasova, "Improving WWW proxies performance with
// Greedy-Dual-Size-Frequency caching policy", HP Laboratories, HPL-98-69, 1998, which adds how
// often a document is asked for to GreedyDual-Size: Cao and Irani, "Cost-aware WWW proxy caching
// algorithms", USITS 1997, figure 1.
//
//	papers                               here
//	cost C of fetching a document        Use.Reload, in nanoseconds
//	size S                               Use.Size, in bytes
//	frequency F                          Use.Often
//	value H = L + F C/S                  the rank
//	L, the lowest H in the cache         aged, set to the rank of whoever is chosen
//
// Departures: F is kept while a job is away, where the paper begins at 1 again, since the jobs of a
// device are few and all known; it halves as [Uses] has it, so that a job that was asked much once
// does not stay for that. A job may give back a part of what it holds, which counts as evicted.
// Where the time is not known, it is taken to be as for any other byte, [assumed].
type GreedyDual struct{ aged float64 }

// assumed is the cost of loading a byte where nothing is known of it, in nanoseconds: that of a
// link of 1 GB/s.
const assumed = 1.0

// Name returns "greedydual".
func (*GreedyDual) Name() string { return "greedydual" }

// Used returns what the job is worth from now on.
func (g *GreedyDual) Used(u Use) float64 {
	if u.Reload <= 0 || u.Size <= 0 {
		return g.aged + u.Often*assumed
	}
	return g.aged + u.Often*float64(u.Reload)/float64(u.Size)
}

// Evicted lets all others age by what the chosen one was worth.
func (g *GreedyDual) Evicted(rank float64) { g.aged = max(g.aged, rank) }
