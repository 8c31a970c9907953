package op

import (
	"math"
	"slices"
	"strings"

	"github.com/weirgpu/weir/tensor"
)

// FusedDomain is the domain of operators that are several ONNX operators in one.
const FusedDomain = "weir"

// fused holds the operators that passes make of a product, what is added to it and the activation
// that follows. Each is defined as its parts one after the other. On top of the attributes and
// inputs of the ONNX operator of the same name (Conv-22, ConvTranspose-22, Gemm-13, MatMul-13) they
// take
//
//   - attribute activation: the last part, by name (see [FusedActivations]); none when absent;
//   - attributes activation_alpha, activation_beta and activation_gamma: its parameters, the lower
//     and upper bound for Clip, scale, lower and upper bound for Grid;
//   - attribute precision: "bf16" rounds inputs 0 and 1, of type float32, to bfloat16 (to nearest,
//     ties to even) before they are multiplied; the sums stay float32;
//   - Conv input 3, optional: a tensor of the output's shape, added before the activation;
//   - Conv input 4, optional: a vector with an element for each output channel, which its weights
//     are multiplied by;
//   - MatMul input 2, optional: a vector of the last dimension, added to every row before the
//     activation;
//   - Conv attribute turned: 1 says that input 1 is the weights of the convolution, of one group,
//     of whose operand this is the gradient: their first two axes are exchanged, and the others are
//     reversed;
//   - MatMul attribute transB: 1 says that input 1, a matrix, is given transposed.
//
// Silu is x · Sigmoid(x) alone, which ONNX has only since opset 24, as Swish.
var fused = []Op{
	{Domain: FusedDomain, Name: "Conv", Since: []int{1}, MinIn: 2, MaxIn: 5, Infer: fusedConv.infer,
		Eval: InFloat32(fusedConv.eval), Flops: fusedConvFlops},
	{Domain: FusedDomain, Name: "ConvTranspose", Since: []int{1}, MinIn: 2, MaxIn: 3,
		Infer: fusedConvTranspose.infer, Eval: InFloat32(fusedConvTranspose.eval),
		Flops: convTransposeFlops},
	{Domain: FusedDomain, Name: "Gemm", Since: []int{1}, MinIn: 2, MaxIn: 3, Infer: fusedGemm.infer,
		Eval: InFloat32(fusedGemm.eval), Flops: gemmFlops},
	{Domain: FusedDomain, Name: "MatMul", Since: []int{1}, MinIn: 2, MaxIn: 3,
		Infer: fusedMatMul.infer,
		Eval:  InFloat32(fusedMatMul.eval), Flops: matMulFlops},
	{Domain: FusedDomain, Name: "Silu", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: Elementwise,
		Infer: SameAsInput(floatTypes), Eval: evalMap(func(*Call) (unaryFuncs, error) {
			return unaryFuncs{f: swish(1)}, nil
		}), grad: slope(slopeSilu)},
	fusedAttention,
}

// fusion is the first part of a fused operator and which input, after those of the first part, is
// added to it.
type fusion struct {
	version int // of the ONNX operator
	inputs  int // of the ONNX operator
	vector  bool
	first   func(*Infer) error
	compute func(*Eval) error
}

var (
	fusedConv          = fusion{version: 22, inputs: 3, first: inferConv, compute: evalConv}
	fusedConvTranspose = fusion{version: 22, inputs: 3, first: inferConvTranspose,
		compute: evalConvTranspose}
	fusedGemm   = fusion{version: 13, inputs: 3, first: inferGemm, compute: evalGemm}
	fusedMatMul = fusion{version: 13, inputs: 2, vector: true, first: inferMatMul,
		compute: evalMatMul}
)

// plain is the call of the first part alone.
func (f fusion) plain(c *Call) *Call {
	attrs := slices.DeleteFunc(slices.Clone(c.Attrs), func(a Attr) bool {
		return strings.HasPrefix(a.Name, "activation") || a.Name == "precision" ||
			a.Name == "turned" ||
			f.vector && a.Name == "transB"
	})
	return &Call{Type: c.Type, Version: f.version, Attrs: attrs, NumIn: min(c.NumIn, f.inputs),
		NumOut: 1}
}

func (f fusion) infer(c *Infer) error {
	if _, err := c.fusedActivation(); err != nil {
		return err
	}
	if _, err := c.multiplyInBF16(c.In[0].DType); err != nil {
		return err
	}
	n := min(len(c.In), f.inputs)
	first := slices.Clone(c.In[:n])
	if f.transposes(c.Call) && c.In[1].Ranked {
		s := c.In[1].Shape
		if len(s) != 2 {
			return c.Errorf(ErrInput, "input 1 is %v, must be a matrix to be transposed", c.In[1])
		}
		first[1] = Ranked(c.In[1].DType, s[1], s[0])
	}
	if err := c.turn(first); err != nil {
		return err
	}
	if err := f.first(&Infer{Call: f.plain(c.Call), In: first, Present: c.Present[:n],
		Out: c.Out}); err != nil {
		return err
	}
	if err := f.inferScale(c); err != nil || !c.Has(f.inputs) {
		return err
	}
	return f.checkAdded(c, c.Out[0])
}

