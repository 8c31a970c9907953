package op

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// numericRows are the rows of the families whose rules and evaluations the tests below hold
// together.
func numericRows() []*Op {
	var rows []*Op
	for _, f := range [][]Op{arithmetic, logic, activation, softmax, matmul, conv, pool, reduce,
		search, cumulative, norm, rnn, bitwise, resize, einsum, fused, fusedBytes, qlinear, loss,
		attention, fourierOps, windowOps, linearAttention, flexAttention, deformOps, roiOps,
		linearAlgebra, foldOps, trainingOps, batchNorm, dropoutOps, imageOps, gridOps} {
		for i := range f {
			rows = append(rows, &f[i])
		}
	}
	return rows
}

// caller makes random calls: mostly plausible, sometimes absurd.
type caller struct{ *rand.Rand }

func (r caller) one(n int) bool { return r.IntN(n) == 0 }

func (r caller) size() int64 {
	if r.one(40) {
		return []int64{-1, math.MinInt64, math.MaxInt64, 1 << 31, 1 << 40, 1 << 62}[r.IntN(6)]
	}
	return int64(r.IntN(4))
}

var (
	intAttrs = []string{"axis", "keepdims", "noop_with_empty_axes", "select_last_index", "transA",
		"transB", "group", "k", "p", "size", "ceil_mode", "count_include_pad", "storage_order",
		"fmod", "largest", "exclusive", "reverse", "num_groups", "hidden_size", "layout",
		"input_forget", "linear_before_reset", "antialias", "exclude_outside", "spatial",
		"stash_type"}
	intsAttrs = []string{"kernel_shape", "strides", "pads", "dilations", "axes", "output_shape",
		"output_padding"}
	floatAttrs = []string{"alpha", "beta", "gamma", "epsilon", "clip", "lambd", "bias", "min",
		"max", "activation_alpha"}
	floatsAttrs  = []string{"scales", "activation_alpha", "activation_beta"}
	stringsAttrs = map[string][]string{
		"auto_pad": {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "x"},
		"mode":     {"nearest", "linear", "cubic", "x"},
		"coordinate_transformation_mode": {"half_pixel", "align_corners", "asymmetric",
			"tf_crop_and_resize", "pytorch_half_pixel", "half_pixel_symmetric"},
		"nearest_mode":             {"floor", "ceil", "round_prefer_ceil", "round_prefer_floor"},
		"keep_aspect_ratio_policy": {"stretch", "not_larger", "not_smaller"},
		"direction":                {"forward", "reverse", "bidirectional", "LEFT", "RIGHT"},
		"approximate":              {"none", "tanh", "x"},
		"activation":               {"Relu", "Clip", "Silu", "x"},
		"equation": {"ij,jk->ik", "ij->ji", "ii->i", "...ij,...jk", "i,i->",
			"...->...", "a..b", "ij,jk->iq"},
	}
)

func (r caller) attrs() Attrs {
	var as Attrs
	for _, name := range intAttrs {
		if r.one(4) {
			as = append(as, IntAttr(name, r.size()-int64(r.IntN(2))))
		}
	}
	for _, name := range intsAttrs {
		if r.one(3) || name == "kernel_shape" && !r.one(3) {
			v := make([]int64, 1+r.IntN(4))
			for i := range v {
				v[i] = r.size()
			}
			as = append(as, IntsAttr(name, v...))
		}
	}
	for _, name := range floatAttrs {
		if r.one(4) {
			as = append(as, FloatAttr(name, r.Float32()*4-1))
		}
	}
	for _, name := range floatsAttrs {
		if r.one(5) && !as.Has(name) {
			as = append(as, FloatsAttr(name, r.Float32()*3, r.Float32()*3, 1))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stringsAttrs)) {
		values := stringsAttrs[name]
		if r.one(3) || name == "equation" {
			as = append(as, StringAttr(name, values[r.IntN(len(values))]))
		}
	}
	return as
}

