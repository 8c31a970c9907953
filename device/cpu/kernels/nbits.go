package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/nbits"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// nBitsKernels are products of float32 by constant weights of four bits.
var nBitsKernels = map[opKey]builder{{op.FusedDomain, "MatMulNBits"}: matMulNBits}

// mostAlong bounds K where one call of package nbits goes all along it, so that no call lasts long.
const mostAlong = 1 << 17

// nBits are the constants of a product of m rows by weights of four bits, as package nbits packs
// them, and what becomes of its results.
type nBits struct {
	m                int
	weights          *nbits.Weights
	b, scales, zeros *tensor.Tensor // zeros is nil for 8 everywhere
	biased           bool
	after            gemm.Epilogue // less the bias
}

// matMulNBits returns the kernel of a product by weights of four bits. If the call says so, the
// kernel rounds the rows to bytes. Else it multiplies few rows by the weights as they are, and
// converts the weights to floats for many rows.
func matMulNBits(r *request) (compute.Kernel, error) {
	a, d, _ := r.in(microsoft.NBitsA)
	attrs := r.Call.Attrs
	k := nBits{
		b:      r.constant(microsoft.NBitsB),
		scales: r.constant(microsoft.NBitsScales),
		zeros:  r.constant(microsoft.NBitsZeros),
	}
	_, _, zeroed := r.in(microsoft.NBitsZeros)
	_, _, grouped := r.in(microsoft.NBitsGroups)
	if d != tensor.Float32 || attrs.Int("bits", 4) != 4 || k.b == nil || k.scales == nil ||
		zeroed && k.zeros == nil || grouped || len(a) == 0 {
		return nil, nil
	}
	k.m = count(a[:len(a)-1])
	var err error
	k.weights, err = nbits.New(int(attrs.Int("N", 0)), int(attrs.Int("K", 0)),
		int(attrs.Int("block_size", 0)), zerosOf(k.zeros))
	if err != nil || !k.sized() || !setActivation(r.Call, &k.after) {
		return nil, nil // the reference says what is wrong
	}
	if bias, bd, ok := r.in(microsoft.NBitsBias); ok {
		if bd != tensor.Float32 || count(bias) != k.weights.N {
			return nil, nil
		}
		k.biased = true
	}
	rounded := microsoft.NBitsRounded(r.Call)
	switch {
	case k.weights.K > mostAlong && rounded, rounded && k.weights.Zeros == nbits.Reals:
		return nil, nil
	case rounded:
		return &nBitsRows{k, nbits.Int8}, nil
	case k.m <= k.weights.FewRows() && k.weights.K <= mostAlong:
		return &nBitsRows{k, nbits.F32}, nil
	}
	return newNBitsWide(k)
}

// zerosOf is the kind of zero points.
func zerosOf(zeros *tensor.Tensor) nbits.Zeros {
	switch {
	case zeros == nil:
		return nbits.Centred
	case zeros.DType == tensor.Uint8:
		return nbits.Nibbles
	}
	return nbits.Reals
}

// perColumn is the number of blocks along K.
func (k *nBits) perColumn() int { return (k.weights.K + k.weights.Block - 1) / k.weights.Block }

// sized reports whether the constants have the elements that the attributes say, of types that Pack
// reads.
func (k *nBits) sized() bool {
	n, blocks := k.weights.N, k.perColumn()
	if k.b.DType != tensor.Uint8 || k.b.Len() != n*blocks*k.weights.Block/2 ||
		k.scales.DType != tensor.Float32 || k.scales.Len() != n*blocks {
		return false
	}
	switch k.weights.Zeros {
	case nbits.Nibbles:
		return k.zeros.Len() == n*((blocks+1)/2)
	case nbits.Reals:
		return k.zeros.DType == tensor.Float32 && k.zeros.Len() == n*blocks
	}
	return true
}

// zero is the zero point of a block of a column.
func (k *nBits) zero(column, block int) float32 {
	if k.zeros.DType == tensor.Float32 {
		return tensor.As[float32](k.zeros)[column*k.perColumn()+block]
	}
	return float32(k.zeros.Data[column*((k.perColumn()+1)/2)+block/2] >> (block % 2 * 4) & 15)
}

// PackedBytes implements Kernel.
func (k *nBits) PackedBytes() int { return k.weights.PackedBytes() }

// Packing implements [compute.Packing].
func (k *nBits) Packing() any {
	type packing struct {
		b, scales, zeros *tensor.Tensor
		weights          nbits.Weights // with the path of instructions
	}
	return packing{k.b, k.scales, k.zeros, *k.weights}
}

// Pack implements Kernel.
func (k *nBits) Pack(dst []byte) { packParts(k, dst) }

// PackParts implements [compute.Parted].
func (k *nBits) PackParts() (n, scratch int) {
	return partsOf(k.PackedBytes(), k.weights.Panels()), 0
}

// PackPart implements [compute.Parted]: some panels of columns.
func (k *nBits) PackPart(dst []byte, part int, _ []float32) {
	n, _ := k.PackParts()
	panels := k.weights.Panels()
	k.weights.Pack(dst,
		nbits.Source{Q: k.b.Data, Scales: tensor.As[float32](k.scales), Zero: k.zero},
		panels*part/n, panels*(part+1)/n)
}

// Absorbed implements [compute.Absorbing].
func (k *nBits) Absorbed() []int {
	if k.zeros == nil {
		return []int{microsoft.NBitsB, microsoft.NBitsScales}
	}
	return []int{microsoft.NBitsB, microsoft.NBitsScales, microsoft.NBitsZeros}
}
