package op

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Dim is one dimension of a shape: an integer polynomial over named symbols ("N", "H"), of which a
// known size is the constant case. The zero Dim is the known size 0. Dims are immutable values;
// compare them with [Dim.Equal].
type Dim struct {
	c       int64
	terms   []term // sorted by atoms, coefficients non-zero
	unknown bool
}

type term struct {
	coef  int64
	atoms string // symbols and opaque sub-expressions, sorted, joined by "·"
}

const atomSep = "·"

// Known makes the dimension n.
//
//go:noinline
func Known(n int) Dim { return Dim{c: int64(n)} }

// Sym makes a symbolic dimension. Two symbols are the same size exactly when their names are the
// same.
func Sym(name string) Dim {
	if name == "" {
		return Unknown()
	}
	return Dim{terms: []term{{1, name}}}
}

// Unknown makes a dimension of which nothing is known; it equals no other, not even itself. Shape
// inference over a graph gives each one a symbol of its own.
//
//go:noinline
func Unknown() Dim { return Dim{unknown: true} }

// Int returns the size and true when it is known.
//
//go:noinline
func (d Dim) Int() (int, bool) { return int(d.c), !d.unknown && len(d.terms) == 0 }

// IsUnknown reports whether nothing at all is known of d.
func (d Dim) IsUnknown() bool { return d.unknown }

// opaque makes a symbol of an expression that is no polynomial; its text stands for it.
func opaque(format string, args ...any) Dim {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), atomSep, "*")
	if len(text) > maxText {
		return Unknown()
	}
	return Sym(text)
}

// maxTerms and maxText bound the terms of a dimension and the bytes of their symbols; what is
// longer is Unknown. Without a bound a model of a hundred nodes could double an expression a
// hundred times.
const (
	maxTerms = 64
	maxText  = 1024
)

// atoms returns the symbols and opaque expressions that d is made of.
func (d Dim) atoms() []string {
	var out []string
	for _, t := range d.terms {
		out = append(out, strings.Split(t.atoms, atomSep)...)
	}
	return out
}

// Equal reports whether d and e are the same size for every value of the symbols.
//
//go:noinline
func (d Dim) Equal(e Dim) bool {
	return !d.unknown && !e.unknown && d.c == e.c && slices.Equal(d.terms, e.terms)
}

// Is reports whether d is known to be n.
func (d Dim) Is(n int) bool { v, ok := d.Int(); return ok && v == n }

func (t term) String() string {
	switch t.coef {
	case 1:
		return t.atoms
	case -1:
		return "-" + t.atoms
	}
	return fmt.Sprintf("%d%s%s", t.coef, atomSep, t.atoms)
}

// String prints "3", "N", "2·H + 1" or "?".
func (d Dim) String() string {
	if d.unknown {
		return "?"
	}
	if len(d.terms) == 0 {
		return strconv.FormatInt(d.c, 10)
	}
	var b strings.Builder
	for i, t := range d.terms {
		switch {
		case i > 0 && t.coef < 0:
			b.WriteString(" - ")
			t.coef = -t.coef
		case i > 0:
			b.WriteString(" + ")
		}
		b.WriteString(t.String())
	}
	if d.c > 0 {
		fmt.Fprintf(&b, " + %d", d.c)
	} else if d.c < 0 {
		fmt.Fprintf(&b, " - %d", -d.c)
	}
	return b.String()
}

// Add returns d + e. Sums, differences and products that leave the int64 range are Unknown.
func (d Dim) Add(e Dim) Dim {
	if d.unknown || e.unknown {
		return Unknown()
	}
	c, ok := addInt(d.c, e.c)
	terms, ok2 := collect(append(slices.Clone(d.terms), e.terms...))
	if !ok || !ok2 {
		return Unknown()
	}
	return Dim{c: c, terms: terms}
}

// Sub returns d - e.
func (d Dim) Sub(e Dim) Dim { return d.Add(e.Mul(Known(-1))) }

