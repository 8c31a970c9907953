package device

import (
	"math/rand/v2"
	"testing"
)

// TestStretches compares a set with one that has a mark for each byte, over random changes.
func TestStretches(t *testing.T) {
	const size = 24
	r := rand.New(rand.NewPCG(13, 0))
	for range 200 {
		var s Stretches
		var in [size]bool
		for range 40 {
			from, to := r.Int64N(size+1), r.Int64N(size+1)
			missing, meets := int64(0), false
			for i := from; i < to; i++ {
				if in[i] {
					meets = true
				} else {
					missing++
				}
			}
			if got := s.Missing(from, to); got != missing || s.Meets(from, to) != meets {
				t.Fatalf("%v: %d of %d to %d are missing, want %d; meets: %v", s.list, got, from,
					to, missing, !meets)
			}
			add := r.IntN(2) == 0
			for i := from; i < to; i++ {
				in[i] = add
			}
			if !add {
				s.Remove(from, to)
			} else if added, first, last := s.Add(from, to); added != missing ||
				from < to && (first != begin(in[:], from) || last != end(in[:], from)) {
				t.Fatalf("%v: %d to %d added %d of %d, now in %d to %d", s.list, from, to, added,
					missing, first, last)
			}
			var n int64
			for i, want := range in {
				if s.Meets(int64(i), int64(i)+1) != want {
					t.Fatalf("%v: byte %d is in it: %v", s.list, i, !want)
				}
				if want {
					n++
				}
			}
			if s.Len() != n {
				t.Fatalf("%v: %d bytes, want %d", s.list, s.Len(), n)
			}
		}
	}
}

// begin and end are those of the run of marks around one.
func begin(in []bool, at int64) int64 {
	for at > 0 && in[at-1] {
		at--
	}
	return at
}

func end(in []bool, at int64) int64 {
	for at < int64(len(in)) && in[at] {
		at++
	}
	return at
}
