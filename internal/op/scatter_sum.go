package op

import (
	"math/bits"

	"github.com/weirgpu/weir/tensor"
)

// scatter makes output 0 a copy of input 0 and merges block i of the updates, of so many elements,
// into block places[i] of it, in order. Floats that go to one block are added up, or multiplied, in
// float64 and rounded once, so that the result of n updates is within n * 2^-53 of the exact one
// before that, relative to the sum of magnitudes, and to the product. What this takes beside the
// output is 3 bits a block and, of blocks with several updates, no more bytes than float32 updates
// have.
func (c *Eval) scatter(places []int, block int) error {
	data, updates := c.In[0], c.In[2]
	if updates.DType != data.DType {
		return c.Errorf(ErrInput, "data %v and updates %v differ in type", data.DType,
			updates.DType)
	}
	put, err := scatterCombiner(c.Call, data.DType)
	if err != nil {
		return err
	}
	if err := c.view(data.Shape); err != nil || updates.Len() == 0 {
		return err
	}
	out := c.Out[0]
	how := c.Attrs.String("reduction", "none")
	if data.DType.IsFloat() && (how == "add" || how == "mul") {
		if r := recurringOf(places, data.Len()/block); r.count > 0 {
			r.merge(out, updates, places, block, put, merge[float64](how))
			return nil
		}
	}
	for i, at := range places {
		put(out, at*block, updates, i*block, block)
	}
	return nil
}

// recurring numbers the places that occur more than once in a list.
type recurring struct {
	words []uint64 // a bit for each place
	below []int    // how many are set in the words before each
	count int
}

// recurringOf finds them in a list of places below n.
func recurringOf(places []int, n int) (r recurring) {
	once := make([]uint64, (n+63)/64)
	for _, at := range places {
		bit := uint64(1) << (at % 64)
		if once[at/64]&bit == 0 {
			once[at/64] |= bit
			continue
		}
		if r.words == nil {
			r.words = make([]uint64, len(once))
		}
		r.words[at/64] |= bit
	}
	r.below = make([]int, len(r.words))
	for i, w := range r.words {
		r.below[i] = r.count
		r.count += bits.OnesCount64(w)
	}
	return r
}

// number is that of a place, -1 when it does not recur.
func (r *recurring) number(at int) int {
	w, bit := r.words[at/64], uint64(1)<<(at%64)
	if w&bit == 0 {
		return -1
	}
	return r.below[at/64] + bits.OnesCount64(w&(bit-1))
}

// each calls f with the number of each place that recurs.
func (r *recurring) each(f func(k, at int)) {
	k := 0
	for i, w := range r.words {
		for ; w != 0; w &= w - 1 {
			f(k, 64*i+bits.TrailingZeros64(w))
			k++
		}
	}
}

// merge merges the updates into the blocks of out: by wide in float64 into those that recur, and by
// put into the others.
func (r *recurring) merge(out, updates *tensor.Tensor, places []int, block int, put combiner,
	wide func(a, b float64) float64) {
	acc, row := make([]float64, r.count*block), make([]float64, block)
	r.each(func(k, at int) { widenFloats(acc[k*block:][:block], out, at*block) })
	for i, at := range places {
		k := r.number(at)
		if k < 0 {
			put(out, at*block, updates, i*block, block)
			continue
		}
		widenFloats(row, updates, i*block)
		for j, v := range row {
			acc[k*block+j] = wide(acc[k*block+j], v)
		}
	}
	r.each(func(k, at int) { narrowFloats(out, at*block, acc[k*block:][:block]) })
}
