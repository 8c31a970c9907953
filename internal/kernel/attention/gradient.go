package attention

import (
	"encoding/binary"
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// Gradient is a planned call of the gradients of queries, keys and values. It is immutable and may
// be used by many goroutines at once.
//
// Scores are computed again, a block of queries by a block of keys at a time. Each such pair adds
// to the sums of its queries and of its keys, so the work comes in phases, one after another, in
// each of which no two chunks have a block in common: what chunks do not depend on each other, and
// sums are added up in the order of phases, whoever runs the chunks.
type Gradient struct {
	p            Params
	rows, keys   int // of a block
	down, across int // blocks of queries and of keys
	lenQ, lenK   int // packed queries, and keys, as operands of the scores
	lenY, lenV   int // packed gradients of results, and values, likewise
	lenBQ, lenBY int // packed as operands of sums over queries
	lenBK        int // packed keys as operand of sums over keys
	lenT         int // packed weights, or their gradients
	lenO, lenS   int // gradients of results, and scores or their gradients
	lenX         int // what is added for each query
}

// GradientArgs holds the data of one run. Results must not overlap the others.
type GradientArgs struct {
	Args       // Y is the result of the forward run, Stats are what it gave
	DY         []float32
	DQ, DK, DV []float32 // as Q, K and V lie
}

// mostGradientRows and mostGradientKeys bound the blocks, three of whose scores are in a level-2
// cache together with packed operands.
const mostGradientRows, mostGradientKeys = 128, 128

// NewGradient plans the gradient of a call that has Stats: its Params, of which Lens, At, Left and
// Right are not used. There must be queries and keys, and K and V must not be shared by batch
// entries. Errors are of kind [ErrParams].
func NewGradient(p Params) (*Gradient, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if !p.Stats || p.Left >= 0 || p.Right >= 0 || min(p.Heads, p.Queries, p.Keys) == 0 ||
		p.Batch > 1 && p.K.Batch == 0 {
		return nil, fmt.Errorf("%w: no gradient of such a call", ErrParams)
	}
	f, work := p.Format, 5*max(p.Size, p.ValueSize)
	g := &Gradient{p: p, keys: split(p.Keys, mostGradientKeys, f.PanelColumns())}
	g.rows = split(p.Queries, min(mostGradientRows, maxWork/(work*g.keys)), f.PanelRows())
	g.down, g.across = ceilDiv(p.Queries, g.rows), ceilDiv(p.Keys, g.keys)
	g.lenQ, g.lenY = f.PackedALen(g.rows, p.Size), f.PackedALen(g.rows, p.ValueSize)
	g.lenK, g.lenV = f.PackedBLen(p.Size, g.keys), f.PackedBLen(p.ValueSize, g.keys)
	g.lenBQ, g.lenBY = f.PackedBLen(g.rows, p.Size), f.PackedBLen(g.rows, p.ValueSize)
	g.lenBK = f.PackedBLen(g.keys, p.Size)
	g.lenT = max(f.PackedALen(g.rows, g.keys), f.PackedALen(g.keys, g.rows))
	// of fewer keys rows may lie further apart
	g.lenO, g.lenS = g.rows*p.ValueSize, g.rows*max(apart(g.keys), apart(g.keys/32*32))
	g.lenX = 3 * g.rows
	return g, nil
}

// Phases returns the number of phases.
func (g *Gradient) Phases() int { return g.p.Heads / g.p.KVHeads * max(g.down, g.across) }

// Chunks returns the number of independent pieces of work of each phase.
func (g *Gradient) Chunks() int { return g.p.Batch * g.p.KVHeads * min(g.down, g.across) }

// ScratchLen returns how many floats of scratch Run needs.
func (g *Gradient) ScratchLen() int {
	return g.lenQ + g.lenK + g.lenY + g.lenV + g.lenBQ + g.lenBY + g.lenBK + g.lenT + g.lenO +
		2*g.lenS + g.lenX
}

// pair is one run of a chunk: a block of queries of a head by a block of keys.
type pair struct {
	*Gradient
	a               *GradientArgs
	batch, head, kv int
	first, n        int  // queries
	key, m, ld      int  // keys, and how far apart rows of scores lie
	newQ, newK      bool // nothing has been added to the sums of these queries, or keys
	q, k, y, v      []float32
	bq, by, bk      []float32
	t, o, s, d      []float32
	// of each query what is added to scores before they are masked, and behind that, and to the
	// gradients of weights
	shift, late, mean []float32
}

// loses is a greatest score below which a mask has lost digits of scores: it is taken away behind
// the mask only, so that the same digits are lost.
const loses = -1000

// Run computes chunk c of 0 <= c < Chunks of a phase, when all chunks of the phases before are
// done. Scratch holds at least ScratchLen floats that no other call uses meanwhile; what it holds
// before does not matter.
func (g *Gradient) Run(phase, c int, a *GradientArgs, scratch []float32) {
	if c < 0 || c >= g.Chunks() || phase < 0 || phase >= g.Phases() ||
		len(scratch) < g.ScratchLen() {
		panic(fmt.Sprintf("attention: chunk %d of %d, phase %d of %d, scratch %d of %d", c,
			g.Chunks(), phase, g.Phases(), len(scratch), g.ScratchLen()))
	}
	x := pair{Gradient: g, a: a}
	x.place(phase, c)
	take := func(n int) (part []float32) {
		part, scratch = scratch[:n:n], scratch[n:]
		return part
	}
	x.q, x.k, x.y, x.v = take(g.lenQ), take(g.lenK), take(g.lenY), take(g.lenV)
	x.bq, x.by, x.bk = take(g.lenBQ), take(g.lenBY), take(g.lenBK)
	x.t, x.o = take(g.lenT), take(g.lenO)[:x.n*g.p.ValueSize]
	x.s, x.d = take(g.lenS), take(g.lenS)
	x.shift, x.late, x.mean = take(g.rows)[:x.n], take(g.rows)[:x.n], take(g.rows)[:x.n]
	x.normalise()
	if x.skips() {
		x.nothing()
		return
	}
	x.pack()
	x.weights()
	x.sumValues()
	x.slopes()
	x.sumRest()
}

// place finds the blocks of chunk c of a phase. Chunk i of the fewer blocks goes with block i of
// the others in the first phase of a head, and with the one behind in each that follows.
func (x *pair) place(phase, c int) {
	p, few, many := &x.p, min(x.down, x.across), max(x.down, x.across)
	turn, member := phase%many, phase/many
	i := c % few
	j := (i + turn) % many
	x.kv, x.batch = c/few%p.KVHeads, c/few/p.KVHeads
	x.head = x.kv*(p.Heads/p.KVHeads) + member
	newFew, newMany := turn == 0, turn == max(0, j-(few-1))
	if x.down > x.across {
		i, j, newFew, newMany = j, i, newMany, newFew
	}
	x.first, x.key, x.newQ, x.newK = i*x.rows, j*x.keys, newFew, newMany && member == 0
	x.n, x.m = min(x.rows, p.Queries-x.first), min(x.keys, p.Keys-x.key)
	x.ld = apart(x.m)
}

// apart is how far apart rows of so many scores lie: not at a power of two, where the same column
// of all of them would have few places in a cache.
func apart(keys int) int {
	if keys%32 == 0 {
		return keys + 16
	}
	return keys
}

// normalise divides gradients of results by the sums of exponentials, so that weights need not be,
// and finds what is added to scores and to the gradients of weights.
func (x *pair) normalise() {
	p := &x.p
	for i := range x.n {
		stat := x.a.Stats[2*((x.batch*p.Heads+x.head)*p.Queries+x.first+i):]
		at, to := p.Y.at(x.batch, x.head, x.first+i), x.o[i*p.ValueSize:][:p.ValueSize]
		vec.MulScalar(to, x.a.DY[at:][:p.ValueSize], 1/stat[1])
		x.shift[i], x.late[i] = -stat[0], 0
		if stat[0] < loses {
			x.shift[i], x.late[i] = 0, -stat[0]
		}
		x.mean[i] = -p.Scale * vec.Dot(to, x.a.Y[at:])
	}
}

// sees is how many keys of the block query i sees by position.
func (x *pair) sees(i int) int {
	_, hi := x.p.sees(&x.a.Args, x.batch, x.first+i)
	return min(max(hi-x.key, 0), x.m)
}

// skips reports whether no key of the block has any weight for a query, and none of the operands
// an infinity or NaN, which would show in sums all the same.
func (x *pair) skips() bool {
	p := &x.p
	if x.sees(x.n-1) > 0 || p.Bias.Given {
		return false
	}
	for i, v := range x.shift {
		if !(p.Hidden+v+x.late[i] < leastExp) {
			return false
		}
	}
	rows := func(v []float32, l Layout, head, first, n, size int) (clean bool) {
		for i := range n {
			r := v[l.at(x.batch, head, first+i):][:size]
			if square := vec.Dot(r, r); square-square != 0 {
				return false
			}
		}
		return true
	}
	square := vec.Dot(x.o, x.o) + vec.Dot(x.mean, x.mean)
	return square-square == 0 && rows(x.a.Q, p.Q, x.head, x.first, x.n, p.Size) &&
		rows(x.a.K, p.K, x.kv, x.key, x.m, p.Size) &&
		rows(x.a.V, p.V, x.kv, x.key, x.m, p.ValueSize)
}

// nothing makes zeros of sums to which nothing has been added.
func (x *pair) nothing() {
	p := &x.p
	rows := func(v []float32, l Layout, head, first, n, size int) {
		for i := range n {
			clear(v[l.at(x.batch, head, first+i):][:size])
		}
	}
	if x.newQ {
		rows(x.a.DQ, p.Q, x.head, x.first, x.n, p.Size)
	}
	if x.newK {
		rows(x.a.DK, p.K, x.kv, x.key, x.m, p.Size)
		rows(x.a.DV, p.V, x.kv, x.key, x.m, p.ValueSize)
	}
}

// pack packs all operands but those that are computed here.
func (x *pair) pack() {
	p, f := &x.p, x.p.Format
	q, k := x.a.Q[p.Q.at(x.batch, x.head, x.first):], x.a.K[p.K.at(x.batch, x.kv, x.key):]
	ldQ, ldK := max(p.Q.Row, p.Size), max(p.K.Row, p.Size)
	f.PackA(x.q, q, x.n, p.Size, ldQ, false)
	f.PackB(x.bq, q, x.n, p.Size, ldQ, false)
	f.PackB(x.k, k, p.Size, x.m, ldK, true)
	f.PackB(x.bk, k, x.m, p.Size, ldK, false)
	f.PackA(x.y, x.o, x.n, p.ValueSize, 0, false)
	f.PackB(x.by, x.o, x.n, p.ValueSize, 0, false)
	f.PackB(x.v, x.a.V[p.V.at(x.batch, x.kv, x.key):], p.ValueSize, x.m,
		max(p.V.Row, p.ValueSize), true)
}

// product sets c, rows ld apart, to alpha·a·b and a bias of each row, or adds to it.
func (x *pair) product(c, a, b []float32, ld, rows, cols, k int, m gemm.BlockPanel) {
	w, panel := x.p.Format.PanelColumns(), x.p.Format.PackedBLen(k, 1)
	m.A, m.LdC, m.Rows, m.K, m.Part = a, ld, rows, k, true
	for j := 0; j < cols; j += w {
		m.B, m.C, m.Cols = b[j/w*panel:], c[j:], min(w, cols-j)
		x.p.Format.Multiply(&m)
	}
}

// weights sets s to weights times their sums.
func (x *pair) weights() {
	x.product(x.s, x.q, x.k, x.ld, x.n, x.m, x.p.Size,
		gemm.BlockPanel{Alpha: x.p.Scale, Bias: x.shift})
	s := x.s[:x.n*x.ld]
	x.eachHidden(func(i int, s []float32) {
		if !x.p.Added {
			vec.Fill(s, x.p.Hidden+x.shift[i])
			return
		}
		vec.AddScalar(s, s, x.p.Hidden)
	}, x.s)
	x.addBias()
	for i, v := range x.late {
		if v != 0 {
			row := s[i*x.ld:][:x.m]
			vec.AddScalar(row, row, v)
		}
	}
	vec.Exp(s, s)
}

// eachHidden calls f with each stretch of keys that is hidden from query i, of n × m elements.
func (x *pair) eachHidden(f func(i int, s []float32), of []float32) {
	const all = 0x0101010101010101
	keep := x.p.Keep
	for i := range x.n {
		row := of[i*x.ld:][:x.m]
		if to := x.sees(i); to < x.m {
			f(i, row[to:])
		}
		if !keep.Given {
			continue
		}
		at := keep.at(x.batch, x.head, x.first+i)
		if keep.Single {
			if x.a.Keep[at] == 0 {
				f(i, row)
			}
			continue
		}
		kept := x.a.Keep[at+x.key:][:x.m]
		for r := 0; r < x.m; r++ {
			if r+8 <= x.m && binary.LittleEndian.Uint64(kept[r:]) == all {
				r += 7
				continue
			}
			if kept[r] == 0 {
				f(i, row[r:r+1])
			}
		}
	}
}

// addBias adds the bias to scores.
func (x *pair) addBias() {
	m := x.p.Bias
	if !m.Given {
		return
	}
	for i := range x.n {
		row, bias := x.s[i*x.ld:][:x.m], x.a.Bias[m.at(x.batch, x.head, x.first+i):]
		if m.Single {
			vec.AddScalar(row, row, bias[0])
			continue
		}
		vec.Add(row, row, bias[x.key:][:x.m])
	}
}

// sumValues adds to the gradients of values.
func (x *pair) sumValues() {
	p := &x.p
	dv := x.a.DV[p.V.at(x.batch, x.kv, x.key):]
	x.overQueries(dv, x.s, x.by, max(p.V.Row, p.ValueSize), p.ValueSize)
}

// overQueries adds wᵀ·b to rows of keys, ld apart.
func (x *pair) overQueries(c, w, b []float32, ld, cols int) {
	m := gemm.BlockPanel{Alpha: 1, Add: !x.newK}
	if x.p.Format == gemm.F32 {
		m.LdA = x.ld
	} else {
		x.p.Format.PackA(x.t, w, x.m, x.n, x.ld, true)
		w = x.t
	}
	x.product(c, w, b, ld, x.m, cols, x.n, m)
}

// slopes sets d to the gradients of scores, times scale.
func (x *pair) slopes() {
	x.product(x.d, x.y, x.v, x.ld, x.n, x.m, x.p.ValueSize,
		gemm.BlockPanel{Alpha: x.p.Scale, Bias: x.mean})
	d := x.d[:x.n*x.ld]
	vec.Mul(d, d, x.s)
	if !x.p.Added {
		x.eachHidden(func(_ int, d []float32) { clear(d) }, d)
	}
}

// sumRest adds to the gradients of keys and of queries.
func (x *pair) sumRest() {
	p := &x.p
	dk := x.a.DK[p.K.at(x.batch, x.kv, x.key):]
	x.overQueries(dk, x.d, x.bq, max(p.K.Row, p.Size), p.Size)
	p.Format.PackA(x.t, x.d, x.n, x.m, x.ld, false)
	dq := x.a.DQ[p.Q.at(x.batch, x.head, x.first):]
	x.product(dq, x.t, x.bk, max(p.Q.Row, p.Size), x.n, p.Size, x.m,
		gemm.BlockPanel{Alpha: 1, Add: !x.newQ})
}