// checkAdded checks that the input after those of the first part can be added to its result y.
func (f fusion) checkAdded(c *Infer, y Type) error {
	added := c.In[f.inputs]
	if !mayBeSame(y.DType, added.DType) {
		return c.Errorf(ErrInput, "input %d is %v, the product %v", f.inputs, added.DType, y.DType)
	}
	if !y.Ranked || !added.Ranked {
		return nil
	}
	if !slices.EqualFunc(addend(f, y.Shape), added.Shape, Dim.MayEqual) {
		return c.Errorf(ErrInput, "input %d is %v, does not fit the product %v", f.inputs, added, y)
	}
	return nil
}

// weightScale is the input of weir:Conv that scales weights.
const weightScale = 4

// inferScale checks the scale of the weights.
func (f fusion) inferScale(c *Infer) error {
	if !c.Has(weightScale) {
		return nil
	}
	s, w := c.In[weightScale], c.In[1]
	if !mayBeSame(s.DType, w.DType) {
		return c.Errorf(ErrInput, "input %d is %v, the weights are %v", weightScale, s.DType,
			w.DType)
	}
	if s.Ranked && w.Ranked &&
		(len(w.Shape) == 0 || !slices.EqualFunc(s.Shape, w.Shape[:1], Dim.MayEqual)) {
		return c.Errorf(ErrInput, "input %d is %v, does not fit weights %v", weightScale, s, w)
	}
	return nil
}

// scaledWeights returns the weights of weir:Conv times their scale.
func scaledWeights(c *Eval) (*tensor.Tensor, error) {
	w, s := c.In[1], c.In[weightScale]
	if s.DType != w.DType || w.Rank() == 0 || !slices.Equal(s.Shape, w.Shape[:1]) {
		return nil, c.Errorf(ErrInput, "input %d is %v%v, does not fit weights %v%v", weightScale,
			s.DType, s.Shape, w.DType, w.Shape)
	}
	by, err := s.Floats()
	if err != nil {
		return nil, c.Errorf(ErrInput, "input %d: %v", weightScale, err)
	}
	v, err := w.Floats()
	if err != nil {
		return nil, c.Errorf(ErrInput, "weights: %v", err)
	}
	out, err := tensor.New(w.DType, w.Shape...)
	if err != nil {
		return nil, err
	}
	for i := range v {
		v[i] *= by[i/(len(v)/len(by))]
	}
	SetFloats(out, v)
	return out, nil
}

// transposes reports whether a call gives its second operand transposed where the first part has no
// attribute for it.
func (f fusion) transposes(c *Call) bool { return f.vector && c.Attrs.Bool("transB", false) }

// transposedMatrix returns a copy of a matrix of a numeric type, transposed.
func transposedMatrix(c *Call, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.Rank() != 2 || t.DType.IsContainer() || t.DType == tensor.String {
		return nil, c.Errorf(ErrInput, "input 1 is %v%v, must be a matrix to be transposed",
			t.DType, t.Shape)
	}
	rows, cols, size := t.Shape[0], t.Shape[1], t.DType.Size()
	out, err := tensor.New(t.DType, cols, rows)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		for j := range cols {
			copy(out.Data[(j*rows+i)*size:][:size], t.Data[(i*cols+j)*size:])
		}
	}
	return out, nil
}

// addend is the shape of what is added to a product of that shape.
func addend[D any](f fusion, product []D) []D {
	if f.vector {
		return product[max(0, len(product)-1):]
	}
	return product
}

// add adds the input after those of the first part to y.
func (f fusion) add(c *Eval, y *tensor.Tensor) error {
	added, want := c.In[f.inputs], addend(f, y.Shape)
	if added.DType != y.DType || !slices.Equal(want, added.Shape) {
		return c.Errorf(ErrInput, "input %d is %v %v, must be %v %v", f.inputs, added.DType,
			added.Shape, y.DType, want)
	}
	sums.fold(y, []*tensor.Tensor{y, added}, broadcastWalk(y.Shape, y.Shape, added.Shape))
	return nil
}

func (f fusion) eval(c *Eval) error {
	act, err := c.fusedActivation()
	if err != nil {
		return err
	}
	in, err := f.operands(c)
	if err != nil {
		return err
	}
	part := &Eval{Call: f.plain(c.Call), Ctx: c.Ctx, In: in, Out: c.Out, Alloc: c.Alloc}
	if err := f.compute(part); err != nil {
		return err
	}
	y := part.Out[0]
	c.Out[0] = y
	if c.Has(f.inputs) {
		if err := f.add(c, y); err != nil {
			return err
		}
	}
	if act != nil {
		if _, err := c.SameDType(floatTypes, y.DType); err != nil {
			return err
		}
		unaryFuncs{f: act}.apply(y, y)
	}
	return nil
}

