package zoo

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// The building blocks that transformers share (Vaswani et al., "Attention Is All You Need", 2017).

// Spread of transformer weights. Embeddings have that of BERT and GPT-2 (both start from N(0,
// 0.02)). Projections take theirs from the fan-in: with 0.02, attention scores of an untrained
// network are so small that every token attends evenly to all, and a wrong score would hardly show.
const (
	embeddingStd = 0.02
	biasStd      = 0.02
)

// heads is the geometry of attention.
type heads struct{ count, size int }

// lastAxis is what layer normalisation averages over.
func lastAxis() op.Attrs { return op.Attrs{op.IntsAttr("axes", -1)} }

// layerNorm is Ba, Kiros and Hinton, "Layer Normalization", 2016, in the operators of opset 16 and
// before.
func (b *builder) layerNorm(x *graph.Value, hidden int, epsilon float32) *graph.Value {
	mean := b.opWith("ReduceMean", lastAxis(), x)
	d := b.op("Sub", x, mean)
	square := b.op("Pow", d, b.float(2))
	variance := b.opWith("ReduceMean", lastAxis(), square)
	std := b.op("Sqrt", b.op("Add", variance, b.float(epsilon)))
	y := b.op("Div", d, std)
	y = b.op("Mul", y, b.param("weight", uniform(0.8, 1.2), hidden))
	return b.op("Add", y, b.param("bias", normal(biasStd), hidden))
}

// geluErf is x * Phi(x) (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2).
func (b *builder) geluErf(x *graph.Value) *graph.Value {
	y := b.op("Erf", b.op("Div", x, b.float(float32(math.Sqrt2))))
	y = b.op("Mul", x, b.op("Add", y, b.float(1)))
	return b.op("Mul", y, b.float(0.5))
}

// geluTanh is the approximation in the same section.
func (b *builder) geluTanh(x *graph.Value) *graph.Value {
	half := b.op("Mul", x, b.float(0.5))
	cube := b.op("Mul", b.op("Pow", x, b.float(3)), b.float(0.044715))
	y := b.op("Mul", b.op("Add", x, cube), b.float(0.7978845608)) // sqrt(2/pi)
	y = b.op("Add", b.op("Tanh", y), b.float(1))
	return b.op("Mul", half, y)
}

// dense adds a fully connected layer on rank 3, as exporters write nn.Linear there: the weight is
// stored transposed, and the bias is the first operand of the sum.
func (b *builder) dense(x *graph.Value, in, out int) *graph.Value {
	y := b.op("MatMul", x, b.param("weight", fanIn(linearGain, in), in, out))
	return b.op("Add", b.param("bias", normal(biasStd), out), y)
}

// likeLeading reshapes x to the first two sizes of its own shape followed by the given ones: how
// exporters write a view whose batch and sequence are open.
func (b *builder) likeLeading(x *graph.Value, sizes ...int64) *graph.Value {
	batch, sequence := b.dim(x, 0), b.dim(x, 1)
	shape := []*graph.Value{b.unsqueeze(batch, 0), b.unsqueeze(sequence, 0)}
	for _, n := range sizes {
		shape = append(shape, b.ints(n))
	}
	return b.reshape(x, b.concat(0, shape...))
}

// additiveMask turns a mask of ones [batch, sequence] into 0 where it is one and float32's lowest
// value where it is zero, ready to be added to scores [batch, heads, sequence, sequence].
func (b *builder) additiveMask(mask *graph.Value) *graph.Value {
	m := b.unsqueeze(b.unsqueeze(mask, 1), 2)
	m = b.op("Sub", b.float(1), b.cast(m, tensor.Float32))
	return b.op("Mul", m, b.float(-math.MaxFloat32))
}
