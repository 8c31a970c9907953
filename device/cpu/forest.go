package cpu

import (
	"github.com/weirgpu/weir/kernel/forest"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// forestKernels are the tree ensembles of ai.onnx.ml (TreeEnsembleClassifier and TreeEnsembleRegressor 1 and 3, TreeEnsemble 5) on
// float32, float64, int32 and int64.
var forestKernels = map[opKey]builder{
	{op.MLDomain, "TreeEnsemble"}: trees, {op.MLDomain, "TreeEnsembleClassifier"}: trees, {op.MLDomain, "TreeEnsembleRegressor"}: trees,
}

func trees(r *Request) (Kernel, error) {
	shape, d, ok := r.in(0)
	if !ok || d == tensor.Float16 {
		return nil, nil
	}
	f, err := op.ForestOf(r.Call, d)
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

// forestKernel is an ensemble whose nodes lie packed. The model is read again from the attributes when it is packed, so that the
// kernel does not hold it twice.
type forestKernel[T forest.Float] struct {
	call           *op.Call
	input          tensor.DType
	rows, features int
	finish         *op.Forest // without its nodes
	layout         forest.Layout
	how            forest.How
	present        bool // whether it matters which outputs leaves speak of
	perChunk       int
}

func newForest[T forest.Float](call *op.Call, d tensor.DType, f *op.Forest, rows, features int) *forestKernel[T] {
	packed := forest.New[T](forestModel(f))
	k := &forestKernel[T]{call: call, input: d, rows: rows, features: features, layout: packed.Layout()}
	k.how = map[op.Aggregation]forest.How{op.AggregateMin: forest.Min, op.AggregateMax: forest.Max}[f.Aggregate]
	k.present = call.Type == "TreeEnsembleClassifier" || k.how != forest.Sum
	k.perChunk = min(rows, max(4, stepsPerChunk/max(1, packed.Steps())&^3))
	k.finish = f.WithoutNodes()
	return k
}

// stepsPerChunk is how many nodes a chunk of rows meets: some 50 microseconds at a few nanoseconds for a node.
const stepsPerChunk = 20_000

// forestModel is the ensemble as package forest takes it.
func forestModel(f *op.Forest) *forest.Model {
	m := &forest.Model{Splits: make([]forest.Split, len(f.Nodes)), Weights: make([]forest.Weight, len(f.Weights)), Sets: f.Sets,
		Roots: f.Roots, Outputs: f.Outputs}
	kinds := [...]forest.Kind{op.BranchLEQ: forest.LessEqual, op.BranchLT: forest.Less, op.BranchGTE: forest.GreaterEqual,
		op.BranchGT: forest.Greater, op.BranchEQ: forest.Equal, op.BranchNEQ: forest.NotEqual, op.BranchMember: forest.Member,
		op.TreeLeaf: forest.Leaf}
	for i, n := range f.Nodes {
		m.Splits[i] = forest.Split{Kind: kinds[n.Mode], MissingTrue: n.MissingTrue, Feature: n.Feature, Yes: n.True, No: n.False, Value: n.Value}
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
	f, err := op.ForestOf(k.call, k.input)
	if err != nil {
		panic("cpu: attributes of a tree ensemble have changed: " + err.Error())
	}
	forest.New[T](forestModel(f)).Pack(dst)
}

// ScratchBytes implements Kernel: for each worker a chunk's features as T, its scores, and one row's scores as float64.
func (k *forestKernel[T]) ScratchBytes(workers int) int { return workers * k.workerBytes() }

func (k *forestKernel[T]) workerBytes() int { return 8 * (k.perChunk*(k.features+2*k.layout.Outputs) + k.layout.Outputs) }

// Bind implements Kernel.
func (k *forestKernel[T]) Bind(b Binding) Task {
	return &forestTask[T]{forestKernel: k, forest: forest.At[T](k.layout, b.Packed), binding: b}
}

type forestTask[T forest.Float] struct {
	*forestKernel[T]
	forest  *forest.Forest[T]
	binding Binding
}

// Run implements Task.
func (t *forestTask[T]) Run(x *Exec) error { return x.For((t.rows+t.perChunk-1)/t.perChunk, t) }
