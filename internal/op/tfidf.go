package op

import (
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// tfidfOps count n-grams: TfIdfVectorizer.
var tfidfOps = []Op{
	{Name: "TfIdfVectorizer", Since: []int{9}, MinIn: 1, MaxIn: 1, Infer: inferTfIdf,
		Eval: evalTfIdf},
}

// grams are the n-grams of the pool, numbered in its order, by length and then by their items.
type grams[T int64 | string] struct {
	byLength map[int]map[string]int
	key      func(b []byte, item T) []byte // appends an item such that no two sequences look alike
	seen     []int                         // how often each n-gram is in a row
}

// tfidf are the attributes of a call.
type tfidf struct {
	mode              string
	shortest, longest int // lengths of n-grams
	skips             int
	counts, columns   []int64
	weights           []float32
	size              int // of the output vector
	poolInts          []int64
	poolStrings       []string
}

func tfidfOf(c *Call) (*tfidf, error) {
	t := &tfidf{mode: c.Attrs.String("mode", ""), counts: c.Attrs.Ints("ngram_counts"),
		columns: c.Attrs.Ints("ngram_indexes"),
		weights: c.Attrs.Floats("weights"), poolInts: c.Attrs.Ints("pool_int64s"),
		poolStrings: c.Attrs.Strings("pool_strings")}
	lo, hi, skips := c.Attrs.Int("min_gram_length", 0), c.Attrs.Int("max_gram_length", 0),
		c.Attrs.Int("max_skip_count", 0)
	t.shortest, t.longest, t.skips = int(lo), int(hi), int(min(skips, maxSkips))
	if err := t.check(c, lo, hi, skips); err != nil {
		return nil, err
	}
	for _, k := range t.columns {
		if k < 0 || k >= tensor.MaxHeapBytes {
			return nil, c.Errorf(ErrAttr, "ngram_indexes has %d", k)
		}
		t.size = max(t.size, int(k)+1)
	}
	return t, nil
}

// check holds the attributes against each other.
func (t *tfidf) check(c *Call, lo, hi, skips int64) error {
	switch {
	case !slices.Contains([]string{"TF", "IDF", "TFIDF"}, t.mode):
		return c.Errorf(ErrAttr, "mode is %q, want TF, IDF or TFIDF", t.mode)
	case lo < 1 || hi < lo || skips < 0:
		return c.Errorf(ErrAttr, "n-grams of %d to %d items, %d skipped", lo, hi, skips)
	case (t.poolInts == nil) == (t.poolStrings == nil):
		return c.Errorf(ErrAttr, "wants one of pool_int64s and pool_strings")
	case t.weights != nil && len(t.weights) != len(t.columns):
		return c.Errorf(ErrAttr, "%d weights for %d n-grams", len(t.weights), len(t.columns))
	case hi > int64(len(t.counts)):
		return c.Errorf(ErrAttr,
			"ngram_counts tells of n-grams of %d items, max_gram_length is %d", len(t.counts), hi)
	}
	return nil
}

// maxSkips bounds max_skip_count: no row is as long.
const maxSkips = 1 << 40

func inferTfIdf(c *Infer) error {
	t, err := tfidfOf(c.Call)
	if err != nil {
		return err
	}
	x := c.In[0]
	if _, err := c.SameDType(t.types(), x.DType); err != nil {
		return err
	}
	c.Out[0] = Unranked(tensor.Float32)
	if !x.Ranked {
		return nil
	}
	if len(x.Shape) > 2 {
		return c.Errorf(ErrInput, "wants [C] or [N, C], has %v", x)
	}
	c.Out[0] = Ranked(tensor.Float32, Known(t.size))
	if len(x.Shape) == 2 {
		c.Out[0] = Ranked(tensor.Float32, x.Shape[0], Known(t.size))
	}
	return nil
}

// types are those that the input may have.
func (t *tfidf) types() TypeSet {
	if t.poolStrings != nil {
		return stringTypes
	}
	return SetOf(tensor.Int32, tensor.Int64)
}

func evalTfIdf(c *Eval) error {
	t, err := tfidfOf(c.Call)
	if err != nil {
		return err
	}
	x := c.In[0]
	if !t.types().Has(x.DType) || x.Rank() > 2 {
		return c.Errorf(ErrInput, "has %v%v", x.DType, x.Shape)
	}
	if t.poolStrings != nil {
		return vectorize(c, t, x.Strings, t.poolStrings, appendText)
	}
	items, err := x.Ints()
	if err != nil {
		return c.Errorf(ErrInput, "%v", err)
	}
	return vectorize(c, t, items, t.poolInts, appendInt)
}

// appendText marks the end of an item; a mark within one is told from it by the byte that follows.
func appendText(b []byte, s string) []byte {
	return append(append(b, strings.ReplaceAll(s, "\x00", "\x00\x01")...), 0, 0)
}

func appendInt(b []byte, v int64) []byte {
	for k := range 8 {
		b = append(b, byte(v>>(8*k)))
	}
	return b
}

// vectorize counts, in each row of items, the n-grams of the pool.
func vectorize[T int64 | string](c *Eval, t *tfidf, items, pool []T,
	key func([]byte, T) []byte) error {
	g := &grams[T]{byLength: map[int]map[string]int{}, key: key, seen: make([]int, len(t.columns))}
	if err := g.fill(c.Call, t, pool); err != nil {
		return err
	}
	shape, width := []int{t.size}, len(items)
	if x := c.In[0]; x.Rank() == 2 {
		shape, width = []int{x.Shape[0], t.size}, x.Shape[1]
	}
	out, err := c.ZeroOutput(0, tensor.Float32, shape)
	if err != nil {
		return err
	}
	y := tensor.As[float32](out)
	for len(y) > 0 && t.size > 0 {
		if err := c.Ctx.Err(); err != nil {
			return err
		}
		g.count(t, y[:t.size], items[:width])
		y, items = y[t.size:], items[width:]
	}
	return nil
}

// fill reads the pool: all n-grams of one item, then those of two, and so on, from the places that
// ngram_counts tells. Of two that are alike the later counts.
func (g *grams[T]) fill(c *Call, t *tfidf, pool []T) error {
	id := 0
	for i, start := range t.counts {
		end, length := int64(len(pool)), i+1
		if i+1 < len(t.counts) {
			end = t.counts[i+1]
		}
		if start < 0 || end < start || end > int64(len(pool)) {
			return c.Errorf(ErrAttr, "ngram_counts %v for a pool of %d", t.counts, len(pool))
		}
		known := map[string]int{}
		for part := pool[start:end]; len(part) >= length; part = part[length:] {
			if id >= len(t.columns) {
				return c.Errorf(ErrAttr, "%d ngram_indexes for more n-grams", len(t.columns))
			}
			known[g.keyOf(part[:length], 1)] = id
			id++
		}
		if length >= t.shortest && length <= t.longest && len(known) > 0 {
			g.byLength[length] = known
		}
	}
	return nil
}

// keyOf is a string that stands for every step-th item.
func (g *grams[T]) keyOf(items []T, step int) string {
	var b []byte
	for i := 0; i < len(items); i += step {
		b = g.key(b, items[i])
	}
	return string(b)
}

// count adds to a row of the output what the n-grams of a row of items are worth. Items of an
// n-gram lie up to skips items apart, all alike; those of one item are counted once.
func (g *grams[T]) count(t *tfidf, y []float32, items []T) {
	clear(g.seen)
	for length, known := range g.byLength {
		for step := 1; step <= t.skips+1 && (length-1)*step < len(items); step++ {
			reach := (length - 1) * step
			for at := range len(items) - reach {
				if id, ok := known[g.keyOf(items[at:at+reach+1], step)]; ok {
					g.seen[id]++
				}
			}
			if length == 1 {
				break
			}
		}
	}
	for id, n := range g.seen {
		if n > 0 {
			y[t.columns[id]] += t.worth(id, n)
		}
	}
}

// worth is what n finds of an n-gram count for (attribute mode).
func (t *tfidf) worth(id, n int) float32 {
	if t.mode == "IDF" {
		n = 1
	}
	if t.mode == "TF" || t.weights == nil {
		return float32(n)
	}
	return float32(n) * t.weights[id]
}
