package ml

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// labelOps hold the operators of [Domain] that look elements up.
var labelOps = []op.Op{
	{Domain: Domain, Name: "CategoryMapper", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferLookup, Eval: evalLookup, Evaluator: lookupEvaluator},
	{Domain: Domain, Name: "LabelEncoder", Since: []int{1, 2, 4}, MinIn: 1, MaxIn: 1,
		Infer: inferLookup, Eval: evalLookup, Evaluator: lookupEvaluator},
	{Domain: Domain, Name: "OneHotEncoder", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferOneHotEncoder,
		Eval:  evalOneHotEncoder, Evaluator: oneHotEvaluator},
}

// lookup maps the elements keys[i] to the elements values[i], and any other to the default.
type lookup struct {
	keys, values *tensor.Tensor
	def          *tensor.Tensor // one element of the type of values
	last         bool           // of equal keys the last counts, not the first
}

// readLookup reads the attributes for an input of type d.
func readLookup(c *op.Call, d tensor.DType) (lookup, error) {
	var l lookup
	var err error
	switch {
	case c.Type == "CategoryMapper":
		l, err = categories(c, d)
	case c.Version < 2:
		l, err = classes(c, d)
	default:
		l, err = pairs(c)
	}
	if err != nil {
		return l, err
	}
	if l.keys.Len() != l.values.Len() {
		return l, c.Errorf(op.ErrAttr, "%d keys and %d values, want as many", l.keys.Len(),
			l.values.Len())
	}
	if d != tensor.Undefined && d != l.keys.DType {
		return l, c.Errorf(op.ErrInput, "input is %v, the keys are %v", d, l.keys.DType)
	}
	return l, nil
}

// defaultOf is the default value for a type from the attribute of that type.
func defaultOf(c *op.Call, d tensor.DType) *tensor.Tensor {
	switch d {
	case tensor.String:
		return tensor.FromStrings([]string{c.Attrs.String("default_string", "_Unused")}, 1)
	case tensor.Float32:
		return tensor.From([]float32{c.Attrs.Float("default_float", float32(math.Copysign(0, -1)))},
			1)
	case tensor.Float64:
		return tensor.From([]float64{
			float64(c.Attrs.Float("default_float", float32(math.Copysign(0, -1))))}, 1)
	case tensor.Int32:
		return tensor.From([]int32{int32(c.Attrs.Int("default_int64", -1))}, 1)
	case tensor.Int16:
		return tensor.From([]int16{int16(c.Attrs.Int("default_int64", -1))}, 1)
	}
	return tensor.From([]int64{c.Attrs.Int("default_int64", -1)}, 1)
}

func intList(v []int64) *tensor.Tensor     { return tensor.From(v, len(v)) }
func stringList(v []string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }

// stringsOrInts orders a mapping between strings and integers by the type of the input, strings
// when it is not known to be integers.
func stringsOrInts(c *op.Call, d tensor.DType, ints, strs *tensor.Tensor) lookup {
	if d == tensor.Int64 {
		return lookup{keys: ints, values: strs, def: defaultOf(c, tensor.String), last: true}
	}
	return lookup{keys: strs, values: ints, def: defaultOf(c, tensor.Int64), last: true}
}

// categories reads CategoryMapper.
func categories(c *op.Call, d tensor.DType) (lookup, error) {
	return stringsOrInts(c, d, intList(c.Attrs.Ints("cats_int64s")),
		stringList(c.Attrs.Strings("cats_strings"))), nil
}

// classes reads LabelEncoder version 1: strings and their indices.
func classes(c *op.Call, d tensor.DType) (lookup, error) {
	strs := c.Attrs.Strings("classes_strings")
	ints := make([]int64, len(strs))
	for i := range ints {
		ints[i] = int64(i)
	}
	return stringsOrInts(c, d, intList(ints), stringList(strs)), nil
}

// labelTypes are the types of keys and values of LabelEncoder version 4.
var labelTypes = op.SetOf(tensor.String, tensor.Int64, tensor.Float32, tensor.Int32, tensor.Int16,
	tensor.Float64)

