package op

import "github.com/weirgpu/weir/tensor"

// Operators that are differentiated through what they are made of: see [Op.Parts]. They compute in
// float32 where their operands are halves.

// perChannel gives a vector of channels the axes that follow that of channels in v.
func (x *Expander) perChannel(vector, v Var) Var {
	return x.Unsqueeze(vector, axesBetween(1, x.Rank(v)-1)...)
}

// normalised is v with the mean taken out along axes and divided by the standard deviation; mean
// and the inverse deviation are returned, too.
func (x *Expander) normalised(v Var, axes ...int64) (y, mean, inverse Var) {
	mean = x.meanOver(v, axes...)
	centred := x.sub(v, mean)
	variance := x.meanOver(x.square(centred), axes...)
	inverse = x.inverseRoot(variance)
	return x.mul(centred, inverse), mean, inverse
}

// inverseRoot is 1/√(variance + epsilon).
func (x *Expander) inverseRoot(variance Var) Var {
	return x.Op("Reciprocal", nil, x.Op("Sqrt", nil, x.plus(variance, x.attr("epsilon", 1e-5))))
}

// affine is v·scale + shift; an Absent shift is 0.
func (x *Expander) affine(v, scale, shift Var) Var {
	v = x.mul(v, x.wide(scale))
	if shift == Absent {
		return v
	}
	return x.Add(v, x.wide(shift))
}

func partsOfLayerNorm(x *Expander) {
	v := x.wide(x.Input(0))
	rank := x.Rank(v)
	axes := axesBetween(int(x.axisOf(v, -1)), rank)
	y, mean, inverse := x.normalised(v, axes...)
	x.Give(0, x.Cast(x.affine(y, x.Input(1), x.Input(2)), x.DType(x.Input(0))))
	stash := tensor.DType(x.Attrs.Int("stash_type", int64(tensor.Float32)))
	for i, m := range []Var{mean, inverse} {
		if x.Wants(i + 1) {
			x.Give(i+1, x.Cast(m, stash))
		}
	}
}

