package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// pixelsLast moves axis 1 of a shape to the end.
func pixelsLast(shape []int) []int {
	return append(slices.Delete(slices.Clone(shape), 1, 2), shape[1])
}

// genNHWCConv makes mostly what passes make: images of rank 4, constant operands, weights around
// 0.
func genNHWCConv(r source, key opKey) *sample {
	s := genQLinearConv(r, key)
	for !r.one(20) && len(s.in[0].Shape) != 4 {
		s = genQLinearConv(r, key)
	}
	for i, v := range s.in {
		s.constant[i] = i > 0 && v != nil && !r.one(100)
	}
	if x := s.in[0]; r.one(3) && x.Shape[1] <= 4 {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("planar", 1))
	} else {
		s.in[0] = r.bytes(x.DType, pixelsLast(x.Shape)...)
	}
	if !r.one(20) {
		middle := flippedZero(s.in[5].DType == tensor.Uint8)
		if r.one(2) {
			middle += byte(r.IntN(257) - 128)
		}
		for i := range s.in[5].Data {
			s.in[5].Data[i] = middle
		}
	}
	if r.one(2) {
		then := r.rescaling(s.in[3].Shape[0])
		for i, v := range tensor.As[float32](then[0]) {
			tensor.As[float32](then[0])[i] = min(max(v, -1), 1)
		}
		if s.exact {
			powersOfTwo(then[0])
		}
		s.in = append(s.in[:9], then...)
	} else {
		s.in = append(s.in[:9], nil, nil, nil)
	}
	s.constant = append(s.constant[:9], s.in[9] != nil, s.in[9] != nil, s.in[9] != nil)
	s.call.NumIn = len(s.in)
	return s
}

func genNHWCPool(r source, key opKey) *sample {
	s := genPool(source{rand.New(rand.NewPCG(r.Uint64(), 1))}, opKey{"", "MaxPool"})
	for !r.one(20) && len(s.in[0].Shape) != 4 {
		s = genPool(r, opKey{"", "MaxPool"})
	}
	s.call.Domain, s.call.Type, s.call.Version, s.call.NumOut, s.absent, s.exact = key.domain,
		key.name, 1, 1, nil, true
	if shape := pixelsLast(s.in[0].Shape); r.one(2) {
		s.in[0] = r.halves(shape...)
	} else {
		s.in[0] = r.bytes(r.byteType(), shape...)
	}
	return s
}

// TestConvOfVectors holds that several images of one pixel, which a fully connected layer of bytes
// is, are computed as pixels of one image where there are kernels for these, and to the same bytes.
func TestConvOfVectors(t *testing.T) {
	pools, found := testPools(t), 0
	for seed := range uint64(60) {
		r := newSource(seed, 3)
		key := []opKey{{"", "QLinearConv"}, {op.FusedDomain, "QLinearConv"}}[seed%2]
		s := generator(key)(r, key)
		n, c, m := 1+r.IntN(40), 1+r.IntN(70), s.in[3].Shape[0]
		s.call.Attrs = nil
		s.in[0] = r.bytes(s.in[0].DType, n, c, 1, 1)
		s.in[3] = r.bytes(s.in[3].DType, m, c, 1, 1)
		for i := range s.in[5].Data {
			s.in[5].Data[i] = flippedZero(s.in[5].DType == tensor.Uint8)
		}
		for i, v := range s.in {
			s.constant[i] = i > 0 && v != nil
		}
		if s.check(t, pools) != served {
			t.Fatalf("seed %d: %v has no kernel", seed, s)
		}
		_, call, _ := s.request()
		k, err := prepare(call)
		if err != nil {
			t.Fatal(err)
		}
		if k.Name() == "conv.int8.nhwc" {
			found++
			if n == 1 {
				t.Errorf("seed %d: %v is %s, of one vector", seed, s, k.Name())
			}
		}
	}
	if conv.HasNHWC() != (found > 0) {
		t.Errorf("%d of 60 as pixels, which there are kernels for: %v", found, conv.HasNHWC())
	}
}
