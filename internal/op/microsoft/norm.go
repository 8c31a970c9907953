package microsoft

import (
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// norms are layer normalisations with the sums before them. SimplifiedLayerNormalization,
// the root mean square variant, is written in ONNX's own domain by ONNX Runtime.
func norms() []op.Op {
	simplified := op.Op{Name: "SimplifiedLayerNormalization", MinIn: 2, MaxIn: 2, MinOut: 1,
		MaxOut: 2,
		Flops:  op.FlopsPerElement(4)}
	own := composition(simplified, 1, defineSimplifiedLayerNorm)
	onnx := own
	onnx.Domain = ""
	return []op.Op{own, onnx,
		composition(op.Op{Name: "SkipLayerNormalization", MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 4,
			Flops: op.FlopsPerElement(8)}, allRounded,
			func(x *expander) { defineSkipNorm(x, x.Input(4), x.layerNorm) }),
		composition(op.Op{Name: "SkipSimplifiedLayerNormalization", MinIn: 3, MaxIn: 4, MinOut: 1,
			MaxOut: 4, Flops: op.FlopsPerElement(6)},
			allRounded, func(x *expander) { defineSkipNorm(x, x.Input(3), x.simplifiedLayerNorm) }),
		composition(op.Op{Name: "EmbedLayerNormalization", MinIn: 7, MaxIn: 9, MinOut: 1, MaxOut: 3,
			Optional: []int{embedSegments, embedSegment}}, allRounded, defineEmbedLayerNorm),
		composition(op.Op{Name: "QEmbedLayerNormalization", MinIn: 18, MaxIn: 18, MinOut: 1,
			MaxOut: 2,
			Optional: []int{embedSegments,
				embedSegment, embedMask, embedScales + embedSegment - embedWord,
				embedZeros + embedSegment - embedWord}},
			allRounded, defineQEmbedLayerNorm),
	}
}

// defineSimplifiedLayerNorm normalises over all axes from axis on.
func defineSimplifiedLayerNorm(x *expander) {
	axis, rank := x.axisOf(x.Input(0), -1)
	if x.Err != nil {
		return
	}
	y, inv := x.rms(x.Input(0), x.Input(1), op.AllAxes(rank)[axis:], 1e-5)
	x.Give(0, y)
	x.Give(1, inv)
}

// rms divides v by the root of its mean square over the axes, then scales; inv is one over the
// root.
func (x *expander) rms(v, scale op.Var, axes []int64, epsilon float32) (y, inv op.Var) {
	square := x.Op("Mul", nil, v, v)
	var m op.Var
	if x.Opset >= 18 {
		m = x.Op("ReduceMean", nil, square, x.Ints(axes...))
	} else {
		m = x.Op("ReduceMean", op.Attrs{op.IntsAttr("axes", axes...)}, square)
	}
	root := x.Op("Sqrt", nil, x.Add(m, x.Scalar(v, float64(x.Attrs.Float("epsilon", epsilon)))))
	y = x.Op("Mul", nil, x.Op("Div", nil, v, root), scale)
	if !x.Wants(1) {
		return y, op.Absent
	}
	return y, x.Op("Reciprocal", nil, root)
}

// simplifiedLayerNorm normalises the last axis with gamma, input 2.
func (x *expander) simplifiedLayerNorm(v op.Var) (y, mean, inv op.Var) {
	y, inv = x.rms(v, x.Input(2), []int64{int64(x.Rank(v) - 1)}, 1e-12)
	if x.Wants(1) {
		mean = x.Scale(inv, 0) // there is none
	}
	return y, mean, inv
}

// layerNormVersion is the opset that brought LayerNormalization.
const layerNormVersion = 17

// layerNorm normalises the last axis with gamma and beta, inputs 2 and 3.
func (x *expander) layerNorm(v op.Var) (y, mean, inv op.Var) {
	outputs := 1
	if x.Wants(1) {
		outputs = 3
	}
	attrs := op.Attrs{op.IntAttr("axis", -1), op.FloatAttr("epsilon",
		x.Attrs.Float("epsilon", 1e-12))}
	out := x.Ops("", "LayerNormalization", max(x.Opset, layerNormVersion), outputs, attrs, v,
		x.Input(2), x.Input(3))
	if outputs == 1 {
		return out[0], op.Absent, op.Absent
	}
	return out[0], out[1], out[2]
}

// defineSkipNorm normalises the sum of input and skip, which may lack the batch, and a bias; output
// 3 is the sum.
func defineSkipNorm(x *expander, bias op.Var, norm func(op.Var) (y, mean, inv op.Var)) {
	in, skip := x.Input(0), x.Input(1)
	x.Ranked(in, "input", 2, 3)
	x.Ranked(skip, "skip", 2, 3)
	x.lastAxis(2)
	sum := x.Add(x.Add(in, skip), bias)
	x.sameSize(sum, in)
	y, mean, inv := norm(sum)
	for i, v := range []op.Var{y, mean, inv, sum} {
		x.Give(i, v)
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
	rows := func(table int, at op.Var) op.Var { return x.Op("Gather", nil, x.Input(table), at) }
	x.embed(rows, x.Input(embedPositionIDs), x.Input(embedGamma), x.Input(embedBeta))
}

// defineQEmbedLayerNorm is EmbedLayerNormalization with 8-bit tables.
func defineQEmbedLayerNorm(x *expander) {
	numbers := func(v op.Var, operand int) op.Var {
		x.bytes(v)
		k := operand - embedWord
		return x.Op("DequantizeLinear", nil, v, x.single(embedScales+k), x.single(embedZeros+k))
	}
	rows := func(table int, at op.Var) op.Var {
		return numbers(x.Op("Gather", nil, x.Input(table), at), table)
	}
	x.embed(rows, op.Absent, numbers(x.Input(embedGamma), embedGamma),
		numbers(x.Input(embedBeta), embedBeta))
}

// embed gives the outputs of EmbedLayerNormalization; rows are those of one of its tables.
func (x *expander) embed(rows func(table int, at op.Var) op.Var, places, gamma, beta op.Var) {
	ids := x.Input(embedIDs)
	x.Ranked(ids, "input_ids", 2)
	if places != op.Absent {
		x.Ranked(places, "position_ids", 2)
	} else {
		places = x.Unsqueeze(x.Count(x.Dim(ids, 1)), 0)
	}
	sum := x.Add(rows(embedWord, ids), rows(embedPosition, places))
	if s := x.Input(embedSegments); s != op.Absent {
		sum = x.Add(sum, rows(embedSegment, s))
	}
	attrs := op.Attrs{op.IntAttr("axis", -1), op.FloatAttr("epsilon",
		x.Attrs.Float("epsilon", 1e-12))}
	x.Give(0, x.Ops("", "LayerNormalization", max(x.Opset, layerNormVersion), 1, attrs, sum, gamma,
		beta)[0])
	if x.Wants(1) {
		x.Give(1, x.maskSums(ids))
	}
	x.Give(2, sum)
}

// maskSums counts, for each sequence, the tokens that the mask keeps; without a mask the counts are
// 0, as ONNX Runtime's are.
func (x *expander) maskSums(ids op.Var) op.Var {
	mask := x.Input(embedMask)
	if mask == op.Absent {
		mask = x.Scale(ids, 0)
	}
	return x.Op("ReduceSum", op.Attrs{op.IntAttr("keepdims", 0)}, x.Cast(mask, tensor.Int32),
		x.Ints(1))
}
