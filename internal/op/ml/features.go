package ml

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// featureOps hold the operators of [Domain] that prepare features.
var featureOps = []op.Op{
	{Domain: Domain, Name: "ArrayFeatureExtractor", Since: []int{1}, MinIn: 2, MaxIn: 2,
		Infer: inferExtractor, Eval: evalExtractor},
	{Domain: Domain, Name: "Binarizer", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: op.Elementwise,
		Infer: inferLikeInput(tensor.Undefined), Eval: evalBinarizer},
	{Domain: Domain, Name: "FeatureVectorizer", Since: []int{1}, MinIn: 1, MaxIn: -1,
		Infer: inferVectorizer, Eval: evalVectorizer},
	{Domain: Domain, Name: "Imputer", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: op.Elementwise,
		Infer: inferImputer, Eval: evalImputer},
	{Domain: Domain, Name: "Normalizer", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferRowNormalizer, Eval: evalRowNormalizer},
	{Domain: Domain, Name: "Scaler", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: op.Elementwise,
		Infer: inferScaler, Eval: evalScaler},
}

// inferLikeInput is the rule of operators whose output has the shape of the input, a numeric
// tensor, and the given type, the input's own when it is Undefined.
func inferLikeInput(d tensor.DType) func(*op.Infer) error {
	return func(c *op.Infer) error {
		x := c.In[0]
		if _, err := c.SameDType(numericTypes, x.DType); err != nil {
			return err
		}
		c.Out[0] = op.Type{DType: d, Ranked: x.Ranked, Shape: x.Shape}
		if d == tensor.Undefined {
			c.Out[0].DType = x.DType
		}
		return nil
	}
}

// binarize is 1 above the threshold and 0 elsewhere, NaN included.
func binarize[T number](out, x []T, threshold float32) {
	for i, v := range x {
		out[i] = 0
		if float64(v) > float64(threshold) {
			out[i] = 1
		}
	}
}

func evalBinarizer(c *op.Eval) error {
	x, out, err := c.OutputLike(numericTypes)
	if err != nil {
		return err
	}
	t := c.Attrs.Float("threshold", 0)
	switch x.DType {
	case tensor.Float32:
		binarize(tensor.As[float32](out), tensor.As[float32](x), t)
	case tensor.Float64:
		binarize(tensor.As[float64](out), tensor.As[float64](x), t)
	case tensor.Int32:
		binarize(tensor.As[int32](out), tensor.As[int32](x), t)
	case tensor.Int64:
		binarize(tensor.As[int64](out), tensor.As[int64](x), t)
	}
	return nil
}

// perFeature checks that a list of n elements has one, or one for each index of the last axis when
// that is known.
func perFeature(c *op.Call, name string, n int, last op.Dim) error {
	if size, ok := last.Int(); n == 1 || ok && n == size || !ok && n > 0 {
		return nil
	}
	return c.Errorf(op.ErrAttr, "%s has %d elements, want 1 or one for each of %v features", name,
		n, last)
}

// lastDim returns the last dimension of what is known of input 0.
func lastDim(c *op.Infer) op.Dim {
	if s := c.In[0].Shape; len(s) > 0 {
		return s[len(s)-1]
	}
	if c.In[0].Ranked {
		return op.Known(1)
	}
	return op.Unknown()
}

// lastSize returns the last dimension of a shape, 1 for a scalar.
func lastSize(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}

// scaling reads the attributes of Scaler.
func scaling(c *op.Call, last op.Dim) (offset, scale []float32, err error) {
	offset, scale = c.Attrs.Floats("offset"), c.Attrs.Floats("scale")
	if len(offset) != len(scale) {
		return nil, nil, c.Errorf(op.ErrAttr,
			"offset has %d elements and scale has %d, want as many", len(offset), len(scale))
	}
	return offset, scale, perFeature(c, "scale", len(scale), last)
}

func inferScaler(c *op.Infer) error {
	if _, _, err := scaling(c.Call, lastDim(c)); err != nil {
		return err
	}
	return inferLikeInput(tensor.Float32)(c)
}