// operands makes inputs of one shape, of shapes that share dimensions, or of any shapes.
func (r caller) operands(n int) []*tensor.Tensor {
	d := []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float64,
		tensor.Float16, tensor.BFloat16, tensor.Int64, tensor.Int32, tensor.Int8, tensor.Uint8,
		tensor.Uint64, tensor.Bool, tensor.String}[r.IntN(13)]
	base := make([]int, r.IntN(5))
	for i := range base {
		base[i] = r.IntN(5)
	}
	in := make([]*tensor.Tensor, n)
	for i := range in {
		shape := slices.Clone(base)
		switch {
		case i > 0 && r.one(3):
			shape = shape[min(len(shape), r.IntN(3)):]
		case i > 0 && r.one(3) && len(shape) > 1:
			shape = shape[1:2]
		case r.one(10):
			shape = []int{1 + r.IntN(3)}
		}
		for k := range shape {
			if i > 0 && r.one(6) {
				shape[k] = r.IntN(4)
			}
		}
		e := d
		if i > 0 && r.one(5) {
			e = tensor.Int64
		}
		if i > 0 && r.one(12) {
			continue
		}
		in[i] = r.tensor(e, shape)
	}
	return in
}

func (r caller) tensor(d tensor.DType, shape []int) *tensor.Tensor {
	v, err := tensor.New(d, shape...)
	if err != nil {
		panic(err)
	}
	for i := range v.Len() {
		switch x := r.IntN(7) - 2; d {
		case tensor.Float16:
			tensor.As[tensor.Half](v)[i] = tensor.HalfOf(float32(x))
		case tensor.BFloat16:
			tensor.As[tensor.BHalf](v)[i] = tensor.BHalfOf(float32(x))
		case tensor.Bool:
			v.Data[i] = byte(x & 1)
		default:
			setFloat(v, i, float64(x))
		}
	}
	return v
}

