package ml

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// treeOps hold the tree ensembles of [Domain].
var treeOps = []op.Op{
	{Domain: Domain, Name: "TreeEnsemble", Since: []int{5}, MinIn: 1, MaxIn: 1,
		Infer: inferTreeEnsemble, Eval: op.InFloat32(evalTrees),
		Flops: treeFlops},
	{Domain: Domain, Name: "TreeEnsembleClassifier", Since: []int{1, 3, 5}, MinIn: 1, MaxIn: 1,
		MinOut: 1, MaxOut: 2,
		Infer: inferTreeClassifier, Eval: evalTreeClassifier, Flops: treeFlops},
	{Domain: Domain, Name: "TreeEnsembleRegressor", Since: []int{1, 3, 5}, MinIn: 1, MaxIn: 1,
		Infer: inferTreeRegressor, Eval: evalTrees,
		Flops: treeFlops},
}

// treeFlops estimates a comparison for each node on the way down, in trees of which half the nodes
// are leaves and the leaves are at one depth.
func treeFlops(c *op.Call, in, _ []op.Type) int64 {
	rows := int64(1)
	if s, ok := in[0].Ints(); ok && len(s) == 2 {
		rows = int64(s[0])
	}
	nodes, trees := len(c.Attrs.Ints("nodes_featureids")), max(1, len(c.Attrs.Ints("tree_roots")))
	last := int64(math.MinInt64)
	for i, t := range c.Attrs.Ints("nodes_treeids") {
		if i > 0 && t != last {
			trees++
		}
		last = t
	}
	depth := math.Log2(float64(nodes)/float64(trees) + 1)
	return rows * int64(float64(trees)*max(1, depth))
}

// forestOutputs returns how many scores a row has, and a classifier's labels.
func forestOutputs(c *op.Call) (n int, l classLabels, err error) {
	if c.Type == "TreeEnsembleClassifier" {
		if l, err = labels(c, "classlabels_int64s", "classlabels_strings"); err != nil {
			return 0, l, err
		}
		if l.len() == 0 {
			return 0, l, c.Errorf(op.ErrAttr,
				"neither classlabels_int64s nor classlabels_strings is given, want one")
		}
		return l.len(), l, nil
	}
	targets := c.Attrs.Int("n_targets", 1)
	if targets < 1 || targets > math.MaxInt32 {
		return 0, l, c.Errorf(op.ErrAttr, "n_targets is %d, want at least 1", targets)
	}
	return int(targets), l, nil
}

// checkFeatures refuses inputs of known width that are narrower than a compared feature.
func checkFeatures(c *op.Infer, features op.Dim) error {
	width, ok := features.Int()
	if !ok {
		return nil
	}
	leaves := c.Attrs.Strings("nodes_modes")
	for i, f := range c.Attrs.Ints("nodes_featureids") {
		if (i >= len(leaves) || leaves[i] != "LEAF") && (f < 0 || f >= int64(width)) {
			return c.Errorf(op.ErrInput, "node %d compares feature %d, the input has %d", i, f,
				width)
		}
	}
	return nil
}

func inferTreeClassifier(c *op.Infer) error {
	n, l, err := forestOutputs(c.Call)
	if err != nil {
		return err
	}
	_, features, _, err := matrixDims(c)
	if err != nil {
		return err
	}
	if err := checkFeatures(c, features); err != nil {
		return err
	}
	return inferClasses(c, l, op.Known(n))
}

func inferTreeRegressor(c *op.Infer) error {
	if _, err := c.SameDType(numericTypes, c.In[0].DType); err != nil {
		return err
	}
	return inferTargets(c, tensor.Float32)
}

// treeTypes are the inputs of TreeEnsemble.
var treeTypes = op.SetOf(tensor.Float32, tensor.Float64, tensor.Float16)

func inferTreeEnsemble(c *op.Infer) error {
	d, err := c.SameDType(treeTypes, c.In[0].DType)
	if err != nil {
		return err
	}
	return inferTargets(c, d)
}

