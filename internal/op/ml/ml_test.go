package ml

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/optest"
	"github.com/weirgpu/weir/tensor"
)

var nan32 = float32(math.NaN())

// stump is a tree of one comparison of feature 0 with 0.5, whose leaves have the given weights for
// each target.
func stump(prefix, mode string, yes, no []float32, more ...op.Attr) op.Attrs {
	as := op.Attrs{op.IntsAttr("nodes_treeids", 0, 0, 0), op.IntsAttr("nodes_nodeids", 0, 1, 2),
		op.IntsAttr("nodes_truenodeids", 1, 0, 0),
		op.IntsAttr("nodes_falsenodeids", 2, 0, 0), op.IntsAttr("nodes_featureids", 0, 0, 0),
		op.StringsAttr("nodes_modes", mode, "LEAF", "LEAF"),
		op.FloatsAttr("nodes_values", 0.5, 0, 0)}
	var trees, nodes, targets []int64
	var weights []float32
	for node, list := range [][]float32{yes, no} {
		for target, w := range list {
			if w == w {
				trees, nodes, targets, weights = append(trees, 0), append(nodes, int64(node+1)),
					append(targets, int64(target)), append(weights, w)
			}
		}
	}
	return append(append(as, op.IntsAttr(prefix+"_treeids", trees...),
		op.IntsAttr(prefix+"_nodeids", nodes...), op.IntsAttr(prefix+"_ids", targets...),
		op.FloatsAttr(prefix+"_weights", weights...)), more...)
}

// with replaces or adds attributes.
func with(as op.Attrs, more ...op.Attr) op.Attrs {
	out := slices.Clone(as)
	for _, a := range more {
		if old := out.Find(a.Name); old != nil {
			*old = a
		} else {
			out = append(out, a)
		}
	}
	return out
}

func list[T any](v ...T) []T { return v }

func f32(shape []int, v ...float32) *tensor.Tensor { return tensor.From(v, shape...) }

func seq(shape ...int) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	return tensor.From([]float32{0, 1, 2, 3, 4, 5}[:n], shape...)
}

func mustTensor(v *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return v
}

func i64(v ...int64) *tensor.Tensor { return tensor.From(v, len(v)) }

// ml is a case of an operator of the domain.
func ml(name string, version int, typ string, attrs op.Attrs, in *tensor.Tensor,
	want ...*tensor.Tensor) optest.Case {
	return optest.Case{Name: name, Domain: Domain, Type: typ, Version: version, Attrs: attrs,
		In: list(in), Want: want}
}

