package kernels

import (
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// genMatMulNBits makes products by random numbers of four bits, with zero points of bytes, of
// floats and without.
func genMatMulNBits(r source, key opKey) *sample {
	m, k, n := r.extents()
	block := []int{16, 32, 64}[r.IntN(3)]
	blocks := (k + block - 1) / block
	scales := r.floats(n, blocks)
	s := r.call(
		key,
		op.Attrs{
			op.IntAttr("K", int64(k)),
			op.IntAttr("N", int64(n)),
			op.IntAttr("block_size", int64(block)),
			op.IntAttr("bits", 4),
		},
		r.floats(1+r.IntN(2), m, k),
		r.bytes(tensor.Uint8, n, blocks, block/2),
		scales,
	)
	s.constant = []bool{false, true, true}
	if zeros := r.IntN(3); zeros > 0 || r.one(2) {
		var z *tensor.Tensor
		switch zeros {
		case 1:
			z = r.bytes(tensor.Uint8, n, (blocks+1)/2)
		case 2:
			z = r.floats(n, blocks)
		}
		s.in, s.constant = append(s.in, z), append(s.constant, z != nil)
		if r.one(2) {
			s.in, s.constant = append(s.in, nil, r.floats(n)), append(s.constant, false, r.one(2))
		}
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("accuracy_level", r.Int64N(5)))
	}
	s.call.NumIn = len(s.in)
	s.atol = 9 * sumError(k) // numbers of four bits less a zero point are some 9 in magnitude
	r.activation(s)
	s.call.Attrs = withoutPrecision(s.call.Attrs)
	return s
}

// withoutPrecision leaves out the attribute that products of four bits do not have.
func withoutPrecision(as op.Attrs) op.Attrs {
	var out op.Attrs
	for _, a := range as {
		if a.Name != "precision" {
			out = append(out, a)
		}
	}
	return out
}
