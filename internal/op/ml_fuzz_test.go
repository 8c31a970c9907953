package op

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// mlDomain is the domain of the operators of package ml.
const mlDomain = "ai.onnx.ml"

// mlRows are its rows.
func mlRows() []*Op {
	return slices.DeleteFunc(All(), func(o *Op) bool { return o.Domain != mlDomain })
}

func (d *dice) half() float32 { return float32(d.roll(9)-4) / 2 }

func (d *dice) floatList(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = d.half()
	}
	return v
}

// small are integers below n.
func (d *dice) small(count, n int) []int64 {
	v := make([]int64, count)
	for i := range v {
		v[i] = int64(d.roll(n))
	}
	return v
}

var mlWords = list("a", "b", "", "c", "d")

func numbers[T, S number](v []S) []T {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

func (d *dice) post() Attr {
	return StringAttr("post_transform",
		list("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[d.roll(5)])
}

// classAttr names n classes.
func (d *dice) classAttr(n int, ints string) Attr {
	if d.roll(2) == 1 {
		return StringsAttr("classlabels_strings", mlWords[:n]...)
	}
	return IntsAttr(ints, d.small(n, 9)...)
}

// trees are one or two trees of which node i branches to 2i + 1 and 2i + 2, for an input of two
// features.
func (d *dice) trees(classifier bool) Attrs {
	var trees, ids, yes, no, features []int64
	var modes []string
	for t := range int64(1 + d.roll(2)) {
		n := int64(1 + 2*d.roll(4))
		for i := range n {
			mode, a, b := list("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ",
				"BRANCH_NEQ")[d.roll(6)], 2*i+1, 2*i+2
			if b >= n {
				mode, a, b = "LEAF", 0, 0
			}
			trees, ids, yes, no, features = append(trees, t), append(ids, i), append(yes, a),
				append(no, b), append(features, int64(d.roll(2)))
			modes = append(modes, mode)
		}
	}
	outputs, prefix := 1+d.roll(3), "target"
	as := Attrs{IntsAttr("nodes_treeids", trees...), IntsAttr("nodes_nodeids", ids...),
		IntsAttr("nodes_truenodeids", yes...),
		IntsAttr("nodes_falsenodeids", no...), IntsAttr("nodes_featureids", features...),
		StringsAttr("nodes_modes", modes...),
		FloatsAttr("nodes_values", d.floatList(len(ids))...), d.post()}
	if classifier {
		prefix, as = "class", append(as, d.classAttr(outputs, "classlabels_int64s"))
	} else {
		as = append(as, IntAttr("n_targets", int64(outputs)),
			StringAttr("aggregate_function", list("SUM", "AVERAGE", "MIN", "MAX")[d.roll(4)]))
	}
	return append(as, IntsAttr(prefix+"_treeids", trees...), IntsAttr(prefix+"_nodeids", ids...),
		IntsAttr(prefix+"_ids", d.small(len(ids), outputs)...),
		FloatsAttr(prefix+"_weights", d.floatList(len(ids))...),
		FloatsAttr("base_values", d.floatList(outputs*d.roll(2))...),
		IntsAttr("nodes_missing_value_tracks_true", d.small(len(ids)*d.roll(2), 2)...))
}

// splits is a TreeEnsemble of version 5.
func (d *dice) splits() Attrs {
	n := 1 + d.roll(4)
	modes, yes, no := make([]uint8, n), make([]int64, n), make([]int64, n)
	leaf := make([]int64, n)
	var members []float32
	for i := range modes {
		modes[i], yes[i], no[i] = uint8(d.roll(7)), int64(i+1), int64(d.roll(3))
		if leaf[i] = 0; i+1 == n {
			leaf[i], yes[i] = 1, 0
		}
		if modes[i] == 6 {
			members = append(members, d.half(), float32(math.NaN()))
		}
	}
	as := Attrs{IntsAttr("tree_roots", 0), TensorAttr("nodes_modes", tensor.From(modes, n)),
		IntsAttr("nodes_featureids", d.small(n, 2)...),
		TensorAttr("nodes_splits", tensor.From(d.floatList(n), n)),
		IntsAttr("nodes_truenodeids", yes...), IntsAttr("nodes_trueleafs", leaf...),
		IntsAttr("nodes_falsenodeids", no...),
		IntsAttr("nodes_falseleafs", slices.Repeat([]int64{1}, n)...), IntAttr("n_targets", 2),
		IntsAttr("leaf_targetids", d.small(3, 2)...),
		TensorAttr("leaf_weights", tensor.From(d.floatList(3), 3)),
		IntAttr("post_transform", int64(d.roll(5))),
		IntAttr("aggregate_function", int64(d.roll(4)))}
	if len(members) > 0 {
		as = append(as, TensorAttr("membership_values", tensor.From(members, len(members))))
	}
	return as
}

// svmAttrs are an SVM of two features.
func (d *dice) svmAttrs(classifier bool) Attrs {
	as := Attrs{StringAttr("kernel_type", list("LINEAR", "POLY", "RBF", "SIGMOID")[d.roll(4)]),
		FloatsAttr("kernel_params", 0.5, 1, 2), d.post()}
	n := 2 + d.roll(2)
	if !classifier {
		vectors := d.roll(3)
		return append(as, IntAttr("n_supports", int64(vectors)),
			FloatsAttr("support_vectors", d.floatList(2*vectors)...), FloatsAttr("rho", 1),
			FloatsAttr("coefficients", d.floatList(2)...), IntAttr("one_class", int64(d.roll(2))))
	}
	as = append(as, d.classAttr(n, "classlabels_ints"), FloatsAttr("rho", d.floatList(3)...))
	if d.roll(3) == 1 {
		return append(as, FloatsAttr("coefficients", d.floatList(2*n)...))
	}
	p := 3 * d.roll(2)
	return append(as, IntsAttr("vectors_per_class", slices.Repeat([]int64{1}, n)...),
		FloatsAttr("support_vectors", d.floatList(2*n)...),
		FloatsAttr("coefficients", d.floatList(n*(n-1))...),
		FloatsAttr("prob_a", d.floatList(p)...), FloatsAttr("prob_b", d.floatList(p)...))
}

// legal makes the attributes of a valid call, mostly.
func (d *dice) legal(c *Call) Attrs {
	switch c.Type {
	case "TreeEnsembleRegressor", "TreeEnsembleClassifier":
		return d.trees(c.Type == "TreeEnsembleClassifier")
	case "TreeEnsemble":
		return d.splits()
	case "LinearRegressor":
		return Attrs{IntAttr("targets", 2), FloatsAttr("coefficients", d.floatList(4)...),
			FloatsAttr("intercepts", d.floatList(2)...), d.post()}
	case "LinearClassifier":
		n := 1 + d.roll(3)
		return Attrs{FloatsAttr("coefficients", d.floatList(2*n)...),
			FloatsAttr("intercepts", d.floatList(n)...), d.post(),
			d.classAttr(max(2, n), "classlabels_ints")}
	case "SVMClassifier", "SVMRegressor":
		return d.svmAttrs(c.Type == "SVMClassifier")
	case "Scaler":
		n := 1 + d.roll(2)
		return Attrs{FloatsAttr("offset", d.floatList(n)...),
			FloatsAttr("scale", d.floatList(n)...)}
	case "Imputer":
		if d.roll(2) == 1 {
			return Attrs{IntsAttr("imputed_value_int64s", d.small(1+d.roll(2), 9)...),
				IntAttr("replaced_value_int64", 1)}
		}
		return Attrs{FloatsAttr("imputed_value_floats", d.floatList(1+d.roll(2))...),
			FloatAttr("replaced_value_float", float32(math.NaN()))}
	case "Normalizer":
		return Attrs{StringAttr("norm", list("MAX", "L1", "L2", "?")[d.roll(4)])}
	case "Binarizer":
		return Attrs{FloatAttr("threshold", d.half())}
	case "FeatureVectorizer":
		return Attrs{IntsAttr("inputdimensions", d.small(c.NumIn, 4)...)}
	}
	return d.legalWords(c)
}

// legalWords is legal for the operators that look elements up and those on maps.
func (d *dice) legalWords(c *Call) Attrs {
	n := 1 + d.roll(5)
	ints, words := d.small(n, 9), mlWords[:n]
	switch c.Type {
	case "CategoryMapper":
		return Attrs{IntsAttr("cats_int64s", ints...), StringsAttr("cats_strings", words...)}
	case "LabelEncoder":
		if c.Version < 2 {
			return Attrs{StringsAttr("classes_strings", words...)}
		}
		keys := list(IntsAttr("keys_int64s", ints...), StringsAttr("keys_strings", words...),
			FloatsAttr("keys_floats", d.floatList(n)...),
			TensorAttr("keys_tensor", tensor.From(make([]float64, n), n)))
		values := list(IntsAttr("values_int64s", ints...), StringsAttr("values_strings", words...),
			FloatsAttr("values_floats", d.floatList(n)...),
			TensorAttr("values_tensor", tensor.From(make([]int16, n), n)))
		return Attrs{keys[d.roll(4)], values[d.roll(4)],
			TensorAttr("default_tensor", tensor.From([]int16{7}, 1))}[:2+d.roll(2)]
	case "OneHotEncoder":
		return list(Attrs{IntsAttr("cats_int64s", ints...), IntAttr("zeros", int64(d.roll(2)))},
			Attrs{StringsAttr("cats_strings", words...)})[d.roll(2)]
	case "ZipMap":
		return Attrs{d.classAttr(2, "classlabels_int64s")}
	case "DictVectorizer":
		return list(Attrs{IntsAttr("int64_vocabulary", ints...)},
			Attrs{StringsAttr("string_vocabulary", words...)})[d.roll(2)]
	case "CastMap":
		return Attrs{StringAttr("cast_to",
			list("TO_FLOAT", "TO_STRING", "TO_INT64", "?")[d.roll(4)]),
			IntAttr("max_map", int64(d.roll(9))),
			StringAttr("map_form", list("DENSE", "SPARSE")[d.roll(2)])}
	}
	return nil
}

// spoil changes one attribute: takes it away, makes a list shorter or longer, or an element
// extreme.
func (d *dice) spoil(as Attrs) Attrs {
	if len(as) == 0 {
		return as
	}
	a := &as[d.roll(len(as))]
	a.Ints, a.Floats, a.Strings = slices.Clone(a.Ints), slices.Clone(a.Floats),
		slices.Clone(a.Strings)
	switch at := d.roll(64); d.roll(4) {
	case 0:
		*a = IntAttr(a.Name+"?", 0)
	case 1:
		a.Ints, a.Floats, a.Strings = a.Ints[:len(a.Ints)/2], a.Floats[:len(a.Floats)/2],
			a.Strings[:len(a.Strings)/2]
	case 2:
		a.Ints, a.Floats, a.Strings = append(a.Ints, d.int()), append(a.Floats, d.half()),
			append(a.Strings, "LEAF")
	default:
		if len(a.Ints) > 0 {
			a.Ints[at%len(a.Ints)] = d.int()
		}
		if len(a.Floats) > 0 {
			a.Floats[at%len(a.Floats)] = list(float32(math.NaN()), float32(math.Inf(1)),
				math.MaxFloat32)[d.roll(3)]
		}
		if len(a.Strings) > 0 {
			a.Strings[at%len(a.Strings)] = list("LEAF", "BRANCH_EQ", "SUM", "L1", "?")[d.roll(5)]
		}
	}
	return as
}

// features is an input that mostly fits the attributes above.
func (d *dice) features(c *Call) *tensor.Tensor {
	if slices.Contains(list("CastMap", "DictVectorizer"), c.Type) && d.roll(8) != 1 {
		n := d.roll(4)
		keys, values := i64([]int64{3, -1, 7}[:min(n, 3)]...),
			tensor.From(d.floatList(min(n, 3)), min(n, 3))
		if d.roll(2) == 1 {
			values = tensor.FromStrings(list("1", "2.5", "x")[:min(n, 3)], min(n, 3))
		}
		return mustTensor(tensor.NewMap(keys, values))
	}
	if d.roll(8) == 1 {
		return d.tensor()
	}
	rows := d.roll(4)
	switch d.roll(7) {
	case 0, 1:
		return tensor.From(d.floatList(2*rows), rows, 2)
	case 2:
		return tensor.From(numbers[float64](d.floatList(2*rows)), rows, 2)
	case 3:
		return tensor.From(d.small(2*rows, 5), rows, 2)
	case 4:
		return tensor.From(numbers[int32](d.small(2*rows, 5)), rows, 2)
	case 5:
		return tensor.From(d.floatList(2), 2)
	}
	words := make([]string, 2*rows)
	for i := range words {
		words[i] = mlWords[d.roll(5)]
	}
	return tensor.FromStrings(words, rows, 2)
}

// tryML gives one call of the domain, legal or a little spoilt, to its rule and its evaluation.
func tryML(t *testing.T, d *dice) (name string, ran bool) {
	rows := mlRows()
	o := rows[d.roll(len(rows))]
	c := &Call{Domain: mlDomain, Type: o.Name, Version: o.Since[d.roll(len(o.Since))],
		NumIn: o.MinIn, NumOut: max(1, o.MaxOut)}
	if o.MaxIn < 0 {
		c.NumIn += d.roll(2)
	}
	c.Attrs = d.legal(c)
	for range max(0, d.roll(5)-2) {
		c.Attrs = d.spoil(c.Attrs)
	}
	in := make([]*tensor.Tensor, c.NumIn)
	for i := range in {
		in[i] = d.features(c)
	}
	if c.Type == "ArrayFeatureExtractor" && d.roll(4) != 1 {
		in[1] = i64(d.small(d.roll(4), 3)...)
	}
	if c.checkAttrs() != nil {
		return o.Name, false
	}
	ran = tryCall(t, d, o, c, in)
	if ran && o.Evaluator != nil {
		sameEvaluator(t, o, c, in)
	}
	return o.Name, ran
}

// sameEvaluator holds that the evaluator of a call gives what the evaluation gives.
func sameEvaluator(t *testing.T, o *Op, c *Call, in []*tensor.Tensor) {
	t.Helper()
	want, err := Run(t.Context(), o, c, in)
	if err != nil {
		t.Fatal(err)
	}
	eval, err := o.Evaluator(c)
	if err != nil {
		t.Fatalf("%s %v: %v", c.Name(), c.Attrs, err)
	}
	prepared := *o
	prepared.Eval = eval
	for range 2 {
		got, err := Run(t.Context(), &prepared, c, in)
		if err != nil || len(got) != len(want) || !tensor.Equal(got[0], want[0]) {
			t.Fatalf("%s %v of %v: %v, %v; want %v", c.Name(), c.Attrs, in, got, err, want)
		}
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b
}

func TestMLRulesAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	ran := map[string]int{}
	for range 60000 {
		if name, ok := tryML(t, &dice{randomBytes(rng, 512)}); ok {
			ran[name]++
		}
	}
	for _, o := range mlRows() {
		if ran[o.Name] < 100 {
			t.Errorf("%d calls of %s were valid", ran[o.Name], o.Name)
		}
	}
}

func FuzzMLRules(f *testing.F) {
	rng := rand.New(rand.NewPCG(23, 24))
	for range 40 {
		f.Add(randomBytes(rng, 256))
	}
	f.Fuzz(func(t *testing.T, b []byte) { tryML(t, &dice{b}) })
}