func TestTreeEnsembles(t *testing.T) {
	x := f32([]int{3, 1}, 0, 0.5, nan32)
	one := func(v ...float32) *tensor.Tensor { return f32([]int{len(v), 1}, v...) }
	yes, no := list[float32](2), list[float32](3)
	targets := op.IntAttr("n_targets", 1)
	var cases []optest.Case
	for mode, want := range map[string][]float32{"BRANCH_LEQ": {2, 2, 3}, "BRANCH_LT": {2, 3, 3},
		"BRANCH_GTE": {3, 2, 3}, "BRANCH_GT": {3, 3, 3},
		"BRANCH_EQ": {3, 2, 3}, "BRANCH_NEQ": {2, 3, 2}} {
		as := stump("target", mode, yes, no, targets)
		cases = append(cases, ml(mode, 1, "TreeEnsembleRegressor", as, x, one(want...)))
		missing := append([]float32{}, want...)
		missing[2] = 2
		cases = append(cases, ml(mode+" missing", 3, "TreeEnsembleRegressor",
			with(as, op.IntsAttr("nodes_missing_value_tracks_true", 1, 0, 0)), x, one(missing...)))
	}
	two := stump("target", "BRANCH_LEQ", list[float32](1, 2), list[float32](3, 4),
		op.IntAttr("n_targets", 2))
	classes := stump("class", "BRANCH_LEQ", list[float32](0.25), list[float32](-1),
		op.StringsAttr("classlabels_strings", "no", "yes"))
	labels := func(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }
	row := f32([]int{1}, 0)
	cases = append(cases,
		ml("any order", 1, "TreeEnsembleRegressor",
			with(two, op.IntsAttr("nodes_nodeids", 7, 0, 9),
				op.IntsAttr("nodes_truenodeids", 9, 0, 0),
				op.IntsAttr("nodes_falsenodeids", 0, 0, 0),
				op.IntsAttr("target_nodeids", 9, 9, 0, 0)),
			row, f32([]int{1, 2}, 1, 2)),
		ml("base", 1, "TreeEnsembleRegressor", with(two, op.FloatsAttr("base_values", 10, 20)), row,
			f32([]int{1, 2}, 11, 22)),
		ml("softmax", 1, "TreeEnsembleRegressor", with(two,
			op.StringAttr("post_transform", "SOFTMAX")),
			row, f32([]int{1, 2}, 0.26894143, 0.7310586)),
		ml("one score stays", 1, "TreeEnsembleRegressor",
			stump("target", "BRANCH_LEQ", yes, no, targets,
				op.StringAttr("post_transform", "LOGISTIC")),
			row, one(2)),
		ml("signs", 1, "TreeEnsembleClassifier", classes, x, labels("yes", "yes", "no"),
			f32([]int{3, 2}, -0.25, 0.25, -0.25, 0.25, 1, -1)),
		ml("logistic", 1, "TreeEnsembleClassifier",
			with(classes, op.StringAttr("post_transform", "LOGISTIC")), row, labels("yes"),
			f32([]int{1, 2}, 0.4378235, 0.5621765)),
		// Platt's 1/(1+e³) and 1/(1+e²), as near as where the iteration of ONNX Runtime ends
		ml("probabilities", 1, "TreeEnsembleClassifier",
			stump("class", "BRANCH_LEQ", list[float32](0.25), list[float32](0.75),
				op.IntsAttr("classlabels_int64s", 7, 9)), f32([]int{2, 1}, 0, 1), i64(7, 9),
			f32([]int{2, 2}, 0.75, 0.25, 0.25, 0.75)),
		ml("ties", 1, "TreeEnsembleClassifier",
			stump("class", "BRANCH_LEQ", list[float32](1, 2, 2), list(nan32, nan32, -1),
				op.IntsAttr("classlabels_int64s", 7, 8, 9)), f32([]int{2, 1}, 0, 1), i64(8, 9),
			f32([]int{2, 3}, 1, 2, 2, 0, 0, -1)),
	)
	optest.Run(t, cases)
}

func float16s(shape []int, v ...float32) *tensor.Tensor {
	h := make([]tensor.Half, len(v))
	for i, x := range v {
		h[i] = tensor.HalfOf(x)
	}
	return tensor.From(h, shape...)
}

// TestTreeEnsembleTypes holds that version 5 answers in the type of its input, and compares in it.
func TestTreeEnsembleTypes(t *testing.T) {
	split := func(splits, weights *tensor.Tensor) op.Attrs {
		return op.Attrs{op.IntsAttr("tree_roots", 0), op.IntsAttr("nodes_featureids", 0),
			op.TensorAttr("nodes_modes", tensor.From([]uint8{0}, 1)),
			op.TensorAttr("nodes_splits", splits), op.IntsAttr("nodes_truenodeids", 0),
			op.IntsAttr("nodes_trueleafs", 1), op.IntsAttr("nodes_falsenodeids", 1),
			op.IntsAttr("nodes_falseleafs", 1), op.IntsAttr("leaf_targetids", 0, 0),
			op.TensorAttr("leaf_weights", weights)}
	}
	optest.Run(t, list(
		ml("half", 5, "TreeEnsemble", split(float16s([]int{1}, 0.5), float16s([]int{2}, 2, 3)),
			float16s([]int{2, 1}, 0.5, 0.75), float16s([]int{2, 1}, 2, 3)),
		ml("single", 5, "TreeEnsemble", split(f32([]int{1}, 0.1), f32([]int{2}, 2, 3)),
			f32([]int{2, 1}, 0.1, 0.10000002), f32([]int{2, 1}, 2, 3)),
		ml("double", 5, "TreeEnsemble",
			split(tensor.From([]float64{0.1}, 1), tensor.From([]float64{0.1, 0.3}, 2)),
			tensor.From([]float64{0.1, math.Nextafter(0.1, 1)}, 2, 1),
			tensor.From([]float64{0.1, 0.3}, 2, 1)),
	))
}

