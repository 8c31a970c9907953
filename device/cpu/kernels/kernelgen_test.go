package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/internal/op/ml"
	"github.com/weirgpu/weir/tensor"
)

// generators makes random calls of every operator that has a builder.
var generators = map[opKey]func(source, opKey) *sample{
	{"", "Softmax"}:                           genSoftmax,
	{"", "LogSoftmax"}:                        genSoftmax,
	{"", "GlobalAveragePool"}:                 genGlobalPool,
	{"", "GlobalMaxPool"}:                     genGlobalPool,
	{"", "LayerNormalization"}:                genLayerNorm,
	{"", "BatchNormalization"}:                genBatchNorm,
	{"", "Slice"}:                             genSlice,
	{"", "Concat"}:                            genConcat,
	{"", "Split"}:                             genSplit,
	{"", "Expand"}:                            genExpand,
	{"", "Transpose"}:                         genTranspose,
	{"", "DepthToSpace"}:                      genDepthToSpace,
	{"", "SpaceToDepth"}:                      genSpaceToDepth,
	{"", "Gather"}:                            genGather,
	{"", "Resize"}:                            genResize,
	{"", "Upsample"}:                          genResize,
	{"", "Conv"}:                              genConv,
	{"weir", "Conv"}:                          genConv,
	{"", "ConvTranspose"}:                     genConvTranspose,
	{"weir", "ConvTranspose"}:                 genConvTranspose,
	{"", "MaxPool"}:                           genPool,
	{"", "AveragePool"}:                       genPool,
	{"", "MatMul"}:                            genMatMul,
	{"weir", "MatMul"}:                        genMatMul,
	{"", "Gemm"}:                              genGemm,
	{"weir", "Gemm"}:                          genGemm,
	{"", "InstanceNormalization"}:             genGroupNorm,
	{"", "GroupNormalization"}:                genGroupNorm,
	{"", "ArgMax"}:                            genArgMax,
	{ml.Domain, "TreeEnsemble"}:               genForest,
	{ml.Domain, "TreeEnsembleClassifier"}:     genForest,
	{ml.Domain, "TreeEnsembleRegressor"}:      genForest,
	{"", "QuantizeLinear"}:                    genQuantize,
	{"", "DequantizeLinear"}:                  genQuantize,
	{"", "DynamicQuantizeLinear"}:             genDynamicQuantize,
	{"", "ConvInteger"}:                       genConvInteger,
	{"", "QLinearConv"}:                       genQLinearConv,
	{"", "MatMulInteger"}:                     genMatMulInteger,
	{"", "QLinearMatMul"}:                     genQLinearMatMul,
	{op.FusedDomain, "Grid"}:                  genQuantize,
	{op.FusedDomain, "Chain"}:                 genChain,
	{op.FusedDomain, "GridConv"}:              genGridConv,
	{op.FusedDomain, "Rescale"}:               genRescale,
	{op.FusedDomain, "Table"}:                 genTable,
	{op.FusedDomain, "QLinearConv"}:           genRescaledConv,
	{op.FusedDomain, "QLinearAdd"}:            genQLinearAdd,
	{op.FusedDomain, "NhwcQLinearConv"}:       genNHWCConv,
	{op.FusedDomain, "NhwcMaxPool"}:           genNHWCPool,
	{op.FusedDomain, "NhwcConv"}:              genPixelConv,
	{op.FusedDomain, "NhwcGlobalAveragePool"}: genPixelMean,
	{microsoft.Domain, "DynamicQuantizeLSTM"}: genByteLSTM,
	{"", "Attention"}:                         genAttention,
	{"weir", "Attention"}:                     genFusedAttention,
	{op.FusedDomain, op.AttentionGradient}:    genAttentionGradient,
	{microsoft.Domain, "GroupQueryAttention"}: genGrouped,
	{"weir", "MatMulNBits"}:                   genMatMulNBits,
	{"", "LSTM"}:                              genLSTM,
	{"", "GRU"}:                               genGRU,
	{"", "RNN"}:                               genGRU,
	{"", "PRelu"}:                             genPRelu,
	{"", "Where"}:                             genWhere,
	{"", "Cast"}:                              genCast,
	{"", "Not"}:                               genCast,
	{"", "Pad"}:                               genPad,
	{op.FusedDomain, op.Unscale}:              genUnscale,
	{op.FusedDomain, "BatchNormalization"}:    genTrainedBatchNorm,
	{op.FusedDomain, op.BatchNormGradient}:    genBatchNormGradient,
	{op.FusedDomain, op.ConvWeightsGradient}:  genConvWeights,
	{op.FusedDomain, op.GeluGradient}:         genGeluGradient,
	{op.FusedDomain, op.CountedDropout}:       genCountedDropout,
	{op.FusedDomain, op.MaxPoolGradient}:      genMaxPoolGradient,
	{op.FusedDomain, op.ReluGradient}:         genReluGradient,
	{op.FusedDomain, op.LayerNormGradient}:    genLayerNormGradient,
	{op.FusedDomain, op.SoftmaxGradient}:      genSoftmaxGradient,
	{op.FusedDomain, op.RecurrentGradient}:    genRecurrentGradient,
	{"", "ScatterND"}:                         genScatterND,
	{op.FusedDomain, op.SGD}:                  genDescent,
	{op.FusedDomain, op.Momentum}:             genDescent,
	{op.FusedDomain, op.Adagrad}:              genDescent,
	{op.FusedDomain, op.Adam}:                 genDescent,
	{op.FusedDomain, op.LAMB}:                 genDescent,
}

