package zoo

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// resnet50 is the 50-layer network of He et al., "Deep Residual Learning for Image Recognition",
// CVPR 2016, table 1, as torchvision has it: the stride of a bottleneck lies on its 3x3 convolution
// ("v1.5").
func resnet50() Arch {
	return Arch{
		Name: "resnet50",
		Doc: "image classification, 1000 classes (He et al., Deep Residual Learning for " +
			"Image Recognition, 2016)",
		Parameters: 25_557_032,
		Inputs:     image("input", 224),
		options:    imageOptions,
		multiple:   1,
		draft:      draftResNet50,
	}
}

func draftResNet50(b *builder, o Options) {
	size, classes := or(o.Resolution, 224), or(o.Classes, 1000)
	x := b.input("input", tensor.Float32, op.Sym("batch"), op.Known(3), op.Known(size),
		op.Known(size))

	c := o.channels(64)
	x = b.in("conv1").conv(x, conv{in: 3, out: c, kernel: 7, stride: 2, groups: 1, gain: reluGain})
	x = b.in("bn1").batchNorm(x, torchNorm, c, plainScale)
	x = b.in("relu").op("Relu", x)
	x = b.in("maxpool").maxPool(x, 3, 2)

	for i, stage := range []struct {
		blocks, width, stride int
	}{{3, 64, 1}, {4, 128, 2}, {6, 256, 2}, {3, 512, 2}} {
		layer := b.in([]string{"layer1", "layer2", "layer3", "layer4"}[i])
		w := o.channels(stage.width)
		for j := range o.blocks(stage.blocks) {
			stride := 1
			if j == 0 {
				stride = stage.stride
			}
			x = layer.at(j).bottleneck(x, c, w, stride, j == 0)
			c = 4 * w
		}
	}

	x = b.in("avgpool").op("GlobalAveragePool", x)
	x = b.opWith("Flatten", axis(1), x)
	x = b.in("fc").linear(x, c, classes)
	b.output(x, "output", op.Sym("batch"), op.Known(classes))
}

// bottleneck is the block of figure 5, right: 1x1 to w channels, 3x3, 1x1 to 4w, and a shortcut,
// projected where the shape changes (option B of section 3.3).
func (b *builder) bottleneck(x *graph.Value, in, w, stride int, project bool) *graph.Value {
	y := b.in("conv1").conv(x,
		conv{in: in, out: w, kernel: 1, stride: 1, groups: 1, gain: reluGain})
	y = b.in("bn1").batchNorm(y, torchNorm, w, plainScale)
	y = b.in("relu").op("Relu", y)
	y = b.in("conv2").conv(y, conv{in: w, out: w, kernel: 3, stride: stride, groups: 1,
		gain: reluGain})
	y = b.in("bn2").batchNorm(y, torchNorm, w, plainScale)
	y = b.in("relu_1").op("Relu", y)
	y = b.in("conv3").conv(y, conv{in: w, out: 4 * w, kernel: 1, stride: 1, groups: 1,
		gain: reluGain})
	y = b.in("bn3").batchNorm(y, torchNorm, 4*w, residualScale)
	if project {
		shortcut := b.in("downsample")
		x = shortcut.at(0).conv(x,
			conv{in: in, out: 4 * w, kernel: 1, stride: stride, groups: 1, gain: reluGain})
		x = shortcut.at(1).batchNorm(x, torchNorm, 4*w, plainScale)
	}
	return b.in("relu_2").op("Relu", b.op("Add", y, x))
}
