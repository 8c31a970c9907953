package onnx

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// exampleValues are values of every container type.
func exampleValues(t testing.TB) []*tensor.Tensor {
	t.Helper()
	f := tensor.From([]float32{1, 2, 3}, 3)
	names, err := tensor.NewMap(tensor.FromStrings([]string{"cat", "dog", ""}, 3), f)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tensor.NewMap(tensor.From([]int64{-1, 0, 1 << 40}, 3), f)
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSequence(f, tensor.From([]float32{}, 0, 4))
	return []*tensor.Tensor{f, s, tensor.NewSequence(), tensor.NewOptional(nil),
		tensor.NewOptional(f), tensor.NewOptional(s), names, ids,
		tensor.NewSequence(names, names), tensor.NewSequence(tensor.NewOptional(f)),
		tensor.NewSequence(tensor.FromStrings([]string{"a"}, 1))}
}

func TestValuesRoundTrip(t *testing.T) {
	for _, v := range exampleValues(t) {
		b, err := EncodeValue("v", v)
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		got, err := DecodeValue(b, op.ValueType(v))
		if err != nil || !tensor.Equal(got, v) {
			t.Errorf("%v became %v, %v", v, got, err)
		}
	}
}

func TestBrokenValues(t *testing.T) {
	f := tensor.From([]float32{1}, 1)
	deep := f
	for range tensor.MaxNesting + 1 {
		deep = tensor.NewSequence(deep)
	}
	raw := func(v *tensor.Tensor) []byte {
		m, err := valueMessageOf("", v)
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		for _, p := range append(m.pieces, m.tail) {
			out = append(out, p...)
		}
		return out
	}
	lying := &message{}
	lying.int(2, holdsSequence)
	lying.nest(3, &message{tail: raw(f)})
	mapped := &message{}
	mapped.int(2, int64(tensor.Float32))
	floats, ints := op.SequenceOf(op.Unranked(tensor.Float32)),
		op.SequenceOf(op.Unranked(tensor.Int64))
	for name, c := range map[string]struct {
		data []byte
		as   op.Type
		say  string
	}{
		"another element type": {raw(tensor.NewSequence(f)), ints, "float32"},
		"mixed element types": {raw(tensor.NewSequence(f, tensor.Scalar(int64(1)))),
			op.Type{DType: tensor.Sequence}, "int64"},
		"too deep":        {raw(deep), op.Type{DType: tensor.Sequence}, "deeper"},
		"lying elem_type": {lying.tail, floats, "elem_type"},
		"no elem_type":    {nil, floats, "elem_type"},
		"two in an optional": {append(raw(tensor.NewOptional(f)), raw(tensor.NewOptional(f))...),
			op.OptionalOf(op.Unranked(tensor.Float32)), "holds 2"},
		"a map by floats": {mapped.tail, op.Type{DType: tensor.Map}, "float32"},
		"cut":             {raw(tensor.NewSequence(f))[:9], floats, "byte"},
	} {
		_, err := DecodeValue(c.data, c.as)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
	if _, err := EncodeValue("", tensor.NewSequence(f, nil)); err == nil {
		t.Error("a broken sequence was written")
	}
}

// FuzzDecodeValue holds that whatever is read as a value holds together.
func FuzzDecodeValue(f *testing.F) {
	for _, v := range exampleValues(f) {
		b, err := EncodeValue("v", v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(v.DType))
	}
	f.Fuzz(func(t *testing.T, b []byte, d uint8) {
		v, err := DecodeValue(b, op.Type{DType: tensor.DType(d)})
		if err != nil {
			return
		}
		if err := v.Check(); err != nil {
			t.Error(err)
		}
	})
}

// TestDamagedValues reads values with random damage.
func TestDamagedValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	vs := exampleValues(t)
	for range 20000 {
		v := vs[rng.IntN(len(vs))]
		b, err := EncodeValue("v", v)
		if err != nil {
			t.Fatal(err)
		}
		b = mutate(rng, b, b)
		got, err := DecodeValue(b, op.Type{DType: v.DType})
		if err == nil && got.Check() != nil {
			t.Fatalf("%x gives %v", b, got.Check())
		}
	}
}
