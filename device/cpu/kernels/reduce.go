package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// reduction is how one operator reduces: a whole row at once, or row after row into an accumulator
// that starts at zero value init; finish, when set, turns the accumulator of n elements into the
// result.
type reduction struct {
	row    func(x []float32) float32
	init   float32
	accum  func(acc, x []float32)
	finish func(acc []float32, n int)
}

var (
	reduceSum = reduction{row: vec.Sum, accum: func(acc, x []float32) { vec.Add(acc, acc, x) }}
	reduceMax = reduction{
		row:   vec.MaxReduce,
		init:  float32(math.Inf(-1)),
		accum: func(acc, x []float32) { vec.Max(acc, acc, x) },
	}
	reduceMin = reduction{
		row:   vec.MinReduce,
		init:  float32(math.Inf(1)),
		accum: func(acc, x []float32) { vec.Min(acc, acc, x) },
	}

	reduceMean = reduction{
		row:    func(x []float32) float32 { return vec.Sum(x) / float32(len(x)) },
		accum:  reduceSum.accum,
		finish: func(acc []float32, n int) { vec.DivScalar(acc, acc, float32(n)) },
	}
	reduceSumSquare = reduction{
		row:   vec.SumSquares,
		accum: func(acc, x []float32) { vec.FMA(acc, x, x, acc) },
	}
	reduceL2 = reduction{
		row:    func(x []float32) float32 { return float32(math.Sqrt(float64(vec.SumSquares(x)))) },
		accum:  reduceSumSquare.accum,
		finish: func(acc []float32, _ int) { vec.Sqrt(acc, acc) },
	}
)

// reduceKernels are the float32 reductions over neighbouring axes (ONNX Reduce* 1 to 18, axes as
// attribute or constant input), and the global poolings, which reduce all spatial axes.
var reduceKernels = map[opKey]builder{
	{"", "ReduceSum"}: reduce(
		reduceSum,
	),
	{"", "ReduceMean"}: reduce(reduceMean),
	{"", "ReduceMax"}:  reduce(reduceMax),
	{"", "ReduceMin"}: reduce(
		reduceMin,
	),
	{"", "ReduceSumSquare"}:   reduce(reduceSumSquare),
	{"", "ReduceL2"}:          reduce(reduceL2),
	{"", "GlobalAveragePool"}: globalPool(reduceMean),
	{"", "GlobalMaxPool"}:     globalPool(reduceMax),
}

func globalPool(f reduction) builder {
	return func(r *request) (compute.Kernel, error) {
		shape, _, _ := r.in(0)
		if !r.allFloat32(-1) || len(shape) < 3 || count(shape) == 0 {
			return nil, nil
		}
		return &reduceKernel{f: f, outer: shape[0] * shape[1], n: count(shape[2:]), inner: 1}, nil
	}
}

func reduce(f reduction) builder {
	return func(r *request) (compute.Kernel, error) {
		shape, _, _ := r.in(0)
		if r.In[0].DType != tensor.Float32 || r.Out[0].DType != tensor.Float32 ||
			count(shape) == 0 {
			return nil, nil
		}
		first, last, ok := reducedAxes(r, len(shape))
		if !ok {
			return nil, nil
		}
		return &reduceKernel{
			f:     f,
			outer: count(shape[:first]),
			n:     count(shape[first : last+1]),
			inner: count(shape[last+1:]),
		}, nil
	}
}

// reducedAxes returns the first and last reduced axis; false when the axes are not constant, not
// neighbours, or none.
func reducedAxes(r *request, rank int) (first, last int, ok bool) {
	var axes []int64
	// later the attribute says nothing
	if v := r.Call.Version; v < 13 || v < 18 && r.Call.Type != "ReduceSum" {
		axes = r.Call.Attrs.Ints("axes")
	}
	if len(r.In) > 1 && r.In[1].DType != tensor.Undefined {
		c := r.constant(1)
		if c == nil {
			return 0, 0, false
		}
		axes, _ = c.Ints()
	}
	if len(axes) == 0 {
		return 0, rank - 1, rank > 0 && !r.Call.Attrs.Bool("noop_with_empty_axes", false)
	}
	sorted := make([]int, len(axes))
	for i, a := range axes {
		if sorted[i] = int(a); a < 0 {
			sorted[i] += rank
		}
	}
	slices.Sort(sorted)
	for i := 1; i < len(sorted); i++ {
		if sorted[i] != sorted[i-1]+1 {
			return 0, 0, false
		}
	}
	first, last = sorted[0], sorted[len(sorted)-1]
	return first, last, first >= 0 && last < rank
}

// reduceKernel reduces the middle of [outer, n, inner].
type reduceKernel struct {
	plain
	f               reduction
	outer, n, inner int
}

// Name implements Kernel.
func (k *reduceKernel) Name() string { return "reduce" }

// Bind implements Kernel.
func (k *reduceKernel) Bind(b compute.Binding) compute.Task {
	t := &reduceTask{
		reduceKernel: k,
		x:            tensor.As[float32](b.In[0]),
		y:            tensor.As[float32](b.Out[0]),
	}
	t.per, t.parts = rowsPerChunk(k.n), 1
	if k.inner > 1 {
		t.per, t.parts = 1, (k.inner+columnBlock-1)/columnBlock
	}
	return t
}

type reduceTask struct {
	*reduceKernel
	per, parts int
	x, y       []float32
}

// Run implements Task.
func (t *reduceTask) Run(x *compute.Exec) error { return x.For((t.outer+t.per-1)/t.per*t.parts, t) }

// Chunk implements Region.
func (t *reduceTask) Chunk(i, _ int) {
	if t.inner == 1 {
		for o := i * t.per; o < min((i+1)*t.per, t.outer); o++ {
			t.y[o] = t.f.row(t.x[o*t.n : (o+1)*t.n])
		}
		return
	}
	o, part := i/t.parts, i%t.parts
	lo, hi := part*columnBlock, min((part+1)*columnBlock, t.inner)
	acc := t.y[o*t.inner+lo : o*t.inner+hi]
	vec.Fill(acc, t.f.init)
	for j := range t.n {
		base := (o*t.n + j) * t.inner
		t.f.accum(acc, t.x[base+lo:base+hi])
	}
	if t.f.finish != nil {
		t.f.finish(acc, t.n)
	}
}
