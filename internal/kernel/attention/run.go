package attention

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// chunk is one run of a chunk: queries first to first+n of a head.
type chunk struct {
	*Attention
	a           *Args
	batch, head int
	first, n    int

	// packed queries and keys, scores, masks beside them, weighted sums of values by panel
	q, k, s, bias, o []float32
	far              []float32 // those of blocks of keys long ago, nil when all are in o
	peak             []float32 // of each query
	sum              []float64 // of each query
	shift, factor    []float32 // of a panel, for one step
	part             []float32 // the sum of a panel's exponentials in one step
	keys, values     []float32 // from the first vector of the head on
	v, w             []float32 // where rounded: packed values of keys from to to, and weights
	from, to         int
	clean            bool // keys that some query does not see may be skipped
}

// Run computes chunk c of 0 <= c < Chunks. Scratch holds at least ScratchLen floats that no other
// call uses meanwhile; what it holds before does not matter.
func (o *Attention) Run(c int, a *Args, scratch []float32) {
	if c < 0 || c >= o.Chunks() || len(scratch) < o.ScratchLen() {
		panic(
			fmt.Sprintf("attention: chunk %d of %d with scratch %d of %d", c, o.Chunks(),
				len(scratch), o.ScratchLen()),
		)
	}
	p := &o.p
	x := chunk{
		Attention: o,
		a:         a,
		first:     c % o.blocks * o.rows,
		head:      c / o.blocks % p.Heads,
		batch:     c / o.blocks / p.Heads,
	}
	x.n = min(o.rows, p.Queries-x.first)
	take := func(n int) (part []float32) {
		part, scratch = scratch[:n:n], scratch[n:]
		return part
	}
	// What a panel holds beyond the last query is computed with and never written.
	x.q, x.k, x.s, x.bias, x.o = take(o.lenQ), take(o.lenK), take(o.lenS), take(o.lenBias),
		take(o.lenO)
	x.v, x.w = take(o.lenV), take(o.lenW)
	if o.lenState > 0 {
		x.far = take(o.lenFar)
		x.peak, x.sum = take(o.rows), vec.AsDoubles(take(2*o.rows+1))
		x.shift, x.factor, x.part = take(o.width), take(o.width), take(o.width)
	}
	kv := x.head / (p.Heads / p.KVHeads)
	if p.Keys > 0 {
		x.keys, x.values = a.K[p.K.at(x.batch, kv, 0):], a.V[p.V.at(x.batch, kv, 0):]
	}
	x.clean = x.finite()
	switch {
	case p.Blind && !x.clean:
		x.eachQuery(take(o.lenRow))
		return
	case o.few:
		x.byRows()
		return
	}
	vec.Fill(x.peak, float32(math.Inf(-1)))
	clear(x.sum)
	if p.Sink {
		vec.Fill(x.peak, a.Sinks[x.head])
		for i := range x.sum {
			x.sum[i] = 1
		}
	}
	clear(x.o)
	clear(x.far)
	for j := 0; j < x.n; j += o.width {
		from := a.Q[p.Q.at(x.batch, x.head, x.first+j):]
		x.p.Format.PackB(x.panelQ(j), from, p.Size, min(o.width, x.n-j), p.Q.Row, true)
	}
	x.walk()
	for j := 0; j < x.n; j += o.width {
		x.finish(j)
	}
}

// panelQ is the packed panel of queries from j.
func (x *chunk) panelQ(j int) []float32 {
	n := x.lenQ / (x.rows / x.width)
	return x.q[j/x.width*n:][:n]
}

// walk takes in the keys, a block at a time.
func (x *chunk) walk() {
	lo, hi := x.reach(0, x.n)
	for k0 := lo / x.Attention.keys * x.Attention.keys; k0 < hi; k0 += x.Attention.keys {
		n := min(x.Attention.keys, x.p.Keys-k0)
		x.p.Format.PackA(x.k, x.keys[k0*x.p.K.Row:], n, x.p.Size, x.p.K.Row, false)
		for j := 0; j < x.n; j += x.width {
			x.block(j, k0, n)
		}
		if len(x.far) > 0 && (k0/x.Attention.keys+1)%farBlocks == 0 {
			vec.Add(x.far, x.far, x.o)
			clear(x.o)
		}
	}
	if len(x.far) > 0 {
		vec.Add(x.o, x.o, x.far)
	}
}