// TestTreesThatAreNone holds that broken ensembles end in an error that says what is wrong.
func TestTreesThatAreNone(t *testing.T) {
	good := stump("target", "BRANCH_LEQ", list[float32](2), list[float32](3),
		op.IntAttr("n_targets", 1))
	for want, a := range map[string]op.Attr{
		"cycle":                 op.IntsAttr("nodes_truenodeids", 0, 0, 0),
		"has no node 9":         op.IntsAttr("nodes_falsenodeids", 9, 0, 0),
		"want as many":          op.FloatsAttr("nodes_values", 1, 2),
		"two nodes 1":           op.IntsAttr("nodes_nodeids", 0, 1, 1),
		"nodes_modes has":       op.StringsAttr("nodes_modes", "BRANCH_UP", "LEAF", "LEAF"),
		"nodes_featureids has":  op.IntsAttr("nodes_featureids", -1, 0, 0),
		"target_ids has 1":      op.IntsAttr("target_ids", 0, 1),
		"tree 5 has no node 1":  op.IntsAttr("target_treeids", 5, 0),
		"base_values has 3":     op.FloatsAttr("base_values", 1, 2, 3),
		"3 nodes":               op.IntsAttr("nodes_missing_value_tracks_true", 1),
		"post_transform is":     op.StringAttr("post_transform", "NO"),
		"n_targets is 0":        op.IntAttr("n_targets", 0),
		"aggregate_function is": op.StringAttr("aggregate_function", "MEAN"),
	} {
		c := &op.Call{Domain: Domain, Type: "TreeEnsembleRegressor", Version: 3,
			Attrs: with(good, a),
			NumIn: 1, NumOut: 1}
		if _, err := ForestOf(c, tensor.Float32); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(),
			"TreeEnsembleRegressor") {
			t.Errorf("%v: %v, want an error about %q", a, err, want)
		}
	}
	_, err := optest.Eval(t, &op.Call{Domain: Domain, Type: "TreeEnsembleRegressor", Version: 3,
		Attrs: with(good, op.IntsAttr("nodes_featureids", 2, 0, 0)),
		NumIn: 1, NumOut: 1}, list(seq(2, 2)))
	if err == nil || !strings.Contains(err.Error(), "feature 2") {
		t.Errorf("a feature that is not there: %v", err)
	}
}

// TestDeepTree holds that a tree as deep as it has nodes is walked, and that its last node going
// back up is found.
func TestDeepTree(t *testing.T) {
	const n = 200_000
	var ids, yes, no, zeros, last []int64
	modes, values := make([]string, 0, 2*n+1), make([]float32, 2*n+1)
	for i := range int64(n) { // node 2i goes on to node 2i + 2, and ends at node 2i + 1
		ids, yes, no = append(ids, 2*i, 2*i+1), append(yes, 2*i+2, 0), append(no, 2*i+1, 0)
		modes = append(modes, "BRANCH_GTE", "LEAF")
	}
	ids, yes, no, modes = append(ids, 2*n), append(yes, 0), append(no, 0), append(modes, "LEAF")
	zeros, last = make([]int64, len(ids)), list[int64](2*n)
	as := op.Attrs{op.IntsAttr("nodes_treeids", zeros...), op.IntsAttr("nodes_nodeids", ids...),
		op.IntsAttr("nodes_truenodeids", yes...),
		op.IntsAttr("nodes_falsenodeids", no...), op.IntsAttr("nodes_featureids", zeros...),
		op.StringsAttr("nodes_modes", modes...),
		op.FloatsAttr("nodes_values", values...), op.IntsAttr("target_treeids", 0),
		op.IntsAttr("target_nodeids", last...), op.IntsAttr("target_ids", 0),
		op.FloatsAttr("target_weights", 4)}
	optest.Run(t, list(ml("deep", 1, "TreeEnsembleRegressor", as, f32([]int{2, 1}, 0, -1),
		f32([]int{2, 1}, 4, 0))))
	yes[2*n-2] = 0
	c := &op.Call{Domain: Domain, Type: "TreeEnsembleRegressor", Version: 1, Attrs: as, NumIn: 1,
		NumOut: 1}
	if _, err := ForestOf(c, tensor.Float32); err == nil ||
		!strings.Contains(err.Error(), "cycle") {
		t.Errorf("a walk without an end: %v", err)
	}
}

