package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// reduction is how one operator reduces. row reduces a whole row at once. part reduces part of a
// row, fold joins two parts, and whole completes them. Columns are reduced row after row, element
// by element: extremes start at init and fold rows in by accum; sums of terms are completed by
// finish, when it is set, for n elements each. A result that is infinite or NaN is computed again
// from the sum that every gives of its column's elements, which are stride apart.
type reduction struct {
	row    func(x []float32) float32
	part   func(x []float32) float64
	fold   func(a, b float64) float64
	whole  func(t float64, n int) float32
	init   float32
	accum  func(acc, x []float32) // nil for sums
	terms  terms
	finish func(sum []float32, n int)
	every  func(x []float32, stride int) float64
}

// terms is what is added up of the elements.
type terms uint8

const (
	elements terms = iota
	squares
	magnitudes
)

var (
	reduceSum = reduction{
		row:   vec.Sum,
		part:  vec.Total,
		fold:  plus,
		whole: rounded,
		every: vec.SumEvery,
	}
	reduceMean = reduction{
		row:    vec.Mean,
		part:   vec.Total,
		fold:   plus,
		whole:  func(t float64, n int) float32 { return float32(t / float64(n)) },
		finish: func(sum []float32, n int) { vec.DivScalar(sum, sum, float32(n)) },
		every:  vec.SumEvery,
	}
	reduceSumSquare = reduction{
		row:   vec.SumSquares,
		part:  vec.TotalSquares,
		fold:  plus,
		whole: rounded,
		terms: squares,
		every: vec.SumSquaresEvery,
	}
	reduceL1 = reduction{
		row:   vec.SumAbs,
		part:  vec.TotalAbs,
		fold:  plus,
		whole: rounded,
		terms: magnitudes,
		every: vec.SumAbsEvery,
	}
	reduceL2 = reduction{
		row:    vec.Norm,
		part:   vec.TotalSquares,
		fold:   plus,
		whole:  func(t float64, _ int) float32 { return float32(math.Sqrt(t)) },
		terms:  squares,
		finish: func(sum []float32, _ int) { vec.Sqrt(sum, sum) },
		every:  vec.SumSquaresEvery,
	}
	// reduceLogSum has the relative error of the sum as an absolute one, besides its own rounding.
	reduceLogSum = reduction{
		row:    func(x []float32) float32 { return float32(math.Log(vec.Total(x))) },
		part:   vec.Total,
		fold:   plus,
		whole:  func(t float64, _ int) float32 { return float32(math.Log(t)) },
		finish: func(sum []float32, _ int) { vec.Log(sum, sum) },
		every:  vec.SumEvery,
	}
	reduceMax = reduction{
		row:   vec.MaxReduce,
		part:  func(x []float32) float64 { return float64(vec.MaxReduce(x)) },
		fold:  larger,
		whole: rounded,
		init:  float32(math.Inf(-1)),
		accum: func(acc, x []float32) { vec.Max(acc, acc, x) },
	}
	reduceMin = reduction{
		row:   vec.MinReduce,
		part:  func(x []float32) float64 { return float64(vec.MinReduce(x)) },
		fold:  smaller,
		whole: rounded,
		init:  float32(math.Inf(1)),
		accum: func(acc, x []float32) { vec.Min(acc, acc, x) },
	}
)

func rounded(t float64, _ int) float32 { return float32(t) }

// reduceKernels are the float32 reductions over neighbouring axes (ONNX Reduce* 1 to 18, axes as
// attribute or constant input), and the global poolings, which reduce all spatial axes.
var reduceKernels = map[opKey]builder{
	{"", "ReduceSum"}:         reduceBy(reduceSum),
	{"", "ReduceMean"}:        reduceBy(reduceMean),
	{"", "ReduceMax"}:         reduceBy(reduceMax),
	{"", "ReduceMin"}:         reduceBy(reduceMin),
	{"", "ReduceSumSquare"}:   reduceBy(reduceSumSquare),
	{"", "ReduceL1"}:          reduceBy(reduceL1),
	{"", "ReduceL2"}:          reduceBy(reduceL2),
	{"", "ReduceLogSum"}:      reduceBy(reduceLogSum),
	{"", "ReduceLogSumExp"}:   reduce(newLogSumExp),
	{"", "GlobalAveragePool"}: globalPool(reduceMean),
	{"", "GlobalMaxPool"}:     globalPool(reduceMax),
}

