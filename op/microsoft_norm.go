package op

import "github.com/weirgpu/weir/tensor"

// microsoftNorm are layer normalisations with the sums before them. SimplifiedLayerNormalization,
// the root mean square variant, is written in ONNX's own domain by ONNX Runtime.
func microsoftNorm() []Op {
	simplified := Op{Name: "SimplifiedLayerNormalization", MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 2,
		Flops: flopsPerElement(4)}
	own := composition(simplified, 1, defineSimplifiedLayerNorm)
	onnx := own
	onnx.Domain = ""
	return []Op{own, onnx,
		composition(Op{Name: "SkipLayerNormalization", MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 4,
			Flops: flopsPerElement(8)}, allRounded,
			func(x *expander) { defineSkipNorm(x, x.input(4), x.layerNorm) }),
		composition(Op{Name: "SkipSimplifiedLayerNormalization", MinIn: 3, MaxIn: 4, MinOut: 1,
			MaxOut: 4, Flops: flopsPerElement(6)},
			allRounded, func(x *expander) { defineSkipNorm(x, x.input(3), x.simplifiedLayerNorm) }),
		composition(Op{Name: "EmbedLayerNormalization", MinIn: 7, MaxIn: 9, MinOut: 1, MaxOut: 3,
			Optional: []int{embedSegments, embedSegment}}, allRounded, defineEmbedLayerNorm),
		composition(Op{Name: "QEmbedLayerNormalization", MinIn: 18, MaxIn: 18, MinOut: 1, MaxOut: 2,
			Optional: []int{embedSegments,
				embedSegment, embedMask, embedScales + embedSegment - embedWord,
				embedZeros + embedSegment - embedWord}},
			allRounded, defineQEmbedLayerNorm),
	}
}

// defineSimplifiedLayerNorm normalises over all axes from axis on.
func defineSimplifiedLayerNorm(x *expander) {
	rank := x.rank(x.input(0))
	if x.err != nil {
		return
	}
	axis, err := x.axis(x.Attrs.Int("axis", -1), rank)
	if err != nil {
		x.err = err
		return
	}
	y, inv := x.rms(x.input(0), x.input(1), allAxes(rank)[axis:], 1e-5)
	x.give(0, y)
	x.give(1, inv)
}

// rms divides v by the root of its mean square over the axes, then scales; inv is one over the
// root.
func (x *expander) rms(v, scale value, axes []int64, epsilon float32) (y, inv value) {
	square := x.op("Mul", nil, v, v)
	var m value
	if x.opset >= 18 {
		m = x.op("ReduceMean", nil, square, x.ints(axes...))
	} else {
		m = x.op("ReduceMean", Attrs{IntsAttr("axes", axes...)}, square)
	}
	root := x.op("Sqrt", nil, x.add(m, x.scalar(v, x.attr("epsilon", epsilon))))
	y = x.op("Mul", nil, x.op("Div", nil, v, root), scale)
	if !x.wants(1) {
		return y, absent
	}
	return y, x.op("Reciprocal", nil, root)
}

// simplifiedLayerNorm normalises the last axis with gamma, input 2.
func (x *expander) simplifiedLayerNorm(v value) (y, mean, inv value) {
	y, inv = x.rms(v, x.input(2), []int64{int64(x.rank(v) - 1)}, 1e-12)
	if x.wants(1) {
		mean = x.scale(inv, 0) // there is none
	}
	return y, mean, inv
}

// layerNormVersion is the opset that brought LayerNormalization.
const layerNormVersion = 17

// layerNorm normalises the last axis with gamma and beta, inputs 2 and 3.
func (x *expander) layerNorm(v value) (y, mean, inv value) {
	outputs := 1
	if x.wants(1) {
		outputs = 3
	}
	attrs := Attrs{IntAttr("axis", -1), FloatAttr("epsilon", x.Attrs.Float("epsilon", 1e-12))}
	out := x.ops("", "LayerNormalization", max(x.opset, layerNormVersion), outputs, attrs, v,
		x.input(2), x.input(3))
	if outputs == 1 {
		return out[0], absent, absent
	}
	return out[0], out[1], out[2]
}

// defineSkipNorm normalises the sum of input and skip, which may lack the batch, and a bias; output
// 3 is the sum.
func defineSkipNorm(x *expander, bias value, norm func(value) (y, mean, inv value)) {
	in, skip := x.input(0), x.input(1)
	x.ranked(in, "input", 2, 3)
	x.ranked(skip, "skip", 2, 3)
	x.lastAxis(2)
	sum := x.add(x.add(in, skip), bias)
	x.sameSize(sum, in)
	y, mean, inv := norm(sum)
	for i, v := range []value{y, mean, inv, sum} {
		x.give(i, v)
	}
}

// Inputs of EmbedLayerNormalization, in order. QEmbedLayerNormalization has scales and zero points
// in place of the last one.
const (
	embedIDs = iota
	embedSegments
	embedWord
	embedPosition
	embedSegment
	embedGamma
	embedBeta
	embedMask
	embedPositionIDs
	embedScales = embedPositionIDs // five: of word, position and segment, gamma, beta
	embedZeros  = embedScales + 5
)

// defineEmbedLayerNorm is the sum of the embeddings of words, positions and segments, normalised;
// output 1 counts the places that the mask keeps, output 2 is the sum.
func defineEmbedLayerNorm(x *expander) {
	rows := func(table int, at value) value { return x.op("Gather", nil, x.input(table), at) }
	x.embed(rows, x.input(embedPositionIDs), x.input(embedGamma), x.input(embedBeta))
}

// defineQEmbedLayerNorm is EmbedLayerNormalization with 8-bit tables.
func defineQEmbedLayerNorm(x *expander) {
	numbers := func(v value, operand int) value {
		x.bytes(v)
		k := operand - embedWord
		return x.op("DequantizeLinear", nil, v, x.single(embedScales+k), x.single(embedZeros+k))
	}
	rows := func(table int, at value) value {
		return numbers(x.op("Gather", nil, x.input(table), at), table)
	}
	x.embed(rows, absent, numbers(x.input(embedGamma), embedGamma),
		numbers(x.input(embedBeta), embedBeta))
}

// embed gives the outputs of EmbedLayerNormalization; rows are those of one of its tables.
func (x *expander) embed(rows func(table int, at value) value, places, gamma, beta value) {
	ids := x.input(embedIDs)
	x.ranked(ids, "input_ids", 2)
	if places != absent {
		x.ranked(places, "position_ids", 2)
	} else {
		places = x.unsqueeze(x.count(x.dim(ids, 1)), 0)
	}
	sum := x.add(rows(embedWord, ids), rows(embedPosition, places))
	if s := x.input(embedSegments); s != absent {
		sum = x.add(sum, rows(embedSegment, s))
	}
	attrs := Attrs{IntAttr("axis", -1), FloatAttr("epsilon", x.Attrs.Float("epsilon", 1e-12))}
	x.give(0, x.ops("", "LayerNormalization", max(x.opset, layerNormVersion), 1, attrs, sum, gamma,
		beta)[0])
	if x.wants(1) {
		mask := x.input(embedMask)
		if mask == absent {
			mask = x.scale(ids, 0)
		}
		x.give(1, x.op("ReduceSum", Attrs{IntAttr("keepdims", 0)}, x.cast(mask, tensor.Int32),
			x.ints(1)))
	}
	x.give(2, sum)
}
