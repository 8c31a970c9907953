package op

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// dataRows are the rows that move data or run bodies.
func dataRows() []*Op {
	var rows []*Op
	for _, f := range [][]Op{constantOps, shapeOps, castOps, transposeOps, concatOps, sliceOps,
		repeatOps, padOps, gatherOps, scatterOps, selectOps, layoutOps, oneHotOps, sequenceOps,
		sequenceMapOps, optionalOps, controlOps, scanOps, detectOps, quantizeOps, randomOps,
		sampleOps, textOps, tfidfOps} {
		for i := range f {
			rows = append(rows, &f[i])
		}
	}
	return rows
}

// dice makes choices from bytes, so that a fuzzer can steer them; when they run out, every choice
// is the first.
type dice struct{ rest []byte }

func (d *dice) roll(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	v := int(d.rest[0]) % n
	d.rest = d.rest[1:]
	return v
}

func (d *dice) int() int64 {
	extremes := list[int64](math.MinInt64, math.MaxInt64, math.MinInt64+1, 1<<31, 1<<40, -1<<40,
		1<<62, 64, 65)
	switch k := d.roll(48); {
	case k < len(extremes):
		return extremes[k]
	case k < 16:
		return -1
	default:
		return int64(k%7) - 2
	}
}

func (d *dice) ints(n int) []int64 {
	v := make([]int64, n)
	for i := range v {
		v[i] = d.int()
	}
	return v
}

// goodInts are axes, a permutation, pads or sizes that often fit a rank of up to three.
func (d *dice) goodInts() []int64 {
	return list([]int64{0}, []int64{-1}, []int64{1, 0}, []int64{0, 1, 2}, []int64{2, 0, 1},
		[]int64{1, 1, 0, 1}, []int64{2, 3}, []int64{3},
		[]int64{1, 1}, []int64{0, 0, 1, 1, 0, 0}, []int64{-1, 2}, nil)[d.roll(12)]
}

func (d *dice) attrs() Attrs {
	var as Attrs
	for _, name := range list("axis", "new_axis", "keepdims", "k", "upper", "blocksize", "start",
		"end", "batch_dims", "batch_axis", "time_axis", "num_outputs",
		"allowzero", "sorted", "center_point_box", "num_scan_inputs", "block_size",
		"output_dtype") {
		if d.roll(3) == 1 {
			as = append(as, IntAttr(name, d.int()))
		}
	}
	for _, name := range list("perm", "axes", "starts", "ends", "pads", "split", "scan_input_axes",
		"scan_output_axes", "scan_input_directions") {
		switch d.roll(5) {
		case 1:
			as = append(as, IntsAttr(name, d.ints(d.roll(7))...))
		case 2, 3:
			as = append(as, IntsAttr(name, d.goodInts()...))
		}
	}
	as = append(as, IntAttr("to", int64(d.roll(29))))
	if d.roll(4) == 1 {
		as = append(as, IntAttr("dtype", int64(d.roll(29))))
	}
	if d.roll(2) == 1 {
		as = append(as, StringAttr("mode",
			list("constant", "edge", "reflect", "wrap", "DCR", "CRD", "?")[d.roll(7)]),
			StringAttr("reduction", list("none", "add", "mul", "max", "min", "?")[d.roll(6)]))
	}
	if d.roll(2) == 1 {
		as = append(as, TensorAttr("value", d.tensor()))
	}
	if d.roll(2) == 1 {
		as = append(as, d.textAttrs()...)
	}
	if d.roll(2) == 1 {
		as = append(as, TypeAttr("type",
			list(Unranked(tensor.Float32), SequenceOf(Unranked(tensor.Int64)), OptionalOf(Type{}),
				Type{})[d.roll(4)]))
	}
	return append(as, d.bodies()...)
}

// textAttrs are attributes of the operators on strings and of TfIdfVectorizer.
func (d *dice) textAttrs() Attrs {
	as := Attrs{StringAttr("pattern", list("a*", "(?i)B", "[", "")[d.roll(4)]),
		StringAttr("delimiter", list("", "a", " ")[d.roll(3)]),
		StringAttr("case_change_action", list("NONE", "LOWER", "UPPER", "?")[d.roll(4)]),
		StringsAttr("stopwords", "a", ""),
		StringAttr("round_mode", list("up", "down", "nearest", "?")[d.roll(4)]),
		IntAttr("saturate", int64(d.roll(2))),
		IntAttr("maxsplit", d.int()), IntAttr("min_gram_length", int64(1+d.roll(2))),
		IntAttr("max_gram_length", int64(1+d.roll(3))),
		IntAttr("max_skip_count", int64(d.roll(4))), IntsAttr("ngram_counts", 0, int64(d.roll(3))),
		IntsAttr("ngram_indexes", 0, int64(d.roll(3)), 1)}
	if d.roll(2) == 1 {
		return append(as, StringAttr("mode", "TFIDF"), StringsAttr("pool_strings", "a", "", "a"))
	}
	return append(as, IntsAttr("pool_int64s", 0, 1, 0))
}

