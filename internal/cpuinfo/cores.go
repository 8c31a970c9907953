package cpuinfo

import "sync"

// CoreKind is one of the kinds of cores of a machine, such as fast ones and efficient ones.
type CoreKind struct {
	Cores int // that the machine has, whether or not this process may use them
	// Speed is over that of the fastest kind, as the system states it; 0 where it does not.
	Speed float64
}

// CoreKinds returns the kinds of cores of an arm64 machine, the fastest first: one where all cores
// are alike, none where the system tells none apart, and on other architectures. They are read
// once, and are the caller's to read only.
//
// Nothing is cut by them: workers claim small pieces of work one by one, so that a core does as
// many as it is fast enough for (package device/cpu).
func CoreKinds() []CoreKind { return coreKinds() }

var coreKinds = sync.OnceValue(readCoreKinds)

// least has of each level the smaller size of those that are known, so that a blocking for it fits
// whichever core runs it.
func (c Caches) least(d Caches) Caches {
	return Caches{L1D: known(c.L1D, d.L1D), L2: known(c.L2, d.L2), L3: known(c.L3, d.L3)}
}

// known is the smaller of two sizes, of which 0 is none.
func known(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
