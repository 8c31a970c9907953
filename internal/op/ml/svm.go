package ml

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// vectorMachineOps hold the support vector machines of [Domain].
var vectorMachineOps = []op.Op{
	{Domain: Domain, Name: "SVMClassifier", Since: []int{1}, MinIn: 1, MaxIn: 1, MinOut: 1,
		MaxOut: 2,
		Infer:  inferSVMClassifier, Eval: evalSVMClassifier, Flops: svmFlops},
	{Domain: Domain, Name: "SVMRegressor", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferSVMRegressor, Eval: evalSVMRegressor,
		Flops: svmFlops},
}

// svmFlops counts a product and a sum for each element of the support vectors, or of the
// coefficients without any, and row.
func svmFlops(c *op.Call, in, _ []op.Type) int64 {
	rows := int64(1)
	if s, ok := in[0].Ints(); ok && len(s) == 2 {
		rows = int64(s[0])
	}
	return 2 * rows * int64(max(len(c.Attrs.Floats("support_vectors")),
		len(c.Attrs.Floats("coefficients"))))
}

// svmKernel is the inner product of two feature vectors.
type svmKernel struct {
	kind                 svmKind
	gamma, coef0, degree float32
}

type svmKind int

const (
	svmLinear svmKind = iota
	svmPoly
	svmRBF
	svmSigmoid
)

func readKernel(c *op.Call) (svmKernel, error) {
	kind, err := choice(c, "kernel_type", "LINEAR", "POLY", "RBF", "SIGMOID")
	if err != nil {
		return svmKernel{}, err
	}
	k := svmKernel{kind: svmKind(kind)}
	switch p := c.Attrs.Floats("kernel_params"); len(p) {
	case 0:
	case 3:
		k.gamma, k.coef0, k.degree = p[0], p[1], p[2]
	default:
		return k, c.Errorf(op.ErrAttr,
			"kernel_params has %d elements, want gamma, coef0 and degree", len(p))
	}
	return k, nil
}

// of returns the kernel's value of two vectors of one length.
func (k svmKernel) of(a, b []float32) float32 {
	sum := float64(0)
	if k.kind == svmRBF {
		for i, v := range a {
			d := float64(v - b[i])
			sum += d * d
		}
		return float32(math.Exp(-float64(k.gamma) * sum))
	}
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	switch k.kind {
	case svmPoly:
		return float32(math.Pow(float64(k.gamma)*sum+float64(k.coef0), float64(k.degree)))
	case svmSigmoid:
		return float32(math.Tanh(float64(k.gamma)*sum + float64(k.coef0)))
	}
	return float32(sum)
}

// svm is what both machines have: support vectors one after the other, and their coefficients;
// without vectors the coefficients are the weights of a linear model.
type svm struct {
	kernel       svmKernel
	vectors      []float32
	count        int // support vectors
	features     int // 0: not known from the model
	coefficients []float32
	rho          []float32
}

// machine reads the attributes that both machines have, for a model of count support vectors.
func machine(c *op.Call, count int) (m svm, err error) {
	if m.kernel, err = readKernel(c); err != nil {
		return m, err
	}
	m.count, m.vectors = count, c.Attrs.Floats("support_vectors")
	m.coefficients, m.rho = c.Attrs.Floats("coefficients"), c.Attrs.Floats("rho")
	switch {
	case len(m.coefficients) == 0 || len(m.rho) == 0:
		return m, c.Errorf(op.ErrAttr,
			"%d coefficients and %d elements of rho, want at least one of each",
			len(m.coefficients), len(m.rho))
	case count == 0:
		m.kernel.kind = svmLinear
	case len(m.vectors)%count != 0 || len(m.vectors) == 0:
		return m, c.Errorf(op.ErrAttr,
			"support_vectors has %d elements for %d vectors, want as many for each", len(m.vectors),
			count)
	default:
		m.features = len(m.vectors) / count
	}
	return m, nil
}

// fit checks the number of features.
func (m *svm) fit(c *op.Call, features int) error {
	if features != m.features {
		return c.Errorf(op.ErrInput, "input has %d features, the model is of %d", features,
			m.features)
	}
	return nil
}

// kernels sets out to the kernel's values of one row and each support vector.
func (m *svm) kernels(out, x []float32) {
	for v := range m.count {
		out[v] = m.kernel.of(x, m.vectors[v*m.features:(v+1)*m.features])
	}
}

// svmRegressor reads the model; one_class makes the sign of the result the result.
func svmRegressor(c *op.Call) (m svm, oneClass bool, err error) {
	n := c.Attrs.Int("n_supports", 0)
	if n < 0 || n > int64(len(c.Attrs.Floats("support_vectors"))) {
		return m, false, c.Errorf(op.ErrAttr,
			"n_supports is %d with %d elements of support_vectors",
			n, len(c.Attrs.Floats("support_vectors")))
	}
	if m, err = machine(c, int(n)); err != nil {
		return m, false, err
	}
	if m.count == 0 {
		m.features = len(m.coefficients)
	} else if len(m.coefficients) < m.count {
		return m, false, c.Errorf(op.ErrAttr, "%d coefficients for %d support vectors",
			len(m.coefficients), m.count)
	}
	if _, err = transform(c); err != nil {
		return m, false, err
	}
	return m, c.Attrs.Bool("one_class", false), nil
}

func inferSVMRegressor(c *op.Infer) error {
	m, _, err := svmRegressor(c.Call)
	if err != nil {
		return err
	}
	rows, features, _, err := matrixDims(c)
	if err != nil {
		return err
	}
	c.Out[0] = op.Ranked(tensor.Float32, rows, op.Known(1))
	if n, ok := features.Int(); ok {
		return m.fit(c.Call, n)
	}
	return nil
}

// evalSVMRegressor is Σ coefficient·kernel(x, vector) + rho. The transform is not applied, as ONNX
// Runtime does not: a score that stands alone is left as it is.
func evalSVMRegressor(c *op.Eval) error {
	m, oneClass, err := svmRegressor(c.Call)
	if err != nil {
		return err
	}
	x, rows, err := svmInput(c, &m)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.Float32, []int{rows, 1})
	if err != nil {
		return err
	}
	out, k := tensor.As[float32](y), make([]float32, m.count)
	for r := range rows {
		out[r] = m.regress(k, x[r*m.features:(r+1)*m.features])
		if !oneClass {
			continue
		}
		if out[r] > 0 {
			out[r] = 1
		} else {
			out[r] = -1
		}
	}
	return nil
}

// regress is the value for one row; k is room for the kernels of the support vectors.
func (m *svm) regress(k, row []float32) float32 {
	if m.count == 0 {
		return m.kernel.of(row, m.coefficients) + m.rho[0]
	}
	m.kernels(k, row)
	return float32(innerProduct(k, m.coefficients) + float64(m.rho[0]))
}

// innerProduct is the inner product of a and the first elements of b.
func innerProduct(a, b []float32) float64 {
	sum := float64(0)
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// svmInput returns the features in float32 once the model fits them.
func svmInput(c *op.Eval, m *svm) (x []float32, rows int, err error) {
	rows, features, err := matrix(c.Call, c.In[0].Shape)
	if err != nil {
		return nil, 0, err
	}
	if err := m.fit(c.Call, features); err != nil {
		return nil, 0, err
	}
	x, err = features32(c.Call, c.In[0])
	return x, rows, err
}