// pairs reads LabelEncoder versions 2 and 4. Of equal keys the last counts since version 4, whose
// text says so (ONNX Runtime takes the first); version 2 leaves it open, and the first counts as in
// ONNX Runtime.
func pairs(c *op.Call) (l lookup, err error) {
	if l.keys, err = labelList(c, "keys"); err != nil {
		return l, err
	}
	if l.values, err = labelList(c, "values"); err != nil {
		return l, err
	}
	l.last = c.Version >= 4
	l.def = defaultOf(c, l.values.DType)
	if t := c.Attrs.Tensor("default_tensor"); t != nil && c.Version >= 4 {
		if t.DType != l.values.DType || t.Len() != 1 {
			return l, c.Errorf(op.ErrAttr,
				"default_tensor is %v%v, want one element of the values' type %v", t.DType, t.Shape,
				l.values.DType)
		}
		l.def = t
	}
	return l, nil
}

// labelList returns the one of the attributes keys_* or values_* that is given.
func labelList(c *op.Call, prefix string) (*tensor.Tensor, error) {
	var given []*tensor.Tensor
	if v := c.Attrs.Ints(prefix + "_int64s"); len(v) > 0 {
		given = append(given, intList(v))
	}
	if v := c.Attrs.Floats(prefix + "_floats"); len(v) > 0 {
		given = append(given, tensor.From(v, len(v)))
	}
	if v := c.Attrs.Strings(prefix + "_strings"); len(v) > 0 {
		given = append(given, stringList(v))
	}
	if t := c.Attrs.Tensor(prefix + "_tensor"); t != nil && c.Version >= 4 {
		if !labelTypes.Has(t.DType) {
			return nil, c.Errorf(op.ErrAttr, "%s_tensor is %v, which the operator does not take",
				prefix, t.DType)
		}
		given = append(given, t)
	}
	if len(given) != 1 {
		return nil, c.Errorf(op.ErrAttr, "%d of the attributes %s_* are given, want one",
			len(given), prefix)
	}
	return given[0], nil
}

