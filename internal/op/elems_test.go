package op

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestElementsAreWhatRunningGives compares the elements that shape rules know with those that
// evaluation computes, for every operator that takes one to three vectors of integers, of every
// integer type, around the ends of its range: what a plan folds is what running would give.
func TestElementsAreWhatRunningGives(t *testing.T) {
	compared := map[string]bool{}
	for _, o := range All() {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 7))
			for _, d := range []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
				tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Bool} {
				in := make([]*tensor.Tensor, 1+r.IntN(3))
				for i := range in {
					in[i] = extremeInts(r, d, 1+r.IntN(2))
				}
				to := []tensor.DType{tensor.Int32, tensor.Int64, tensor.Bool}[r.IntN(3)]
				for _, attrs := range []Attrs{nil, {IntAttr("to", int64(to))},
					{IntAttr("axis", 0)}} {
					if compareElems(t, o, in, attrs) {
						compared[o.Name+d.String()] = true
					}
				}
			}
		}
	}
	for _, name := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min", "Neg", "ReduceSum",
		"ReduceProd", "ReduceMax", "ReduceMin", "Cast", "Concat", "Identity"} {
		if !compared[name+"int32"] || !compared[name+"int64"] {
			t.Errorf("no known elements of %s were compared", name)
		}
	}
}

// extremeInts draws n numbers at the ends of the range of d or near 0.
func extremeInts(r *rand.Rand, d tensor.DType, n int) *tensor.Tensor {
	x, err := tensor.New(d, n)
	if err != nil {
		panic(err)
	}
	size := d.Size()
	for i := range n {
		v := uint64(r.IntN(7) - 3)
		switch r.IntN(3) {
		case 0:
			v += math.MaxInt64 >> (64 - 8*size)
		case 1:
			v += 1 << 31
		}
		if d == tensor.Bool {
			v &= 1
		}
		for k := range size {
			x.Data[i*size+k] = byte(v >> (8 * k))
		}
	}
	return x
}

// compareElems reports whether the call is valid and the rule knows elements.
func compareElems(t *testing.T, o *Op, in []*tensor.Tensor, attrs Attrs) bool {
	t.Helper()
	c := &Call{Domain: o.Domain, Type: o.Name, Version: o.Since[len(o.Since)-1], Attrs: attrs,
		NumIn: len(in), NumOut: 1}
	types := make([]Type, len(in))
	for i, x := range in {
		types[i] = TypeOf(x)
	}
	inferred, err := InferTypes(o, c, types, nil)
	if err != nil || inferred[0].Elems == nil {
		return false
	}
	out, err := Run(context.Background(), o, c, in)
	if err != nil {
		return false
	}
	want, err := out[0].Ints()
	if err != nil || len(want) != len(inferred[0].Elems) {
		t.Fatalf("%s of %v: elements %v, running gives %v, %v", o.Name, in, inferred[0].Elems,
			want, err)
	}
	for i, e := range inferred[0].Elems {
		if n, known := e.Int(); known && int64(n) != want[i] {
			t.Errorf("%s of %v: element %d is %d, running gives %d", o.Name, in, i, n, want[i])
		}
	}
	return true
}

// TestReshapeOfSymbolsThatMayBeZero holds what the types of a graph rest on: sizes that the input
// is a product of are kept, though one of them would copy the input's size where two are 0, and
// sizes that it is not known to be a product of are no claim. Known zeros are what running makes of
// them.
func TestReshapeOfSymbolsThatMayBeZero(t *testing.T) {
	n, m := Sym("N"), Sym("M")
	shapeOf := func(in []Dim, want ...Dim) []Dim {
		o, err := Lookup("", "Reshape", 14)
		if err != nil {
			t.Fatal(err)
		}
		shape := Concrete(tensor.Int64, len(want))
		shape.Elems = want
		out, err := InferTypes(o, &Call{Type: "Reshape", Version: 14, NumIn: 2, NumOut: 1},
			[]Type{Ranked(tensor.Float32, in...), shape}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Shape
	}
	product := shapeOf([]Dim{n.Mul(m), Known(8)}, n, m, Known(8))
	if len(product) != 3 || !product[0].Equal(n) || !product[1].Equal(m) || !product[2].Is(8) {
		t.Errorf("[N·M, 8] to [N, M, 8] gives %v", product)
	}
	other := shapeOf([]Dim{Sym("K"), Known(8)}, n, m, Known(8))
	if len(other) != 3 || other[0].Equal(n) || other[1].Equal(m) {
		t.Errorf("[K, 8] to [N, M, 8] gives %v, as if neither N nor M could be 0", other)
	}
	zeros := shapeOf([]Dim{Known(0), Known(8)}, Known(0), Known(0), Known(8))
	x, err := tensor.New(tensor.Float32, 0, 8)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := Lookup("", "Reshape", 14)
	out, err := Run(context.Background(), o, &Call{Type: "Reshape", Version: 14, NumIn: 2,
		NumOut: 1}, []*tensor.Tensor{x, tensor.From([]int64{0, 0, 8}, 3)})
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range zeros {
		if !d.Is(out[0].Shape[i]) {
			t.Fatalf("[0, 8] to [0, 0, 8] is inferred as %v, running gives %v", zeros,
				out[0].Shape)
		}
	}
}
