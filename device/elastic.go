package device

import "slices"

// Elastic is implemented by buffers of which stretches can be given back and taken again, at the
// same addresses, while the rest stays and is used. Its methods may be called by any number of
// goroutines until Free. They count each byte once, whichever stretches overlap.
type Elastic interface {
	Buffer

	// Decommit gives the bytes from one offset to before another back, and returns how many of them
	// were held: [Device] Held is less by so many. Nobody may use them until Commit. Their contents
	// are lost, but those of memory of the caller's ([Wrapper]), which is left alone. Memory goes
	// back to the system in whole pages, a page when all of its bytes are given back; a device may
	// keep it for part of a second for who commits next, as long as it never has more than it held
	// at some time. A stretch that leaves the buffer is cut to it.
	Decommit(from, to int64) int64

	// Commit takes those of the bytes again that were given back, all of them or none, and returns
	// how many it took. What they contain is undefined until they are written. The errors are those
	// of [Device] Alloc, and of kind [ErrBounds] for a buffer that has been freed.
	Commit(from, to int64) (int64, error)
}

// Stretches is a set of bytes of a buffer, as stretches from one offset to before another. The zero
// value is empty. It is not safe for concurrent use.
type Stretches struct{ list []stretch }

// stretch is bytes from to before to. Those of a list are in order and do not touch.
type stretch struct{ from, to int64 }

// Len returns the number of bytes in the set.
func (s *Stretches) Len() (n int64) {
	for _, x := range s.list {
		n += x.to - x.from
	}
	return n
}

// Meets reports whether any byte of a stretch is in the set.
func (s *Stretches) Meets(from, to int64) bool {
	i := s.after(from)
	return from < to && i < len(s.list) && s.list[i].from < to
}

// after is the first stretch of the list that ends after an offset.
func (s *Stretches) after(at int64) int {
	i, _ := slices.BinarySearchFunc(s.list, at, func(x stretch, at int64) int {
		if x.to > at {
			return 1
		}
		return -1
	})
	return i
}

// Add puts a stretch into the set. It returns how many of its bytes were not in it, and the whole
// stretch of the set that it is then part of.
func (s *Stretches) Add(from, to int64) (added, first, last int64) {
	if from >= to {
		return 0, from, from
	}
	i := s.after(from - 1) // a stretch that ends at from is joined
	j := i
	first, last, added = from, to, to-from
	for ; j < len(s.list) && s.list[j].from <= to; j++ {
		x := s.list[j]
		added -= max(0, min(x.to, to)-max(x.from, from))
		first, last = min(first, x.from), max(last, x.to)
	}
	s.list = slices.Replace(s.list, i, j, stretch{first, last})
	return added, first, last
}

// Missing returns how many bytes of a stretch are not in the set.
func (s *Stretches) Missing(from, to int64) int64 {
	n := max(0, to-from)
	for i := s.after(from); n > 0 && i < len(s.list) && s.list[i].from < to; i++ {
		n -= min(s.list[i].to, to) - max(s.list[i].from, from)
	}
	return n
}

// Remove takes a stretch out of the set.
func (s *Stretches) Remove(from, to int64) {
	if from >= to {
		return
	}
	i := s.after(from)
	j := i
	var rest [2]stretch
	left := rest[:0]
	for ; j < len(s.list) && s.list[j].from < to; j++ {
		if x := s.list[j]; x.from < from {
			left = append(left, stretch{x.from, from})
		}
		if x := s.list[j]; x.to > to {
			left = append(left, stretch{to, x.to})
		}
	}
	s.list = slices.Replace(s.list, i, j, left...)
}