// generator finds the generator of a builder: its own or its family's.
func generator(key opKey) func(source, opKey) *sample {
	if g := generators[key]; g != nil {
		return g
	}
	switch {
	case unaryKernels[key] != nil:
		return genUnary
	case binaryKernels[key] != nil:
		return genArithmetic
	case compareKernels[key] != nil:
		return genCompare
	case variadicKernels[key] != nil:
		return genSum
	case reduceKernels[key] != nil:
		return genReduce
	}
	return nil
}

func genUnary(r source, key opKey) *sample {
	s := r.call(key, nil, r.wild(r.shape(r.IntN(5))...))
	attr := func(name string) {
		if r.one(2) {
			s.call.Attrs = append(s.call.Attrs, op.FloatAttr(name, r.Float32()*2-0.5))
		}
	}
	switch key.name {
	case "Clip":
		return r.clipBounds(s)
	case "Gelu":
		s.call.Attrs = op.Attrs{op.StringAttr("approximate", r.pick("none", "tanh"))}
	case "LeakyRelu", "Elu":
		attr("alpha")
	case "HardSigmoid":
		attr("alpha")
		attr("beta")
	}
	return s
}

// clipBounds gives Clip bounds: attributes or inputs, there or not, constant or not, in order or
// not.
func (r source) clipBounds(s *sample) *sample {
	lo, hi := r.Float32()*3-2, r.Float32()*3-1
	if s.call.Version < 11 {
		if r.one(2) {
			s.call.Attrs = append(s.call.Attrs, op.FloatAttr("min", lo))
		}
		if r.one(2) {
			s.call.Attrs = append(s.call.Attrs, op.FloatAttr("max", hi))
		}
		return s
	}
	for _, v := range []float32{lo, hi} {
		in := tensor.Scalar(v)
		if r.one(3) {
			in = nil
		}
		s.in, s.constant = append(s.in, in), append(s.constant, in != nil && !r.one(6))
	}
	s.in, s.constant = s.in[:1+r.IntN(3)], s.constant[:len(s.in)]
	s.constant = s.constant[:len(s.in)]
	s.call.NumIn = len(s.in)
	return s
}

func genBinary(r source, key opKey) *sample {
	a, b := r.operands()
	s := r.call(key, nil, r.wild(a...), r.wild(b...))
	if key.name == "Pow" && !r.one(8) {
		s.in[1] = tensor.From(
			[]float32{[]float32{2, 3, 0.5, -0.5, -1, 1.5, 0, 1}[r.IntN(8)]},
			[][]int{{}, {1}, {1, 1}}[r.IntN(3)]...)
		s.fix(1)
	}
	if r.one(3) {
		s.fix(r.IntN(2))
	}
	return s
}

func genReduce(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	s := r.call(key, nil, r.floats(shape...))
	if key.name == "ReduceLogSum" { // whose sums must not cancel
		vec.Abs(tensor.As[float32](s.in[0]), tensor.As[float32](s.in[0]))
	}
	var axes []int64
	for i := range shape {
		if r.one(2) {
			a := int64(i)
			if r.one(3) {
				a -= int64(len(shape))
			}
			axes = append(axes, a)
		}
	}
	r.Shuffle(len(axes), func(i, j int) { axes[i], axes[j] = axes[j], axes[i] })
	if len(axes) > 0 && r.one(10) {
		axes = append(axes, axes[0])
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("keepdims", int64(r.IntN(2))))
	}
	asInput := 18
	if key.name == "ReduceSum" {
		asInput = 13
	}
	switch {
	case r.one(5): // all axes
	case s.call.Version < asInput:
		if len(axes) > 0 {
			s.call.Attrs = append(s.call.Attrs, op.IntsAttr("axes", axes...))
		}
		return s
	default:
		s.in, s.constant, s.call.NumIn = append(s.in, i64(axes...)), append(s.constant,
			!r.one(8)), 2
	}
	if s.call.Version >= asInput && r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("noop_with_empty_axes", int64(r.IntN(2))))
	}
	return s
}

