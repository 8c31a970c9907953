package dist

import "os"

// Links are the connections of one process with the others that it trains with: to the leader, or
// of the leader to all; to its neighbours on the ring; and the memory that all map.
type Links struct {
	Rank, Ranks int
	control     []*os.File // by rank; a worker has that of the leader alone
	in, out     *os.File   // from the left neighbour, and to the right
	memory      *os.File
}

// Files are what a worker is started with, from descriptor 3 on.
func (l *Links) Files() []*os.File { return []*os.File{l.control[0], l.in, l.out, l.memory} }

// Close closes what is open. It is called when a worker was started with Files; a [Team] closes
// its own.
func (l *Links) Close() {
	if l == nil {
		return
	}
	for _, f := range append([]*os.File{l.in, l.out, l.memory}, l.control...) {
		if f != nil {
			_ = f.Close() // nothing is written to it
		}
	}
}
