package op

import (
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

var nan32 = float32(math.NaN())

// stump is a tree of one comparison of feature 0 with 0.5, whose leaves have the given weights for
// each target.
func stump(prefix, mode string, yes, no []float32, more ...Attr) Attrs {
	as := Attrs{IntsAttr("nodes_treeids", 0, 0, 0), IntsAttr("nodes_nodeids", 0, 1, 2),
		IntsAttr("nodes_truenodeids", 1, 0, 0),
		IntsAttr("nodes_falsenodeids", 2, 0, 0), IntsAttr("nodes_featureids", 0, 0, 0),
		StringsAttr("nodes_modes", mode, "LEAF", "LEAF"),
		FloatsAttr("nodes_values", 0.5, 0, 0)}
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
	return append(append(as, IntsAttr(prefix+"_treeids", trees...),
		IntsAttr(prefix+"_nodeids", nodes...), IntsAttr(prefix+"_ids", targets...),
		FloatsAttr(prefix+"_weights", weights...)), more...)
}

// with replaces or adds an attribute.
func (as Attrs) with(a Attr) Attrs {
	out := append(Attrs{}, as...)
	if old := out.Find(a.Name); old != nil {
		*old = a
		return out
	}
	return append(out, a)
}

func ml(name string, version int, op string, attrs Attrs, in *tensor.Tensor,
	want ...*tensor.Tensor) evalCase {
	return evalCase{name: name, domain: MLDomain, op: op, version: version, attrs: attrs,
		in: list(in), want: want}
}

func TestTreeEnsembles(t *testing.T) {
	x := f32([]int{3, 1}, 0, 0.5, nan32)
	one := func(v ...float32) *tensor.Tensor { return f32([]int{len(v), 1}, v...) }
	yes, no := list[float32](2), list[float32](3)
	targets := IntAttr("n_targets", 1)
	var cases []evalCase
	for mode, want := range map[string][]float32{"BRANCH_LEQ": {2, 2, 3}, "BRANCH_LT": {2, 3, 3},
		"BRANCH_GTE": {3, 2, 3}, "BRANCH_GT": {3, 3, 3},
		"BRANCH_EQ": {3, 2, 3}, "BRANCH_NEQ": {2, 3, 2}} {
		as := stump("target", mode, yes, no, targets)
		cases = append(cases, ml(mode, 1, "TreeEnsembleRegressor", as, x, one(want...)))
		missing := append([]float32{}, want...)
		missing[2] = 2
		cases = append(cases, ml(mode+" missing", 3, "TreeEnsembleRegressor",
			as.with(IntsAttr("nodes_missing_value_tracks_true", 1, 0, 0)), x, one(missing...)))
	}
	two := stump("target", "BRANCH_LEQ", list[float32](1, 2), list[float32](3, 4),
		IntAttr("n_targets", 2))
	classes := stump("class", "BRANCH_LEQ", list[float32](0.25), list[float32](-1),
		StringsAttr("classlabels_strings", "no", "yes"))
	labels := func(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }
	row := f32([]int{1}, 0)
	cases = append(cases,
		ml("any order", 1, "TreeEnsembleRegressor",
			two.with(IntsAttr("nodes_nodeids", 7, 0, 9)).
				with(IntsAttr("nodes_truenodeids", 9, 0, 0)).
				with(IntsAttr("nodes_falsenodeids", 0, 0, 0)).
				with(IntsAttr("target_nodeids", 9, 9, 0, 0)), row, f32([]int{1, 2}, 1, 2)),
		ml("base", 1, "TreeEnsembleRegressor", two.with(FloatsAttr("base_values", 10, 20)), row,
			f32([]int{1, 2}, 11, 22)),
		ml("softmax", 1, "TreeEnsembleRegressor", two.with(StringAttr("post_transform", "SOFTMAX")),
			row, f32([]int{1, 2}, 0.26894143, 0.7310586)),
		ml("one score stays", 1, "TreeEnsembleRegressor",
			stump("target", "BRANCH_LEQ", yes, no, targets,
				StringAttr("post_transform", "LOGISTIC")),
			row, one(2)),
		ml("signs", 1, "TreeEnsembleClassifier", classes, x, labels("yes", "yes", "no"),
			f32([]int{3, 2}, -0.25, 0.25, -0.25, 0.25, 1, -1)),
		ml("logistic", 1, "TreeEnsembleClassifier",
			classes.with(StringAttr("post_transform", "LOGISTIC")), row, labels("yes"),
			f32([]int{1, 2}, 0.4378235, 0.5621765)),
		ml("probabilities", 1, "TreeEnsembleClassifier",
			stump("class", "BRANCH_LEQ", list[float32](0.25), list[float32](0.75),
				IntsAttr("classlabels_int64s", 7, 9)), f32([]int{2, 1}, 0, 1), i64(7, 9),
			f32([]int{2, 2}, 0.75, 0.25, 0.25, 0.75)),
		ml("ties", 1, "TreeEnsembleClassifier",
			stump("class", "BRANCH_LEQ", list[float32](1, 2, 2), list(nan32, nan32, -1),
				IntsAttr("classlabels_int64s", 7, 8, 9)), f32([]int{2, 1}, 0, 1), i64(8, 9),
			f32([]int{2, 3}, 1, 2, 2, 0, 0, -1)),
	)
	runCases(t, cases)
}

func float16s(shape []int, v ...float32) *tensor.Tensor {
	h := mustTensor(tensor.New(tensor.Float16, shape...))
	roundInto(h, v)
	return h
}

// TestTreeEnsembleTypes holds that version 5 answers in the type of its input, and compares in it.
func TestTreeEnsembleTypes(t *testing.T) {
	split := func(splits, weights *tensor.Tensor) Attrs {
		return Attrs{IntsAttr("tree_roots", 0), IntsAttr("nodes_featureids", 0),
			TensorAttr("nodes_modes", tensor.From([]uint8{0}, 1)),
			TensorAttr("nodes_splits", splits), IntsAttr("nodes_truenodeids", 0),
			IntsAttr("nodes_trueleafs", 1), IntsAttr("nodes_falsenodeids", 1),
			IntsAttr("nodes_falseleafs", 1), IntsAttr("leaf_targetids", 0, 0),
			TensorAttr("leaf_weights", weights)}
	}
	runCases(t, list(
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
		IntAttr("n_targets", 1))
	for want, a := range map[string]Attr{
		"cycle":                 IntsAttr("nodes_truenodeids", 0, 0, 0),
		"has no node 9":         IntsAttr("nodes_falsenodeids", 9, 0, 0),
		"want as many":          FloatsAttr("nodes_values", 1, 2),
		"two nodes 1":           IntsAttr("nodes_nodeids", 0, 1, 1),
		"nodes_modes has":       StringsAttr("nodes_modes", "BRANCH_UP", "LEAF", "LEAF"),
		"nodes_featureids has":  IntsAttr("nodes_featureids", -1, 0, 0),
		"target_ids has 1":      IntsAttr("target_ids", 0, 1),
		"tree 5 has no node 1":  IntsAttr("target_treeids", 5, 0),
		"base_values has 3":     FloatsAttr("base_values", 1, 2, 3),
		"3 nodes":               IntsAttr("nodes_missing_value_tracks_true", 1),
		"post_transform is":     StringAttr("post_transform", "NO"),
		"n_targets is 0":        IntAttr("n_targets", 0),
		"aggregate_function is": StringAttr("aggregate_function", "MEAN"),
	} {
		c := &Call{Domain: MLDomain, Type: "TreeEnsembleRegressor", Version: 3, Attrs: good.with(a),
			NumIn: 1, NumOut: 1}
		if _, err := ForestOf(c, tensor.Float32); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "TreeEnsembleRegressor") {
			t.Errorf("%v: %v, want an error about %q", a, err, want)
		}
	}
	_, err := rawEval(t, &Call{Domain: MLDomain, Type: "TreeEnsembleRegressor", Version: 3,
		Attrs: good.with(IntsAttr("nodes_featureids", 2, 0, 0)),
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
	as := Attrs{IntsAttr("nodes_treeids", zeros...), IntsAttr("nodes_nodeids", ids...),
		IntsAttr("nodes_truenodeids", yes...),
		IntsAttr("nodes_falsenodeids", no...), IntsAttr("nodes_featureids", zeros...),
		StringsAttr("nodes_modes", modes...),
		FloatsAttr("nodes_values", values...), IntsAttr("target_treeids", 0),
		IntsAttr("target_nodeids", last...), IntsAttr("target_ids", 0),
		FloatsAttr("target_weights", 4)}
	runCases(t, list(ml("deep", 1, "TreeEnsembleRegressor", as, f32([]int{2, 1}, 0, -1),
		f32([]int{2, 1}, 4, 0))))
	yes[2*n-2] = 0
	c := &Call{Domain: MLDomain, Type: "TreeEnsembleRegressor", Version: 1, Attrs: as, NumIn: 1,
		NumOut: 1}
	if _, err := ForestOf(c, tensor.Float32); err == nil || !strings.Contains(err.Error(), "cycle") {
		t.Errorf("a walk without an end: %v", err)
	}
}

func TestLinearAndVectorMachines(t *testing.T) {
	x := f32([]int{2, 2}, 1, 2, -1, 0.5)
	linear := Attrs{FloatsAttr("coefficients", 1, 2, 0, -1), FloatsAttr("intercepts", 0.5, 0),
		IntsAttr("classlabels_ints", 4, 6)}
	svc := Attrs{StringAttr("kernel_type", "LINEAR"), FloatsAttr("kernel_params", 0, 0, 0),
		IntsAttr("vectors_per_class", 1, 1),
		FloatsAttr("support_vectors", 1, 0, 0, 1), FloatsAttr("coefficients", 1, -2),
		FloatsAttr("rho", 0.5), IntsAttr("classlabels_ints", 4, 6)}
	runCases(t, list(
		ml("two scores", 1, "LinearClassifier", linear, x, i64(4, 4),
			f32([]int{2, 2}, 5.5, -2, 0.5, -0.5)),
		ml("one score", 1, "LinearClassifier",
			Attrs{FloatsAttr("coefficients", 1, 0), FloatsAttr("intercepts", 0),
				IntsAttr("classlabels_ints", 4, 6)},
			x, i64(6, 4), f32([]int{2, 2}, 0, 1, 2, -1)),
		ml("targets", 1, "LinearRegressor",
			Attrs{IntAttr("targets", 2), FloatsAttr("coefficients", 1, 2, 0, -1)}, x,
			f32([]int{2, 2}, 5, -2, 0, -0.5)),
		ml("pair", 1, "SVMClassifier", svc, x, i64(6, 6), f32([]int{2, 2}, 2.5, -2.5, 1.5, -1.5)),
		ml("pair under softmax", 1, "SVMClassifier",
			svc.with(StringAttr("post_transform", "SOFTMAX")), x, i64(6, 6),
			f32([]int{2, 2}, 3.5, -2.5, 2.5, -1.5)),
		ml("rbf", 1, "SVMRegressor",
			Attrs{StringAttr("kernel_type", "RBF"), FloatsAttr("kernel_params", 1, 0, 0),
				IntAttr("n_supports", 1),
				FloatsAttr("support_vectors", 1, 1), FloatsAttr("coefficients", 2),
				FloatsAttr("rho", 1)}, f32([]int{1, 2}, 1, 2), f32([]int{1, 1}, 1.7357589)),
		ml("one class", 1, "SVMRegressor",
			Attrs{FloatsAttr("coefficients", 1, 1), FloatsAttr("rho", 0), IntAttr("one_class", 1)},
			x,
			f32([]int{2, 1}, 1, -1)),
		evalCase{name: "features", domain: MLDomain, op: "LinearClassifier", version: 1,
			attrs: linear, in: list(seq(2, 3)), err: ErrInput},
		evalCase{name: "labels", domain: MLDomain, op: "LinearClassifier", version: 1,
			attrs: linear.with(IntsAttr("classlabels_ints", 4)), in: list(x), err: ErrAttr},
		evalCase{name: "vectors", domain: MLDomain, op: "SVMClassifier", version: 1,
			attrs: svc.with(IntsAttr("vectors_per_class", 1, 1<<40)), in: list(x), err: ErrAttr},
	))
}

func TestFeatureOperators(t *testing.T) {
	x := f32([]int{2, 2}, 1, -2, nan32, 4)
	runCases(t, list(
		ml("each", 1, "Scaler", Attrs{FloatsAttr("offset", 1, 2), FloatsAttr("scale", 2, 0.5)}, x,
			f32([]int{2, 2}, 0, -2, nan32, 1)),
		ml("all", 1, "Scaler", Attrs{FloatsAttr("offset", 1), FloatsAttr("scale", 2)}, i64(1, 3),
			f32([]int{2}, 0, 4)),
		ml("max", 1, "Normalizer", nil, f32([]int{2, 2}, -4, 2, 0, 0),
			f32([]int{2, 2}, -2, 1, 0, 0)),
		ml("l1", 1, "Normalizer", Attrs{StringAttr("norm", "L1")}, f32([]int{2}, -3, 1),
			f32([]int{2}, -0.75, 0.25)),
		ml("l2", 1, "Normalizer", Attrs{StringAttr("norm", "L2")}, f32([]int{2}, -3, 4),
			f32([]int{2}, -0.6, 0.8)),
		ml("nan", 1, "Imputer",
			Attrs{FloatsAttr("imputed_value_floats", 7, 8),
				FloatAttr("replaced_value_float", nan32)}, x, f32([]int{2, 2}, 1, -2, 7, 4)),
		ml("integers", 1, "Imputer",
			Attrs{IntsAttr("imputed_value_int64s", 7), IntAttr("replaced_value_int64", 3)},
			i64(3, 4), i64(7, 4)),
		ml("threshold", 1, "Binarizer", Attrs{FloatAttr("threshold", 1)}, x,
			f32([]int{2, 2}, 0, 0, 0, 1)),
		evalCase{name: "cut and padded", domain: MLDomain, op: "FeatureVectorizer", version: 1,
			attrs: Attrs{IntsAttr("inputdimensions", 1, 3)},
			in:    list(seq(2, 2), seq(2, 2)),
			want:  list(f32([]int{2, 4}, 0, 0, 1, 0, 2, 2, 3, 0))},
		evalCase{name: "rank 1", domain: MLDomain, op: "ArrayFeatureExtractor", version: 1,
			in: list(seq(4), i64(3, 0)), want: list(f32([]int{1, 2}, 3, 0))},
		evalCase{name: "negative", domain: MLDomain, op: "ArrayFeatureExtractor", version: 1,
			in: list(seq(4), i64(-1)), err: ErrInput},
		evalCase{name: "both kinds", domain: MLDomain, op: "Imputer", version: 1, in: list(x),
			err: ErrAttr,
			attrs: Attrs{IntsAttr("imputed_value_int64s", 7),
				FloatsAttr("imputed_value_floats", 7)}},
	))
}

func TestLookups(t *testing.T) {
	words := func(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }
	same := Attrs{IntsAttr("keys_int64s", 1, 2, 1), IntsAttr("values_int64s", 10, 20, 30)}
	nans := Attrs{FloatsAttr("keys_floats", nan32, 0), StringsAttr("values_strings", "nan", "zero")}
	cats := Attrs{StringsAttr("cats_strings", "a", "b"), IntsAttr("cats_int64s", 5, 6),
		IntAttr("default_int64", -9), StringAttr("default_string", "?")}
	f := f32([]int{3}, nan32, float32(math.Copysign(0, -1)), 1)
	runCases(t, list(
		ml("index of", 1, "LabelEncoder", Attrs{StringsAttr("classes_strings", "a", "b")},
			words("b", "c"), i64(1, -1)),
		ml("at index", 1, "LabelEncoder", Attrs{StringsAttr("classes_strings", "a", "b")},
			i64(1, 2, -1), words("b", "_Unused", "_Unused")),
		ml("first of equal keys", 2, "LabelEncoder", same, i64(1, 2, 3), i64(10, 20, -1)),
		ml("last of equal keys", 4, "LabelEncoder", same, i64(1, 2, 3), i64(30, 20, -1)),
		ml("nan", 2, "LabelEncoder", nans, f, words("nan", "zero", "_Unused")),
		ml("default", 4, "LabelEncoder", nans.with(TensorAttr("default_tensor", words("none"))), f,
			words("nan", "zero", "none")),
		ml("integers", 1, "CategoryMapper", cats, words("b", "c"), i64(6, -9)),
		ml("strings", 1, "CategoryMapper", cats, i64(5, 7), words("a", "?")),
		ml("cut to integers", 1, "OneHotEncoder", Attrs{IntsAttr("cats_int64s", 1, -1)},
			f32([]int{3}, 1.75, -1.5, 3), f32([]int{3, 2}, 1, 0, 0, 1, 0, 0)),
		evalCase{name: "unknown", domain: MLDomain, op: "OneHotEncoder", version: 1,
			in: list(i64(2)), err: ErrInput,
			attrs: Attrs{IntsAttr("cats_int64s", 1), IntAttr("zeros", 0)}},
		evalCase{name: "type", domain: MLDomain, op: "LabelEncoder", version: 2, attrs: same,
			in: list(words("a")), err: ErrInput},
	))
}

func TestMaps(t *testing.T) {
	words := tensor.FromStrings(list("b", "a"), 2)
	m := mustTensor(tensor.NewMap(words, f32([]int{2}, 1, 2)))
	numbered := mustTensor(tensor.NewMap(i64(4, 1), f32([]int{2}, 1.5, -2)))
	pairs := func(v ...float32) *tensor.Tensor {
		return mustTensor(tensor.NewMap(tensor.FromStrings(list("a", "b"), 2), f32([]int{2}, v...)))
	}
	runCases(t, list(
		ml("rows", 1, "ZipMap", Attrs{StringsAttr("classlabels_strings", "b", "a")},
			f32([]int{2, 2}, 1, 2, 3, 4), tensor.NewSequence(pairs(2, 1), pairs(4, 3))),
		ml("words", 1, "DictVectorizer", Attrs{StringsAttr("string_vocabulary", "a", "c", "b")}, m,
			f32([]int{1, 3}, 2, 0, 1)),
		ml("dense", 1, "CastMap", Attrs{StringAttr("cast_to", "TO_INT64")}, numbered,
			tensor.From(list[int64](-2, 1), 1, 2)),
		ml("sparse", 1, "CastMap", Attrs{StringAttr("map_form", "SPARSE"), IntAttr("max_map", 3)},
			numbered, f32([]int{1, 3}, 0, -2, 0)),
		ml("text", 1, "CastMap", Attrs{StringAttr("cast_to", "TO_STRING")}, numbered,
			tensor.FromStrings(list("-2.000000", "1.500000"), 1, 2)),
	))
}