func genSoftmax(r source, key opKey) *sample {
	rank := 1 + r.IntN(4)
	s := r.call(key, nil, r.floats(r.shape(rank)...))
	if !r.one(4) {
		s.call.Attrs = op.Attrs{op.IntAttr("axis", int64(r.IntN(2*rank)-rank))}
	}
	return s
}

func genGlobalPool(r source, key opKey) *sample {
	return r.call(key, nil, r.floats(r.shape(2+r.IntN(4))...))
}

func genLayerNorm(r source, key opKey) *sample {
	rank := 1 + r.IntN(4)
	shape := r.shape(rank)
	axis := r.IntN(rank)
	own := slices.Clone(shape[axis:])
	if r.one(10) {
		own = own[r.IntN(len(own)+1):]
	}
	s := r.call(key, nil, r.floats(shape...), r.floats(own...), r.floats(own...))
	if r.one(3) {
		s.in, s.constant, s.call.NumIn = s.in[:2], s.constant[:2], 2
	}
	if axis != rank-1 || r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("axis", int64(axis-rank*r.IntN(2))))
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("epsilon", 0.1))
	}
	if r.one(3) {
		s.call.NumOut = 1 + r.IntN(3)
		s.absent = []bool{false, r.one(2), r.one(2)}[:s.call.NumOut]
	}
	return s
}

func genBatchNorm(r source, key opKey) *sample {
	shape := r.shape(2 + r.IntN(3))
	c := shape[1]
	s := r.call(key, nil, r.floats(shape...), r.floats(c), r.floats(c), r.floats(c), r.floats(c))
	for i, v := range tensor.As[float32](s.in[4]) {
		tensor.As[float32](s.in[4])[i] = v*v + 0.1
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("epsilon", 0.1))
	}
	if s.call.Version >= 14 && r.one(4) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("training_mode", 1))
		s.call.NumOut = []int{1, 3}[r.IntN(2)]
	}
	return s.fix(1, 2, 3, 4)
}

func genGroupNorm(r source, key opKey) *sample {
	shape := r.shape(3 + r.IntN(2))
	shape[1] = min(shape[1], 40)
	groups := 1 + r.IntN(3)
	if key.name == "InstanceNormalization" {
		groups = shape[1]
	} else {
		shape[1] = groups * (1 + r.IntN(4))
	}
	s := r.call(key, nil, r.floats(shape...))
	if key.name == "GroupNormalization" {
		s.call.Attrs = op.Attrs{op.IntAttr("num_groups", int64(groups))}
	}
	n := shape[1]
	if key.name == "GroupNormalization" && s.call.Version < 21 {
		n = groups
	}
	s.in, s.constant, s.call.NumIn = append(s.in, r.floats(n), r.floats(n)), append(s.constant,
		true, true), 3
	s.atol = 1e-5 // a small deviation of few numbers enlarges the rounding of their mean
	return s
}

func genArgMax(r source, key opKey) *sample {
	rank := 1 + r.IntN(4)
	s := r.call(key, nil, r.floats(r.shape(rank)...))
	for i, v := range tensor.As[float32](s.in[0]) {
		tensor.As[float32](s.in[0])[i] = float32(int(2 * v)) // with equals
		if r.one(30) {
			tensor.As[float32](s.in[0])[i] = float32(math.NaN())
		}
	}
	if !r.one(6) {
		s.call.Attrs = op.Attrs{
			op.IntAttr("axis", []int64{-1, int64(rank - 1), r.Int64N(int64(rank))}[r.IntN(3)]),
		}
	}
	if r.one(3) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("keepdims", int64(r.IntN(2))))
	}
	if s.call.Version >= 12 && r.one(6) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("select_last_index", int64(r.IntN(2))))
	}
	return s
}