// reach returns the keys that count for queries j to end of the chunk: those that at least one of
// these queries sees, or all keys when hidden ones may count too.
func (x *chunk) reach(j, end int) (lo, hi int) {
	if !x.clean || !math.IsInf(float64(x.p.Hidden), -1) {
		return 0, x.p.Keys
	}
	return x.seen(j, end)
}

// finite reports whether the values that some query of the chunk does not see by position are
// numbers, and, where hiding adds to scores, the keys as well: a weight of zero times anything else
// would show in results. Where Blind says that hidden keys do not count, it looks only at those
// that a block of keys, or a tile of it, takes in all the same.
func (x *chunk) finite() bool {
	p := &x.p
	lo, _ := p.sees(x.a, x.batch, x.first+x.n-1)
	_, hi := p.sees(x.a, x.batch, x.first)
	from, to := 0, p.Keys
	if p.Blind {
		from, to = x.seen(0, x.n)
		if !x.few {
			from, to = max(0, from-p.Format.PanelRows()), min(p.Keys, to+p.Format.PanelRows())
		}
	}
	for k := from; k < to; k++ {
		if k == lo && hi > lo {
			k = hi
			if k >= to {
				break
			}
		}
		v := x.values[k*p.V.Row:][:p.ValueSize]
		square := vec.Dot(v, v)
		if p.Added {
			key := x.keys[k*p.K.Row:][:p.Size]
			square += vec.Dot(key, key)
		}
		if square-square != 0 {
			return false
		}
	}
	return true
}

// seen returns the keys that one of queries j to end of the chunk may see by position.
func (x *chunk) seen(j, end int) (lo, hi int) {
	lo, _ = x.p.sees(x.a, x.batch, x.first+j)
	_, hi = x.p.sees(x.a, x.batch, x.first+end-1)
	return lo, hi
}

// block takes in n keys from k0 for the panel of queries from j: first those that it sees, then,
// where they may have any weight, those after and before.
func (x *chunk) block(j, k0, n int) {
	tile := x.p.Format.PanelRows()
	lo, hi := x.seen(j, min(j+x.width, x.n))
	a, b := min(max(lo-k0, 0), n)/tile*tile, min(ceilDiv(min(max(hi-k0, 0), n), tile)*tile, n)
	if a < b {
		x.step(j, k0, a, b)
	} else {
		a, b = 0, 0
	}
	if x.clean && math.IsInf(float64(x.p.Hidden), -1) {
		return
	}
	if b < n && !x.weightless(j, k0+b, k0+n) {
		x.step(j, k0, b, n)
	}
	if a > 0 && !x.weightless(j, k0, k0+a) {
		x.step(j, k0, 0, a)
	}
}

// leastExp is below every x whose exponential, in float32, is not zero.
const leastExp = -104

// weightless reports whether hidden keys k0 to k1 have no weight beside the greatest scores so far.
func (x *chunk) weightless(j, k0, k1 int) bool {
	p, most := &x.p, x.p.Hidden
	switch {
	case !x.clean || p.Bias.Given && p.Bias.Row != 0:
		return false
	case p.Bias.Given && p.Bias.Single:
		most += x.a.Bias[p.Bias.at(x.batch, x.head, 0)]
	case p.Bias.Given:
		most += vec.MaxReduce(x.a.Bias[p.Bias.at(x.batch, x.head, 0):][k0:k1])
	}
	return most-vec.MinReduce(x.peak[j:min(j+x.width, x.n)]) < leastExp
}

// step takes in rows r0 to r1 of the block of keys from k0, r0 the first of a tile and r1 the end
// of one, or of the block.
func (x *chunk) step(j, k0, r0, r1 int) {
	p, w := &x.p, x.width
	cols := min(w, x.n-j)
	s := x.s[:(r1-r0)*w]
	m := gemm.BlockPanel{
		A:     x.k[r0*(x.lenK/min(x.Attention.keys, p.Keys)):],
		B:     x.panelQ(j),
		C:     s,
		LdC:   w,
		Rows:  r1 - r0,
		Part:  true,
		Cols:  cols,
		K:     p.Size,
		Alpha: p.Scale,
	}
	if p.Cap != 0 {
		m.Alpha = p.Scale / p.Cap
	} else if x.keyBias() {
		m.Bias = x.a.Bias[p.Bias.at(x.batch, x.head, 0):][k0+r0 : k0+r1]
	}
	x.p.Format.Multiply(&m)
	x.masks(s, j, cols, k0+r0)
	x.take(s, j, cols, k0+r0)
}

