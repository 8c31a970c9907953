package evict

// LRU has the job give back that has not been used for longest. It is the rule of demand paging
// against which others are measured: Denning, "The working set model for program behavior", CACM
// 1968; nvshare and vLLM swap by it too.
type LRU struct{}

// Name returns "lru".
func (*LRU) Name() string { return "lru" }

// Used returns the time of the use, in nanoseconds: exact for the first 104 days of a device.
func (*LRU) Used(u Use) float64 { return float64(u.At) }

// Evicted changes nothing.
func (*LRU) Evicted(float64) {}