func inferLookup(c *op.Infer) error {
	l, err := readLookup(c.Call, c.In[0].DType)
	if err != nil {
		return err
	}
	c.Out[0] = op.Type{DType: l.values.DType, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	if c.In[0].DType == tensor.Undefined && (c.Type == "CategoryMapper" || c.Version < 2) {
		c.Out[0].DType = tensor.Undefined // the input's type tells the direction
	}
	return nil
}

func evalLookup(c *op.Eval) error {
	l, err := readLookup(c.Call, c.In[0].DType)
	if err != nil {
		return err
	}
	return l.eval(c, l.finder())
}

// lookupEvaluator indexes the keys: those of both directions where the input's type tells the
// direction.
func lookupEvaluator(c *op.Call) (func(*op.Eval) error, error) {
	types := []tensor.DType{tensor.Undefined}
	if c.Type == "CategoryMapper" || c.Version < 2 {
		types = []tensor.DType{tensor.String, tensor.Int64}
	}
	lookups, finders := map[tensor.DType]lookup{}, map[tensor.DType]finder{}
	for _, d := range types {
		l, err := readLookup(c, d)
		if err != nil {
			return nil, err
		}
		lookups[l.keys.DType], finders[l.keys.DType] = l, l.finder()
	}
	return func(e *op.Eval) error {
		d := e.In[0].DType
		l, ok := lookups[d]
		if !ok {
			return evalLookup(e)
		}
		return l.eval(e, finders[d])
	}, nil
}

// eval writes the value of each element's key, or the default.
func (l lookup) eval(c *op.Eval, find finder) error {
	x := c.In[0]
	y, err := c.Output(0, l.values.DType, x.Shape)
	if err != nil {
		return err
	}
	for i, k := range find(x) {
		if k >= 0 {
			strided.CopyElems(y, i, l.values, k, 1)
		} else {
			strided.CopyElems(y, i, l.def, 0, 1)
		}
	}
	return nil
}

// finder returns for each element of a tensor the index of its key, -1 when there is none.
type finder func(x *tensor.Tensor) []int

// finder indexes the keys.
func (l lookup) finder() finder {
	switch l.keys.DType {
	case tensor.String:
		find := findKeys(l.keys.Strings, l.last)
		return func(x *tensor.Tensor) []int { return find(x.Strings) }
	case tensor.Int64:
		return finderOf(findKeys(tensor.As[int64](l.keys), l.last))
	case tensor.Int32:
		return finderOf(findKeys(tensor.As[int32](l.keys), l.last))
	case tensor.Int16:
		return finderOf(findKeys(tensor.As[int16](l.keys), l.last))
	case tensor.Float64:
		return finderOf(findFloats(tensor.As[float64](l.keys), l.last))
	}
	return finderOf(findFloats(tensor.As[float32](l.keys), l.last))
}

func finderOf[T tensor.Elem](find func(x []T) []int) finder {
	return func(x *tensor.Tensor) []int { return find(tensor.As[T](x)) }
}

func findKeys[T comparable](keys []T, last bool) func(x []T) []int {
	index := make(map[T]int, len(keys))
	for i, k := range keys {
		if _, ok := index[k]; !ok || last {
			index[k] = i
		}
	}
	return func(x []T) []int {
		at := make([]int, len(x))
		for i, v := range x {
			k, ok := index[v]
			if !ok {
				k = -1
			}
			at[i] = k
		}
		return at
	}
}

// findFloats is findKeys where NaN equals NaN, whatever its bits.
func findFloats[T float](keys []T, last bool) func(x []T) []int {
	find, nan := findKeys(keys, last), -1
	for i, k := range keys {
		if k != k && (nan < 0 || last) {
			nan = i
		}
	}
	return func(x []T) []int {
		at := find(x)
		for i, v := range x {
			if v != v {
				at[i] = nan
			}
		}
		return at
	}
}

// oneHotTypes are what OneHotEncoder takes.
var oneHotTypes = numericTypes | op.SetOf(tensor.String)

// oneHot reads the categories for an input of type d.
func oneHot(c *op.Call, d tensor.DType) (lookup, error) {
	if _, err := c.SameDType(oneHotTypes, d); err != nil {
		return lookup{}, err
	}
	ints, strs := c.Attrs.Ints("cats_int64s"), c.Attrs.Strings("cats_strings")
	if (len(ints) == 0) == (len(strs) == 0) {
		return lookup{}, c.Errorf(op.ErrAttr,
			"cats_int64s has %d elements and cats_strings has %d, want one of them", len(ints),
			len(strs))
	}
	l := lookup{keys: intList(ints), last: true}
	if len(strs) > 0 {
		l.keys = stringList(strs)
	}
	if d != tensor.Undefined && (d == tensor.String) != (len(strs) > 0) {
		return l, c.Errorf(op.ErrInput, "input is %v, the categories are %v", d, l.keys.DType)
	}
	return l, nil
}

func inferOneHotEncoder(c *op.Infer) error {
	x := c.In[0]
	l, err := oneHot(c.Call, x.DType)
	if err != nil {
		return err
	}
	c.Out[0] = op.Unranked(tensor.Float32)
	if x.Ranked {
		c.Out[0] = op.Ranked(tensor.Float32, append(slices.Clone(x.Shape),
			op.Known(l.keys.Len()))...)
	}
	return nil
}

func evalOneHotEncoder(c *op.Eval) error {
	l, err := oneHot(c.Call, c.In[0].DType)
	if err != nil {
		return err
	}
	return l.evalOneHot(c, l.finder())
}

// oneHotEvaluator indexes the categories.
func oneHotEvaluator(c *op.Call) (func(*op.Eval) error, error) {
	l, err := oneHot(c, tensor.Undefined)
	if err != nil {
		return nil, err
	}
	find := l.finder()
	return func(e *op.Eval) error {
		if _, err := oneHot(e.Call, e.In[0].DType); err != nil {
			return err
		}
		return l.evalOneHot(e, find)
	}, nil
}

// evalOneHot casts numbers to integers, towards zero, and looks them up.
func (l lookup) evalOneHot(c *op.Eval, find finder) error {
	x := c.In[0]
	if x.DType != tensor.String && x.DType != tensor.Int64 {
		whole, err := c.WholeNumbers(0)
		if err != nil {
			return err
		}
		x = tensor.From(whole, x.Shape...)
	}
	n := l.keys.Len()
	y, err := c.ZeroOutput(0, tensor.Float32, append(slices.Clone(x.Shape), n))
	if err != nil {
		return err
	}
	out := tensor.As[float32](y)
	for i, k := range find(x) {
		if k >= 0 {
			out[i*n+k] = 1
		} else if !c.Attrs.Bool("zeros", true) {
			return c.Errorf(op.ErrInput, "element %d is %v, which is no category, and zeros is 0",
				i, c.In[0].At(i))
		}
	}
	return nil
}