// take adds the values of len(s)/width keys from k, whose scores are s, to the sums.
func (x *chunk) take(s []float32, j, cols, k int) {
	p, w := &x.p, x.width
	peak, sum, o := x.peak[j:][:w], x.sum[j:][:w], x.o[j*p.ValueSize:][:w*p.ValueSize]
	copy(x.factor, peak)
	vec.MaxRows(peak[:w], s)
	grown := false
	for i, v := range peak {
		grown = grown || v != x.factor[i]
		if x.shift[i] = v; math.IsInf(float64(v), -1) {
			x.shift[i] = 0
		}
	}
	if grown {
		vec.Sub(x.factor, x.factor, x.shift)
		vec.Exp(x.factor, x.factor)
		for i, f := range x.factor {
			sum[i] *= float64(f)
		}
		vec.MulRows(o, x.factor)
		if len(x.far) > 0 {
			vec.MulRows(x.far[j*p.ValueSize:][:w*p.ValueSize], x.factor)
		}
	}
	clear(x.part)
	vec.ExpRows(s, x.shift, x.part)
	for i, v := range x.part {
		sum[i] += float64(v)
	}
	x.weigh(s, o, cols, k)
}

// weigh adds the values of len(s)/width keys from k, times their weights s, to o.
func (x *chunk) weigh(s, o []float32, cols, k int) {
	p, w, n := &x.p, x.width, len(s)/x.width
	m := gemm.BlockPanel{C: o, LdC: w, Rows: p.ValueSize, Cols: cols, K: n, Alpha: 1, Add: true}
	values, ld := x.values[k*p.V.Row:], max(p.V.Row, p.ValueSize)
	if !x.rounds {
		m.A, m.LdA, m.B = values, ld, s
		gemm.F32.Multiply(&m)
		return
	}
	if x.from != k || x.to != k+n {
		p.Format.PackA(x.v, values, p.ValueSize, n, ld, true)
		x.from, x.to = k, k+n
	}
	p.Format.PackB(x.w, s, n, w, w, false)
	m.A, m.B, m.Part = x.v, x.w, true
	p.Format.Multiply(&m)
}

// finish divides the sums of the panel of queries from j and writes them where they go.
func (x *chunk) finish(j int) {
	p, w := &x.p, x.width
	cols := min(w, x.n-j)
	o := x.o[j*p.ValueSize:][:w*p.ValueSize]
	for i, t := range x.sum[j:][:w] {
		x.factor[i] = float32(1 / t)
		if i < cols && p.Zero && (t == 0 || t != t) && x.allHidden(x.first+j+i) {
			x.factor[i] = 1
			x.weightNothing(o[i:])
		}
	}
	if p.Stats {
		to := x.a.Stats[2*((x.batch*p.Heads+x.head)*p.Queries+x.first+j):]
		for i, t := range x.sum[j:][:cols] {
			if t == 0 { // of exponentials of -Inf less -Inf
				t = math.NaN()
			}
			to[2*i], to[2*i+1] = x.peak[j+i], float32(t)
		}
	}
	vec.MulRows(o, x.factor)
	vec.Transpose(x.a.Y[p.Y.at(x.batch, x.head, x.first+j):], o, p.ValueSize, cols,
		max(p.Y.Row, p.ValueSize), w)
}

// weightNothing sets a column of sums to what weights of zero make of all values: zeros, and NaN
// where one of the values is an infinity or NaN.
func (x *chunk) weightNothing(column []float32) {
	p := &x.p
	for d := range p.ValueSize {
		sum := float32(0)
		for k := 0; k < p.Keys && !p.Blind; k++ {
			sum += 0 * x.values[k*p.V.Row+d]
		}
		column[d*x.width] = sum
	}
}
