package kernels

import (
	"bytes"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestPackParts packs the weights of large calls in parts, the last first, and wants the bytes of
// Pack, which check compares with the reference.
func TestPackParts(t *testing.T) {
	r, pools := newSource(1, 2), testPools(t)[:1]
	group := op.Attrs{op.IntAttr("group", 2)}
	scaled := r.call(opKey{"weir", "Conv"}, nil, r.floats(1, 520, 3, 3), r.floats(1010, 520, 1, 1),
		nil, nil, r.floats(1010))
	for _, s := range []*sample{
		r.call(opKey{"", "MatMul"}, nil, r.floats(1, 300), r.floats(300, 2001)),
		r.call(opKey{"", "Gemm"}, op.Attrs{op.IntAttr("transB", 1)}, r.floats(3, 300),
			r.floats(2001, 300)),
		r.call(opKey{"", "Conv"}, op.Attrs{op.IntsAttr("pads", 1, 1, 1, 1)},
			r.floats(1, 128, 20, 20), r.floats(120, 128, 3, 3)),
		r.call(opKey{"", "Conv"}, group, r.floats(1, 260, 3, 3), r.floats(500, 130, 3, 3)),
		scaled,
		r.call(opKey{"", "MatMulInteger"}, nil, r.bytes(tensor.Uint8, 2, 1003),
			r.bytes(tensor.Int8, 1003, 2500)),
		r.call(opKey{"", "MatMulInteger"}, nil, r.bytes(tensor.Uint8, 2, 1003),
			r.bytes(tensor.Uint8, 1003, 2500)),
	} {
		for i := 1; i < len(s.constant); i++ {
			s.constant[i] = true
		}
		s.atol = sumError(count(s.in[1].Shape[1:]))
		s.exact = s.call.Type == "MatMulInteger"
		if v := s.check(t, pools); v != served {
			t.Errorf("%v: verdict %v", s, v)
			continue
		}
		_, req, _ := s.request()
		k, err := prepare(req)
		if err != nil {
			t.Fatal(err)
		}
		parted, ok := k.(compute.Parted)
		if !ok {
			t.Errorf("%v: %s has no parts", s, k.Name())
			continue
		}
		n, scratch := parted.PackParts()
		if n < 2 {
			t.Errorf("%v: %s has %d parts of %d bytes", s, k.Name(), n, k.PackedBytes())
		}
		whole, parts := make([]byte, k.PackedBytes()), make([]byte, k.PackedBytes())
		k.Pack(whole)
		poison(parts)
		mem := make([]float32, scratch)
		for i := n - 1; i >= 0; i-- {
			poison(tensor.From(mem, scratch).Data)
			parted.PackPart(parts, i, mem)
		}
		if !bytes.Equal(whole, parts) {
			t.Errorf("%v: %s in %d parts: other bytes", s, k.Name(), n)
		}
	}
}
