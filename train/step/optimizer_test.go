package step_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// two is a model of a matrix of 2 rows and a bias.
const two = `graph "two" {
 opset "" 18
 input %x: float32[4,3]
 const %w: float32[2,3] = {0.5, -0.25, 1, 0.125, 2, -1}
 const %b: float32[2] = {0.1, -0.2}
 %y = Gemm@13 (%x, %w, %b) {transB=1}
 output %y
}`

// torch computes updates in float64, as the optimizers of torch.optim are defined; LAMB as
// algorithm 2 of its paper.
type torch struct {
	o       step.Options
	w       [][]float64 // the matrix and the bias
	m, v, a [][]float64
	t       float64
}

func newTorch(o step.Options) *torch {
	start := func() [][]float64 {
		return [][]float64{{0.5, -0.25, 1, 0.125, 2, -1}, {float64(float32(0.1)),
			float64(float32(-0.2))}}
	}
	zeros := func() [][]float64 { return [][]float64{make([]float64, 6), make([]float64, 2)} }
	return &torch{o: o, w: start(), a: start(), m: zeros(), v: zeros()}
}

// gradients adds those of the mean squared error by matrix and bias, and returns that error.
func (r *torch) gradients(x, y []float32, into [][]float64) (loss float64) {
	for n := range 4 {
		for k := range 2 {
			s := r.w[1][k]
			for i := range 3 {
				s += r.w[0][3*k+i] * float64(x[3*n+i])
			}
			e := s - float64(y[2*n+k])
			loss += e * e / 8
			into[1][k] += e / 4
			for i := range 3 {
				into[0][3*k+i] += e / 4 * float64(x[3*n+i])
			}
		}
	}
	return loss
}

// update makes one from mean gradients.
func (r *torch) update(d [][]float64, rate float64) {
	if most := r.o.Clip; most > 0 {
		scale := min(1, most/(norm(append(append([]float64{}, d[0]...), d[1]...))+1e-6))
		for _, of := range d {
			for i := range of {
				of[i] *= scale
			}
		}
	}
	r.t++
	for k, w := range r.w {
		r.rule(w, d[k], r.m[k], r.v[k], rate)
		for i := range w {
			r.a[k][i] = r.o.Average*r.a[k][i] + (1-r.o.Average)*w[i]
		}
	}
}

func (r *torch) rule(w, d, m, v []float64, rate float64) {
	o := r.o.Optimizer
	steps := make([]float64, len(w))
	for i, g := range d {
		switch o.Kind {
		case step.SGD, step.Momentum, step.Adam, step.Adagrad:
			g += o.Decay * w[i]
		case step.AdamW:
			w[i] -= rate * o.Decay * w[i]
		}
		switch o.Kind {
		case step.SGD:
			steps[i] = g
		case step.Momentum:
			m[i] = o.Momentum*m[i] + g
			steps[i] = m[i]
			if o.Nesterov {
				steps[i] = g + o.Momentum*m[i]
			}
		case step.Adagrad:
			v[i] += g * g
			steps[i] = g / (math.Sqrt(v[i]) + o.Epsilon)
		default:
			m[i] = o.Beta1*m[i] + (1-o.Beta1)*g
			v[i] = o.Beta2*v[i] + (1-o.Beta2)*g*g
			first, second := 1-math.Pow(o.Beta1, r.t), 1-math.Pow(o.Beta2, r.t)
			steps[i] = m[i] / first / (math.Sqrt(v[i]/second) + o.Epsilon)
			if o.Kind == step.LAMB {
				steps[i] += o.Decay * w[i]
			}
		}
	}
	if o.Kind == step.LAMB {
		rate *= norm(w) / norm(steps)
	}
	for i := range w {
		w[i] -= rate * steps[i]
	}
}