func genSlice(r source, key opKey) *sample {
	shape := r.shape(1 + r.IntN(4))
	s := r.call(key, nil, r.bits(r.dtype(), shape...))
	s.exact = true
	axes := r.Perm(len(shape))[:1+r.IntN(len(shape))]
	var lists [4][]int64 // starts, ends, axes, steps
	for i := range axes {
		if r.one(2) {
			axes[i] = i
		}
	}
	slices.Sort(axes)
	axes = slices.Compact(axes)
	for _, a := range axes {
		n := int64(shape[a])
		bound := func() int64 {
			return []int64{0, 1, n, n - 1, -1, -n, -n - 1, n / 2, -1 << 63, 1<<63 - 1,
				r.Int64N(2*n+5) - n - 2, 1<<31 - 1}[r.IntN(12)]
		}
		step := []int64{1, 1, 1, 2, 3, -1, -1, -2, -3, 1000, -1000, 1<<63 - 1, -1 << 63}[r.IntN(13)]
		named := int64(a)
		if r.one(3) {
			named -= int64(len(shape))
		}
		for k, v := range []int64{bound(), bound(), named, step} {
			lists[k] = append(lists[k], v)
		}
	}
	if s.call.Version < 10 {
		s.call.Attrs = op.Attrs{
			op.IntsAttr("starts", lists[0]...),
			op.IntsAttr("ends", lists[1]...),
			op.IntsAttr("axes", lists[2]...),
		}
		return s
	}
	for _, l := range lists {
		v := i64(l...)
		if r.one(8) {
			narrow := make([]int32, len(l))
			for i := range l {
				narrow[i] = int32(min(max(l[i], -1<<31), 1<<31-1))
			}
			v = tensor.From(narrow, len(l))
		}
		s.in, s.constant = append(s.in, v), append(s.constant, true)
	}
	if r.one(3) {
		s.in, s.constant = s.in[:4], s.constant[:4]
	}
	if r.one(10) {
		s.constant[1+r.IntN(3)] = false
	}
	s.call.NumIn = len(s.in)
	return s
}

func genConcat(r source, key opKey) *sample {
	shape := r.shape(1 + r.IntN(4))
	axis, d := r.IntN(len(shape)), r.dtype()
	s := r.call(key, nil)
	for range 1 + r.IntN(4) {
		own := slices.Clone(shape)
		own[axis] = r.size() - r.IntN(2)
		s.in, s.constant = append(s.in, r.bits(d, own...)), append(s.constant, r.one(4))
	}
	s.call.NumIn, s.exact = len(s.in), true
	s.call.Attrs = op.Attrs{op.IntAttr("axis", int64(axis-len(shape)*r.IntN(2)))}
	return s
}

func genSplit(r source, key opKey) *sample {
	shape := r.shape(1 + r.IntN(4))
	axis, parts := r.IntN(len(shape)), 1+r.IntN(4)
	sizes := make([]int64, parts)
	total := 0
	for i := range sizes {
		n := r.size() - 1
		sizes[i], total = int64(n), total+n
	}
	even := r.one(2)
	if shape[axis] = total; even {
		shape[axis] = parts * r.size()
	}
	s := r.call(key, op.Attrs{op.IntAttr("axis", int64(axis-len(shape)*r.IntN(2)))},
		r.bits(r.dtype(), shape...))
	s.exact, s.call.NumOut = true, parts
	switch {
	case even && s.call.Version >= 18:
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("num_outputs", int64(parts)))
		shape[axis] -= min(shape[axis], r.IntN(2))
		s.in[0] = r.bits(s.in[0].DType, shape...)
	case even:
	case s.call.Version < 13:
		s.call.Attrs = append(s.call.Attrs, op.IntsAttr("split", sizes...))
	default:
		s.in, s.constant, s.call.NumIn = append(s.in, i64(sizes...)), append(s.constant, true), 2
	}
	if r.one(8) {
		s.absent = make([]bool, parts)
		s.absent[r.IntN(parts)] = true
	}
	return s
}

func genExpand(r source, key opKey) *sample {
	shape := r.shape(r.IntN(5))
	target := shape
	if r.one(3) {
		target = r.broadcastTo(shape)
	}
	s := r.call(key, nil, r.bits(r.dtype(), r.broadcastTo(shape)...), i64(ints64(target)...)).fix(1)
	s.exact = true
	return s
}

func genTranspose(r source, key opKey) *sample {
	shape := r.shape(r.IntN(6))
	s := r.call(key, nil, r.bits(r.dtype(), shape...))
	if !r.one(4) {
		s.call.Attrs = op.Attrs{op.IntsAttr("perm", ints64(r.Perm(len(shape)))...)}
	}
	s.exact = true
	return s
}

