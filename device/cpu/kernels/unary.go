package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
	"slices"
)

// vecFunc computes dst[i] from x[i]; dst and x have the same length and may be the same slice.
type vecFunc func(dst, x []float32)

// unaryKernels are the operators that map each float32 element by itself.
var unaryKernels = map[opKey]builder{
	{"", "Relu"}:        unary(always(vec.Relu)),
	{"", "Sigmoid"}:     unary(always(vec.Sigmoid)),
	{"", "Tanh"}:        unary(always(vec.Tanh)),
	{"", "Erf"}:         unary(always(vec.Erf)),
	{"", "Exp"}:         unary(always(vec.Exp)),
	{"", "Log"}:         unary(always(vec.Log)),
	{"", "Sqrt"}:        unary(always(vec.Sqrt)),
	{"", "Neg"}:         unary(always(vec.Neg)),
	{"", "Abs"}:         unary(always(vec.Abs)),
	{"", "Reciprocal"}:  unary(always(vec.Reciprocal)),
	{"", "Softplus"}:    unary(always(vec.Softplus)),
	{"", "HardSwish"}:   unary(always(vec.HardSwish)),
	{"", "Mish"}:        unary(always(vec.Mish)),
	{"", "LeakyRelu"}:   unary(leakyRelu),
	{"", "Elu"}:         unary(elu),
	{"", "HardSigmoid"}: unary(hardSigmoid),
	{"", "Clip"}:        unary(clip),
	{"", "Gelu"}:        unary(gelu),
	{"weir", "Silu"}:    unary(always(vec.Silu)),
	{"weir", "Chain"}:   chain,
	{"", "Swish"}:       unary(swish),
	{"", "Floor"}:       unary(always(vec.Floor)),
	{"", "Ceil"}:        unary(always(vec.Ceil)),
	{"", "Round"}:       unary(always(vec.RoundEven)),
	{"", "Sin"}:         unary(each(math.Sin)),
	{"", "Cos"}:         unary(each(math.Cos)),
}

func always(f vecFunc) func(*request) vecFunc { return func(*request) vecFunc { return f } }

// each applies a function of the standard library to one element after the other.
func each(f func(float64) float64) func(*request) vecFunc {
	return always(func(dst, x []float32) {
		for i, v := range x[:len(dst)] {
			dst[i] = float32(f(float64(v)))
		}
	})
}

// swish is Swish-24, x · sigmoid(alpha · x).
func swish(r *request) vecFunc {
	if r.Call.Attrs.Float("alpha", 1) != 1 {
		return nil
	}
	return vec.Silu
}

func leakyRelu(r *request) vecFunc {
	alpha := r.Call.Attrs.Float("alpha", 0.01)
	return func(dst, x []float32) { vec.LeakyRelu(dst, x, alpha) }
}

func elu(r *request) vecFunc {
	alpha := r.Call.Attrs.Float("alpha", 1)
	return func(dst, x []float32) { vec.Elu(dst, x, alpha) }
}

func hardSigmoid(r *request) vecFunc {
	alpha, beta := r.Call.Attrs.Float("alpha", 0.2), r.Call.Attrs.Float("beta", 0.5)
	return func(dst, x []float32) { vec.HardSigmoid(dst, x, alpha, beta) }
}

func gelu(r *request) vecFunc {
	if r.Call.Attrs.String("approximate", "none") == "tanh" {
		return vec.GeluTanh
	}
	return vec.Gelu
}

// clip takes its bounds from attributes (ONNX Clip-6) or constant inputs (Clip-11, 13); those left
// out are the limits of float32.
func clip(r *request) vecFunc {
	lo, hi := r.Call.Attrs.Float("min", -math.MaxFloat32), r.Call.Attrs.Float("max",
		math.MaxFloat32)
	if r.Call.Version >= 11 {
		var ok bool
		if lo, ok = r.scalar(1, -math.MaxFloat32); !ok {
			return nil
		}
		if hi, ok = r.scalar(2, math.MaxFloat32); !ok {
			return nil
		}
	}
	if lo != lo || hi != hi {
		return nil
	}
	return func(dst, x []float32) { vec.Clip(dst, x, lo, hi) }
}

// scalar returns constant float32 input i, def when it is absent; false when it is there and not a
// constant of one element.
//
//go:noinline
func (r *request) scalar(i int, def float32) (float32, bool) {
	if i >= len(r.In) || r.In[i].DType == tensor.Undefined {
		return def, true
	}
	c := r.constant(i)
	if c == nil || c.DType != tensor.Float32 || c.Len() != 1 {
		return 0, false
	}
	return tensor.As[float32](c)[0], true
}

//go:noinline
func unary(choose func(*request) vecFunc) builder {
	return func(r *request) (compute.Kernel, error) {
		if !r.allFloat32(-1) {
			return nil, nil
		}
		f := choose(r)
		if f == nil {
			return nil, nil
		}
		return &mapKernel{name: r.Call.Type, f: f}, nil
	}
}

// mapKernel applies f to all elements in blocks.
type mapKernel struct {
	plain
	first
	name string
	f    vecFunc
}

// Name implements Kernel.
func (k *mapKernel) Name() string { return "map." + k.name }

// Bind implements Kernel.
func (k *mapKernel) Bind(b compute.Binding) compute.Task {
	return &mapTask{f: k.f, x: tensor.As[float32](b.In[0]), y: tensor.As[float32](b.Out[0])}
}

// mapBlock is how many float32s one chunk of an element-wise loop takes: small enough that its
// operands stay in the first two cache levels, large enough that claiming it costs nothing.
const mapBlock = 8192

type mapTask struct {
	f    vecFunc
	x, y []float32
}

// Run implements Task.
func (t *mapTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.y)), t) }

// Chunk implements Region.
func (t *mapTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.y))
	t.f(t.y[lo:hi], t.x[lo:hi])
}

func blocks(n int) int { return (n + mapBlock - 1) / mapBlock }

func block(i, n int) (lo, hi int) { return i * mapBlock, min((i+1)*mapBlock, n) }

// powKernel is Pow with a constant exponent that has a cheaper form.
func powKernel(r *request) (compute.Kernel, error) {
	e, ok := r.scalar(1, 0)
	if !ok || !r.allFloat32(-1) || r.In[1].Const == nil {
		return nil, nil
	}
	if shape, _, _ := r.in(0); !slices.Equal(shape, r.outShape()) {
		return nil, nil
	}
	f := map[float32]vecFunc{2: vec.Square, 3: vec.Cube, 0.5: rootPower(vec.Sqrt, 0.5),
		-0.5: rootPower(vec.Rsqrt, -0.5),
		-1:   vec.Reciprocal}[e]
	if f == nil {
		return nil, nil
	}
	return &mapKernel{name: "Pow", f: f}, nil
}

// rootPower is x to the power e of one half or its negative. IEEE 754 defines pow(-Inf) and pow(-0)
// apart from the root.
func rootPower(root vecFunc, e float64) vecFunc {
	return func(dst, x []float32) {
		if vec.MinReduce(x) > 0 {
			root(dst, x)
			return
		}
		for i, v := range x {
			dst[i] = float32(math.Pow(float64(v), e))
		}
	}
}
