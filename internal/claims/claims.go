package claims

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// Claim is something that is promised, with what was measured of it in each round.
type Claim struct {
	Name   string    `json:"name"`
	Median float64   `json:"median"` // of the rounds
	Rounds []float64 `json:"rounds"`
	Bound  float64   `json:"bound"`
	// Most says that the bound is the most allowed, not the least.
	Most bool `json:"bound_is_most"`
	Held bool `json:"held"`
}

// Book is a list of claims. The zero value is an empty one.
type Book []Claim

// Check records one round's value of the claim of this name. Bound and most are those of the first
// round.
func (b *Book) Check(name string, value, bound float64, most bool) {
	i := slices.IndexFunc(*b, func(c Claim) bool { return c.Name == name })
	if i < 0 {
		*b = append(*b, Claim{Name: name, Bound: bound, Most: most})
		i = len(*b) - 1
	}
	(*b)[i].Rounds = append((*b)[i].Rounds, value)
}

// Distance returns the norm of the difference of two vectors of a length in parts of that of the
// second, which must not be 0.
func Distance(got, want []float32) float64 {
	var d, n float64
	for i, v := range want {
		d += (float64(got[i]) - float64(v)) * (float64(got[i]) - float64(v))
		n += float64(v) * float64(v)
	}
	return math.Sqrt(d / n)
}

// Median returns the median, of an even number the upper one; the zero value of none.
func Median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Judge compares the median of each claim's rounds with its bound, writes a line about each, and
// reports whether all held.
func (b Book) Judge(w io.Writer) bool {
	all := true
	for i := range b {
		c := &b[i]
		c.Median = Median(c.Rounds)
		relation, verdict := "at least", "MISSED"
		if c.Held = c.Median >= c.Bound; c.Most {
			c.Held, relation = c.Median <= c.Bound, "at most"
		}
		if c.Held {
			verdict = "held"
		}
		all = all && c.Held
		fmt.Fprintf(w, "%-6s  %s: %.3f (%s %g; rounds %.3f)\n", verdict, c.Name, c.Median, relation,
			c.Bound, c.Rounds)
	}
	return all
}
