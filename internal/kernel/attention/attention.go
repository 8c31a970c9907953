package attention

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// ErrParams is the kind of every error of New.
var ErrParams = errors.New("attention: bad parameters")

// Layout says where the vector of a batch entry, a head and a position starts: at their sum of
// products with the strides, in elements. The elements of a vector lie beside each other.
type Layout struct{ Batch, Head, Row int }

func (l Layout) at(batch, head, row int) int { return batch*l.Batch + head*l.Head + row*l.Row }

// Mask is an operand with an element for each score, or for fewer when strides are 0; heads are
// those of queries.
type Mask struct {
	Given bool
	Layout
	Single bool // one element stands for all keys
}

// Params describes a call. Head h of the queries goes with head h/(Heads/KVHeads) of keys and
// values.
type Params struct {
	Batch, Heads, KVHeads int
	Queries, Keys         int
	Size, ValueSize       int // elements of a query or key, and of a value
	Q, K, V, Y            Layout
	// Format is that of the products of queries with keys: gemm.F32 or gemm.BF16. Values are
	// multiplied in float32, but for BF16 on tiles, where they and their weights are rounded, too.
	Format gemm.Format
	Scale  float32
	Cap    float32 // when not 0, scores s become Cap·tanh(s/Cap) before any mask
	// A key is hidden from a query when it comes after the query and Causal is set, when it lies
	// farther than Left before the query or Right after it (negative: without bound), when it lies
	// at or after Lens of its batch entry (see Args), and where Keep is false. Query i stands
	// beside key i+Offset.
	Causal      bool
	Left, Right int
	Offset      int
	Keep        Mask
	// Hidden is the score of hidden keys: -Inf, or a finite number, with which a hidden key may
	// have a weight above zero when no other key counts.
	Hidden float32
	// Added says that Hidden is added to the score of a hidden key, so that a NaN stays one, in
	// place of replacing the score. Hidden must then be at most -1e37; adding it loses a score
	// below 1e29. Where Hidden is finite, keys must be hidden either by Keep or by position, since
	// a key hidden by both would have it added twice.
	Added bool
	Bias  Mask // added to the scores, those of hidden keys too
	// queries whose keys are all hidden, by -Inf, give what no weight at all makes of the values
	Zero bool
	// Blind says that hidden keys and their values do not affect results, whatever they hold: a NaN
	// shows only in the results of queries that see it. It requires that keys are hidden by -Inf
	// and by position alone, and that products are in F32.
	Blind bool
	Sink  bool // there are Sinks
	Stats bool // Stats are asked for; there must be neither Zero, Blind, Cap nor a sink
}

// Args holds the data of one run. Y must not overlap the others.
type Args struct {
	Q, K, V, Y, Bias []float32
	Keep             []byte // 0 hides
	// Lens, when not nil, holds for each batch entry how many of its keys are no padding. Query i
	// then stands beside key i + Lens[b] - Queries, and Offset is not used.
	Lens []int64
	// At, when not nil, holds for each batch entry the key that query 0 stands beside; it requires
	// Lens. Query i then stands beside key At[b] + i, or beside the last key when that is beyond
	// it.
	At []int64
	// Sinks holds one score for each head of the queries. The score takes part in the softmax like
	// that of a key, but has no value (Xiao et al., "Efficient Streaming Language Models with
	// Attention Sinks", 2024; as a parameter: gpt-oss, 2025).
	Sinks []float32
	// Stats takes, where asked for, what [Gradient] computes weights from again: batch × heads ×
	// queries × 2, the greatest score of a query and the sum of exponentials of scores less it.
	Stats []float32
}

// Attention is a planned call. It is immutable and may be used by many goroutines at once.
type Attention struct {
	p             Params
	few           bool // so few queries that a panel of them would be mostly empty
	rounds        bool // weights and values are rounded to bfloat16
	width         int  // queries of a panel, which is as wide in every format
	rows, keys    int  // queries of a chunk, a multiple of width, and keys of a block
	blocks        int  // chunks of one head
	lenQ, lenK    int
	lenS, lenBias int
	lenO, lenFar  int
	lenState      int
	lenRow        int
	lenV, lenW    int
}

// mostAdded is the greatest Hidden that may be added.
const mostAdded = -1e37

const (
	// mostRows and mostKeys bound the blocks so that a chunk's scratch stays in the level-2 cache.
	mostRows, mostKeys = 128, 256
	// keyFloats bounds a block of packed keys.
	keyFloats = 32 << 10
	// maxWork bounds the multiply-adds of a chunk, except that a chunk has a panel of queries at
	// least.
	maxWork = 16 << 20
	// farBlocks is how many blocks of keys have their weighted values added up one after another.
	farBlocks = 64
	// wantChunks is how many chunks a call is cut into before they grow to mostRows.
	wantChunks = 8
)

