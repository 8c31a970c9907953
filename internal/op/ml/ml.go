package ml

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Domain is ONNX's domain of classical machine learning.
const Domain = "ai.onnx.ml"

func init() { op.Register(op.Extension{Rows: rows}) }

// rows are the operators of the domain.
func rows() []op.Op {
	return slices.Concat(treeOps, linearOps, vectorMachineOps, featureOps, labelOps, mapOps)
}

// number are the Go types of the elements that the operators compute on.
type number interface {
	float32 | float64 | int16 | int32 | int64
}

type float interface{ float32 | float64 }

// numericTypes are the numeric element types that the operators of [Domain] take.
var numericTypes = op.SetOf(tensor.Float32, tensor.Float64, tensor.Int32, tensor.Int64)

// sameLengths checks that the lists of the given lengths, by attribute name, are of one length, and
// returns it.
func sameLengths(c *op.Call, lengths map[string]int) (int, error) {
	names := slices.Sorted(maps.Keys(lengths))
	for _, name := range names[1:] {
		if lengths[name] != lengths[names[0]] {
			return 0, c.Errorf(op.ErrAttr, "%s has %d elements and %s has %d, want as many",
				names[0], lengths[names[0]], name, lengths[name])
		}
	}
	return lengths[names[0]], nil
}

// choice returns the index of a string attribute's value among those allowed, of which the first is
// the default.
func choice(c *op.Call, name string, allowed ...string) (int, error) {
	v := c.Attrs.String(name, allowed[0])
	i := slices.Index(allowed, v)
	if i < 0 {
		return 0, c.Errorf(op.ErrAttr, "%s is %q, want one of %s", name, v,
			strings.Join(allowed, ", "))
	}
	return i, nil
}

// matrix reads a shape as rows of features: [N, C], or [C] for one row.
func matrix(c *op.Call, shape []int) (rows, features int, err error) {
	switch len(shape) {
	case 1:
		return 1, shape[0], nil
	case 2:
		return shape[0], shape[1], nil
	}
	return 0, 0, c.Errorf(op.ErrInput, "input of shape %v, want [N, C] or [C]", shape)
}

// matrixDims is matrix for what is known of input 0; ok is false when not even its rank is.
func matrixDims(c *op.Infer) (rows, features op.Dim, ok bool, err error) {
	if _, err := c.SameDType(numericTypes, c.In[0].DType); err != nil {
		return rows, features, false, err
	}
	switch s := c.In[0].Shape; {
	case !c.In[0].Ranked:
		return op.Unknown(), op.Unknown(), false, nil
	case len(s) == 1:
		return op.Known(1), s[0], true, nil
	case len(s) == 2:
		return s[0], s[1], true, nil
	}
	return rows, features, false,
		c.Errorf(op.ErrInput, "input of rank %d, want [N, C] or [C]", len(c.In[0].Shape))
}

// features32 returns the elements of an input as float32, which is what the linear and SVM models
// of ONNX compute in. The slice is the tensor's own when it holds float32.
func features32(c *op.Call, t *tensor.Tensor) ([]float32, error) {
	switch t.DType {
	case tensor.Float32:
		return tensor.As[float32](t), nil
	case tensor.Float64:
		return converted[float32](tensor.As[float64](t)), nil
	case tensor.Int32:
		return converted[float32](tensor.As[int32](t)), nil
	case tensor.Int64:
		return converted[float32](tensor.As[int64](t)), nil
	}
	return nil, c.Errorf(op.ErrInput, "operand 0 is %v, which the operator does not take", t.DType)
}

func converted[T, S number](in []S) []T {
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = T(v)
	}
	return out
}

// classLabels are the names of a classifier's classes, integers or strings.
type classLabels struct {
	ints    []int64
	strings []string
}

// labels reads the class labels, of which one and only one attribute may be given; neither is for
// the operator to judge.
func labels(c *op.Call, ints, strs string) (classLabels, error) {
	l := classLabels{c.Attrs.Ints(ints), c.Attrs.Strings(strs)}
	if len(l.ints) > 0 && len(l.strings) > 0 {
		return l, c.Errorf(op.ErrAttr, "%s and %s are both given, want one", ints, strs)
	}
	return l, nil
}

func (l classLabels) len() int { return max(len(l.ints), len(l.strings)) }

func (l classLabels) dtype() tensor.DType {
	if len(l.strings) > 0 {
		return tensor.String
	}
	return tensor.Int64
}

// put writes the label of a class.
func (l classLabels) put(out *tensor.Tensor, i, class int) {
	if len(l.strings) > 0 {
		out.Strings[i] = l.strings[class]
	} else {
		tensor.As[int64](out)[i] = l.ints[class]
	}
}

// inferClasses sets the outputs of a classifier: a label a row, and scores.
func inferClasses(c *op.Infer, l classLabels, scores op.Dim) error {
	rows, _, ok, err := matrixDims(c)
	if err != nil {
		return err
	}
	c.Out[0] = op.Unranked(l.dtype())
	if ok {
		c.Out[0] = op.Ranked(l.dtype(), rows)
	}
	if len(c.Out) > 1 {
		c.Out[1] = op.Ranked(tensor.Float32, rows, scores)
	}
	return nil
}