// operands are the inputs of the first part: with scaled weights, rounded and transposed as the
// call says.
func (f fusion) operands(c *Eval) (in []*tensor.Tensor, err error) {
	in = slices.Clone(c.In[:min(len(c.In), f.inputs)])
	if c.Has(weightScale) {
		if in[1], err = scaledWeights(c); err != nil {
			return nil, err
		}
	}
	if yes, err := c.multiplyInBF16(c.In[0].DType); err != nil {
		return nil, err
	} else if yes {
		in[0], in[1] = roundedToBF16(in[0]), roundedToBF16(in[1])
	}
	if f.transposes(c.Call) {
		in[1], err = transposedMatrix(c.Call, in[1])
	}
	if c.turned() {
		in[1], err = turnedWeights(c.Call, in[1])
	}
	return in, err
}

// multiplyInBF16 reports whether attribute precision asks for operands of type d in bfloat16.
func (c *Call) multiplyInBF16(d tensor.DType) (bool, error) {
	switch p := c.Attrs.String("precision", ""); {
	case p == "":
		return false, nil
	case p != "bf16":
		return false, c.Errorf(ErrAttr, "precision %q: want bf16", p)
	case d != tensor.Float32 && d != tensor.Undefined:
		return false, c.Errorf(ErrInput, "precision bf16 is for operands of float32, not %v", d)
	}
	return true, nil
}

// roundedToBF16 returns a copy of t, of type float32, rounded to bfloat16.
func roundedToBF16(t *tensor.Tensor) *tensor.Tensor {
	out := make([]float32, t.Len())
	for i, v := range tensor.As[float32](t) {
		out[i] = tensor.BHalfOf(v).Float32()
	}
	return tensor.From(out, t.Shape...)
}

// FusedActivation evaluates the activation of a fused operator at one point.
type FusedActivation func(x float64) float64

// fusedActivation returns the call's activation, nil when there is none.
func (c *Call) fusedActivation() (FusedActivation, error) {
	name := c.Attrs.String("activation", "")
	if name == "" {
		return nil, nil
	}
	return NewFusedActivation(name, c.Attrs)
}

// FusedActivations lists the names that attribute activation takes.
var FusedActivations = []string{"Clip", "Gelu", "GeluTanh", "Grid", "HardSigmoid", "HardSwish",
	"LeakyRelu", "Relu", "Sigmoid", "Silu", "Tanh"}

// NewFusedActivation returns the activation of that name with the parameters activation_alpha,
// activation_beta and activation_gamma among the attributes; each is defined by the ONNX operator
// of the same name, its defaults included; Silu is x · Sigmoid(x), GeluTanh is Gelu with attribute
// approximate tanh, and Grid(x) is round(min(max(x/alpha, beta), gamma)) · alpha, with beta for
// NaN, where beta is -32768 and gamma 65535 more unless they are given. Other names are an error of
// kind [ErrAttr].
func NewFusedActivation(name string, attrs Attrs) (FusedActivation, error) {
	c := &Call{Domain: FusedDomain, Type: "activation", Attrs: attrs}
	alpha := func(def float64) float64 { return c.attr("activation_alpha", float32(def)) }
	beta := func(def float64) float64 { return c.attr("activation_beta", float32(def)) }
	if name == "Grid" {
		lo := beta(math.MinInt16)
		hi := c.attr("activation_gamma", float32(lo)+math.MaxUint16)
		return gridFunction(alpha(1), lo, hi), nil
	}
	if f := fusedFunctions[name]; f != nil {
		return f(alpha, beta), nil
	}
	return nil, c.Errorf(ErrAttr, "%q is not one of %v", name, FusedActivations)
}

// fusedFunctions makes each activation of its parameters, which are given their defaults.
var fusedFunctions = map[string]func(alpha, beta func(float64) float64) FusedActivation{
	"Clip": func(alpha, beta func(float64) float64) FusedActivation {
		lo, hi := alpha(math.Inf(-1)), beta(math.Inf(1))
		return func(x float64) float64 { return minOf(maxOf(x, lo), hi) }
	},
	"Gelu":     fixed(geluExact),
	"GeluTanh": fixed(geluTanh),
	"HardSigmoid": func(alpha, beta func(float64) float64) FusedActivation {
		return hardSigmoid(alpha(0.2), beta(0.5))
	},
	"HardSwish": fixed(hardSwish),
	"LeakyRelu": func(alpha, _ func(float64) float64) FusedActivation {
		return leakyRelu(alpha(0.01))
	},
	"Relu":    fixed(relu),
	"Sigmoid": fixed(sigmoid),
	"Silu":    fixed(swish(1)),
	"Tanh":    fixed(math.Tanh),
}

// fixed is an activation without parameters.
func fixed(f FusedActivation) func(alpha, beta func(float64) float64) FusedActivation {
	return func(_, _ func(float64) float64) FusedActivation { return f }
}