// AddInt returns d + n.
//
//go:noinline
func (d Dim) AddInt(n int) Dim { return d.Add(Known(n)) }

// Mul returns d · e.
func (d Dim) Mul(e Dim) Dim {
	if d.Is(0) || e.Is(0) {
		return Known(0)
	}
	if d.unknown || e.unknown || len(d.terms)*len(e.terms) > 64 {
		return Unknown()
	}
	c, ok := mulInt(d.c, e.c)
	all := make([]term, 0, (len(d.terms)+1)*(len(e.terms)+1))
	for _, t := range append(d.terms[:len(d.terms):len(d.terms)], term{d.c, ""}) {
		for _, u := range append(e.terms[:len(e.terms):len(e.terms)], term{e.c, ""}) {
			p, fits := mulInt(t.coef, u.coef)
			ok = ok && fits
			if atoms := mulAtoms(t.atoms, u.atoms); atoms != "" {
				all = append(all, term{p, atoms})
			}
		}
	}
	terms, ok2 := collect(all)
	if !ok || !ok2 {
		return Unknown()
	}
	return Dim{c: c, terms: terms}
}

// MulInt returns d · n.
//
//go:noinline
func (d Dim) MulInt(n int) Dim { return d.Mul(Known(n)) }

// FloorDiv returns ⌊d / n⌋ for n > 0, exact when every coefficient divides, an opaque expression
// otherwise.
func (d Dim) FloorDiv(n int) Dim { return d.div(int64(n), "floor") }

// CeilDiv returns ⌈d / n⌉ for n > 0.
func (d Dim) CeilDiv(n int) Dim { return d.div(int64(n), "ceil") }

func (d Dim) div(n int64, round string) Dim {
	if d.unknown || n <= 0 {
		return Unknown()
	}
	if n == 1 {
		return d
	}
	exact := true
	terms := make([]term, 0, len(d.terms))
	for _, t := range d.terms {
		exact = exact && t.coef%n == 0
		terms = append(terms, term{t.coef / n, t.atoms})
	}
	if !exact {
		return opaque("%s((%v)/%d)", round, d, n)
	}
	q, r := d.c/n, d.c%n
	if r < 0 {
		q, r = q-1, r+n
	}
	if round == "ceil" && r > 0 {
		q++
	}
	return Dim{c: q, terms: terms}
}

// orZero returns the larger of d and 0.
func (d Dim) orZero() Dim {
	n, known := d.Int()
	switch {
	case known:
		return Known(max(n, 0))
	case d.unknown || d.nonNegative():
		return d
	}
	return opaque("max(%v, 0)", d)
}

// least returns the smaller of two sizes.
func (d Dim) least(e Dim) Dim {
	switch {
	case d.Is(0) || e.Is(0):
		return Known(0)
	case d.unknown || e.unknown:
		return Unknown()
	case d.Sub(e).nonNegative():
		return e
	case e.Sub(d).nonNegative():
		return d
	}
	if _, known := d.Int(); known {
		d, e = e, d
	}
	return opaque("min(%v, %v)", d, e)
}

// isCutOf reports whether d is the smaller of e and a known size ([Dim.least]).
func (d Dim) isCutOf(e Dim) bool {
	known, ok := strings.CutPrefix(d.String(), e.leastPrefix())
	known, closed := strings.CutSuffix(known, ")")
	_, err := strconv.Atoi(known)
	return ok && closed && err == nil && d.Equal(Sym(d.String()))
}

func (d Dim) leastPrefix() string {
	return strings.ReplaceAll("min("+d.String()+", ", atomSep, "*")
}

