package attention

import (
	"math"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// byRows computes few queries of a head, no more than the rows of a tile: their scores fit into a
// few rows, which are normalised as rows are. The time goes into reading keys and values, each
// once.
func (x *chunk) byRows() {
	p, n := &x.p, x.n
	lo, hi := x.reach(0, n)
	keys := hi - lo
	s, packed := x.s[:n*keys], x.s[n*p.Keys:][:n*keys]
	x.scores(s, lo, keys)
	for i := range n {
		row := s[i*keys:][:keys]
		x.maskRow(row, i, lo)
		if p.Zero && x.allHidden(i) {
			clear(row)
			continue
		}
		x.softmax(row)
	}
	gemm.F32.PackA(packed, s, n, keys, 0, false)
	x.weighFew(packed, lo, keys)
}

// softmax turns scores into weights. A sink, if there is one, takes its share: the greatest weight
// is that of the greatest score, whose exponential less that score is 1, so it tells by what the
// sum of exponentials was divided.
func (x *chunk) softmax(s []float32) {
	if !x.p.Sink || len(s) == 0 {
		vec.Softmax(s, s)
		return
	}
	peak := vec.MaxReduce(s)
	if math.IsInf(float64(peak), -1) {
		clear(s)
		return
	}
	vec.Softmax(s, s)
	beside := math.Exp(float64(x.a.Sinks[x.head]-peak)) * float64(vec.MaxReduce(s))
	vec.MulScalar(s, s, float32(1/(1+beside)))
}

// unseen is the result of a query that sees no key.
func (p *Params) unseen() float32 {
	if p.Sink || p.Zero && math.IsInf(float64(p.Hidden), -1) {
		return 0
	}
	return float32(math.NaN())
}

// eachQuery computes queries one by one, each of which reads no key but those it sees. s is scratch
// for their scores.
func (x *chunk) eachQuery(s []float32) {
	p := &x.p
	for i := x.first; i < x.first+x.n; i++ {
		lo, hi := p.sees(x.a, x.batch, i)
		row, q := s[:hi-lo], x.a.Q[p.Q.at(x.batch, x.head, i):][:p.Size]
		for k := range row {
			row[k] = p.Scale * vec.Dot(q, x.keys[(lo+k)*p.K.Row:][:p.Size])
		}
		x.maskRow(row, i, lo)
		x.softmax(row)
		y := x.a.Y[p.Y.at(x.batch, x.head, i):][:p.ValueSize]
		for d := range y {
			sum := 0.0
			for k, w := range row {
				sum += float64(w) * float64(x.values[(lo+k)*p.V.Row+d])
			}
			y[d] = float32(sum)
		}
		if len(row) == 0 {
			vec.Fill(y, p.unseen())
		}
	}
}

// scores sets the scaled products of the queries with n keys from lo on.
func (x *chunk) scores(s []float32, lo, n int) {
	p, w := &x.p, x.width
	q := x.a.Q[p.Q.at(x.batch, x.head, 0):]
	if x.n == 1 {
		for k := range n {
			s[k] = p.Scale * vec.Dot(q[:p.Size], x.keys[(lo+k)*p.K.Row:][:p.Size])
		}
		return
	}
	gemm.F32.PackA(x.q, q, x.n, p.Size, p.Q.Row, false)
	for k := 0; k < n; k += w {
		cols := min(w, n-k)
		gemm.F32.PackB(x.k, x.keys[(lo+k)*p.K.Row:], p.Size, cols, p.K.Row, true)
		gemm.F32.Multiply(
			&gemm.BlockPanel{
				A:     x.q,
				B:     x.k,
				C:     s[k:],
				LdC:   n,
				Rows:  x.n,
				Cols:  cols,
				K:     p.Size,
				Alpha: p.Scale,
			},
		)
	}
}

// maskRow applies to the scores of query i, for keys from lo on, all that comes before the softmax.
func (x *chunk) maskRow(s []float32, i, lo int) {
	p := &x.p
	if p.Cap != 0 {
		for k := range s {
			s[k] /= p.Cap
		}
		vec.Tanh(s, s)
		for k := range s {
			s[k] *= p.Cap
		}
	}
	from, to := p.sees(x.a, x.batch, i)
	x.hideRow(s[:min(max(from-lo, 0), len(s))])
	x.hideRow(s[min(max(to-lo, 0), len(s)):])
	if m := p.Keep; m.Given {
		for k := range s {
			if x.a.Keep[m.element(x.batch, x.head, i, lo+k)] == 0 {
				x.hideRow(s[k : k+1])
			}
		}
	}
	if m := p.Bias; m.Given && !m.Single && len(s) > 0 {
		vec.Add(s, s, x.a.Bias[m.element(x.batch, x.head, i, lo):][:len(s)])
	} else if m.Given {
		for k := range s {
			s[k] += x.a.Bias[m.at(x.batch, x.head, i)]
		}
	}
}

// hideRow hides keys whose scores are given, before any mask is added.
func (x *chunk) hideRow(s []float32) {
	if !x.p.Added {
		vec.Fill(s, x.p.Hidden)
		return
	}
	for i := range s {
		s[i] += x.p.Hidden
	}
}

// weighKeys is how many keys have their weighted values added up one after another.
const weighKeys = 1024

// weighFew adds up n values from lo on with the packed weights s, a tile's rows of them, a block of
// keys at a time. Columns that fill no panel are packed.
func (x *chunk) weighFew(s []float32, lo, n int) {
	p, w := &x.p, x.width
	y := x.a.Y[p.Y.at(x.batch, x.head, 0):]
	if n == 0 {
		for i := range x.n {
			vec.Fill(y[i*p.Y.Row:][:p.ValueSize], p.unseen())
		}
		return
	}
	for j := 0; j < p.ValueSize; j += w {
		from, ld := x.values[lo*p.V.Row+j:], max(p.V.Row, p.ValueSize)
		m := gemm.BlockPanel{
			LdB:   ld,
			C:     y[j:],
			LdC:   max(p.Y.Row, p.ValueSize),
			Rows:  x.n,
			Cols:  min(w, p.ValueSize-j),
			Alpha: 1,
		}
		if m.Cols < w {
			gemm.F32.PackB(x.k, from, n, m.Cols, ld, false)
			from, ld, m.LdB = x.k, w, 0
		}
		for k := 0; k < n; k += weighKeys {
			m.A, m.B, m.K, m.Add = s[k*x.n:], from[k*ld:], min(weighKeys, n-k), k > 0
			gemm.F32.Multiply(&m)
		}
	}
}
