package zoo

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// mobilenetV2 is the network of Sandler et al., "MobileNetV2: Inverted Residuals and Linear
// Bottlenecks", CVPR 2018, table 2, with width multiplier 1.
func mobilenetV2() Arch {
	return Arch{
		Name: "mobilenetv2",
		Doc: "image classification for phones, 1000 classes (Sandler et al., MobileNetV2, " +
			"2018)",
		Parameters: 3_504_872,
		Inputs:     image("input", 224),
		options:    imageOptions,
		multiple:   1,
		draft:      draftMobileNetV2,
	}
}

func draftMobileNetV2(b *builder, o Options) {
	size, classes := or(o.Resolution, 224), or(o.Classes, 1000)
	x := b.input("input", tensor.Float32, op.Sym("batch"), op.Known(3), op.Known(size),
		op.Known(size))

	features := b.in("features")
	c := o.channels(32)
	x = features.at(0).convReLU6(x, conv{in: 3, out: c, kernel: 3, stride: 2, groups: 1})

	n := 1 // of the next element of features
	for _, stage := range []struct {
		expand, channels, blocks, stride int // t, c, n, s of table 2
	}{
		{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
		{6, 320, 1, 1},
	} {
		out := o.channels(stage.channels)
		for j := range o.blocks(stage.blocks) {
			stride := 1
			if j == 0 {
				stride = stage.stride
			}
			x = features.at(n).invertedResidual(x, c, out, stride, stage.expand)
			c = out
			n++
		}
	}

	// a smaller width leaves the last layer as it is (section 6.1)
	last := max(1280, o.channels(1280))
	x = features.at(n).convReLU6(x, conv{in: c, out: last, kernel: 1, stride: 1, groups: 1})

	x = b.op("GlobalAveragePool", x)
	x = b.opWith("Flatten", axis(1), x)
	x = b.in("classifier").at(1).linear(x, last, classes)
	b.output(x, "output", op.Sym("batch"), op.Known(classes))
}

// invertedResidual is the bottleneck of table 1: expand by 1x1, filter depthwise by 3x3, project
// linearly by 1x1; with a shortcut where the shape stays.
func (b *builder) invertedResidual(x *graph.Value, in, out, stride, expand int) *graph.Value {
	layers := b.in("conv")
	wide := in * expand
	y, i := x, 0
	if expand != 1 {
		y = layers.at(i).convReLU6(y, conv{in: in, out: wide, kernel: 1, stride: 1, groups: 1})
		i++
	}
	y = layers.at(i).convReLU6(y,
		conv{in: wide, out: wide, kernel: 3, stride: stride, groups: wide})
	y = layers.at(i+1).conv(y,
		conv{in: wide, out: out, kernel: 1, stride: 1, groups: 1, gain: linearGain})

	residual := stride == 1 && in == out
	scale := plainScale
	if residual {
		scale = residualScale
	}
	y = layers.at(i+2).batchNorm(y, torchNorm, out, scale)
	if residual {
		return b.op("Add", x, y)
	}
	return y
}

// convReLU6 is a convolution, batch normalisation and min(max(x, 0), 6), which exporters write as
// Clip.
func (b *builder) convReLU6(x *graph.Value, c conv) *graph.Value {
	c.gain = reluGain
	x = b.at(0).conv(x, c)
	x = b.at(1).batchNorm(x, torchNorm, c.out, plainScale)
	act := b.at(2)
	return act.op("Clip", x, act.float(0), act.float(6))
}
