package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/forest"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/ml"
	"github.com/weirgpu/weir/tensor"
)

// forestKernels are the tree ensembles of ai.onnx.ml (TreeEnsembleClassifier and
// TreeEnsembleRegressor 1 and 3, TreeEnsemble 5) on float32, float64, int32 and int64.
var forestKernels = map[opKey]builder{
	{ml.Domain, "TreeEnsemble"}:           trees,
	{ml.Domain, "TreeEnsembleClassifier"}: trees,
	{ml.Domain, "TreeEnsembleRegressor"}:  trees,
}

func trees(r *request) (compute.Kernel, error) {
	shape, d, ok := r.in(0)
	if !ok || d == tensor.Float16 {
		return nil, nil
	}
	f, err := ml.ForestOf(r.Call, d)
	if err != nil {
		return nil, err
	}
	rows, features, err := f.Rows(r.Call, shape)
	if err != nil {
		return nil, err
	}
	if len(f.Sets) > forest.MaxSets {
		return nil, nil
	}
	if f.Double {
		return newForest[float64](r.Call, d, f, rows, features), nil
	}
	return newForest[float32](r.Call, d, f, rows, features), nil
}

// forestKernel is an ensemble whose nodes lie packed. The model is read again from the attributes
// when it is packed, so that the kernel does not hold it twice.
type forestKernel[T forest.Float] struct {
	call           *op.Call
	input          tensor.DType
	rows, features int
	finish         *ml.Forest // without its nodes
	layout         forest.Layout
	how            forest.How
	present        bool // whether it matters which outputs leaves speak of
	perChunk       int
}

func newForest[T forest.Float](call *op.Call, d tensor.DType, f *ml.Forest, rows,
	features int) *forestKernel[T] {
	packed := forest.New[T](forestModel(f))
	k := &forestKernel[T]{
		call:     call,
		input:    d,
		rows:     rows,
		features: features,
		layout:   packed.Layout(),
	}
	k.how = map[ml.Aggregation]forest.How{ml.AggregateMin: forest.Min,
		ml.AggregateMax: forest.Max}[f.Aggregate]
	k.present = call.Type == "TreeEnsembleClassifier" || k.how != forest.Sum
	k.perChunk = min(
		rows,
		max(4,
			min(stepsPerChunk/max(1, packed.Steps()), elemsPerChunk/max(1, features+f.Outputs))&^3),
	)
	k.finish = f.WithoutNodes()
	return k
}

// stepsPerChunk is how many nodes a chunk of rows meets, some 50 microseconds at a few nanoseconds
// for a node; elemsPerChunk bounds the features and scores of a chunk, which stay in a core's
// cache.
const (
	stepsPerChunk = 20_000
	elemsPerChunk = 1 << 14
)

// forestModel is the ensemble as package forest takes it.
func forestModel(f *ml.Forest) *forest.Model {
	m := &forest.Model{
		Splits:  make([]forest.Split, len(f.Nodes)),
		Weights: make([]forest.Weight, len(f.Weights)),
		Sets:    f.Sets,
		Roots:   f.Roots,
		Outputs: f.Outputs,
	}
	kinds := [...]forest.Kind{
		ml.BranchLEQ:    forest.LessEqual,
		ml.BranchLT:     forest.Less,
		ml.BranchGTE:    forest.GreaterEqual,
		ml.BranchGT:     forest.Greater,
		ml.BranchEQ:     forest.Equal,
		ml.BranchNEQ:    forest.NotEqual,
		ml.BranchMember: forest.Member,
		ml.TreeLeaf:     forest.Leaf,
	}
	for i, n := range f.Nodes {
		m.Splits[i] = forest.Split{
			Kind:        kinds[n.Mode],
			MissingTrue: n.MissingTrue,
			Feature:     n.Feature,
			Yes:         n.True,
			No:          n.False,
			Value:       n.Value,
		}
	}
	for i, w := range f.Weights {
		m.Weights[i] = forest.Weight{Output: w.Target, Value: w.Value}
	}
	return m
}

// Name implements Kernel.
func (k *forestKernel[T]) Name() string { return "forest" }

// PackedBytes implements Kernel.
func (k *forestKernel[T]) PackedBytes() int { return forest.Bytes[T](k.layout) }

// Pack implements Kernel.
func (k *forestKernel[T]) Pack(dst []byte) {
	f, err := ml.ForestOf(k.call, k.input)
	if err != nil {
		panic("cpu: attributes of a tree ensemble have changed: " + err.Error())
	}
	forest.New[T](forestModel(f)).Pack(dst)
}

// ScratchBytes implements Kernel: for each worker a chunk's features when they are converted, its
// scores, which of them leaves speak of, and one row's scores in float64.
func (k *forestKernel[T]) ScratchBytes(workers int) int { return workers * k.workerBytes() }

