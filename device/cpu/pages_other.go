//go:build !linux

package cpu

// mapping is memory on pages of whatever size the system takes. The zero value is empty.
type mapping struct {
	bytes  []byte
	mapped []byte // what of it was mapped for it; nil where it is the Go heap's or of others
}

// populate, leaveHuge and enlarge leave pages to the system.
func (m *mapping) populate(int, int) (dear bool) { return false }
func (m *mapping) leaveHuge()                    {}
func (m *mapping) enlarge(bool)                  {}

// discard leaves the memory where it is: no system but Linux gives up single pages and has them
// read as zero.
func (m *mapping) discard(from, to, first, last int64) {}

// blocks and move leave all memory to the buffer that has it.
func (m *mapping) blocks(from, to int64) (begin, end int64)        { return 0, 0 }
func (m *mapping) move(at int64, from *mapping, fromAt int64) bool { return false }

// dearFor is how long a huge page that was dear speaks for others.
const dearFor = 0
