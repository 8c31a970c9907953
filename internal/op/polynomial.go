package op

import (
	"iter"
	"strings"
)

// Terms yields the dimension as a polynomial: each coefficient with the symbols that it multiplies,
// sorted by symbols, and the constant last, with no symbols, when it is not 0. The known size 0 and
// an unknown dimension yield nothing. The sum of the products is d again: Known(coef) times Sym of
// each symbol.
func (d Dim) Terms() iter.Seq2[int64, []string] {
	return func(yield func(int64, []string) bool) {
		for _, t := range d.terms {
			if !yield(t.coef, strings.Split(t.atoms, atomSep)) {
				return
			}
		}
		if d.c != 0 {
			yield(d.c, nil)
		}
	}
}

// TimesSign is what separates the symbols of a product in [Dim.String]; no single symbol can
// contain it.
const TimesSign = atomSep