func TestLinearAndVectorMachines(t *testing.T) {
	x := f32([]int{2, 2}, 1, 2, -1, 0.5)
	linear := op.Attrs{op.FloatsAttr("coefficients", 1, 2, 0, -1),
		op.FloatsAttr("intercepts", 0.5, 0),
		op.IntsAttr("classlabels_ints", 4, 6)}
	svc := op.Attrs{op.StringAttr("kernel_type", "LINEAR"), op.FloatsAttr("kernel_params", 0, 0, 0),
		op.IntsAttr("vectors_per_class", 1, 1),
		op.FloatsAttr("support_vectors", 1, 0, 0, 1), op.FloatsAttr("coefficients", 1, -2),
		op.FloatsAttr("rho", 0.5), op.IntsAttr("classlabels_ints", 4, 6)}
	optest.Run(t, list(
		ml("two scores", 1, "LinearClassifier", linear, x, i64(4, 4),
			f32([]int{2, 2}, 5.5, -2, 0.5, -0.5)),
		ml("one score", 1, "LinearClassifier",
			op.Attrs{op.FloatsAttr("coefficients", 1, 0), op.FloatsAttr("intercepts", 0),
				op.IntsAttr("classlabels_ints", 4, 6)},
			x, i64(6, 4), f32([]int{2, 2}, 0, 1, 2, -1)),
		ml("targets", 1, "LinearRegressor",
			op.Attrs{op.IntAttr("targets", 2), op.FloatsAttr("coefficients", 1, 2, 0, -1)}, x,
			f32([]int{2, 2}, 5, -2, 0, -0.5)),
		ml("pair", 1, "SVMClassifier", svc, x, i64(6, 6), f32([]int{2, 2}, 2.5, -2.5, 1.5, -1.5)),
		ml("pair under softmax", 1, "SVMClassifier",
			with(svc, op.StringAttr("post_transform", "SOFTMAX")), x, i64(6, 6),
			f32([]int{2, 2}, 3.5, -2.5, 2.5, -1.5)),
		ml("planes", 1, "SVMClassifier",
			op.Attrs{op.FloatsAttr("coefficients", 1, 2, 0, -1, 3, 0), op.FloatsAttr("rho", 0.5),
				op.IntsAttr("classlabels_ints", 4, 6, 8)},
			x, i64(4, 4), f32([]int{2, 3}, 5.5, -1.5, 3.5, 0.5, 0, -2.5)),
		ml("two planes", 1, "SVMClassifier",
			op.Attrs{op.FloatsAttr("coefficients", 1, 0, 0, 1), op.FloatsAttr("rho", 0),
				op.IntsAttr("classlabels_ints", 4, 6)},
			f32([]int{3, 2}, 0.25, 0, 0.5, 0, 1, 0), i64(4, 6, 6),
			f32([]int{3, 2}, 0.25, 0, 0.5, 0, 1, 0)),
		ml("two planes with signs", 1, "SVMClassifier",
			op.Attrs{op.FloatsAttr("coefficients", 1, 0, 0, -1), op.FloatsAttr("rho", 0),
				op.IntsAttr("classlabels_ints", 4, 6)},
			f32([]int{3, 2}, 0.25, 1, 0, 1, -1, 2), i64(6, 4, 4),
			f32([]int{3, 2}, 0.25, -1, 0, -1, -1, -2)),
		// Platt's 1/(1+e³) and 1/(1+e²), as near as where the iteration of ONNX Runtime ends
		ml("probabilities", 1, "SVMClassifier",
			with(svc, op.FloatsAttr("prob_a", -1), op.FloatsAttr("prob_b", 0.5)), x, i64(6, 6),
			f32([]int{2, 2}, 0.04737434, 0.9526257, 0.119046986, 0.88095313)),
		optest.Case{Name: "planes", Domain: Domain, Type: "SVMClassifier", Version: 1,
			Attrs: op.Attrs{op.FloatsAttr("coefficients", 1, 2, 3), op.FloatsAttr("rho", 0.5),
				op.IntsAttr("classlabels_ints", 4, 6)},
			In: list(x), ErrKind: op.ErrAttr},
		ml("rbf", 1, "SVMRegressor",
			op.Attrs{op.StringAttr("kernel_type", "RBF"), op.FloatsAttr("kernel_params", 1, 0, 0),
				op.IntAttr("n_supports", 1),
				op.FloatsAttr("support_vectors", 1, 1), op.FloatsAttr("coefficients", 2),
				op.FloatsAttr("rho", 1)}, f32([]int{1, 2}, 1, 2), f32([]int{1, 1}, 1.7357589)),
		ml("one class", 1, "SVMRegressor",
			op.Attrs{op.FloatsAttr("coefficients", 1, 1), op.FloatsAttr("rho", 0),
				op.IntAttr("one_class", 1)},
			x,
			f32([]int{2, 1}, 1, -1)),
		optest.Case{Name: "features", Domain: Domain, Type: "LinearClassifier", Version: 1,
			Attrs: linear, In: list(seq(2, 3)), ErrKind: op.ErrInput},
		optest.Case{Name: "labels", Domain: Domain, Type: "LinearClassifier", Version: 1,
			Attrs: with(linear, op.IntsAttr("classlabels_ints", 4)), In: list(x),
			ErrKind: op.ErrAttr},
		optest.Case{Name: "vectors", Domain: Domain, Type: "SVMClassifier", Version: 1,
			Attrs: with(svc, op.IntsAttr("vectors_per_class", 1, 1<<40)), In: list(x),
			ErrKind: op.ErrAttr},
	))
}