// fitting makes operands of the shapes that an operator wants, nil for operators that random shapes
// fit.
func (r caller) fitting(name string) (Attrs, []*tensor.Tensor) {
	f := func(shape ...int) *tensor.Tensor { return r.tensor(tensor.Float32, shape) }
	d := func(n int) int { return 1 + r.IntN(n) }
	gates := map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4}[name]
	switch g := d(2); name {
	case "Conv", "ConvTranspose":
		in, out, kernel := d(2)*g, d(3), []int{d(3), d(2)}
		x, w, m := f(d(2), in, 2+d(4), 3+d(3)), f(out*g, in/g, kernel[0], kernel[1]), out*g
		if name == "ConvTranspose" {
			w = f(in, out, kernel[0], kernel[1])
		}
		return Attrs{IntAttr("group", int64(g)), IntsAttr("strides", int64(d(3)), int64(d(2))),
				IntsAttr("pads", r.size()&1, r.size()&1, r.size()&1, r.size()&1)},
			list(x, w, f(m))[:1+d(2)]
	case "MatMulNBits":
		n, k := d(3), d(20)
		blocks := (k + 15) / 16
		return Attrs{IntAttr("K", int64(k)), IntAttr("N", int64(n)), IntAttr("block_size", 16)},
			list(f(d(2), k), r.tensor(tensor.Uint8, []int{n, blocks, 8}), f(n, blocks),
				r.tensor(tensor.Uint8, []int{n, (blocks + 1) / 2}), nil, f(n))[:3+r.IntN(4)]
	case "RNN", "GRU", "LSTM":
		t, b, in, h, first := d(4), d(3), d(3), d(3), int64(g-1)
		x, state := f(t, b, in), f(1, b, h)
		if first == 1 {
			x, state = f(b, t, in), f(b, 1, h)
		}
		return Attrs{IntAttr("layout", first), FloatAttr("clip", 1),
				IntAttr("input_forget", int64(r.IntN(2)))},
			list(x, f(1, gates*h, in), f(1, gates*h, h), f(1, 2*gates*h), nil, state)[:3+r.IntN(4)]
	case "MaxPool", "AveragePool", "LpPool":
		auto := stringsAttrs["auto_pad"][r.IntN(4)]
		return Attrs{IntsAttr("kernel_shape", int64(d(3)), int64(d(3))),
			IntsAttr("strides", int64(d(3)), int64(d(3))),
			IntsAttr("dilations", int64(d(2)), 1),
			IntsAttr("pads", r.size()&1, r.size()&1, r.size()&1, r.size()&1),
			IntAttr("ceil_mode", int64(r.IntN(2))), StringAttr("auto_pad", auto),
			IntAttr("count_include_pad", int64(r.IntN(2)))}, list(f(d(2), d(2), 3+d(5), 2+d(5)))
	case "BatchNormalization", "InstanceNormalization", "GroupNormalization":
		ch := 2 * g
		in := list(f(d(2), ch, d(3)), f(ch), f(ch), f(ch), f(ch))
		if name != "BatchNormalization" {
			in = in[:3]
		}
		return Attrs{FloatAttr("epsilon", 0.5), IntAttr("num_groups", int64(2-g%2))}, in
	case "ConvInteger", "QLinearConv", "QLinearMatMul":
		b := func(shape ...int) *tensor.Tensor { return r.tensor(tensor.Uint8, shape) }
		x, w := b(d(2), g, 3, 4), b(d(3), g, d(3), d(3))
		if name == "QLinearMatMul" {
			x, w = b(2, 3, g), b(g, d(3))
		}
		if name == "ConvInteger" {
			return nil, list(x, w, b(), b())[:2+r.IntN(3)]
		}
		return nil, list(x, f(), b(), w, f(1), b(1), ones(1), b())
	case "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss":
		n, ch, k := d(3), d(3), d(3)
		labels := i64(make([]int64, n*k)...)
		for i := range tensor.As[int64](labels) {
			tensor.As[int64](labels)[i] = int64(r.IntN(ch))
		}
		labels.Shape = list(n, k)
		mode := list("none", "sum", "mean")[r.IntN(3)]
		return Attrs{StringAttr("reduction", mode), IntAttr("ignore_index", r.Int64N(3))},
			list(f(n, ch, k), labels, f(ch))[:1+d(2)]
	case "Attention":
		b, hk, l, s, past := d(2), d(2), d(3), d(3), r.IntN(3)
		q, kv := f(b, g*hk, l, s), list(f(b, hk, s, s), f(b, hk, s, l))
		if r.one(2) {
			q, kv = f(b, l, g*hk*s), list(f(b, s, hk*s), f(b, s, hk*l))
		}
		return Attrs{IntAttr("q_num_heads", int64(g*hk)), IntAttr("kv_num_heads", int64(hk)),
				IntAttr("is_causal", int64(r.IntN(2))),
				IntAttr("qk_matmul_output_mode", int64(r.IntN(4)))},
			list(q, kv[0], kv[1], f(l, s), f(b, hk, past, s),
				f(b, hk, past, l))[:list(3, 4, 6)[r.IntN(3)]]
	case "RotaryEmbedding":
		b, l := d(2), d(3)
		return Attrs{IntAttr("num_heads", int64(g)), IntAttr("interleaved", int64(r.IntN(2)))},
			list(f(b, l, g*4), f(b, l, 2), f(b, l, 2))
	case "Gemm":
		m, k, n := d(3), d(3), d(3)
		return nil, list(f(m, k), f(k, n),
			f(list(list(m, n), list(n), list(m, 1), list[int]())[r.IntN(4)]...))[:1+d(2)]
	case "MaxUnpool":
		x, n := f(1, 1, d(3)), int64(d(2))
		at := i64(slices.Repeat([]int64{0}, x.Len())...)
		return Attrs{IntsAttr("kernel_shape", n), IntsAttr("strides", n)},
			list(x, at, i64(1, 1, 8))[:1+d(2)]
	case "DFT", "STFT":
		half := int64(r.IntN(2))
		x, n := f(d(3), 2+d(4), 2), i64(int64(d(5)))
		if name == "STFT" {
			return Attrs{IntAttr("onesided", half)},
				list(f(d(2), 8, int(2-half)), i64(int64(d(3))), f(3),
					i64(3))[:list(2, 3, 4)[r.IntN(3)]]
		}
		return Attrs{IntAttr("inverse", half), IntAttr("onesided", half), IntAttr("axis", 1)},
			list(x, n, i64(-2))[:d(3)]
	case "BlackmanWindow", "HammingWindow", "HannWindow":
		return Attrs{IntAttr("periodic", int64(r.IntN(2))),
			IntAttr("output_datatype", r.Int64N(14))}, list(i64(int64(d(9) - 1)))
	case "MelWeightMatrix":
		return nil, list(i64(int64(d(8))), i64(16), i64(8000), f32([]int{1}, 100),
			f32([]int{1}, float32(1000*d(4))))
	case "LinearAttention":
		b, t, hk, dk, dv := d(2), d(3), d(2), d(3), d(3)
		in := list(f(b, t, g*hk*dk), f(b, t, hk*dk), f(b, t, hk*dv), nil, f(b, t, hk), f(b, t, 1))
		if r.one(2) {
			in[3] = f(b, hk, dk, dv)
		}
		return Attrs{IntAttr("q_num_heads", int64(g*hk)), IntAttr("kv_num_heads", int64(hk))}, in
	case "CausalConvWithState":
		b, ch, k := d(2), d(3), d(3)
		return Attrs{StringAttr("activation", list("none", "silu", "x")[r.IntN(3)])},
			list(f(b, ch, d(4)), f(ch, 1, k), f(ch), f(b, ch, k-1))[:1+d(3)]
	case "FlexAttention":
		b, h, t, s := d(2), d(2), d(3), d(3)
		return nil, list(f(b, g*h, t, s), f(b, h, 2, s), f(b, h, 2, t))
	case "DeformConv":
		n, k := d(2), d(2)
		return Attrs{IntAttr("offset_group", int64(g))},
			list(f(n, 2*g, 3, 3), f(d(2), 2*g, k, k), f(n, g*k*k*2, 4-k, 4-k), nil,
				f(n, g*k*k, 4-k, 4-k))[:list(3, 5)[r.IntN(2)]]
	case "RoiAlign", "MaxRoiPool":
		rois := f32([]int{2, 4}, 0, 0, 3, 2, 1, 1, 2, 5)
		if name == "MaxRoiPool" {
			return Attrs{IntsAttr("pooled_shape", int64(d(3)), int64(d(3)))},
				list(f(1, d(2), 4, 5), f32([]int{1, 5}, 0, 1, 1, 3, 2))
		}
		return Attrs{IntAttr("output_height", int64(d(3))),
			StringAttr("mode", list("avg", "max")[g-1])}, list(f(2, d(2), 4, 5), rois, i64(0, 1))
	case "Det":
		n := d(4)
		return nil, list(f(d(2), n, n))
	case "Col2Im":
		k := int64(d(2))
		return Attrs{IntsAttr("strides", k, 1)}, list(f(d(2), 4, int(4/k)*4), i64(4, 5), i64(k, 2))
	case "Adagrad", "Adam", "Momentum":
		x := list(f(2, d(2)))
		for range map[string]int{"Adagrad": 2, "Adam": 3, "Momentum": 2}[name] {
			x = append(x, x[0].Clone())
		}
		return Attrs{FloatAttr("alpha", 0.5), FloatAttr("beta", 0.5),
				FloatAttr("norm_coefficient", 0.1), StringAttr("mode", "nesterov")},
			append(list(f(1), i64(int64(r.IntN(3)))), x...)
	case "AffineGrid":
		rank := 1 + g
		return Attrs{IntAttr("align_corners", int64(r.IntN(2)))},
			list(f(2, rank, rank+1), i64(list[int64](2, 1, 3, 2, 2)[:2+g+1]...))
	case "ImageDecoder":
		file := []byte("P3 2 1 255 1 2 3 4 5 6")[:20+r.IntN(3)]
		return nil, list(tensor.From(file, len(file)))
	case "Rescale":
		ch := d(3)
		n := list(1, ch)[r.IntN(2)]
		return nil, list(r.tensor(list(tensor.Uint8, tensor.Int8)[r.IntN(2)], list(2, ch, d(3))),
			f(n), f(n), u8([]int{}, 7))
	case "Grid":
		ch := d(3)
		of := list(tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16)[r.IntN(4)]
		return nil, list(f(2, ch, d(3)), f(ch), r.tensor(of, list(ch)))
	case "Table":
		return nil, list(r.tensor(tensor.Int8, list(2, d(3))), r.tensor(tensor.Uint8, list(256)))
	case "TopK":
		return Attrs{IntAttr("k", int64(d(2)))}, list(f(3, 2+d(3)), i64(int64(d(2))))
	}
	return nil, nil
}