// Quotient returns d / e when it is an exact polynomial quotient that can be seen (equal, constant
// divisor, or a single product of symbols that e divides term by term); otherwise Unknown. Reshape
// uses it for its -1.
func (d Dim) Quotient(e Dim) Dim {
	if n, ok := e.Int(); ok {
		if v, known := d.Int(); known && n > 0 && v%n != 0 {
			return Unknown()
		}
		return d.FloorDiv(n)
	}
	if d.Equal(e) {
		return Known(1)
	}
	if d.unknown || e.unknown || e.c != 0 || len(e.terms) != 1 || d.c != 0 {
		return Unknown()
	}
	return d.quotient(e.terms[0])
}

// quotient divides each term of d, which has no constant, by div; Unknown when one is no multiple.
func (d Dim) quotient(div term) Dim {
	var out Dim
	for _, t := range d.terms {
		atoms, ok := divAtoms(t.atoms, div.atoms)
		if !ok || t.coef%div.coef != 0 {
			return Unknown()
		}
		quotient := Known(int(t.coef / div.coef))
		if atoms != "" {
			quotient = Dim{terms: []term{{t.coef / div.coef, atoms}}}
		}
		out = out.Add(quotient)
	}
	return out
}

// Eval returns the size of d when every symbol has a value in env; the opaque expressions that
// divisions leave are looked up by their text like symbols.
func (d Dim) Eval(env map[string]int) (int, bool) {
	if d.unknown {
		return 0, false
	}
	sum := d.c
	for _, t := range d.terms {
		p := t.coef
		for _, a := range strings.Split(t.atoms, atomSep) {
			v, ok := env[a]
			if !ok {
				return 0, false
			}
			p *= int64(v)
		}
		sum += p
	}
	return int(sum), true
}

func mulAtoms(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	all := append(strings.Split(a, atomSep), strings.Split(b, atomSep)...)
	slices.Sort(all)
	return strings.Join(all, atomSep)
}

func divAtoms(a, b string) (string, bool) {
	have := strings.Split(a, atomSep)
	for _, want := range strings.Split(b, atomSep) {
		i := slices.Index(have, want)
		if i < 0 {
			return "", false
		}
		have = slices.Delete(have, i, i+1)
	}
	return strings.Join(have, atomSep), true
}

// sortTerms sorts terms by their atoms: with gaps that halve (Shell 1959), since a generic sort
// takes the program thousands of bytes.
func sortTerms(ts []term) {
	for gap := len(ts) / 2; gap > 0; gap /= 2 {
		for i := gap; i < len(ts); i++ {
			for k := i; k >= gap && ts[k].atoms < ts[k-gap].atoms; k -= gap {
				ts[k], ts[k-gap] = ts[k-gap], ts[k]
			}
		}
	}
}

// collect sorts terms and merges those with the same atoms; false when a coefficient overflows or
// the expression becomes too long.
func collect(ts []term) ([]term, bool) {
	sortTerms(ts)
	out := ts[:0]
	for _, t := range ts {
		if n := len(out); n > 0 && out[n-1].atoms == t.atoms {
			sum, ok := addInt(out[n-1].coef, t.coef)
			if !ok {
				return nil, false
			}
			out[n-1].coef = sum
			continue
		}
		out = append(out, t)
	}
	out = slices.DeleteFunc(out, func(t term) bool { return t.coef == 0 })
	if len(out) == 0 {
		return nil, true
	}
	text := 0
	for _, t := range out {
		text += len(t.atoms)
	}
	return out, len(out) <= maxTerms && text <= maxText
}

func addInt(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}

func mulInt(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	p := a * b
	return p, p/b == a && (a != -1 || b != math.MinInt64) && (b != -1 || a != math.MinInt64)
}

// DivInt returns d / n; ok is false when d is known and no multiple of n.
func (d Dim) DivInt(n int) (q Dim, ok bool) {
	q = d.Quotient(Known(n))
	_, known := d.Int()
	return q, !known || !q.IsUnknown()
}

// MayEqual reports whether two dimensions can be the same size.
//
//go:noinline
func (d Dim) MayEqual(e Dim) bool {
	m, ok := d.Int()
	n, ok2 := e.Int()
	return !ok || !ok2 || m == n
}
