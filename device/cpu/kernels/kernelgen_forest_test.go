package kernels

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// genForest makes tree ensembles of all comparisons, aggregations and transforms, with features
// that are NaN or meet thresholds.
func genForest(r source, key opKey) *sample {
	features := 1 + r.IntN(5)
	g := &treeGen{
		source:   r,
		features: features,
		outputs:  1 + r.IntN(3),
		modes:    []string{r.pick("LEQ", "LT", "GTE", "GT", "LEQ", "LT")},
	}
	if r.one(2) {
		g.modes = []string{"LEQ", "LT", "GTE", "GT", "EQ", "NEQ"}
	}
	var attrs op.Attrs
	if key.name == "TreeEnsemble" {
		attrs = g.splits()
	} else {
		attrs = g.nodes(key.name)
	}
	rows := []int{1, 2, 3, 4, 5, 17, 200}[r.IntN(7)]
	s := r.call(key, attrs, r.featureTensor(key, rows, features+r.IntN(2)))
	s.call.Version = []int{1, 3}[r.IntN(2)]
	switch key.name {
	case "TreeEnsemble":
		s.call.Version = 5
	case "TreeEnsembleClassifier":
		s.call.NumOut = 1 + r.IntN(2)
	}
	s.exact = true
	return s
}

// featureTensor makes halves, so that thresholds are met, with NaN among them.
func (r source) featureTensor(key opKey, rows, columns int) *tensor.Tensor {
	v := make([]float64, rows*columns)
	missing := r.one(2)
	for i := range v {
		v[i] = float64(r.IntN(17)-8) / 2
		if missing && r.one(5) {
			v[i] = math.NaN()
		}
	}
	n := 4
	if key.name == "TreeEnsemble" {
		n = 2
	}
	switch r.IntN(n) {
	case 0:
		return tensor.From(asFeatures[float32](v), rows, columns)
	case 1:
		return tensor.From(v, rows, columns)
	case 2:
		return tensor.From(asFeatures[int32](v), rows, columns)
	}
	return tensor.From(asFeatures[int64](v), rows, columns)
}

func asFeatures[T float32 | float64 | int32 | int64](v []float64) []T {
	out := make([]T, len(v))
	for i, x := range v {
		if _, whole := any(out[i]).(float64); !whole && x != x {
			if _, single := any(out[i]).(float32); !single {
				x = 0 // integers have no NaN
			}
		}
		out[i] = T(x)
	}
	return out
}

// treeGen makes trees.
type treeGen struct {
	source
	features, outputs int
	modes             []string
}

func (g *treeGen) value() float32 { return float32(g.IntN(17)-8) / 2 }

