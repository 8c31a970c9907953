package ml

import (
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// linearOps hold the linear models of [Domain].
var linearOps = []op.Op{
	{Domain: Domain, Name: "LinearClassifier", Since: []int{1}, MinIn: 1, MaxIn: 1, MinOut: 1,
		MaxOut: 2,
		Infer:  inferLinearClassifier, Eval: evalLinearClassifier, Flops: linearFlops},
	{Domain: Domain, Name: "LinearRegressor", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferLinearRegressor, Eval: evalLinearRegressor,
		Flops: linearFlops},
}

// linearFlops counts a product and a sum for each coefficient and row.
func linearFlops(c *op.Call, in, _ []op.Type) int64 {
	rows := int64(1)
	if s, ok := in[0].Ints(); ok && len(s) == 2 {
		rows = int64(s[0])
	}
	return 2 * rows * int64(len(c.Attrs.Floats("coefficients")))
}

// linearModel is X·Wᵀ + b with one row of W for each target.
type linearModel struct {
	targets      int // 0: as many as the coefficients give for the features
	coefficients []float32
	intercepts   []float32 // one a target, or none
	post         postTransform
}

// linear reads the attributes that both models have.
func linear(c *op.Call, targets int) (linearModel, error) {
	m := linearModel{targets: targets, coefficients: c.Attrs.Floats("coefficients"),
		intercepts: c.Attrs.Floats("intercepts")}
	var err error
	if m.post, err = transform(c); err != nil {
		return m, err
	}
	if len(m.coefficients) == 0 {
		return m, c.Errorf(op.ErrAttr, "coefficients is empty")
	}
	if m.targets > 0 && len(m.coefficients)%m.targets != 0 {
		return m, c.Errorf(op.ErrAttr, "%d coefficients for %d targets, want as many for each",
			len(m.coefficients), m.targets)
	}
	return m, nil
}

// fit checks the model against the number of features and settles the number of targets.
func (m *linearModel) fit(c *op.Call, features int) error {
	if m.targets == 0 && features > 0 {
		m.targets = len(m.coefficients) / features
	}
	if m.targets == 0 || m.targets*features != len(m.coefficients) {
		return c.Errorf(op.ErrInput,
			"input has %d features and the model %d coefficients for %d targets", features,
			len(m.coefficients), m.targets)
	}
	return nil
}

// scores sets out to those of one row.
func (m *linearModel) scores(out, x []float32) {
	for t := range m.targets {
		sum := float64(0)
		for i, w := range m.coefficients[t*len(x) : (t+1)*len(x)] {
			sum += float64(w) * float64(x[i])
		}
		if len(m.intercepts) > 0 {
			sum += float64(m.intercepts[t])
		}
		out[t] = float32(sum)
	}
}

// linearRegressor reads the model. Intercepts that are not one for each target are left out, as
// ONNX Runtime does.
func linearRegressor(c *op.Call) (linearModel, error) {
	n := c.Attrs.Int("targets", 1)
	if n < 1 || n > int64(max(1, len(c.Attrs.Floats("coefficients")))) {
		return linearModel{}, c.Errorf(op.ErrAttr,
			"targets is %d, want 1 up to the number of coefficients", n)
	}
	m, err := linear(c, int(n))
	if len(m.intercepts) != m.targets {
		m.intercepts = nil
	}
	return m, err
}

func inferLinearRegressor(c *op.Infer) error {
	m, err := linearRegressor(c.Call)
	if err != nil {
		return err
	}
	rows, features, _, err := matrixDims(c)
	if err != nil {
		return err
	}
	if n, ok := features.Int(); ok {
		if err := m.fit(c.Call, n); err != nil {
			return err
		}
	}
	c.Out[0] = op.Ranked(tensor.Float32, rows, op.Known(m.targets))
	return nil
}

func evalLinearRegressor(c *op.Eval) error {
	m, err := linearRegressor(c.Call)
	if err != nil {
		return err
	}
	x, rows, features, err := linearInput(c, &m)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.Float32, []int{rows, m.targets})
	if err != nil {
		return err
	}
	out := tensor.As[float32](y)
	for r := range rows {
		s := out[r*m.targets : (r+1)*m.targets]
		m.scores(s, x[r*features:(r+1)*features])
		applyPost(m.post, s)
	}
	return nil
}

// linearInput returns the features in float32 once the model fits them.
func linearInput(c *op.Eval, m *linearModel) (x []float32, rows, features int, err error) {
	if rows, features, err = matrix(c.Call, c.In[0].Shape); err != nil {
		return nil, 0, 0, err
	}
	if err = m.fit(c.Call, features); err != nil {
		return nil, 0, 0, err
	}
	x, err = features32(c.Call, c.In[0])
	return x, rows, features, err
}