// call makes a call of a row with operands; versions reach from the oldest to beyond the newest.
func (r caller) call(o *Op) (*Call, []*tensor.Tensor) {
	most := o.MaxIn
	if most < 0 {
		most = 3
	}
	n := o.MinIn
	if most > n {
		n += r.IntN(most - n + 1)
	}
	out := max(1, o.MinOut)
	attrs, in := r.fitting(o.Name)
	if o.Domain == FusedDomain && o.Name == "QLinearConv" && len(in) > QLinearBias-1 {
		m := in[QLinearB].Shape[0]
		in = append(slices.Clone(in[:QLinearBias]), tensor.From(make([]int32, m), m), f32([]int{1},
			0.5),
			f32([]int{1}, 3), u8([]int{}, 7))
	}
	if len(in) < o.MinIn || r.one(3) {
		attrs, in = r.attrs(), r.operands(n)
	}
	n = len(in)
	if o.MaxOut > out {
		out += r.IntN(o.MaxOut - out + 1)
	}
	for i := range o.MinIn {
		if in[i] == nil {
			in[i] = r.tensor(in[0].DType, []int{2, 3})
		}
	}
	return &Call{Domain: o.Domain, Type: o.Name, Version: o.Since[0] + r.IntN(20), Attrs: attrs,
		NumIn: n, NumOut: out}, in
}