func (k *forestKernel[T]) workerBytes() int {
	size := tensor.DTypeOf[T]().Size()
	scores := k.perChunk * k.layout.Outputs
	return (size*(k.converted()+scores) + scores + 8*k.layout.Outputs + 127) &^ 63
}

// converted returns how many features of a chunk are converted to T.
func (k *forestKernel[T]) converted() int {
	if k.input == tensor.DTypeOf[T]() {
		return 0
	}
	return k.perChunk * k.features
}

// Bind implements Kernel.
func (k *forestKernel[T]) Bind(b compute.Binding) compute.Task {
	t := &forestTask[T]{
		of:     k,
		forest: forest.At[T](k.layout, b.Packed),
		in:     b.In[0],
		scores: b.Out[len(b.Out)-1],
	}
	if k.call.Type == "TreeEnsembleClassifier" {
		t.labels, t.scores = compute.NewResult(b.Out[0]), nil
		if len(b.Out) > 1 {
			t.scores = b.Out[1]
		}
	}
	n, size, scores := k.workerBytes(), tensor.DTypeOf[T]().Size(), k.perChunk*k.layout.Outputs
	for w := range b.Workers {
		part := b.Scratch[w*n : (w+1)*n]
		row := tensor.Cast[float64](part[:8*k.layout.Outputs])
		part = part[8*k.layout.Outputs:]
		x := tensor.Cast[T](part[:size*k.converted()])
		part = part[size*k.converted():]
		t.work = append(
			t.work,
			forestWork[T]{
				row,
				x,
				tensor.Cast[T](part[:size*scores]),
				tensor.Cast[bool](part[size*scores:][:scores]),
			},
		)
	}
	return t
}

// forestWork is one worker's scratch memory.
type forestWork[T forest.Float] struct {
	row       []float64
	x, scores []T
	has       []bool
}

type forestTask[T forest.Float] struct {
	of         *forestKernel[T]
	forest     *forest.Forest[T]
	in, scores *tensor.Tensor // scores is nil when nobody asks for them
	labels     compute.Result // of a classifier
	work       []forestWork[T]
}

// Run implements Task.
func (t *forestTask[T]) Run(x *compute.Exec) error {
	if t.labels.Tensor != nil && t.of.finish.LabelType() == tensor.String {
		if err := t.labels.Shape(x, tensor.String, t.labels.Tensor.Shape); err != nil {
			return err
		}
	}
	return x.For((t.of.rows+t.of.perChunk-1)/t.of.perChunk, t)
}

// Chunk implements Region.
func (t *forestTask[T]) Chunk(i, worker int) {
	from, w := i*t.of.perChunk, &t.work[worker]
	rows, n := min(t.of.perChunk, t.of.rows-from), t.of.layout.Outputs
	scores, has := w.scores[:rows*n], []bool(nil)
	if t.of.present {
		has = w.has[:rows*n]
	}
	t.forest.Scores(scores, has, t.rowsOf(w.x, from*t.of.features, rows*t.of.features),
		t.of.features, t.of.how)
	for r := range rows {
		for k, v := range scores[r*n : (r+1)*n] {
			w.row[k] = float64(v)
		}
		var mine []bool
		if t.of.present {
			mine = has[r*n : (r+1)*n]
		}
		class := t.of.finish.Finish(w.row, mine)
		if t.labels.Tensor != nil {
			t.of.finish.Label(t.labels.Tensor, from+r, class)
		}
		t.put((from+r)*n, w.row)
	}
}

// put writes one row's scores.
func (t *forestTask[T]) put(at int, row []float64) {
	if t.scores == nil {
		return
	}
	if t.scores.DType == tensor.Float64 {
		copy(tensor.As[float64](t.scores)[at:], row)
		return
	}
	out := tensor.As[float32](t.scores)[at:]
	for k, v := range row {
		out[k] = float32(v)
	}
}

// rowsOf returns n features from an index on, converted to buf unless they are of type T.
func (t *forestTask[T]) rowsOf(buf []T, from, n int) []T {
	if t.in.DType == tensor.DTypeOf[T]() {
		return tensor.As[T](t.in)[from : from+n]
	}
	switch t.in.DType {
	case tensor.Float32:
		convert(buf, tensor.As[float32](t.in)[from:from+n])
	case tensor.Float64:
		convert(buf, tensor.As[float64](t.in)[from:from+n])
	case tensor.Int32:
		convert(buf, tensor.As[int32](t.in)[from:from+n])
	case tensor.Int64:
		convert(buf, tensor.As[int64](t.in)[from:from+n])
	}
	return buf[:n]
}

func convert[T forest.Float, S float32 | float64 | int32 | int64](dst []T, src []S) {
	for i, v := range src {
		dst[i] = T(v)
	}
}