func genDepthToSpace(r source, key opKey) *sample {
	b := 1 + r.IntN(3)
	s := r.call(key, op.Attrs{op.IntAttr("blocksize", int64(b))},
		r.bits(r.dtype(), 1+r.IntN(2), b*b*(1+r.IntN(4)), r.size(), r.size()))
	if s.call.Version >= 11 && r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.StringAttr("mode", r.pick("DCR", "CRD")))
	}
	s.exact = true
	return s
}

func genSpaceToDepth(r source, key opKey) *sample {
	b := 1 + r.IntN(3)
	s := r.call(key, op.Attrs{op.IntAttr("blocksize", int64(b))},
		r.bits(r.dtype(), 1+r.IntN(2), r.size(), b*r.size(), b*r.size()))
	s.exact = true
	return s
}

func genGather(r source, key opKey) *sample {
	shape := r.shape(1 + r.IntN(3))
	axis := r.IntN(len(shape))
	idx := r.shape(r.IntN(3))
	for count(shape)*count(idx) > 4*maxElems {
		idx = r.shape(r.IntN(3))
	}
	n := shape[axis]
	wide := make([]int64, count(idx))
	for i := range wide {
		if n > 0 {
			wide[i] = int64(r.IntN(2*n) - n)
		}
		if r.one(2000) {
			wide[i] = int64(n)
		}
	}
	in := tensor.From(wide, idx...)
	if r.one(3) {
		narrow := make([]int32, len(wide))
		for i := range wide {
			narrow[i] = int32(wide[i])
		}
		in = tensor.From(narrow, idx...)
	}
	s := r.call(key, nil, r.bits(r.dtype(), shape...), in)
	if axis != 0 || r.one(2) {
		s.call.Attrs = op.Attrs{op.IntAttr("axis", int64(axis-len(shape)*r.IntN(2)))}
	}
	if r.one(3) {
		s.fix(r.IntN(2))
	}
	s.exact = true
	return s
}

func genResize(r source, key opKey) *sample {
	shape := []int{1 + r.IntN(2), 1 + r.IntN(4), 1 + r.IntN(9), 1 + r.IntN(9)}
	scales := []float32{1, 1, float32(1 + r.IntN(5)), float32(1 + r.IntN(5))}
	if r.one(4) {
		scales[2+r.IntN(2)] = []float32{0.5, 1.5, 2.25, 0.3, 1.1}[r.IntN(5)]
	}
	if r.one(12) {
		shape, scales = shape[1:], scales[1:]
	}
	x := r.floats(shape...)
	s := r.call(key, nil, x)
	sc := tensor.From(scales, len(scales))
	if key.name == "Upsample" {
		s.call.Version = 7 + r.IntN(3)
		if s.call.Version < 9 {
			s.call.Attrs = op.Attrs{
				op.FloatsAttr("scales", scales...),
				op.StringAttr("mode", "nearest"),
			}
			return s
		}
		s.in, s.constant = append(s.in, sc), append(s.constant, true)
		s.call.NumIn = 2
		return s
	}
	if s.call.Version < 11 {
		s.in, s.constant, s.call.NumIn = append(s.in, sc), append(s.constant, true), 2
		return s
	}
	modes := []string{
		"half_pixel",
		"half_pixel",
		"asymmetric",
		"asymmetric",
		"align_corners",
		"pytorch_half_pixel",
		"tf_crop_and_resize",
		"half_pixel_symmetric",
	}
	s.call.Attrs = op.Attrs{
		op.StringAttr("mode", r.pick("nearest", "nearest", "nearest", "linear")),
		op.StringAttr("coordinate_transformation_mode", r.pick(modes...)),
	}
	if !r.one(4) {
		s.call.Attrs = append(
			s.call.Attrs,
			op.StringAttr("nearest_mode",
				r.pick("floor", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")),
		)
	}
	roi := make([]float32, 2*len(shape))
	for i := range shape {
		roi[len(shape)+i] = 1
	}
	s.in, s.constant = append(s.in, tensor.From(roi, len(roi)), sc), append(s.constant, true, true)
	if r.one(3) {
		sizes := make([]int64, len(shape))
		for i, n := range shape {
			sizes[i] = int64(float32(n) * scales[i])
		}
		s.in[2] = nil
		s.in, s.constant = append(s.in, i64(sizes...)), append(s.constant, true)
		s.constant[2] = false
	}
	if r.one(2) && s.call.Version >= 13 {
		s.in[1], s.constant[1] = nil, false
	}
	s.call.NumIn = len(s.in)
	return s
}