func TestFeatureOperators(t *testing.T) {
	x := f32([]int{2, 2}, 1, -2, nan32, 4)
	optest.Run(t, list(
		ml("each", 1, "Scaler", op.Attrs{op.FloatsAttr("offset", 1, 2),
			op.FloatsAttr("scale", 2, 0.5)}, x,
			f32([]int{2, 2}, 0, -2, nan32, 1)),
		ml("all", 1, "Scaler", op.Attrs{op.FloatsAttr("offset", 1), op.FloatsAttr("scale", 2)},
			i64(1, 3),
			f32([]int{2}, 0, 4)),
		ml("max", 1, "Normalizer", nil, f32([]int{2, 2}, -4, 2, 0, 0),
			f32([]int{2, 2}, -2, 1, 0, 0)),
		ml("l1", 1, "Normalizer", op.Attrs{op.StringAttr("norm", "L1")}, f32([]int{2}, -3, 1),
			f32([]int{2}, -0.75, 0.25)),
		ml("l2", 1, "Normalizer", op.Attrs{op.StringAttr("norm", "L2")}, f32([]int{2}, -3, 4),
			f32([]int{2}, -0.6, 0.8)),
		ml("nan", 1, "Imputer",
			op.Attrs{op.FloatsAttr("imputed_value_floats", 7, 8),
				op.FloatAttr("replaced_value_float", nan32)}, x, f32([]int{2, 2}, 1, -2, 7, 4)),
		ml("integers", 1, "Imputer",
			op.Attrs{op.IntsAttr("imputed_value_int64s", 7), op.IntAttr("replaced_value_int64", 3)},
			i64(3, 4), i64(7, 4)),
		ml("threshold", 1, "Binarizer", op.Attrs{op.FloatAttr("threshold", 1)}, x,
			f32([]int{2, 2}, 0, 0, 0, 1)),
		optest.Case{Name: "cut and padded", Domain: Domain, Type: "FeatureVectorizer", Version: 1,
			Attrs: op.Attrs{op.IntsAttr("inputdimensions", 1, 3)},
			In:    list(seq(2, 2), seq(2, 2)),
			Want:  list(f32([]int{2, 4}, 0, 0, 1, 0, 2, 2, 3, 0))},
		optest.Case{Name: "rank 1", Domain: Domain, Type: "ArrayFeatureExtractor", Version: 1,
			In: list(seq(4), i64(3, 0)), Want: list(f32([]int{1, 2}, 3, 0))},
		optest.Case{Name: "negative", Domain: Domain, Type: "ArrayFeatureExtractor", Version: 1,
			In: list(seq(4), i64(-1)), ErrKind: op.ErrInput},
		optest.Case{Name: "both kinds", Domain: Domain, Type: "Imputer", Version: 1, In: list(x),
			ErrKind: op.ErrAttr,
			Attrs: op.Attrs{op.IntsAttr("imputed_value_int64s", 7),
				op.FloatsAttr("imputed_value_floats", 7)}},
	))
}