func (d *dice) bodies() Attrs {
	then, els := squeezeOr()
	return list(
		Attrs{BodyAttr("then_branch", then), BodyAttr("else_branch", els),
			BodyAttr("body", counter())},
		Attrs{BodyAttr("then_branch", els), BodyAttr("else_branch", els),
			BodyAttr("body", partialSums())},
		nil,
	)[d.roll(3)]
}

func (d *dice) shape() []int {
	s := make([]int, d.roll(5))
	for k := range s {
		s[k] = d.roll(5)
	}
	return s
}

func (d *dice) tensor() *tensor.Tensor {
	switch d.roll(8) {
	case 0:
		return i64(d.ints(d.roll(5))...)
	case 1:
		return i64(d.goodInts()...)
	case 2:
		return tensor.Scalar(d.int())
	case 3:
		return tensor.Scalar(d.roll(2) == 1)
	}
	types := list(tensor.Float32, tensor.Float32, tensor.Float32, tensor.Int64, tensor.Int64,
		tensor.Int32, tensor.Bool, tensor.Uint8,
		tensor.Float16, tensor.String, tensor.Uint64, tensor.Complex128, tensor.Int4, tensor.Uint2,
		tensor.Float8E4M3FN,
		tensor.Float8E8M0, tensor.Float4E2M1)
	v := mustTensor(tensor.New(types[d.roll(len(types))], d.shape()...))
	for i := range v.Data {
		if i%max(v.DType.Size(), 1) == 0 {
			a, b := d.roll(4), d.roll(4)
			v.Data[i] = byte(a & b) // small values, zero more often than not
			if v.DType == tensor.Bool {
				v.Data[i] &= 1
			}
		}
	}
	return v
}

// value is a tensor, or, for operators that take them, often a sequence of tensors that are alike
// or an optional.
func (d *dice) value(containers bool) *tensor.Tensor {
	if !containers || d.roll(3) == 0 {
		return d.tensor()
	}
	items := make([]*tensor.Tensor, d.roll(4))
	for i := range items {
		if items[i] = d.tensor(); i > 0 && (d.roll(4) != 1 || items[i].DType != items[0].DType) {
			items[i] = items[0]
		}
	}
	s := tensor.NewSequence(items...)
	switch d.roll(6) {
	case 0:
		return tensor.NewOptional(nil)
	case 1:
		return tensor.NewOptional(s)
	case 2:
		return tensor.NewOptional(d.tensor())
	}
	return s
}

func (d *dice) call(rows []*Op) (*Op, *Call, []*tensor.Tensor) {
	o := rows[d.roll(len(rows))]
	most := o.MaxIn
	if most < 0 {
		most = o.MinIn + 3
	}
	n := o.MinIn + d.roll(most-o.MinIn+1)
	c := &Call{Type: o.Name, Version: o.Since[d.roll(len(o.Since))], Attrs: d.attrs(),
		NumOut: max(1, o.MinOut)}
	if o.MaxOut < 0 {
		c.NumOut += d.roll(3)
	} else if o.MaxOut > 1 {
		c.NumOut = o.MaxOut
	}
	if len(c.Attrs.bodies()) > 0 && d.roll(2) == 1 {
		c.Captures = d.roll(3)
	}
	c.NumIn = n + c.Captures
	in := make([]*tensor.Tensor, c.NumIn)
	holds := o.Has(Containers)
	like := d.value(holds)
	for i := range in {
		switch {
		case d.roll(3) == 1:
			in[i] = like
		case i >= o.MinIn && i < n && d.roll(6) == 1:
		default:
			in[i] = d.value(holds && i < 2)
		}
	}
	return o, c, in
}

func (as Attrs) bodies() (out []Body) {
	for _, a := range as {
		if a.Body != nil {
			out = append(out, a.Body)
		}
	}
	return out
}

