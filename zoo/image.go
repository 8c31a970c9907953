package zoo

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// The building blocks that image networks share.

// Standard deviations of the weights of a convolution, from the fan-in, so that the second moment
// of activations keeps its size through the layers (He et al., "Delving Deep into Rectifiers",
// 2015, section 2.2).
const (
	linearGain = 1.0 // no activation follows
	reluGain   = 2.0 // a rectifier halves the second moment
	// SiLU leaves 0.36 of it at variance 1, and between a quarter and a half elsewhere
	siluGain = 2.5
)

func fanIn(gain float64, n int) distribution { return normal(math.Sqrt(gain / float64(n))) }

// conv is a convolution's geometry: square kernels, padded so that a stride of 1 keeps the size.
type conv struct {
	in, out        int
	kernel, stride int
	groups         int
	gain           float64
}

func (c conv) attrs() op.Attrs {
	k, s, p := int64(c.kernel), int64(c.stride), int64(c.kernel/2)
	return op.Attrs{
		op.IntsAttr("dilations", 1, 1), op.IntAttr("group", int64(c.groups)),
		op.IntsAttr("kernel_shape", k, k),
		op.IntsAttr("pads", p, p, p, p), op.IntsAttr("strides", s, s),
	}
}

// conv adds a convolution without bias.
func (b *builder) conv(x *graph.Value, c conv) *graph.Value {
	return b.opWith("Conv", c.attrs(), x, b.kernel(c))
}

// convBias adds a convolution with bias.
func (b *builder) convBias(x *graph.Value, c conv) *graph.Value {
	return b.opWith("Conv", c.attrs(), x, b.kernel(c), b.param("bias", normal(0.1), c.out))
}

func (b *builder) kernel(c conv) *graph.Value {
	in := c.in / c.groups
	return b.param("weight", fanIn(c.gain, in*c.kernel*c.kernel), c.out, in, c.kernel, c.kernel)
}

// batchNorm is what the layers of one network have in common (Ioffe and Szegedy, "Batch
// Normalization", 2015).
type batchNorm struct{ epsilon, momentum float32 }

// torchNorm is PyTorch's default.
var torchNorm = batchNorm{epsilon: 1e-5, momentum: 0.9}

// Centres of the scale of a batch normalisation: a small scale at the end of a residual branch
// keeps the sum over many blocks from growing (Goyal et al., "Accurate, Large Minibatch SGD", 2017,
// section 5.1, start it at 0).
const (
	plainScale    = 1.0
	residualScale = 0.3
)

func (b *builder) batchNorm(x *graph.Value, n batchNorm, channels int, scale float64) *graph.Value {
	attrs := op.Attrs{
		op.FloatAttr("epsilon", n.epsilon), op.FloatAttr("momentum", n.momentum),
		op.IntAttr("training_mode", 0),
	}
	return b.opWith("BatchNormalization", attrs, x,
		b.param("weight", uniform(0.8*scale, 1.2*scale), channels),
		b.param("bias", normal(0.1), channels), b.param("running_mean", normal(0.1), channels),
		b.param("running_var", uniform(0.8, 1.2), channels))
}

// maxPool adds max pooling over a square window, padded so that a stride of 1 keeps the size.
func (b *builder) maxPool(x *graph.Value, kernel, stride int64) *graph.Value {
	p := kernel / 2
	return b.opWith("MaxPool", op.Attrs{
		op.IntAttr("ceil_mode", 0), op.IntsAttr("dilations", 1, 1),
		op.IntsAttr("kernel_shape", kernel, kernel),
		op.IntsAttr("pads", p, p, p, p), op.IntsAttr("strides", stride, stride),
	}, x)
}

// linear adds a fully connected layer on rank 2, as exporters write nn.Linear there.
func (b *builder) linear(x *graph.Value, in, out int) *graph.Value {
	attrs := op.Attrs{op.FloatAttr("alpha", 1), op.FloatAttr("beta", 1), op.IntAttr("transB", 1)}
	return b.opWith("Gemm", attrs, x, b.param("weight", fanIn(linearGain, in), out, in),
		b.param("bias", normal(0.1), out))
}
