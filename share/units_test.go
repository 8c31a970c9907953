package share

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestUnitSetText holds the text of sets of units against one that is made a unit at a time, and
// that it is read back.
func TestUnitSetText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	sets := []UnitSet{{}, UnitRange(0, MaxUnits), UnitsOf(MaxUnits - 1), UnitRange(60, 8)}
	for range 500 {
		var s UnitSet
		for range r.IntN(5) {
			from := r.IntN(MaxUnits)
			s = s.Union(UnitRange(from, min(1+r.IntN(1+r.IntN(70)), MaxUnits-from)))
		}
		sets = append(sets, s)
	}
	for _, s := range sets {
		var parts []string
		for u := range MaxUnits {
			switch {
			case !s.Has(u) || s.Has(u-1) && s.Has(u+1):
			case s.Has(u - 1):
				parts[len(parts)-1] += fmt.Sprint("-", u)
			default:
				parts = append(parts, fmt.Sprint(u))
			}
		}
		want := strings.Join(parts, ",")
		if s.Empty() {
			want = "none"
		}
		var read UnitSet
		if text, err := s.MarshalText(); err != nil || string(text) != want || s.String() != want {
			t.Fatalf("%q, %v, want %q", text, err, want)
		} else if err := read.UnmarshalText(text); err != nil || read != s {
			t.Fatalf("%q reads back as %q, %v", text, read, err)
		}
	}
}