// inferTargets sets an output of one score a target and row.
func inferTargets(c *op.Infer, d tensor.DType) error {
	n, _, err := forestOutputs(c.Call)
	if err != nil {
		return err
	}
	rows, features := op.Unknown(), op.Unknown()
	if s := c.In[0].Shape; c.In[0].Ranked {
		switch len(s) {
		case 1:
			rows, features = op.Known(1), s[0]
		case 2:
			rows, features = s[0], s[1]
		default:
			return c.Errorf(op.ErrInput, "input of rank %d, want [N, C] or [C]", len(s))
		}
	}
	c.Out[0] = op.Ranked(d, rows, op.Known(n))
	return checkFeatures(c, features)
}

// Rows reads the shape of an input of a forest: [N, C], or [C] for one row. It fails when C is less
// than the features that the forest compares.
func (f *Forest) Rows(c *op.Call, shape []int) (rows, features int, err error) {
	if rows, features, err = matrix(c, shape); err != nil {
		return 0, 0, err
	}
	if features < f.Features {
		return 0, 0, c.Errorf(op.ErrInput, "a node compares feature %d, the input has %d",
			f.Features-1, features)
	}
	return rows, features, nil
}

// WithoutNodes returns what [Forest.Finish] and the labels need of f, without its nodes, weights
// and sets.
func (f *Forest) WithoutNodes() *Forest {
	g := *f
	g.Nodes, g.Weights, g.Sets = nil, nil, nil
	return &g
}

// Label writes the label of a class as element i of a classifier's first output.
func (f *Forest) Label(out *tensor.Tensor, i, class int) { f.labels.put(out, i, class) }

// LabelType is the element type of a classifier's first output.
func (f *Forest) LabelType() tensor.DType { return f.labels.dtype() }

// forestRows reads the model of a call and how many rows the input has.
func forestRows(c *op.Eval) (f *Forest, rows int, err error) {
	if f, err = ForestOf(c.Call, c.In[0].DType); err != nil {
		return nil, 0, err
	}
	rows, _, err = f.Rows(c.Call, c.In[0].Shape)
	return f, rows, err
}

// rowsOf calls do with each row of the input and its finished scores.
func (f *Forest) rowsOf(c *op.Eval, do func(row, class int, scores []float64)) error {
	rows, features, err := f.Rows(c.Call, c.In[0].Shape)
	if err != nil {
		return err
	}
	x, err := features64(c.Call, c.In[0])
	if err != nil {
		return err
	}
	for i, v := range x {
		x[i] = f.Round(v)
	}
	scores, has := make([]float64, f.Outputs), make([]bool, f.Outputs)
	for r := range rows {
		f.Scores(scores, has, x[r*features:(r+1)*features])
		do(r, f.Finish(scores, has), scores)
	}
	return nil
}

// evalTrees is TreeEnsemble, whose output has the type of the input, and TreeEnsembleRegressor,
// whose output is float32.
func evalTrees(c *op.Eval) error {
	f, rows, err := forestRows(c)
	if err != nil {
		return err
	}
	d := tensor.Float32
	if c.Type == "TreeEnsemble" {
		if d, err = c.SameDType(treeTypes, c.In[0].DType); err != nil {
			return err
		}
	}
	y, err := c.Output(0, d, []int{rows, f.Outputs})
	if err != nil {
		return err
	}
	return f.rowsOf(c, func(r, _ int, scores []float64) {
		if d == tensor.Float64 {
			copy(tensor.As[float64](y)[r*f.Outputs:], scores)
			return
		}
		putFloat32(tensor.As[float32](y)[r*f.Outputs:], scores)
	})
}

func putFloat32(out []float32, v []float64) {
	for i, s := range v {
		out[i] = float32(s)
	}
}

func evalTreeClassifier(c *op.Eval) error {
	f, rows, err := forestRows(c)
	if err != nil {
		return err
	}
	y, z, err := classOutputs(c, f.labels, rows, f.Outputs)
	if err != nil {
		return err
	}
	return f.rowsOf(c, func(r, class int, scores []float64) {
		f.labels.put(y, r, class)
		if z != nil {
			putFloat32(z[r*f.Outputs:], scores)
		}
	})
}