// agree runs rule and evaluation of one call. Neither may panic; what the rule refuses when it
// knows everything, the evaluation refuses too; and the evaluation's outputs are what the rule
// says.
func agree(t *testing.T, o *Op, call *Call, in []*tensor.Tensor) (ran bool) {
	t.Helper()
	c := &Infer{Call: call, In: make([]Type, len(in)), Present: make([]bool, len(in)),
		Out: make([]Type, call.NumOut)}
	for i, v := range in {
		if v != nil {
			c.In[i], c.Present[i] = TypeOf(v), true
		}
	}
	ruleErr := o.Infer(c)
	e := &Eval{Call: call, Ctx: context.Background(), In: in,
		Out: make([]*tensor.Tensor, call.NumOut), Alloc: small}
	err := o.Eval(e)
	if err != nil {
		return false
	}
	if ruleErr != nil {
		t.Errorf("%s-%d %v of %v: the rule refuses what evaluates: %v", call.Name(), call.Version,
			call.Attrs, in, ruleErr)
		return true
	}
	for i, v := range e.Out {
		if v == nil {
			t.Errorf("%s: output %d was not made", call.Name(), i)
			continue
		}
		if err := holds(c.Out[i], v, nil); err != nil {
			t.Errorf("%s-%d %v of %v: output %d: %v", call.Name(), call.Version, call.Attrs, in, i,
				err)
		}
		if !c.Out[i].Static() {
			t.Errorf("%s-%d %v of %v: output %d: the rule knows everything and says %v",
				call.Name(), call.Version, call.Attrs, in, i, c.Out[i])
		}
	}
	return true
}

// small refuses outputs that a test should not compute.
func small(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	if n, err := tensor.ByteCount(d, shape); err != nil || n > 1<<20 {
		return nil, tensor.ErrShape
	}
	return dirty(i, d, shape)
}