// rescale is (x - offset)·scale, computed in W.
func rescale[W float, T number](out []float32, x []T, offset, scale []float32) {
	n := len(scale)
	for i, v := range x {
		out[i] = float32((W(v) - W(offset[i%n])) * W(scale[i%n]))
	}
}

func evalScaler(c *op.Eval) error {
	x := c.In[0]
	offset, scale, err := scaling(c.Call, op.Known(lastSize(x.Shape)))
	if err != nil {
		return err
	}
	if _, err := c.SameDType(numericTypes, x.DType); err != nil {
		return err
	}
	y, err := c.Output(0, tensor.Float32, x.Shape)
	if err != nil {
		return err
	}
	rescaleAny(tensor.As[float32](y), x, offset, scale)
	return nil
}

// rescaleAny scales the elements of x, whatever their type.
func rescaleAny(out []float32, x *tensor.Tensor, offset, scale []float32) {
	switch x.DType {
	case tensor.Float32:
		rescale[float32](out, tensor.As[float32](x), offset, scale)
	case tensor.Float64:
		rescale[float64](out, tensor.As[float64](x), offset, scale)
	case tensor.Int32:
		rescale[float32](out, tensor.As[int32](x), offset, scale)
	case tensor.Int64:
		rescale[float32](out, tensor.As[int64](x), offset, scale)
	}
}

// imputation reads the attributes of Imputer for an input of type d: what to replace and with what,
// one or one a feature.
func imputation(c *op.Call, d tensor.DType, last op.Dim) (replaced float64, with []float64,
	ints []int64,
	err error) {
	floats, ints := c.Attrs.Floats("imputed_value_floats"), c.Attrs.Ints("imputed_value_int64s")
	if (len(floats) == 0) == (len(ints) == 0) {
		return 0, nil, nil, c.Errorf(op.ErrAttr, "imputed_value_floats has %d elements and "+
			"imputed_value_int64s has %d, want one of them",
			len(floats), len(ints))
	}
	if d != tensor.Undefined && d.IsFloat() != (len(floats) > 0) {
		return 0, nil, nil, c.Errorf(op.ErrAttr,
			"imputed values of another kind than the input, which is %v", d)
	}
	if d == tensor.Int32 {
		for _, v := range append(ints[:len(ints):len(ints)],
			c.Attrs.Int("replaced_value_int64", 0)) {
			if int64(int32(v)) != v {
				return 0, nil, nil, c.Errorf(op.ErrAttr, "value %d does not fit the input's type "+
					"int32", v)
			}
		}
	}
	return float64(c.Attrs.Float("replaced_value_float", 0)), converted[float64](floats), ints,
		perFeature(c, "the imputed value", max(len(floats), len(ints)), last)
}

func inferImputer(c *op.Infer) error {
	if err := inferLikeInput(tensor.Undefined)(c); err != nil {
		return err
	}
	_, _, _, err := imputation(c.Call, c.In[0].DType, lastDim(c))
	return err
}

// impute replaces the elements that equal a value; NaN equals NaN here.
func impute[T, W number](out, x []T, replaced W, with []W) {
	for i, v := range x {
		if w := W(v); w == replaced || w != w && replaced != replaced {
			v = T(with[i%len(with)])
		}
		out[i] = v
	}
}

func evalImputer(c *op.Eval) error {
	x, out, err := c.OutputLike(numericTypes)
	if err != nil {
		return err
	}
	replaced, floats, ints, err := imputation(c.Call, x.DType, op.Known(lastSize(x.Shape)))
	if err != nil {
		return err
	}
	whole := c.Attrs.Int("replaced_value_int64", 0)
	switch x.DType {
	case tensor.Float32:
		impute(tensor.As[float32](out), tensor.As[float32](x), replaced, floats)
	case tensor.Float64:
		impute(tensor.As[float64](out), tensor.As[float64](x), replaced, floats)
	case tensor.Int32:
		impute(tensor.As[int32](out), tensor.As[int32](x), whole, ints)
	case tensor.Int64:
		impute(tensor.As[int64](out), tensor.As[int64](x), whole, ints)
	}
	return nil
}