// typ is any claim about an input: unknown, symbolic or absurd.
func (d *dice) typ() Type {
	ty := Type{DType: tensor.DType(d.roll(28)), Ranked: d.roll(4) != 1}
	if !ty.Ranked {
		return ty
	}
	for range d.roll(6) {
		ty.Shape = append(ty.Shape, d.dim())
	}
	if len(ty.Shape) <= 1 && d.roll(2) == 1 {
		ty.Elems = make([]Dim, d.roll(5))
		for i := range ty.Elems {
			ty.Elems[i] = d.dim()
		}
	}
	return ty
}

func (d *dice) dim() Dim {
	switch d.roll(6) {
	case 0:
		return Unknown()
	case 1:
		return Sym("N").MulInt(1 + d.roll(4)).AddInt(d.roll(5) - 2)
	case 2:
		return Sym("M").Mul(Sym("N"))
	}
	return Known(int(d.int()))
}

// tryRules gives one call to its rule and its evaluation, directly, so that a panic is a failure.
// What evaluates must have been allowed and foreseen by the rule.
func tryRules(t *testing.T, d *dice, rows []*Op) (ran bool) {
	o, call, in := d.call(rows)
	return tryCall(t, d, o, call, in)
}

// tryCall is tryRules for a call that is made already.
func tryCall(t *testing.T, d *dice, o *Op, call *Call, in []*tensor.Tensor) (ran bool) {
	wild := &Infer{Call: call, In: make([]Type, len(in)), Present: make([]bool, len(in)),
		Out: make([]Type, call.NumOut)}
	c := &Infer{Call: call, In: make([]Type, len(in)), Present: make([]bool, len(in)),
		Out: make([]Type, call.NumOut)}
	for i, v := range in {
		if v != nil {
			c.In[i], c.Present[i] = TypeOf(v), true
			wild.In[i], wild.Present[i] = d.typ(), true
			if o.Has(Containers) && d.roll(2) == 1 {
				wild.In[i] = list(SequenceOf(d.typ()), OptionalOf(d.typ()),
					OptionalOf(SequenceOf(d.typ())), MapOf(tensor.Int64, d.typ()))[d.roll(4)]
			}
		}
	}
	_ = o.Infer(wild)
	ruleErr := o.Infer(c)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := &Eval{Call: call, Ctx: &countdown{Context: ctx, left: 100, end: cancel}, In: in,
		Out: make([]*tensor.Tensor, call.NumOut),
		Alloc: func(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
			if n, err := tensor.ByteCount(d, shape); err != nil || n > 1<<16 {
				return nil, tensor.ErrShape
			}
			return dirty(i, d, shape)
		}}
	if err := o.Eval(e); err != nil {
		return false
	}
	if ruleErr != nil {
		t.Fatalf("%s-%d %v of %v: the rule refuses what evaluates: %v", call.Name(), call.Version,
			call.Attrs, in, ruleErr)
	}
	for i, v := range e.Out {
		if v == nil {
			t.Fatalf("%s-%d of %v: output %d was not made", call.Name(), call.Version, in, i)
		}
		if err := v.Check(); err != nil {
			t.Fatalf("%s-%d %v of %v: output %d: %v", call.Name(), call.Version, call.Attrs, in, i,
				err)
		}
		if err := holds(c.Out[i], v, nil); err != nil {
			t.Fatalf("%s-%d %v of %v: output %d: %v", call.Name(), call.Version, call.Attrs, in, i,
				err)
		}
	}
	return true
}

// countdown is a context that ends after it has been asked some times, for loops that would not.
type countdown struct {
	context.Context
	left int
	end  func()
}

func (c *countdown) Err() error {
	if c.left--; c.left <= 0 {
		c.end()
	}
	return c.Context.Err()
}

// TestDataRulesAtRandom tries each row with choices of its own, so that a new row changes nothing
// for the others, and for longer when none of them was valid.
func TestDataRulesAtRandom(t *testing.T) {
	for _, o := range dataRows() {
		name := fnv.New64a()
		name.Write([]byte(o.Name))
		rng, ran := rand.New(rand.NewPCG(11, name.Sum64())), 0
		for n := 0; n < 600 || n < 12000 && ran == 0; n++ {
			b := make([]byte, 256)
			for i := 0; i < len(b); i += 8 {
				binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
			}
			if tryRules(t, &dice{b}, list(o)) {
				ran++
			}
		}
		if ran == 0 && !slices.Contains(list("NonMaxSuppression", "Loop", "Scan", "GridSample",
			"SequenceMap"), o.Name) {
			t.Errorf("no call of %s was valid", o.Name)
		}
	}
}

func FuzzDataRules(f *testing.F) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 20 {
		b := make([]byte, 128)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { tryRules(t, &dice{b}, dataRows()) })
}
