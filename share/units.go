package share

import (
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxUnits is the most compute units that a device may have. Devices of more are described in
// groups of units, such as pairs of cores.
const MaxUnits = 512

// UnitSet is a set of compute units of one device, numbered from 0. The zero value is empty. Sets
// are values: they may be copied and compared with ==.
type UnitSet struct{ words [MaxUnits / 64]uint64 }

// UnitRange returns the n units from first on. Units beyond [MaxUnits], or below 0, are left out.
func UnitRange(first, n int) UnitSet {
	var s UnitSet
	for u := max(0, first); u < min(MaxUnits, first+n); {
		if u%64 == 0 && first+n-u >= 64 {
			s.words[u/64] = ^uint64(0)
			u += 64
			continue
		}
		s.words[u/64] |= 1 << (u % 64)
		u++
	}
	return s
}

// UnitsOf returns the set of these units; numbers outside of 0 to [MaxUnits] are left out.
func UnitsOf(units ...int) UnitSet {
	var s UnitSet
	for _, u := range units {
		s = s.Union(UnitRange(u, 1))
	}
	return s
}

// Len returns the number of units in the set.
func (s UnitSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Words returns the set as bits: bit u%64 of word u/64 is set when unit u is in the set.
func (s UnitSet) Words() [MaxUnits / 64]uint64 { return s.words }

// Empty reports whether the set has no units.
func (s UnitSet) Empty() bool {
	// Comparing with a literal calls the runtime, which costs several times as much.
	var any uint64
	for _, w := range s.words {
		any |= w
	}
	return any == 0
}

// Has reports whether unit u is in the set.
func (s UnitSet) Has(u int) bool {
	return u >= 0 && u < MaxUnits && s.words[u/64]>>(u%64)&1 != 0
}

// Union returns the units that are in either set.
func (s UnitSet) Union(o UnitSet) UnitSet {
	for i := range s.words {
		s.words[i] |= o.words[i]
	}
	return s
}

// Intersect returns the units that are in both sets.
func (s UnitSet) Intersect(o UnitSet) UnitSet {
	for i := range s.words {
		s.words[i] &= o.words[i]
	}
	return s
}

// Minus returns the units of s that are not in o.
func (s UnitSet) Minus(o UnitSet) UnitSet {
	for i := range s.words {
		s.words[i] &^= o.words[i]
	}
	return s
}

// Overlaps reports whether a unit is in both sets.
func (s UnitSet) Overlaps(o UnitSet) bool {
	for i := range s.words {
		if s.words[i]&o.words[i] != 0 {
			return true
		}
	}
	return false
}

// Contains reports whether all units of o are in s.
func (s UnitSet) Contains(o UnitSet) bool { return o.Minus(s).Empty() }

// First returns the n lowest units of the set, or all if it has no more.
func (s UnitSet) First(n int) UnitSet {
	var first UnitSet
	for i, w := range s.words {
		for ; w != 0 && n > 0; n-- {
			first.words[i] |= w & -w
			w &= w - 1
		}
	}
	return first
}

// All yields the units in rising order.
func (s UnitSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// String lists the units as ranges, such as "0-3,7"; an empty set is "none".
func (s UnitSet) String() string { return string(s.text()) }

func (s UnitSet) text() []byte {
	if s.Empty() {
		return []byte("none")
	}
	var b []byte
	for u := range s.All() {
		begins, ends := !s.Has(u-1), !s.Has(u+1)
		switch {
		case begins && len(b) > 0:
			b = append(b, ',')
		case ends && !begins:
			b = append(b, '-')
		}
		if begins || ends {
			b = strconv.AppendInt(b, int64(u), 10)
		}
	}
	return b
}

// MarshalText writes String's form.
func (s UnitSet) MarshalText() ([]byte, error) { return s.text(), nil }

// UnmarshalText reads String's form.
func (s *UnitSet) UnmarshalText(text []byte) error {
	*s = UnitSet{}
	if string(text) == "none" || len(text) == 0 {
		return nil
	}
	f := Faults{Object: "units"}
	for part := range strings.SplitSeq(string(text), ",") {
		from, to, ranged := strings.Cut(part, "-")
		lo, err := strconv.Atoi(from)
		hi := lo
		if err == nil && ranged {
			hi, err = strconv.Atoi(to)
		}
		if err != nil || lo < 0 || hi < lo || hi >= MaxUnits {
			f.add("range", strconv.Quote(part),
				"want numbers from 0 to "+strconv.Itoa(MaxUnits-1)+", such as 0-3,7")
			continue
		}
		*s = s.Union(UnitRange(lo, hi-lo+1))
	}
	return f.err()
}
