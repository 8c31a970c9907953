package cpuinfo

import (
	"cmp"
	"runtime"
	"sync"
)

// Caches holds the data cache sizes of one core, in bytes. L3 is the size of the cache the core can
// reach, which it usually shares with others.
type Caches struct {
	L1D, L2, L3 int
}

// farFrom is the size of a second cache from which the third is taken to be far.
const farFrom = 2 << 20

// ThirdFar reports whether the third cache is so far behind the second that a core which only reads
// what it needs waits for most of it. Server processors give a core a second cache of 2 MiB where
// the third is behind a mesh of the whole package, at 70 ns and more (Intel's from Sapphire Rapids
// on), and one of 1 MiB at most where it is beside some cores, at 10 to 15 ns (AMD's from Zen on).
// It goes by sizes and never by measuring, so that equal machines plan equally.
func (c Caches) ThirdFar() bool { return c.L2 >= farFrom }

// fallbackCaches are the smallest sizes found on the server processors of the last ten years that
// have AVX2, so that a blocking chosen from them never overflows a cache.
var fallbackCaches = Caches{L1D: 32 << 10, L2: 256 << 10, L3: 4 << 20}

// ModelName returns the processor's name as its maker gives it ("AMD EPYC 9654 96-Core Processor"),
// on arm64 with Linux those of its kinds of cores ("Cortex-A55 + Cortex-A76"), or the Go
// architecture ("amd64") where the operating system does not tell. It is read once.
func ModelName() string { return modelName() }

// CacheSizes returns the cache sizes of the first core, and of each level the smallest where there
// are cores of several kinds, see [CoreKinds]. A size that the operating system does not tell is
// replaced by a conservative one: 32 KiB, 256 KiB and 4 MiB. They are read once.
func CacheSizes() Caches { return cacheSizes() }

var modelName = sync.OnceValue(func() string {
	return cmp.Or(readModelName(), runtime.GOARCH)
})

var cacheSizes = sync.OnceValue(func() Caches {
	c := readCacheSizes()
	return Caches{
		L1D: cmp.Or(c.L1D, fallbackCaches.L1D),
		L2:  cmp.Or(c.L2, fallbackCaches.L2),
		L3:  cmp.Or(c.L3, fallbackCaches.L3),
	}
})
