package step

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/scale"
)

// ErrShards is the kind of error about a batch that cannot be cut into shards.
var ErrShards = errors.New("no whole shards")

// Shards is a step whose batches are computed in parts of a fixed number, the shards, which several
// processes may share. What one shard comes to lies side by side in the state, from the first of
// Parts to the last, in about the order in which the backward half computes it: so a range of it
// can be summed with that of other shards without being copied together.
type Shards struct {
	N int // shards of a batch
	// Apply replaces variables from the sums over all shards of Parts. [Step.Train] computes the
	// mean loss of a shard, output 0, and replaces its Parts.
	Apply Graph
	// Parts are variables that a shard replaces: float32 gradients, summed over the shard's batches
	// of an update, and the statistics of its batches.
	Parts []string
	// Stats are pairs of a running statistic and the one of Parts that begins an update, in each
	// shard, as that.
	Stats [][2]string
	// Slots are variables as large as all Parts together, as many as Options.Slots.
	Slots []string
}

// gradSuffix and shardSuffix end the names of what a shard comes to.
const (
	gradSuffix  = "/grad"
	shardSuffix = "/shard"
)

// buildShards is [Build] for several shards.
func buildShards(model *graph.Graph, o Options) (*Step, error) {
	part := o
	part.Shapes = map[string][]int{}
	for name, shape := range o.Shapes {
		if shape[0]%o.Shards != 0 {
			return nil, fmt.Errorf("%w: batches of %d samples are no multiple of %d shards",
				ErrShards, shape[0], o.Shards)
		}
		part.Shapes[name] = slices.Clone(shape)
		part.Shapes[name][0] /= o.Shards
	}
	b, err := newBuilder(model, part)
	if err != nil {
		return nil, err
	}
	s := &Step{Params: b.params, Shards: &Shards{N: o.Shards}}
	if err := s.shard(b, part); err != nil {
		return nil, err
	}
	vars, err := s.apply(b, o)
	if err != nil {
		return nil, err
	}
	s.Kept = len(vars)
	if s.State, err = plan.NewState(append(vars, s.Shards.variables(b, o.Slots)...)); err != nil {
		return nil, err
	}
	return s, s.evaluation(model, o)
}

// shard makes the graph of one shard of a batch.
func (s *Step) shard(b *builder, o Options) error {
	loss, ds, err := b.backwardFrom(o, func() {
		for _, v := range b.stats {
			of := v.Name
			v.Name += shardSuffix
			s.Shards.Stats = append(s.Shards.Stats, [2]string{of, v.Name})
		}
	})
	if err != nil {
		return err
	}
	for i, w := range b.weights {
		name := w.Name + gradSuffix
		if o.Accumulate > 1 {
			sum := b.variable(name, w.Type)
			ds[i] = b.op("Add", nil, sum, ds[i])
			s.Sums = append(s.Sums, name)
		}
		b.become(replaced{name, ds[i], false})
		s.Shards.Parts = append(s.Shards.Parts, name)
	}
	slices.Reverse(s.Shards.Parts) // as the backward half comes to them
	for _, v := range b.stats {
		s.Shards.Parts = append(s.Shards.Parts, v.Name)
	}
	s.Labels, s.Others = loss.label, loss.others
	s.Train, err = b.finish(loss.mean)
	return err
}

// apply makes the graph that replaces weights and statistics, and returns the variables that
// outlive an update.
func (s *Step) apply(of *builder, o Options) ([]plan.Variable, error) {
	b := &builder{g: &graph.Graph{Name: of.g.Name, Opsets: map[string]int{"": opset}},
		params: of.params, names: map[string]bool{}}
	for _, w := range of.weights {
		b.weights = append(b.weights, &graph.Value{Name: w.Name, Type: w.Type})
	}
	for i, v := range of.stats {
		b.stats = append(b.stats, &graph.Value{Name: s.Shards.Stats[i][0], Type: v.Type})
	}
	b.train()
	for i, v := range b.stats {
		sum := b.part(s.Shards.Stats[i][1], v.Type)
		b.become(replaced{v.Name, b.op("Mul", nil, sum, b.number(1/float64(o.Shards))), false})
	}
	parts := o.Shards * max(o.Accumulate, 1)
	var ds []*graph.Value
	for _, w := range b.weights {
		sum := b.part(w.Name+gradSuffix, w.Type)
		ds = append(ds, b.op("Mul", nil, sum, b.number(1/float64(parts))))
	}
	var err error
	if b.scale, err = scale.New(b.g, o.Scale, b.fresh); err != nil {
		return nil, err
	}
	b.scaled(o, ds)
	s.Scale = b.scale.Variables()
	s.Shards.Apply, err = b.finish()
	return b.vars, err
}

// part is the input that reads what shards come to.
func (b *builder) part(name string, t op.Type) *graph.Value {
	shape, _ := t.Ints()
	v := &graph.Value{Name: name, Type: op.Concrete(t.DType, shape...)}
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// variables are those that an update leaves nothing in.
func (s *Shards) variables(b *builder, slots int) (vars []plan.Variable) {
	types := map[string]op.Type{}
	for _, w := range b.weights {
		types[w.Name+gradSuffix] = w.Type
	}
	for _, v := range b.stats {
		types[v.Name] = v.Type
	}
	for _, name := range s.Parts {
		shape, _ := types[name].Ints()
		vars = append(vars, plan.Variable{Name: name, DType: tensor.Float32, Shape: shape})
	}
	// a state of these alone says how large they are together
	all, err := plan.NewState(vars)
	for i := range slots {
		name := fmt.Sprint(prefix, "slot.", i)
		s.Slots = append(s.Slots, name)
		if err == nil { // NewState of them and others would fail, too
			vars = append(vars, plan.Variable{Name: name, DType: tensor.Float32,
				Shape: []int{int(all.Bytes() / 4)}})
		}
	}
	return vars
}