//go:noinline
func globalPool(f reduction) builder {
	return func(r *request) (compute.Kernel, error) {
		shape, _, _ := r.in(0)
		if !r.allFloat32(-1) || len(shape) < 3 || count(shape) == 0 {
			return nil, nil
		}
		return newReduce(f, shape[0]*shape[1], count(shape[2:]), 1), nil
	}
}

//go:noinline
func reduceBy(f reduction) builder {
	neighbours := reduce(func(outer, n, inner int) compute.Kernel {
		return newReduce(f, outer, n, inner)
	})
	return func(r *request) (compute.Kernel, error) {
		if k, err := neighbours(r); k != nil || err != nil {
			return k, err
		}
		return reduceAround(f, r), nil
	}
}

// newLogSumExp is newReduce for ReduceLogSumExp, which takes two passes over its elements.
func newLogSumExp(outer, n, inner int) compute.Kernel {
	if inner > 1 {
		return newColumnExps(logSum, outer, n, inner)
	}
	k := &reduceKernel{f: reduction{row: vec.LogSumExp}, outer: outer, n: n, inner: 1}
	if n > longRow {
		return &longLogSumExp{k}
	}
	return k
}

// reduce is the builder of a kernel that reduces the middle of [outer, n, inner].
//
//go:noinline
func reduce(kernel func(outer, n, inner int) compute.Kernel) builder {
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
		return kernel(count(shape[:first]), count(shape[first:last+1]),
			count(shape[last+1:])), nil
	}
}

// reducedAxes returns the first and last reduced axis; false when the axes are not constant, not
// neighbours, or none.
func reducedAxes(r *request, rank int) (first, last int, ok bool) {
	axes, ok := sortedAxes(r, rank)
	if !ok {
		return 0, 0, false
	}
	for i := 1; i < len(axes); i++ {
		if axes[i] != axes[i-1]+1 {
			return 0, 0, false
		}
	}
	first, last = axes[0], axes[len(axes)-1]
	return first, last, first >= 0 && last < rank
}

// sortedAxes are the axes that a reduction reduces; false when they are not constant, or none.
func sortedAxes(r *request, rank int) (sorted []int, ok bool) {
	var axes []int64
	// later the attribute says nothing
	if v := r.Call.Version; v < 13 || v < 18 && r.Call.Type != "ReduceSum" {
		axes = r.Call.Attrs.Ints("axes")
	}
	if len(r.In) > 1 && r.In[1].DType != tensor.Undefined {
		c := r.constant(1)
		if c == nil {
			return nil, false
		}
		axes, _ = c.Ints()
	}
	if len(axes) == 0 {
		for a := range rank {
			sorted = append(sorted, a)
		}
		return sorted, rank > 0 && !r.Call.Attrs.Bool("noop_with_empty_axes", false)
	}
	sorted = make([]int, len(axes))
	for i, a := range axes {
		if sorted[i] = int(a); a < 0 {
			sorted[i] += rank
		}
	}
	slices.Sort(sorted)
	return sorted, true
}

// newReduce reduces the middle of [outer, n, inner].
func newReduce(f reduction, outer, n, inner int) compute.Kernel {
	k := &reduceKernel{f: f, outer: outer, n: n, inner: inner}
	switch {
	case inner == 1 && n > longRow:
		return &longReduce{k}
	case inner > 1 && newLongColumns(outer, n, inner).parts > 1:
		return &longColumnReduce{reduceKernel: k, cut: newLongColumns(outer, n, inner)}
	}
	return k
}

// reduceKernel reduces the middle of [outer, n, inner]. Its sums are those of [vec.Sum] where inner
// is 1, and of [vec.ColumnSums] elsewhere, with the errors stated there.
type reduceKernel struct {
	plain
	f               reduction
	outer, n, inner int
}

// Name implements Kernel.
func (k *reduceKernel) Name() string { return "reduce" }

