package zoo

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// yolov8n is the smallest detector of Jocher et al., "Ultralytics YOLOv8", 2023 (yolov8.yaml at
// scale n): 80 classes of COCO, pictures of 640x640. Boxes and scores leave it decoded, without
// non-maximum suppression.
func yolov8n() Arch {
	return Arch{
		Name: "yolov8n",
		Doc: "object detection, 80 classes, 640x640 (Jocher et al., Ultralytics YOLOv8, " +
			"2023)",
		Parameters: 3_157_200,
		Inputs:     image("images", 640),
		options:    imageOptions,
		multiple:   yoloStrides[len(yoloStrides)-1],
		draft:      draftYOLOv8,
	}
}

// yolo writes one YOLOv8 detector.
type yolo struct {
	*builder
	Options
	next int // number of the next layer of yolov8.yaml
}

// yoloNorm is the batch normalisation that Ultralytics sets for all of its layers.
var yoloNorm = batchNorm{epsilon: 1e-3, momentum: 0.97}

// layer returns the builder of the next numbered layer.
func (y *yolo) layer() *builder {
	y.next++
	return y.in(fmt.Sprintf("model.%d", y.next-1))
}

func draftYOLOv8(b *builder, o Options) {
	b.useOpset(17)
	y := &yolo{builder: b, Options: o}
	size := or(o.Resolution, 640)
	x := b.input("images", tensor.Float32, op.Known(1), op.Known(3), op.Known(size), op.Known(size))

	c1, c2, c3, c4, c5 := o.channels(16), o.channels(32), o.channels(64), o.channels(128),
		o.channels(256)
	down := func(x *graph.Value, in, out int) *graph.Value {
		return y.layer().convSiLU(x, conv{in: in, out: out, kernel: 3, stride: 2, groups: 1})
	}
	c2f := func(x *graph.Value, in, out, blocks int, shortcut bool) *graph.Value {
		return y.layer().c2f(x, in, out, o.blocks(blocks), shortcut)
	}

	x = down(x, 3, c1)
	x = down(x, c1, c2)
	x = c2f(x, c2, c2, 1, true)
	x = down(x, c2, c3)
	p3 := c2f(x, c3, c3, 2, true)
	x = down(p3, c3, c4)
	p4 := c2f(x, c4, c4, 2, true)
	x = down(p4, c4, c5)
	x = c2f(x, c5, c5, 1, true)
	p5 := y.layer().sppf(x, c5)

	// Features flow from coarse to fine and back (Liu et al., "Path Aggregation Network", 2018).
	x = y.layer().upsample(p5)
	x = y.layer().concat(1, x, p4)
	n4 := c2f(x, c5+c4, c4, 1, false)
	x = y.layer().upsample(n4)
	x = y.layer().concat(1, x, p3)
	n3 := c2f(x, c4+c3, c3, 1, false)
	x = down(n3, c3, c3)
	x = y.layer().concat(1, x, n4)
	n4 = c2f(x, c3+c4, c4, 1, false)
	x = down(n4, c4, c4)
	x = y.layer().concat(1, x, p5)
	n5 := c2f(x, c4+c5, c5, 1, false)

	d := detect{builder: y.layer(), classes: or(o.Classes, 80), size: size}
	d.boxWidth = max(16, c3/4, 4*dflBins)
	d.classWidth = max(c3, min(d.classes, 100))
	x = d.decode([]*graph.Value{d.level(0, n3, c3), d.level(1, n4, c4), d.level(2, n5, c5)})
	b.output(x, "output0", op.Known(1), op.Known(4+d.classes), op.Known(d.cells()))
}

// convSiLU is Ultralytics' Conv: convolution, batch normalisation, and x * sigmoid(x) (Elfwing et
// al., "Sigmoid-Weighted Linear Units", 2018).
func (b *builder) convSiLU(x *graph.Value, c conv) *graph.Value {
	return b.convSiLUScaled(x, c, plainScale)
}

func (b *builder) convSiLUScaled(x *graph.Value, c conv, scale float64) *graph.Value {
	c.gain = siluGain
	x = b.in("conv").conv(x, c)
	x = b.in("bn").batchNorm(x, yoloNorm, c.out, plainScale)
	act := b.in("act")
	return act.op("Mul", x, act.op("Sigmoid", x))
}

// c2f is a cross-stage block (Wang et al., "CSPNet", 2020) with all intermediate results joined at
// its end.
func (b *builder) c2f(x *graph.Value, in, out, blocks int, shortcut bool) *graph.Value {
	half := out / 2
	x = b.in("cv1").convSiLU(x, conv{in: in, out: out, kernel: 1, stride: 1, groups: 1})
	parts := b.split(x, 1, int64(half), int64(half))
	for i := range blocks {
		m := b.in(fmt.Sprintf("m.%d", i))
		parts = append(parts, m.convPair(parts[len(parts)-1], half, shortcut))
	}
	x = b.concat(1, parts...)
	return b.in("cv2").convSiLU(x,
		conv{in: len(parts) * half, out: out, kernel: 1, stride: 1, groups: 1})
}

// convPair is Ultralytics' Bottleneck with e=1: two 3x3 convolutions and a shortcut.
func (b *builder) convPair(x *graph.Value, c int, shortcut bool) *graph.Value {
	geometry := conv{in: c, out: c, kernel: 3, stride: 1, groups: 1}
	y := b.in("cv1").convSiLU(x, geometry)
	y = b.in("cv2").convSiLU(y, geometry)
	if !shortcut {
		return y
	}
	return b.op("Add", x, y)
}

// sppf pools over growing windows by pooling thrice (He et al., "Spatial Pyramid Pooling", 2014,
// made serial).
func (b *builder) sppf(x *graph.Value, c int) *graph.Value {
	half := c / 2
	x = b.in("cv1").convSiLU(x, conv{in: c, out: half, kernel: 1, stride: 1, groups: 1})
	p1 := b.in("m").maxPool(x, 5, 1)
	p2 := b.in("m_1").maxPool(p1, 5, 1)
	p3 := b.in("m_2").maxPool(p2, 5, 1)
	x = b.concat(1, x, p1, p2, p3)
	return b.in("cv2").convSiLU(x, conv{in: 4 * half, out: c, kernel: 1, stride: 1, groups: 1})
}

// upsample doubles height and width by repeating pixels.
func (b *builder) upsample(x *graph.Value) *graph.Value {
	scales := b.constant(tensor.From([]float32{1, 1, 2, 2}, 4))
	return b.opWith("Resize", op.Attrs{
		op.StringAttr("coordinate_transformation_mode", "asymmetric"),
		op.FloatAttr("cubic_coeff_a", -0.75),
		op.StringAttr("mode", "nearest"), op.StringAttr("nearest_mode", "floor"),
	}, x, nil, scales)
}