func norm(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// TestOptimizers makes updates with each optimizer and its options, and holds weights, averages and
// losses to those of their definitions.
func TestOptimizers(t *testing.T) {
	with := func(k step.OptimizerKind, change func(*step.Options)) step.Options {
		o := step.Options{Loss: step.Loss{Kind: step.SquaredError}, Optimizer: k.Defaults()}
		change(&o)
		return o
	}
	none := func(*step.Options) {}
	var all []step.Options
	for _, k := range step.Optimizers() {
		all = append(all, with(k, none), with(k, func(o *step.Options) {
			o.Optimizer.Decay, o.Clip, o.Average, o.Accumulate = 0.1, 0.5, 0.75, 3
		}))
	}
	all = append(all, with(step.Momentum, func(o *step.Options) { o.Optimizer.Nesterov = true }),
		with(step.SGD, func(o *step.Options) { o.Accumulate = 3 }))
	for _, o := range all {
		t.Run(fmt.Sprintf("%+v", o.Optimizer), func(t *testing.T) { follows(t, o) })
	}
}

// follows makes some updates by a step's graphs and by definition.
func follows(t *testing.T, o step.Options) {
	g, err := graph.Parse(two)
	if err != nil {
		t.Fatal(err)
	}
	s, err := step.Build(g, o)
	if err != nil {
		t.Fatal(err)
	}
	want, state := newTorch(o), map[string]*tensor.Tensor{}
	for _, v := range s.State.Variables() {
		if state[v.Name], err = tensor.New(v.DType, v.Shape...); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range s.Params {
		state[p.Name] = p.Start
		if p.Average != "" {
			state[p.Average] = p.Start
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for update := range int64(5) {
		const rate = 0.05
		for _, name := range s.Sums {
			clear(state[name].Data)
		}
		sum := [][]float64{make([]float64, 6), make([]float64, 2)}
		k := max(o.Accumulate, 1)
		for i := range k {
			in := map[string]*tensor.Tensor{"x": random(rng, 4, 3), "labels": random(rng, 4, 2)}
			loss := want.gradients(tensor.As[float32](in["x"]), tensor.As[float32](in["labels"]),
				sum)
			for name, v := range o.Optimizer.Scalars(rate, update+1) {
				in[name] = tensor.Scalar(v)
			}
			by := s.Train
			if i < k-1 {
				by = s.Add
			}
			near(t, "loss", iterate(t, by, in, state), []float64{loss})
		}
		for _, of := range sum {
			for i := range of {
				of[i] /= float64(k)
			}
		}
		want.update(sum, rate)
	}
	for i, name := range []string{"w", "b"} {
		near(t, name, state[name], want.w[i])
		if o.Average > 0 {
			near(t, "average of "+name, state[name+"/average"], want.a[i])
		}
	}
	if o.Average == 0 {
		return
	}
	in := map[string]*tensor.Tensor{"x": random(rng, 4, 3), "labels": random(rng, 4, 2)}
	want.w = want.a // what is tried is the average
	loss := want.gradients(tensor.As[float32](in["x"]), tensor.As[float32](in["labels"]),
		[][]float64{make([]float64, 6), make([]float64, 2)})
	each, mean := tensor.As[float32](iterate(t, s.Eval, in, state)), 0.0
	for _, v := range each {
		mean += float64(v) / 4
	}
	near(t, "evaluation", tensor.Scalar(float32(mean)), []float64{loss})
}

func random(r *rand.Rand, shape ...int) *tensor.Tensor {
	v := make([]float32, shape[0]*shape[1])
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return tensor.From(v, shape...)
}

// iterate evaluates a graph of a step, replaces variables, and returns output 0.
func iterate(t *testing.T, g step.Graph, in, state map[string]*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	all := maps.Clone(state)
	maps.Copy(all, in)
	var ins []*tensor.Tensor
	for _, v := range g.Inputs {
		ins = append(ins, all[v.Name])
	}
	outs, err := g.Eval(t.Context(), ins)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range g.Updates {
		state[u.Variable] = outs[u.Output].Clone()
	}
	return outs[0]
}

func near(t *testing.T, what string, got *tensor.Tensor, want []float64) {
	t.Helper()
	for i, v := range tensor.As[float32](got) {
		if !(math.Abs(float64(v)-want[i]) <= 2e-5*max(1, math.Abs(want[i]))) {
			t.Errorf("%s: element %d is %v, by definition %v", what, i, v, want[i])
		}
	}
}