func TestRulesAgreeWithEvaluations(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(1, 2))}
	for _, o := range numericRows() {
		ran := 0
		for range 1500 {
			call, in := r.call(o)
			if agree(t, o, call, in) {
				ran++
			}
			if t.Failed() {
				return
			}
		}
		if ran < 5 {
			t.Errorf("%s:%s: only %d random calls were valid", o.Domain, o.Name, ran)
		}
	}
}

// TestRulesSurviveSymbols gives rules random types: unknown ranks, symbols, absurd sizes.
func TestRulesSurviveSymbols(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(3, 4))}
	for _, o := range numericRows() {
		for range 1500 {
			call, in := r.call(o)
			c := &Infer{Call: call, In: make([]Type, len(in)), Present: make([]bool, len(in)),
				Out: make([]Type, call.NumOut)}
			for i, v := range in {
				if v != nil {
					c.In[i], c.Present[i] = r.obscure(TypeOf(v)), true
				}
			}
			_ = o.Infer(c)
		}
	}
}

// obscure forgets parts of a type, or makes them absurd.
func (r caller) obscure(ty Type) Type {
	if r.one(10) {
		return Unranked(ty.DType)
	}
	if r.one(10) {
		ty.DType = tensor.Undefined
	}
	for k := range ty.Shape {
		switch r.IntN(6) {
		case 0:
			ty.Shape[k], ty.Const = Sym("N"), nil
		case 1:
			ty.Shape[k], ty.Const = Unknown(), nil
		case 2:
			ty.Shape[k], ty.Const = Sym("H").MulInt(2).AddInt(-1), nil
		case 3:
			if r.one(4) {
				ty.Shape[k], ty.Const = Known(int(r.size())), nil
			}
		}
	}
	return ty
}

func FuzzRulesAndEvaluations(f *testing.F) {
	for i := range uint64(8) {
		f.Add(binary.LittleEndian.AppendUint64(nil, i*7919), uint16(i*11))
	}
	f.Fuzz(func(t *testing.T, seed []byte, which uint16) {
		var s [32]byte
		copy(s[:], seed)
		r := caller{rand.New(rand.NewChaCha8(s))}
		rows := numericRows()
		o := rows[int(which)%len(rows)]
		call, in := r.call(o)
		agree(t, o, call, in)
	})
}

// TestElementwiseMayRunInPlace gives elementwise operators the storage of each input with as many
// elements of the same size as the output in turn, as a planner may.
func TestElementwiseMayRunInPlace(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(13, 14))}
	for _, o := range numericRows() {
		if !o.Has(Elementwise) {
			continue
		}
		for range 300 {
			call, in := r.call(o)
			want, err := rawEvalQuiet(o, call, in, small)
			if err != nil {
				continue
			}
			for k := range in {
				mine := clones(in)
				got, err := rawEvalQuiet(o, call, mine,
					func(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
						if i > 0 || mine[k] == nil || count(shape) != mine[k].Len() ||
							d.Size() != mine[k].DType.Size() {
							return nil, nil
						}
						return &tensor.Tensor{DType: d, Shape: slices.Clone(shape),
								Data: mine[k].Data},
							nil
					})
				if err != nil || !tensor.Equal(got, want) {
					t.Fatalf("%s-%d %v of %v in place of input %d: %v, %v; want %v", call.Name(),
						call.Version, call.Attrs, in, k, got, err, want)
				}
			}
		}
	}
}

func clones(in []*tensor.Tensor) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(in))
	for i, v := range in {
		if v != nil {
			out[i] = v.Clone()
		}
	}
	return out
}

func rawEvalQuiet(o *Op, call *Call, in []*tensor.Tensor,
	alloc func(int, tensor.DType, []int) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	e := &Eval{Call: call, Ctx: context.Background(), In: in,
		Out: make([]*tensor.Tensor, call.NumOut), Alloc: alloc}
	err := o.Eval(e)
	return e.Out[0], err
}