// nodes makes the attributes of versions 1 and 3.
func (g *treeGen) nodes(name string) op.Attrs {
	var trees, ids, features, trues, falses, tracks, weightTrees, weightNodes, targets []int64
	var modes []string
	var values, weights []float32
	prefix := "target"
	if name == "TreeEnsembleClassifier" {
		prefix = "class"
	}
	signed := g.one(2)
	for t := range int64(1 + g.IntN(9)) {
		n := int64(1 + 2*g.IntN(20)) // node i branches to 2i+1 and 2i+2
		for i := range n {
			trees, ids, tracks = append(trees, t), append(ids, i), append(tracks, int64(g.IntN(2)))
			features, values = append(features, g.Int64N(int64(g.features))), append(values,
				g.value())
			mode := "BRANCH_" + g.modes[g.IntN(len(g.modes))]
			yes, no := 2*i+1, 2*i+2
			if no >= n {
				mode, yes, no = "LEAF", 0, 0
				for range 1 + g.IntN(2) {
					w := g.Float32()
					if signed {
						w -= 0.5
					}
					weightTrees, weightNodes = append(weightTrees, t), append(weightNodes, i)
					targets, weights = append(targets, g.Int64N(int64(g.outputs))), append(weights,
						w)
				}
			}
			modes, trues, falses = append(modes, mode), append(trues, yes), append(falses, no)
		}
	}
	as := op.Attrs{
		op.IntsAttr("nodes_treeids", trees...),
		op.IntsAttr("nodes_nodeids", ids...),
		op.IntsAttr("nodes_featureids", features...),
		op.IntsAttr(
			"nodes_truenodeids",
			trues...),
		op.IntsAttr("nodes_falsenodeids", falses...),
		op.StringsAttr("nodes_modes", modes...),
		op.FloatsAttr(
			"nodes_values",
			values...),
		op.IntsAttr(prefix+"_treeids", weightTrees...),
		op.IntsAttr(prefix+"_nodeids", weightNodes...),
		op.IntsAttr(prefix+"_ids", targets...),
		op.FloatsAttr(prefix+"_weights", weights...),
		op.StringAttr("post_transform",
			g.pick("NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")),
	}
	if g.one(2) {
		as = append(as, op.IntsAttr("nodes_missing_value_tracks_true", tracks...))
	}
	if g.one(2) {
		base := make([]float32, g.outputs)
		for i := range base {
			base[i] = g.Float32()
		}
		as = append(as, op.FloatsAttr("base_values", base...))
	}
	if prefix == "class" {
		labels := make([]int64, g.outputs)
		for i := range labels {
			labels[i] = int64(3 * i)
		}
		return append(as, op.IntsAttr("classlabels_int64s", labels...))
	}
	return append(as, op.IntAttr("n_targets", int64(g.outputs)),
		op.StringAttr("aggregate_function", g.pick("SUM", "AVERAGE", "MIN", "MAX")))
}

// splits makes the attributes of version 5.
func (g *treeGen) splits() op.Attrs {
	var roots, features, trues, trueLeafs, falses, falseLeafs, tracks, targets []int64
	var modes []uint8
	var values, weights, members []float32
	for range 1 + g.IntN(9) {
		first, n := int64(len(modes)), int64(1+g.IntN(20))
		roots = append(roots, first)
		branch := func(i int64) (id, leaf int64) {
			if i < n {
				return first + i, 0
			}
			weights, targets = append(weights, g.Float32()-0.3), append(targets,
				g.Int64N(int64(g.outputs)))
			return int64(len(weights)) - 1, 1
		}
		for i := range n {
			mode := uint8(g.IntN(7))
			if mode == 6 {
				for range g.IntN(5) {
					members = append(members, g.value())
				}
				members = append(members, float32(math.NaN()))
			}
			modes, values, features = append(modes, mode), append(values, g.value()),
				append(features, g.Int64N(int64(g.features)))
			id, leaf := branch(2*i + 1)
			trues, trueLeafs = append(trues, id), append(trueLeafs, leaf)
			id, leaf = branch(2*i + 2)
			falses, falseLeafs, tracks = append(falses, id), append(falseLeafs, leaf),
				append(tracks, int64(g.IntN(2)))
		}
	}
	as := op.Attrs{
		op.IntsAttr("tree_roots", roots...),
		op.IntsAttr("nodes_featureids", features...),
		op.IntsAttr("nodes_truenodeids", trues...),
		op.IntsAttr("nodes_trueleafs", trueLeafs...),
		op.IntsAttr(
			"nodes_falsenodeids",
			falses...),
		op.IntsAttr("nodes_falseleafs", falseLeafs...),
		op.IntsAttr(
			"nodes_missing_value_tracks_true",
			tracks...),
		op.IntsAttr("leaf_targetids", targets...),
		op.TensorAttr("nodes_splits", tensor.From(values, len(values))),
		op.TensorAttr("nodes_modes", tensor.From(modes, len(modes))),
		op.TensorAttr("leaf_weights", tensor.From(weights, len(weights))),
		op.IntAttr("n_targets", int64(g.outputs)),
		op.IntAttr("aggregate_function", int64(g.IntN(4))),
		op.IntAttr("post_transform", int64(g.IntN(5))),
	}
	if len(members) > 0 {
		as = append(as, op.TensorAttr("membership_values", tensor.From(members, len(members))))
	}
	return as
}