// The norms of Normalizer.
const (
	normMax = iota
	normL1
	normL2
)

func inferRowNormalizer(c *op.Infer) error {
	if _, err := choice(c.Call, "norm", "MAX", "L1", "L2"); err != nil {
		return err
	}
	if _, _, _, err := matrixDims(c); err != nil {
		return err
	}
	return inferLikeInput(tensor.Float32)(c)
}

func evalRowNormalizer(c *op.Eval) error {
	norm, err := choice(c.Call, "norm", "MAX", "L1", "L2")
	if err != nil {
		return err
	}
	x := c.In[0]
	rows, n, err := matrix(c.Call, x.Shape)
	if err != nil {
		return err
	}
	in, err := features64(c.Call, x)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.Float32, x.Shape)
	if err != nil {
		return err
	}
	out := tensor.As[float32](y)
	for r := range rows {
		normalize(out[r*n:(r+1)*n], in[r*n:(r+1)*n], norm)
	}
	return nil
}

// features64 returns the elements of an input of this domain as float64.
func features64(c *op.Call, t *tensor.Tensor) ([]float64, error) {
	if _, err := c.SameDType(numericTypes, t.DType); err != nil {
		return nil, err
	}
	return t.Floats()
}

// normalize divides a row by its norm: the highest element (not the highest magnitude; NaN is not
// counted), the sum of the magnitudes, or the Euclidean length. A norm of zero divides by nothing.
func normalize(out []float32, x []float64, norm int) {
	d := normOf(x, norm)
	if d == 0 {
		d = 1
	}
	for i, v := range x {
		out[i] = float32(v / d)
	}
}

// normOf is the norm of x; the largest element itself, not its magnitude, for normMax.
func normOf(x []float64, norm int) float64 {
	d := 0.0
	if norm == normMax {
		d = math.Inf(-1)
	}
	for _, v := range x {
		switch norm {
		case normMax:
			if v > d {
				d = v
			}
		case normL1:
			d += math.Abs(v)
		case normL2:
			d += v * v
		}
	}
	if norm == normL2 {
		return math.Sqrt(d)
	}
	return d
}

// vectorizer returns the width of each input's part of a row, known where inputdimensions says it,
// and the sum.
func vectorizer(c *op.Call, widths []op.Dim) (total op.Dim, err error) {
	given := c.Attrs.Ints("inputdimensions")
	if given != nil && len(given) != len(widths) {
		return total, c.Errorf(op.ErrAttr, "inputdimensions has %d elements for %d inputs",
			len(given), len(widths))
	}
	for i := range widths {
		if given != nil {
			if given[i] < 0 || given[i] > math.MaxInt32 {
				return total, c.Errorf(op.ErrAttr, "inputdimensions %v, want sizes", given)
			}
			widths[i] = op.Known(int(given[i]))
		}
		total = total.Add(widths[i])
	}
	return total, nil
}

func inferVectorizer(c *op.Infer) error {
	if _, err := c.SameDType(numericTypes, c.DTypes()...); err != nil {
		return err
	}
	rows, widths := op.Unknown(), make([]op.Dim, len(c.In))
	for i, t := range c.In {
		widths[i] = op.Unknown()
		if !t.Ranked {
			continue
		}
		switch len(t.Shape) {
		case 1:
			rows, widths[i] = op.Known(1), t.Shape[0]
		case 2:
			rows, widths[i] = t.Shape[0], t.Shape[1]
		default:
			return c.Errorf(op.ErrInput, "input %d has rank %d, want [N, C] or [C]", i,
				len(t.Shape))
		}
	}
	total, err := vectorizer(c.Call, widths)
	c.Out[0] = op.Ranked(tensor.Float32, rows, total)
	return err
}