// New plans a call. Errors are of kind ErrParams.
func New(p Params) (*Attention, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	o := &Attention{p: p, width: gemm.F32.PanelColumns()}
	if o.few = !p.Stats && p.Queries <= gemm.F32.PanelRows() && p.Format == gemm.F32; o.few {
		o.rows, o.blocks = p.Queries, min(p.Queries, 1)
		o.lenS, o.lenQ, o.lenK = 2*p.Queries*p.Keys, p.Queries*p.Size, max(p.Keys, p.Size)*o.width
		o.lenRow = p.blindKeys()
		return o, nil
	}
	work := max(1, p.Keys*(p.Size+p.ValueSize))
	rows := min(mostRows, maxWork/work, ceilDiv(p.Batch*p.Heads*p.Queries, wantChunks))
	o.rows = split(p.Queries, rows, o.width)
	o.blocks = ceilDiv(p.Queries, max(1, o.rows))
	o.keys = max(1, split(p.Keys, min(mostKeys, keyFloats/p.Size), p.Format.PanelRows()))
	o.lenQ = o.rows / o.width * p.Format.PackedBLen(p.Size, o.width)
	o.lenK = p.Format.PackedALen(min(o.keys, p.Keys), p.Size)
	o.lenS = o.keys * o.width
	if p.Bias.Given {
		o.lenBias = o.lenS
	}
	if o.rounds = p.Format.OnTiles(); o.rounds {
		o.lenV = p.Format.PackedALen(p.ValueSize, min(o.keys, p.Keys))
		o.lenW = p.Format.PackedBLen(min(o.keys, p.Keys), o.width)
	}
	o.lenO = o.rows * p.ValueSize
	if p.Keys > farBlocks*o.keys {
		o.lenFar = o.lenO
	}
	o.lenState = 3*o.rows + 1 + 3*o.width
	o.lenRow = p.blindKeys()
	return o, nil
}

// blindKeys is the scores of a query that may be computed by itself.
func (p *Params) blindKeys() int {
	if p.Blind {
		return p.Keys
	}
	return 0
}

//go:noinline
func ceilDiv(a, b int) int { return (a + b - 1) / b }

// split cuts n into equal parts of at most about most, each a multiple of unit, and returns their
// size.
//
//go:noinline
func split(n, most, unit int) int {
	if n == 0 {
		return 0
	}
	parts := ceilDiv(n, max(most, unit))
	return ceilDiv(ceilDiv(n, parts), unit) * unit
}

// maxDim bounds each size, so that products of two stay far inside an int.
const maxDim = math.MaxInt32 / 2

func (p *Params) check() error {
	for _, d := range []int{p.Batch, p.Heads, p.Queries, p.Keys} {
		if d < 0 || d > maxDim {
			return fmt.Errorf("%w: a size is %d, want 0 to %d", ErrParams, d, maxDim)
		}
	}
	if p.Size < 1 || p.ValueSize < 1 || p.Size > maxDim || p.ValueSize > maxDim {
		return fmt.Errorf("%w: heads of %d and %d elements, want at least one", ErrParams, p.Size,
			p.ValueSize)
	}
	if p.KVHeads < 1 || p.Heads%p.KVHeads != 0 {
		return fmt.Errorf("%w: %d heads of queries for %d of keys: want a multiple", ErrParams,
			p.Heads, p.KVHeads)
	}
	for _, l := range []struct {
		Layout
		size, rows int
	}{{p.Q, p.Size, p.Queries}, {p.K, p.Size, p.Keys}, {p.V, p.ValueSize, p.Keys},
		{p.Y, p.ValueSize, p.Queries}} {
		if l.Batch < 0 || l.Head < 0 || l.Row < l.size && l.rows > 1 {
			return fmt.Errorf("%w: layout %v for vectors of %d", ErrParams, l.Layout, l.size)
		}
	}
	for _, m := range []Mask{p.Keep, p.Bias} {
		if m.Batch < 0 || m.Head < 0 || m.Row < 0 {
			return fmt.Errorf("%w: mask %v", ErrParams, m.Layout)
		}
	}
	if p.Added && !(p.Hidden <= mostAdded) {
		return fmt.Errorf("%w: %g is added to scores: want %g at most, or -Inf", ErrParams,
			p.Hidden, mostAdded)
	}
	if p.Added && p.Keep.Given && !math.IsInf(float64(p.Hidden), -1) &&
		(p.Causal || p.Left >= 0 || p.Right >= 0) {
		return fmt.Errorf("%w: %g is added by Keep and by place: want one", ErrParams, p.Hidden)
	}
	if p.Stats && (p.Zero || p.Blind || p.Sink || p.Cap != 0) {
		return fmt.Errorf("%w: Stats are of a plain softmax alone", ErrParams)
	}
	if p.Blind &&
		(!math.IsInf(float64(p.Hidden), -1) || p.Added || p.Keep.Given || p.Bias.Given ||
			p.Format != gemm.F32) {
		return fmt.Errorf("%w: Blind is for keys hidden by -Inf and by place, in F32", ErrParams)
	}
	if p.Format != gemm.F32 && p.Format != gemm.BF16 {
		return fmt.Errorf("%w: format %d: want F32 or BF16", ErrParams, p.Format)
	}
	return nil
}

// Chunks returns the number of independent pieces of work, 0 when there is no output.
func (o *Attention) Chunks() int { return o.p.Batch * o.p.Heads * o.blocks }

// ScratchLen returns how many floats of scratch Run needs.
func (o *Attention) ScratchLen() int {
	return o.lenQ + o.lenK + o.lenS + o.lenBias + o.lenO + o.lenFar + o.lenState + o.lenRow +
		o.lenV + o.lenW
}

// sees returns the keys lo to hi that query i of a batch entry may see by position. Both grow with
// i.
func (p *Params) sees(a *Args, batch, i int) (lo, hi int) {
	at, hi := i+p.Offset, p.Keys
	if a.Lens != nil {
		n := int(min(max(a.Lens[batch], 0), int64(p.Keys)))
		at, hi = i+int(min(max(a.Lens[batch], math.MinInt32), math.MaxInt32))-p.Queries, n
		if a.At != nil {
			at = min(i+int(min(max(a.At[batch], 0), math.MaxInt32)), n-1)
		}
	}
	if p.Causal {
		hi = min(hi, at+1)
	}
	if p.Right >= 0 {
		hi = min(hi, at+p.Right+1)
	}
	if p.Left >= 0 {
		lo = at - p.Left
	}
	hi = max(hi, 0)
	return min(max(lo, 0), hi), hi
}