// sumFloats is the scratch of each worker: for a row in the making, where the result has no room
// for it, and for [vec.ColumnSums].
func (k *reduceKernel) sumFloats() int {
	switch g := columnGroup(k.n, k.inner); {
	case k.inner == 1:
		return 0
	case g > 1:
		return g*k.inner + columnScratch(k.n, k.inner)
	}
	return columnScratch(k.n, k.inner)
}

// ScratchBytes implements Kernel.
func (k *reduceKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.sumFloats())
}

// Bind implements Kernel.
func (k *reduceKernel) Bind(b compute.Binding) compute.Task {
	t := &reduceTask{
		of:      k,
		x:       tensor.As[float32](b.In[0]),
		y:       tensor.As[float32](b.Out[0]),
		scratch: perWorker(b),
		groups:  columnGroup(k.n, k.inner),
	}
	t.per, t.parts = rowsPerChunk(k.n), 1
	if k.inner > 1 {
		t.per, t.parts = 1, (k.inner+columnBlock-1)/columnBlock
	}
	return t
}

type reduceTask struct {
	of                 *reduceKernel
	per, parts, groups int
	x, y               []float32
	scratch            [][]float32
}

// Run implements Task.
func (t *reduceTask) Run(x *compute.Exec) error {
	return x.For((t.of.outer+t.per-1)/t.per*t.parts, t)
}

// Chunk implements Region.
func (t *reduceTask) Chunk(i, worker int) {
	if t.of.inner == 1 {
		for o := i * t.per; o < min((i+1)*t.per, t.of.outer); o++ {
			t.y[o] = t.of.f.row(t.x[o*t.of.n : (o+1)*t.of.n])
		}
		return
	}
	o, part := i/t.parts, i%t.parts
	lo, hi := part*columnBlock, min((part+1)*columnBlock, t.of.inner)
	x, y := t.x[o*t.of.n*t.of.inner:(o+1)*t.of.n*t.of.inner], t.y[o*t.of.inner+lo:o*t.of.inner+hi]
	acc, scratch := y, t.scratch[worker]
	if t.groups > 1 {
		acc, scratch = scratch[:t.groups*t.of.inner], scratch[t.groups*t.of.inner:]
	}
	t.of.rows(acc, x[lo:], scratch, t.groups)
	if t.groups > 1 {
		copy(y, acc)
	}
	if t.of.f.finish != nil {
		t.of.f.finish(y, t.of.n)
	}
	if t.of.f.every != nil {
		t.mend(y, x[lo:])
	}
}

// rows reduces the rows of x into the first inner elements of acc, or as many as acc has, so many
// rows at once.
func (k *reduceKernel) rows(acc, x, scratch []float32, groups int) {
	if k.f.accum == nil {
		k.sums(acc, x, scratch, groups)
	} else {
		k.extremes(acc, x, groups)
	}
}

// sums is rows for sums.
func (k *reduceKernel) sums(acc, x, scratch []float32, groups int) {
	c := vec.MakeColumnSums(acc, scratch)
	switch step := groups * k.inner; k.f.terms {
	case squares:
		c.AddSquares(x, step)
	case magnitudes:
		c.AddAbs(x, step)
	default:
		c.AddRows(x, step)
	}
	c.Finish()
	for w := len(acc) / 2; w >= k.inner; w /= 2 {
		vec.Add(acc[:w], acc[:w], acc[w:2*w])
	}
}

// extremes is rows for the greatest or least elements.
func (k *reduceKernel) extremes(acc, x []float32, groups int) {
	vec.Fill(acc, k.f.init)
	for len(x) > 0 {
		row := x[:min(len(acc), len(x))]
		k.f.accum(acc[:len(row)], row)
		x = x[min(groups*k.inner, len(x)):]
	}
	for w := len(acc) / 2; w >= k.inner; w /= 2 {
		k.f.accum(acc[:w], acc[w:2*w])
	}
}

// mend computes sums that are infinite or NaN again: they may have left the range of float32 on the
// way to a result that is within it.
func (t *reduceTask) mend(y, x []float32) {
	if s := vec.Sum(y); s-s == 0 {
		return
	}
	for j, v := range y {
		if v-v != 0 {
			y[j] = t.of.f.whole(t.of.f.every(x[j:], t.of.inner), t.of.n)
		}
	}
}
