package op

import "github.com/weirgpu/weir/tensor"

// Operators that are differentiated through what they are made of: see [Op.Parts]. They compute in
// float32 where their operands are halves.

// perChannel gives a vector of channels the axes that follow that of channels in v.
func (x *expander) perChannel(vector, v value) value {
	return x.unsqueeze(vector, axesBetween(1, x.rank(v)-1)...)
}

// normalised is v with the mean taken out along axes and divided by the standard deviation; mean
// and the inverse deviation are returned, too.
func (x *expander) normalised(v value, axes ...int64) (y, mean, inverse value) {
	mean = x.meanOver(v, axes...)
	centred := x.sub(v, mean)
	variance := x.meanOver(x.square(centred), axes...)
	inverse = x.inverseRoot(variance)
	return x.mul(centred, inverse), mean, inverse
}

// inverseRoot is 1/√(variance + epsilon).
func (x *expander) inverseRoot(variance value) value {
	return x.op("Reciprocal", nil, x.op("Sqrt", nil, x.plus(variance, x.attr("epsilon", 1e-5))))
}

// affine is v·scale + shift; an absent shift is 0.
func (x *expander) affine(v, scale, shift value) value {
	v = x.mul(v, x.wide(scale))
	if shift == absent {
		return v
	}
	return x.add(v, x.wide(shift))
}

func partsOfLayerNorm(x *expander) {
	v := x.wide(x.input(0))
	rank := x.rank(v)
	axes := axesBetween(int(x.axisOf(v, -1)), rank)
	y, mean, inverse := x.normalised(v, axes...)
	x.give(0, x.cast(x.affine(y, x.input(1), x.input(2)), x.dtype(x.input(0))))
	stash := tensor.DType(x.Attrs.Int("stash_type", int64(tensor.Float32)))
	for i, m := range []value{mean, inverse} {
		if x.wants(i + 1) {
			x.give(i+1, x.cast(m, stash))
		}
	}
}

func partsOfRMSNorm(x *expander) {
	v := x.wide(x.input(0))
	axes := axesBetween(int(x.axisOf(v, -1)), x.rank(v))
	inverse := x.inverseRoot(x.meanOver(x.square(v), axes...))
	y := x.affine(x.mul(v, inverse), x.input(1), absent)
	x.give(0, x.cast(y, x.dtype(x.input(0))))
}

func partsOfInstanceNorm(x *expander) {
	v := x.wide(x.input(0))
	y, _, _ := x.normalised(v, axesBetween(2, x.rank(v))...)
	y = x.affine(y, x.perChannel(x.input(1), v), x.perChannel(x.input(2), v))
	x.give(0, x.cast(y, x.dtype(x.input(0))))
}

// partsOfGroupNorm: scale and bias are one a group before version 21 and one a channel from then on.
func partsOfGroupNorm(x *expander) {
	v := x.wide(x.input(0))
	y, _, _ := x.normalised(x.reshape(v, 0, x.Attrs.Int("num_groups", 0), -1), 2)
	scale, shift := x.input(1), x.input(2)
	if x.Version < 21 {
		y = x.affine(y, x.unsqueeze(scale, 1), x.unsqueeze(shift, 1))
		y = x.as(y, v)
	} else {
		y = x.affine(x.as(y, v), x.perChannel(scale, v), x.perChannel(shift, v))
	}
	x.give(0, x.cast(y, x.dtype(x.input(0))))
}

// partsOfMeanVariance: the ONNX function adds 1e-9 to the root.
func partsOfMeanVariance(x *expander) {
	v := x.wide(x.input(0))
	axes := []int64{0, 2, 3}
	if x.Attrs.Has("axes") {
		given, err := x.marked(x.Attrs.Ints("axes"), x.rank(v))
		x.err = firstError(x.err, err)
		axes = axes[:0]
		for k, is := range given {
			if is {
				axes = append(axes, int64(k))
			}
		}
	}
	centred := x.sub(v, x.meanOver(v, axes...))
	deviation := x.op("Sqrt", nil, x.meanOver(x.square(centred), axes...))
	x.give(0, x.cast(x.div(centred, x.plus(deviation, 1e-9)), x.dtype(x.input(0))))
}

// partsOfLpNorm: a zero vector stays zero.
func partsOfLpNorm(x *expander) {
	v := x.wide(x.input(0))
	axis := x.axisOf(v, -1)
	norm := absent
	if x.Attrs.Int("p", 2) == 1 {
		norm = x.sumOver(x.op("Abs", nil, v), true, axis)
	} else {
		square := x.sumOver(x.square(v), true, axis)
		zero := x.op("Equal", nil, square, x.scalar(square, 0))
		norm = x.op("Sqrt", nil, x.where(zero, x.scalar(square, 1), square))
	}
	zero := x.op("Equal", nil, norm, x.scalar(norm, 0))
	y := x.div(v, x.where(zero, x.scalar(norm, 1), norm))
	x.give(0, x.cast(y, x.dtype(x.input(0))))
}