func partsOfRMSNorm(x *Expander) {
	v := x.wide(x.Input(0))
	axes := axesBetween(int(x.axisOf(v, -1)), x.Rank(v))
	inverse := x.inverseRoot(x.meanOver(x.square(v), axes...))
	y := x.affine(x.mul(v, inverse), x.Input(1), Absent)
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

func partsOfInstanceNorm(x *Expander) {
	v := x.wide(x.Input(0))
	y, _, _ := x.normalised(v, axesBetween(2, x.Rank(v))...)
	y = x.affine(y, x.perChannel(x.Input(1), v), x.perChannel(x.Input(2), v))
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// partsOfGroupNorm: scale and bias are one a group before version 21 and one a channel from then
// on.
func partsOfGroupNorm(x *Expander) {
	v := x.wide(x.Input(0))
	y, _, _ := x.normalised(x.Reshape(v, 0, x.Attrs.Int("num_groups", 0), -1), 2)
	scale, shift := x.Input(1), x.Input(2)
	if x.Version < 21 {
		y = x.affine(y, x.Unsqueeze(scale, 1), x.Unsqueeze(shift, 1))
		y = x.as(y, v)
	} else {
		y = x.affine(x.as(y, v), x.perChannel(scale, v), x.perChannel(shift, v))
	}
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// partsOfMeanVariance: the ONNX function adds 1e-9 to the root.
func partsOfMeanVariance(x *Expander) {
	v := x.wide(x.Input(0))
	axes := []int64{0, 2, 3}
	if x.Attrs.Has("axes") {
		given, err := x.marked(x.Attrs.Ints("axes"), x.Rank(v))
		x.Err = firstError(x.Err, err)
		axes = axes[:0]
		for k, is := range given {
			if is {
				axes = append(axes, int64(k))
			}
		}
	}
	centred := x.sub(v, x.meanOver(v, axes...))
	deviation := x.Op("Sqrt", nil, x.meanOver(x.square(centred), axes...))
	x.Give(0, x.Cast(x.div(centred, x.plus(deviation, 1e-9)), x.DType(x.Input(0))))
}

// partsOfLpNorm: a zero vector stays zero.
func partsOfLpNorm(x *Expander) {
	v := x.wide(x.Input(0))
	axis := x.axisOf(v, -1)
	norm := Absent
	if x.Attrs.Int("p", 2) == 1 {
		norm = x.sumOver(x.Op("Abs", nil, v), true, axis)
	} else {
		square := x.sumOver(x.square(v), true, axis)
		zero := x.Op("Equal", nil, square, x.Scalar(square, 0))
		norm = x.Op("Sqrt", nil, x.where(zero, x.Scalar(square, 1), square))
	}
	zero := x.Op("Equal", nil, norm, x.Scalar(norm, 0))
	y := x.div(v, x.where(zero, x.Scalar(norm, 1), norm))
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// partsOfLRN: the squares of the channels around each are added up one after the other, with zeros
// beside the first and the last.
func partsOfLRN(x *Expander) {
	v := x.wide(x.Input(0))
	size := x.Attrs.Int("size", 0)
	channels, ok := x.Known(v, 1)
	if !ok {
		x.Later()
		return
	}
	below, above := (size-1)/2, min(size/2, int64(channels))
	below = min(below, int64(channels))
	pads := make([]int64, 2*x.Rank(v))
	pads[1], pads[x.Rank(v)+1] = below, above
	padded := x.Op("Pad", nil, x.square(v), x.Ints(pads...))
	sum := Absent
	for k := range below + above + 1 {
		sum = x.Add(sum, x.cut(padded, 1, k, k+int64(channels), 1))
	}
	scaled := x.plus(x.Scale(sum, x.attr("alpha", 1e-4)/float64(size)), x.attr("bias", 1))
	power := x.Op("Pow", nil, scaled, x.Scalar(v, x.attr("beta", 0.75)))
	x.Give(0, x.Cast(x.div(v, power), x.DType(x.Input(0))))
}

// partsOfBatchNorm normalises by the moments given or, in training, by those of the batch.
func partsOfBatchNorm(x *Expander) {
	training, err := x.batchTraining()
	x.Err = firstError(x.Err, err)
	v := x.wide(x.Input(0))
	var in [5]Var
	for i := 1; i < len(in); i++ {
		if in[i] = x.wide(x.Input(i)); x.Attrs.Bool("spatial", true) && x.Rank(v) >= 2 {
			in[i] = x.perChannel(in[i], v)
		}
	}
	mean, variance := in[3], in[4]
	if training {
		axes := append([]int64{0}, axesBetween(2, x.Rank(v))...)
		if !x.Attrs.Bool("spatial", true) {
			axes = axes[:1]
		}
		mean = x.meanOver(v, axes...)
		variance = x.meanOver(x.square(x.sub(v, mean)), axes...)
		x.giveMoments(in[3], in[4], mean, variance)
	}
	y := x.affine(x.mul(x.sub(v, mean), x.inverseRoot(variance)), in[1], in[2])
	x.Give(0, x.Cast(y, x.DType(x.Input(0))))
}

// giveMoments gives the outputs of training that are asked for: the running moments, moved towards
// those of the batch, and those of the batch.
func (x *Expander) giveMoments(was, wasVariance, mean, variance Var) {
	momentum := x.attr("momentum", 0.9)
	moved := func(from, to Var) Var {
		return x.Add(x.Scale(from, momentum), x.Scale(to, 1-momentum))
	}
	for i, v := range []Var{moved(was, mean), moved(wasVariance, variance), mean, variance} {
		if x.Wants(i + 1) {
			like := x.Input(3 + i%2)
			x.Give(i+1, x.Cast(x.as(v, like), x.DType(like)))
		}
	}
}

// partsOfLikelihoodLoss is the negative log likelihood of log probabilities.
func partsOfLikelihoodLoss(x *Expander) { x.giveLoss(x.wide(x.Input(0))) }

// partsOfSoftmaxLoss is the negative log likelihood of the log-softmax over the classes.
func partsOfSoftmaxLoss(x *Expander) {
	logs := x.Op("LogSoftmax", axisAttr(1), x.wide(x.Input(0)))
	x.giveLoss(logs)
	if x.Wants(1) {
		x.Give(1, x.Cast(logs, x.DType(x.Input(0))))
	}
}

// giveLoss picks the log probabilities of the labels, weighs them, and reduces them; mean divides
// their sum by that of the weights. A label that is ignore_index weighs nothing.
func (x *Expander) giveLoss(logs Var) {
	mode, err := x.reductionMode()
	x.Err = firstError(x.Err, err)
	labels := x.Input(1)
	weight := x.full(labels, logs, 1)
	if x.Attrs.Has("ignore_index") {
		ignored := x.Op("Equal", nil, labels, x.Cast(x.Ints(x.Attrs.Int("ignore_index", 0)),
			x.DType(labels)))
		labels = x.where(ignored, x.Cast(x.Ints(0), x.DType(labels)), labels)
		weight = x.where(ignored, x.Scalar(logs, 0), weight)
	}
	if x.Input(2) != Absent {
		weight = x.mul(weight, x.Op("Gather", nil, x.wide(x.Input(2)), labels))
	}
	picked := x.Op("GatherElements", axisAttr(1), logs, x.Unsqueeze(labels, 1))
	each := x.neg(x.mul(weight, x.Op("Squeeze", nil, picked, x.Ints(1))))
	all := Attrs{IntAttr("keepdims", 0)}
	switch mode {
	case "sum":
		each = x.Op("ReduceSum", all, each)
	case "mean":
		each = x.div(x.Op("ReduceSum", all, each), x.Op("ReduceSum", all, weight))
	}
	x.Give(0, x.Cast(each, x.DType(x.Input(0))))
}

// gradDropout lets the gradient through where the mask kept elements, scaled as they were. Without
// input training_mode nothing is dropped.
func gradDropout(x *gradient) {
	x.refuse(1, "the ratio of Dropout")
	if !x.needs(0) {
		return
	}
	g := x.d(0)
	if x.Version < 12 || x.Input(2) == Absent {
		x.set(0, g)
		return
	}
	ratio := x.Scalar(g, 0.5)
	if x.Input(1) != Absent {
		ratio = x.Cast(x.Reshape(x.Input(1)), x.DType(g))
	}
	kept := x.div(g, x.from(1, ratio))
	training := x.Reshape(x.Input(2))
	x.set(0, x.where(training, x.masked(x.out(1), kept), g))
}