// evalVectorizer puts the inputs side by side; an input that is narrower than its part of the row
// is followed by zeros, and a wider one is cut.
func evalVectorizer(c *op.Eval) error {
	if _, err := c.SameDType(numericTypes, c.DTypes()...); err != nil {
		return err
	}
	rows, widths, err := vectorWidths(c)
	if err != nil {
		return err
	}
	total, err := vectorizer(c.Call, widths)
	if err != nil {
		return err
	}
	width, ok := total.Int()
	if !ok {
		return c.Errorf(op.ErrAttr, "inputdimensions of more than an address space")
	}
	y, err := c.ZeroOutput(0, tensor.Float32, []int{rows, width})
	if err != nil {
		return err
	}
	at := 0
	for i, t := range c.In {
		x, err := features32(c.Call, t)
		if err != nil {
			return err
		}
		part, _ := widths[i].Int()
		putColumns(tensor.As[float32](y)[min(at, y.Len()):], x, rows, width, part)
		at += part
	}
	return nil
}

// vectorWidths returns the rows that all inputs have and the width of each.
func vectorWidths(c *op.Eval) (rows int, widths []op.Dim, err error) {
	rows, widths = -1, make([]op.Dim, len(c.In))
	for i, t := range c.In {
		if t == nil {
			return 0, nil, c.Errorf(op.ErrInput, "input %d is missing", i)
		}
		n, f, err := matrix(c.Call, t.Shape)
		if err != nil {
			return 0, nil, err
		}
		if rows >= 0 && n != rows {
			return 0, nil, c.Errorf(op.ErrInput, "input %d has %d rows, others have %d", i, n, rows)
		}
		rows, widths[i] = n, op.Known(f)
	}
	return rows, widths, nil
}

// putColumns copies the rows of x, as far as they fit in part, to rows of the given width.
func putColumns(out, x []float32, rows, width, part int) {
	if rows == 0 || len(x) == 0 {
		return
	}
	n := len(x) / rows
	for r := range rows {
		copy(out[r*width:], x[r*n:r*n+min(n, part)])
	}
}

// extractorTypes are what ArrayFeatureExtractor takes.
var extractorTypes = numericTypes | op.SetOf(tensor.String)

func inferExtractor(c *op.Infer) error {
	x := c.In[0]
	if _, err := c.SameDType(extractorTypes, x.DType); err != nil {
		return err
	}
	c.Out[0] = op.Unranked(x.DType)
	if !x.Ranked {
		return nil
	}
	n := c.In[1].Count()
	switch r := len(x.Shape); r {
	case 0:
		return c.Errorf(op.ErrInput, "input of rank 0, want an axis to select from")
	case 1:
		c.Out[0] = op.Ranked(x.DType, op.Known(1), n)
	default:
		c.Out[0] = op.Ranked(x.DType, append(slices.Clone(x.Shape[:r-1]), n)...)
	}
	return nil
}

// evalExtractor selects from the last axis. An input of rank 1 gives one row, as in ONNX Runtime.
func evalExtractor(c *op.Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(extractorTypes, x.DType); err != nil {
		return err
	}
	if x.Rank() == 0 {
		return c.Errorf(op.ErrInput, "input of rank 0, want an axis to select from")
	}
	last := lastSize(x.Shape)
	at, err := extracted(c, last)
	if err != nil {
		return err
	}
	shape := append(slices.Clone(x.Shape[:x.Rank()-1]), len(at))
	if x.Rank() == 1 {
		shape = []int{1, len(at)}
	}
	z, err := c.Output(0, x.DType, shape)
	if err != nil || z.Len() == 0 {
		return err
	}
	for r := range x.Len() / last {
		for k, v := range at {
			strided.CopyElems(z, r*len(at)+k, x, r*last+int(v), 1)
		}
	}
	return nil
}

// extracted are the places to select, of n.
func extracted(c *op.Eval, n int) ([]int64, error) {
	at, err := c.Ints(1)
	if err != nil {
		return nil, err
	}
	for _, v := range at {
		if v < 0 || v >= int64(n) {
			return nil, c.Errorf(op.ErrInput, "index %d is outside an axis of %d", v, n)
		}
	}
	return at, nil
}
