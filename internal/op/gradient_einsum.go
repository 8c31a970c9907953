package op

import (
	"slices"
	"strings"
)

// gradEinsum: the gradient of an operand is the Einstein summation of the result's gradient with
// the other operands, over the labels that the operand lacks. A label that only this operand has
// was summed over, so that its gradient is repeated along it. A label that the operand has twice
// picks a diagonal, beside which the gradient is zero.
func gradEinsum(x *gradient) {
	ranks := make([]int, x.NumIn)
	for i := range ranks {
		ranks[i] = x.Rank(x.Input(i))
	}
	if x.Err != nil {
		return
	}
	e, err := parseEinsum(x.Call, ranks)
	if err != nil {
		x.Err = err
		return
	}
	for i := range ranks {
		if x.needs(i) {
			x.set(i, x.einsumBack(&e, i))
		}
	}
}

// einsumBack is the gradient of operand i.
func (x *gradient) einsumBack(e *equation, i int) Var {
	v := x.Input(i)
	letter := letters(e.labels())
	in, terms := []Var{x.d(0)}, []string{letter.term(e.out)}
	for j, labels := range e.in {
		if j != i {
			in, terms = append(in, x.Input(j)), append(terms, letter.term(labels))
		}
	}
	elsewhere := strings.Join(terms, "")
	var to string
	var alone []int64 // axes whose label is nowhere else
	for k, label := range e.in[i] {
		first := slices.Index(e.in[i], label)
		l := letter.of[label]
		switch {
		case first < k:
			again := letter.next()
			in, terms = append(in, x.diagonal(v, int64(k))), append(terms, l+again)
			to += again
		case !strings.Contains(elsewhere, l) && slices.Index(e.in[i][k+1:], label) < 0:
			alone = append(alone, int64(k))
		default:
			to += l
		}
	}
	if letter.n > len(alphabet) {
		x.Fail(ErrNoGradient, "the equation has more labels than there are letters")
		return Absent
	}
	equation := StringAttr("equation", strings.Join(terms, ",")+"->"+to)
	d := x.Op("Einsum", Attrs{equation}, in...)
	if len(alone) > 0 {
		d = x.Unsqueeze(d, alone...)
	}
	return x.unbroadcast(x.Op("Expand", nil, d, x.sizes(v)), v)
}

// diagonal is the identity matrix of the size of an axis.
func (x *gradient) diagonal(v Var, axis int64) Var {
	n := x.Dim(v, axis)
	return x.Op("EyeLike", nil, x.filled(x.Op("Concat", axisAttr(0), n, n), v, 0))
}

const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// lettering gives each label a letter, which those of an ellipsis have not of their own.
type lettering struct {
	of map[string]string
	n  int // letters that were asked for
}

func letters(labels []string) *lettering {
	l := &lettering{of: map[string]string{}}
	for _, label := range labels {
		l.of[label] = l.next()
	}
	return l
}

// next is a letter that no label has, "" when there is none.
func (l *lettering) next() string {
	l.n++
	if l.n > len(alphabet) {
		return ""
	}
	return alphabet[l.n-1 : l.n]
}

// term writes labels as letters.
func (l *lettering) term(labels []string) string {
	var b strings.Builder
	for _, label := range labels {
		b.WriteString(l.of[label])
	}
	return b.String()
}