// linearClassifier is a linear model with a class for each target, or two classes for one target.
type linearClassifier struct {
	linearModel
	labels classLabels
}

// readClassifier reads the model: as many scores as intercepts, or as the coefficients give.
func readClassifier(c *op.Call) (m linearClassifier, err error) {
	if m.labels, err = labels(c, "classlabels_ints", "classlabels_strings"); err != nil {
		return m, err
	}
	m.linearModel, err = linear(c, len(c.Attrs.Floats("intercepts")))
	return m, err
}

// fit settles the number of targets and checks the labels against it.
func (m *linearClassifier) fit(c *op.Call, features int) error {
	if err := m.linearModel.fit(c, features); err != nil {
		return err
	}
	if m.targets > 1 && m.labels.len() < m.targets {
		return c.Errorf(op.ErrAttr, "%d class labels for %d scores", m.labels.len(), m.targets)
	}
	return nil
}

// classes returns how many scores a row has: two for one target and two labels.
func (m *linearClassifier) classes() int {
	if m.targets == 1 && m.labels.len() == 2 {
		return 2
	}
	return m.targets
}

// binaryLabels are the labels of a model of one target: the two that it has, else 0 and 1.
func (m *linearClassifier) binaryLabels() classLabels {
	switch {
	case m.labels.len() == 2:
		return m.labels
	case len(m.labels.strings) > 0:
		return classLabels{strings: []string{"0", "1"}}
	}
	return classLabels{ints: []int64{0, 1}}
}

func inferLinearClassifier(c *op.Infer) error {
	m, err := readClassifier(c.Call)
	if err != nil {
		return err
	}
	_, features, _, err := matrixDims(c)
	if err != nil {
		return err
	}
	scores := op.Unknown()
	if n, ok := features.Int(); ok {
		if err := m.fit(c.Call, n); err != nil {
			return err
		}
	}
	if m.targets > 0 {
		scores = op.Known(m.classes())
	}
	return inferClasses(c, m.labels, scores)
}

// evalLinearClassifier labels each row with the class of its first highest score, or for one target
// with the positive class when the score is above zero; the transform comes after that. One score
// of two classes becomes 1 - s and s under SOFTMAX and SOFTMAX_ZERO, too, as in ONNX Runtime.
func evalLinearClassifier(c *op.Eval) error {
	m, err := readClassifier(c.Call)
	if err != nil {
		return err
	}
	x, rows, features, err := m.input(c)
	if err != nil {
		return err
	}
	y, z, err := classOutputs(c, m.labels, rows, m.classes())
	if err != nil {
		return err
	}
	labels := m.labels
	if m.targets == 1 {
		labels = m.binaryLabels()
	}
	s := make([]float32, max(2, m.targets))
	for r := range rows {
		m.scores(s, x[r*features:(r+1)*features])
		labels.put(y, r, m.choose(s))
		m.finish(s)
		if z != nil {
			copy(z[r*m.classes():(r+1)*m.classes()], s)
		}
	}
	return nil
}

// input reads the rows of features that the classifier takes.
func (m *linearClassifier) input(c *op.Eval) (x []float32, rows, features int, err error) {
	if rows, features, err = matrix(c.Call, c.In[0].Shape); err != nil {
		return nil, 0, 0, err
	}
	if err := m.fit(c.Call, features); err != nil {
		return nil, 0, 0, err
	}
	x, err = features32(c.Call, c.In[0])
	return x, rows, features, err
}

// finish makes results of scores: one for each class.
func (m *linearClassifier) finish(s []float32) {
	if m.classes() > m.targets {
		s[0], s[1] = m.post.expand(s[0], secondComplement)
		return
	}
	applyPost(m.post, s[:m.targets])
}

// choose returns the class that raw scores speak for.
func (m *linearClassifier) choose(s []float32) int {
	if m.targets > 1 {
		return firstMax(s[:m.targets])
	}
	if s[0] > 0 {
		return 1
	}
	return 0
}

// firstMax returns the index of the first of the highest elements; NaN is never higher.
func firstMax[T number](v []T) int {
	best := 0
	for i, s := range v {
		if s > v[best] {
			best = i
		}
	}
	return best
}

// classOutputs makes the outputs of a classifier; z is nil when the scores are not asked for.
func classOutputs(c *op.Eval, l classLabels, rows, scores int) (y *tensor.Tensor, z []float32,
	err error) {
	if y, err = c.Output(0, l.dtype(), []int{rows}); err != nil || !c.Want(1) {
		return y, nil, err
	}
	t, err := c.Output(1, tensor.Float32, []int{rows, scores})
	if err != nil {
		return nil, nil, err
	}
	return y, tensor.As[float32](t), nil
}