// partsOfBatchNorm normalises by the moments given or, in training, by those of the batch.
func partsOfBatchNorm(x *expander) {
	training, err := x.batchTraining()
	x.err = firstError(x.err, err)
	v := x.wide(x.input(0))
	var in [5]value
	for i := 1; i < len(in); i++ {
		if in[i] = x.wide(x.input(i)); x.Attrs.Bool("spatial", true) && x.rank(v) >= 2 {
			in[i] = x.perChannel(in[i], v)
		}
	}
	mean, variance := in[3], in[4]
	if training {
		axes := append([]int64{0}, axesBetween(2, x.rank(v))...)
		if !x.Attrs.Bool("spatial", true) {
			axes = axes[:1]
		}
		mean = x.meanOver(v, axes...)
		variance = x.meanOver(x.square(x.sub(v, mean)), axes...)
		x.giveMoments(in[3], in[4], mean, variance)
	}
	y := x.affine(x.mul(x.sub(v, mean), x.inverseRoot(variance)), in[1], in[2])
	x.give(0, x.cast(y, x.dtype(x.input(0))))
}

// giveMoments gives the outputs of training that are asked for: the running moments, moved towards
// those of the batch, and those of the batch.
func (x *expander) giveMoments(was, wasVariance, mean, variance value) {
	momentum := x.attr("momentum", 0.9)
	moved := func(from, to value) value {
		return x.add(x.scale(from, momentum), x.scale(to, 1-momentum))
	}
	for i, v := range []value{moved(was, mean), moved(wasVariance, variance), mean, variance} {
		if x.wants(i + 1) {
			like := x.input(3 + i%2)
			x.give(i+1, x.cast(x.as(v, like), x.dtype(like)))
		}
	}
}

// partsOfLikelihoodLoss is the negative log likelihood of log probabilities.
func partsOfLikelihoodLoss(x *expander) { x.giveLoss(x.wide(x.input(0))) }

// partsOfSoftmaxLoss is the negative log likelihood of the log-softmax over the classes.
func partsOfSoftmaxLoss(x *expander) {
	logs := x.op("LogSoftmax", axisAttr(1), x.wide(x.input(0)))
	x.giveLoss(logs)
	if x.wants(1) {
		x.give(1, x.cast(logs, x.dtype(x.input(0))))
	}
}

// giveLoss picks the log probabilities of the labels, weighs them, and reduces them; mean divides
// their sum by that of the weights. A label that is ignore_index weighs nothing.
func (x *expander) giveLoss(logs value) {
	mode, err := x.reductionMode()
	x.err = firstError(x.err, err)
	labels := x.input(1)
	weight := x.full(labels, logs, 1)
	if x.Attrs.Has("ignore_index") {
		ignored := x.op("Equal", nil, labels, x.cast(x.ints(x.Attrs.Int("ignore_index", 0)),
			x.dtype(labels)))
		labels = x.where(ignored, x.cast(x.ints(0), x.dtype(labels)), labels)
		weight = x.where(ignored, x.scalar(logs, 0), weight)
	}
	if x.input(2) != absent {
		weight = x.mul(weight, x.op("Gather", nil, x.wide(x.input(2)), labels))
	}
	picked := x.op("GatherElements", axisAttr(1), logs, x.unsqueeze(labels, 1))
	each := x.neg(x.mul(weight, x.op("Squeeze", nil, picked, x.ints(1))))
	all := Attrs{IntAttr("keepdims", 0)}
	switch mode {
	case "sum":
		each = x.op("ReduceSum", all, each)
	case "mean":
		each = x.div(x.op("ReduceSum", all, each), x.op("ReduceSum", all, weight))
	}
	x.give(0, x.cast(each, x.dtype(x.input(0))))
}

// gradDropout lets the gradient through where the mask kept elements, scaled as they were. Without
// input training_mode nothing is dropped.
func gradDropout(x *gradient) {
	x.refuse(1, "the ratio of Dropout")
	if !x.needs(0) {
		return
	}
	g := x.d(0)
	if x.Version < 12 || x.input(2) == absent {
		x.set(0, g)
		return
	}
	ratio := x.scalar(g, 0.5)
	if x.input(1) != absent {
		ratio = x.cast(x.reshape(x.input(1)), x.dtype(g))
	}
	kept := x.div(g, x.from(1, ratio))
	training := x.reshape(x.input(2))
	x.set(0, x.where(training, x.masked(x.out(1), kept), g))
}
