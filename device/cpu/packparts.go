package cpu

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// partBytes is about the size of a part: large against what claiming it costs, small against
// weights that workers should share.
const partBytes = 1 << 20

// partsOf is the number of parts of a copy that consists of so many panels.
func partsOf(bytes, panels int) int { return max(1, min(bytes/partBytes, panels)) }

// packParts is Pack by way of the parts.
func packParts(k compute.Parted, dst []byte) {
	n, scratch := k.PackParts()
	mem := make([]float32, scratch)
	for i := range n {
		k.PackPart(dst, i, mem)
	}
}

// Pack implements Kernel.
func (k *gemmKernel) Pack(dst []byte) { packParts(k, dst) }

// panels is the number of panels of the packed right operand.
func (k *gemmKernel) panels() int {
	w := k.op.PanelWidth()
	return (k.params.N + w - 1) / w
}

// PackParts implements [compute.Parted].
func (k *gemmKernel) PackParts() (n, scratch int) {
	if k.weight == nil {
		return 0, 0
	}
	return partsOf(k.PackedBytes(), k.panels()), 0
}

// PackPart implements [compute.Parted]: some panels of columns.
func (k *gemmKernel) PackPart(dst []byte, part int, _ []float32) {
	p, width := &k.params, k.op.PanelWidth()
	n, _ := k.PackParts()
	from, to := k.panels()*part/n*width, min(k.panels()*(part+1)/n*width, p.N)
	at, ld := from, p.N
	if p.TransB {
		at, ld = from*p.K, p.K
	}
	words := p.Precision.PackedBLen(p.K, from)
	p.Precision.PackB(
		tensor.Cast[float32](dst)[words:],
		tensor.As[float32](k.weight)[at:],
		p.K,
		to-from,
		ld,
		p.TransB,
	)
}

// Pack implements Kernel.
func (k *convKernel) Pack(dst []byte) { packParts(k, dst) }

// PackParts implements [compute.Parted].
func (k *convKernel) PackParts() (n, scratch int) {
	if k.weight == nil {
		return 0, 0
	}
	n, scratch = partsOf(k.PackedBytes(), k.op.Panels()), k.op.RepackLen()
	if k.scale != nil {
		scratch += k.rowsOfPart(n) * k.rowLen()
	}
	return n, scratch
}

// rowLen is the number of weights of an output channel.
func (k *convKernel) rowLen() int { return k.weight.Len() / k.weight.Shape[0] }

// rowsOfPart is the most output channels that one of n parts has.
func (k *convKernel) rowsOfPart(n int) (most int) {
	for i := range n {
		from, to := k.panelsOfPart(i, n)
		most = max(most, k.op.PanelStart(to)-k.op.PanelStart(from))
	}
	return most
}

// panelsOfPart are those of part i of n.
func (k *convKernel) panelsOfPart(i, n int) (from, to int) {
	return k.op.Panels() * i / n, k.op.Panels() * (i + 1) / n
}

// PackPart implements [compute.Parted]: some panels of output channels.
func (k *convKernel) PackPart(dst []byte, part int, scratch []float32) {
	n := partsOf(k.PackedBytes(), k.op.Panels())
	from, to := k.panelsOfPart(part, n)
	first, end, each := k.op.PanelStart(from), k.op.PanelStart(to), k.rowLen()
	w := tensor.As[float32](k.weight)[first*each : end*each]
	if k.scale != nil {
		w = scaledRows(scratch[k.op.RepackLen():], w, tensor.As[float32](k.scale)[first:end])
	}
	k.op.RepackPanels(tensor.Cast[float32](dst), w, from, to, scratch)
}

// scaledRows writes the rows of a matrix, each times a number, and returns them.
func scaledRows(dst, w, by []float32) []float32 {
	n := len(w) / len(by)
	for i, s := range by {
		to := dst[i*n:][:n]
		for j, v := range w[i*n:][:n] {
			to[j] = v * s
		}
	}
	return dst[:len(w)]
}
