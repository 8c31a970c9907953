package attention

import (
	"encoding/binary"
	"math"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// keyBias reports whether the bias is one number a key, which the product adds.
func (x *chunk) keyBias() bool {
	b := x.p.Bias
	return b.Given && b.Row == 0 && !b.Single && x.p.Cap == 0
}

// masks applies to scores all that the product has not applied: the cap, hiding, and the bias. s
// holds the scores of cols queries from j and of len(s)/width keys from k.
func (x *chunk) masks(s []float32, j, cols, k int) {
	if x.p.Cap != 0 {
		vec.Tanh(s, s)
		vec.Fill(x.factor, x.p.Cap)
		vec.MulRows(s, x.factor)
	}
	x.hideByPlace(s, j, cols, k)
	if x.p.Keep.Given {
		x.hideByMask(s, j, cols, k)
	}
	if x.p.Bias.Given && !x.keyBias() {
		x.addBias(s, j, cols, k)
	}
}

// hidden is the score of a hidden key, with what the product would have added.
func (x *chunk) hidden(k int) float32 {
	if x.keyBias() {
		return x.p.Hidden + x.a.Bias[x.p.Bias.at(x.batch, x.head, 0)+k]
	}
	return x.p.Hidden
}

// hideByPlace hides keys that a query may not see by position. The range of keys that a query sees
// begins and ends no earlier than that of the query before it, so that the queries which see a key
// are neighbours.
func (x *chunk) hideByPlace(s []float32, j, cols, k int) {
	p, w, n := &x.p, x.width, len(s)/x.width
	i := x.first + j
	lo, _ := p.sees(x.a, x.batch, i+cols-1)
	_, hi := p.sees(x.a, x.batch, i)
	if lo <= k && k+n <= hi {
		return
	}
	from, to := 0, 0 // the queries that see a key
	for r := range n {
		for from < cols && seenUntil(p, x.a, x.batch, i+from) <= k+r {
			from++
		}
		for to < cols && seenFrom(p, x.a, x.batch, i+to) <= k+r {
			to++
		}
		row := s[r*w:][:cols]
		x.hide(row[:min(from, cols)], k+r)
		x.hide(row[max(to, from):], k+r)
	}
}

// hide hides key k from the queries whose scores are given.
func (x *chunk) hide(s []float32, k int) {
	if !x.p.Added {
		vec.Fill(s, x.hidden(k))
		return
	}
	for i := range s {
		s[i] += x.p.Hidden
	}
}

// allHidden reports whether query i sees no key.
func (x *chunk) allHidden(i int) bool {
	p := &x.p
	if !math.IsInf(float64(p.Hidden), -1) {
		return false
	}
	for k, hi := p.sees(x.a, x.batch, i); k < hi; k++ {
		kept := !p.Keep.Given || x.a.Keep[p.Keep.element(x.batch, x.head, i, k)] != 0
		if kept &&
			(!p.Bias.Given || !math.IsInf(float64(x.a.Bias[p.Bias.element(x.batch, x.head, i, k)]),
				-1)) {
			return false
		}
	}
	return true
}

func seenUntil(p *Params, a *Args, batch, i int) int { _, hi := p.sees(a, batch, i); return hi }

func seenFrom(p *Params, a *Args, batch, i int) int { lo, _ := p.sees(a, batch, i); return lo }

// hideByMask hides where Keep is 0, of which it looks at eight at a time.
func (x *chunk) hideByMask(s []float32, j, cols, k int) {
	const all = 0x0101010101010101
	m, w, n := x.p.Keep, x.width, len(s)/x.width
	for c := range cols {
		at := m.at(x.batch, x.head, x.first+j+c)
		if m.Single {
			for r := 0; x.a.Keep[at] == 0 && r < n; r++ {
				x.hide(s[r*w+c:][:1], k+r)
			}
			continue
		}
		keep := x.a.Keep[at+k:][:n]
		for r := 0; r < n; r++ {
			if r+8 <= n && binary.LittleEndian.Uint64(keep[r:]) == all {
				r += 7
				continue
			}
			if keep[r] == 0 {
				x.hide(s[r*w+c:][:1], k+r)
			}
		}
	}
}

// addBias adds a mask that the product could not.
func (x *chunk) addBias(s []float32, j, cols, k int) {
	m, w, n := x.p.Bias, x.width, len(s)/x.width
	at := m.at(x.batch, x.head, x.first+j)
	bias := x.bias[:len(s)]
	switch {
	case m.Single:
		for c := range cols {
			x.factor[c] = x.a.Bias[at+c*m.Row]
		}
		for r := range n {
			copy(bias[r*w:], x.factor[:cols])
		}
	case m.Row == 0:
		for r := range n {
			vec.Fill(bias[r*w:][:w], x.a.Bias[at+k+r])
		}
	default:
		vec.Transpose(bias, x.a.Bias[at+k:], cols, n, w, max(m.Row, n))
	}
	vec.Add(s, s, bias)
}