func TestLookups(t *testing.T) {
	words := func(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }
	same := op.Attrs{op.IntsAttr("keys_int64s", 1, 2, 1), op.IntsAttr("values_int64s", 10, 20, 30)}
	nans := op.Attrs{op.FloatsAttr("keys_floats", nan32, 0),
		op.StringsAttr("values_strings", "nan", "zero")}
	cats := op.Attrs{op.StringsAttr("cats_strings", "a", "b"), op.IntsAttr("cats_int64s", 5, 6),
		op.IntAttr("default_int64", -9), op.StringAttr("default_string", "?")}
	f := f32([]int{3}, nan32, float32(math.Copysign(0, -1)), 1)
	optest.Run(t, list(
		ml("index of", 1, "LabelEncoder", op.Attrs{op.StringsAttr("classes_strings", "a", "b")},
			words("b", "c"), i64(1, -1)),
		ml("at index", 1, "LabelEncoder", op.Attrs{op.StringsAttr("classes_strings", "a", "b")},
			i64(1, 2, -1), words("b", "_Unused", "_Unused")),
		ml("first of equal keys", 2, "LabelEncoder", same, i64(1, 2, 3), i64(10, 20, -1)),
		ml("last of equal keys", 4, "LabelEncoder", same, i64(1, 2, 3), i64(30, 20, -1)),
		ml("nan", 2, "LabelEncoder", nans, f, words("nan", "zero", "_Unused")),
		ml("default", 4, "LabelEncoder", with(nans, op.TensorAttr("default_tensor", words("none"))),
			f,
			words("nan", "zero", "none")),
		ml("integers", 1, "CategoryMapper", cats, words("b", "c"), i64(6, -9)),
		ml("strings", 1, "CategoryMapper", cats, i64(5, 7), words("a", "?")),
		ml("cut to integers", 1, "OneHotEncoder", op.Attrs{op.IntsAttr("cats_int64s", 1, -1)},
			f32([]int{3}, 1.75, -1.5, 3), f32([]int{3, 2}, 1, 0, 0, 1, 0, 0)),
		optest.Case{Name: "unknown", Domain: Domain, Type: "OneHotEncoder", Version: 1,
			In: list(i64(2)), ErrKind: op.ErrInput,
			Attrs: op.Attrs{op.IntsAttr("cats_int64s", 1), op.IntAttr("zeros", 0)}},
		optest.Case{Name: "type", Domain: Domain, Type: "LabelEncoder", Version: 2, Attrs: same,
			In: list(words("a")), ErrKind: op.ErrInput},
	))
}

func TestMaps(t *testing.T) {
	words := tensor.FromStrings(list("b", "a"), 2)
	m := mustTensor(tensor.NewMap(words, f32([]int{2}, 1, 2)))
	numbered := mustTensor(tensor.NewMap(i64(4, 1), f32([]int{2}, 1.5, -2)))
	pairs := func(v ...float32) *tensor.Tensor {
		return mustTensor(tensor.NewMap(tensor.FromStrings(list("a", "b"), 2), f32([]int{2}, v...)))
	}
	optest.Run(t, list(
		ml("rows", 1, "ZipMap", op.Attrs{op.StringsAttr("classlabels_strings", "b", "a")},
			f32([]int{2, 2}, 1, 2, 3, 4), tensor.NewSequence(pairs(2, 1), pairs(4, 3))),
		ml("words", 1, "DictVectorizer",
			op.Attrs{op.StringsAttr("string_vocabulary", "a", "c", "b")}, m,
			f32([]int{1, 3}, 2, 0, 1)),
		ml("dense", 1, "CastMap", op.Attrs{op.StringAttr("cast_to", "TO_INT64")}, numbered,
			tensor.From(list[int64](-2, 1), 1, 2)),
		ml("sparse", 1, "CastMap", op.Attrs{op.StringAttr("map_form", "SPARSE"),
			op.IntAttr("max_map", 3)},
			numbered, f32([]int{1, 3}, 0, -2, 0)),
		ml("text", 1, "CastMap", op.Attrs{op.StringAttr("cast_to", "TO_STRING")}, numbered,
			tensor.FromStrings(list("-2.000000", "1.500000"), 1, 2)),
	))
}

// TestProbit holds the approximation against quantiles of the normal distribution.
func TestProbit(t *testing.T) {
	for p, want := range map[float32]float64{0.5: 0, 0.8413447: 1, 0.975: 1.959964,
		0.1: -1.2815516, 0.01: -2.3263479} {
		if got := float64(probit(p)); math.Abs(got-want) > 5e-3 {
			t.Errorf("probit(%g) is %g, want %g", p, got, want)
		}
	}
}
