package ml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// mapOps hold the operators of [Domain] that make or read maps.
var mapOps = []op.Op{
	{Domain: Domain, Name: "CastMap", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: op.Containers,
		Infer: inferCastMap, Eval: evalCastMap},
	{Domain: Domain, Name: "DictVectorizer", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Traits: op.Containers, Infer: inferDictVectorizer,
		Eval: evalDictVectorizer},
	{Domain: Domain, Name: "ZipMap", Since: []int{1}, MinIn: 1, MaxIn: 1, Traits: op.Containers,
		Infer: inferZipMap, Eval: evalZipMap},
}

// zipKeys returns the keys of ZipMap and the columns that belong to them, sorted by key. Of equal
// keys the last column counts.
func zipKeys(c *op.Call) (keys *tensor.Tensor, columns []int, width int, err error) {
	l, err := labels(c, "classlabels_int64s", "classlabels_strings")
	if err != nil {
		return nil, nil, 0, err
	}
	if l.len() == 0 {
		return nil, nil, 0, c.Errorf(op.ErrAttr,
			"neither classlabels_int64s nor classlabels_strings is given, want one")
	}
	if len(l.strings) > 0 {
		sorted, columns := sortedKeys(l.strings)
		return stringList(sorted), columns, l.len(), nil
	}
	sorted, columns := sortedKeys(l.ints)
	return intList(sorted), columns, l.len(), nil
}

// sortedKeys returns the distinct keys in order, and of each the last place in the list.
func sortedKeys[K cmp.Ordered](list []K) (keys []K, at []int) {
	last := make(map[K]int, len(list))
	for i, k := range list {
		last[k] = i
	}
	for k := range last {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		at = append(at, last[k])
	}
	return keys, at
}

func inferZipMap(c *op.Infer) error {
	keys, _, width, err := zipKeys(c.Call)
	if err != nil {
		return err
	}
	if _, err := c.SameDType(op.SetOf(tensor.Float32), c.In[0].DType); err != nil {
		return err
	}
	_, features, ok, err := matrixDims(c)
	if err != nil {
		return err
	}
	if n, known := features.Int(); ok && known && n != width {
		return c.Errorf(op.ErrInput, "input has %d columns for %d keys", n, width)
	}
	c.Out[0] = op.SequenceOf(op.MapOf(keys.DType, op.Ranked(tensor.Float32)))
	return nil
}

// evalZipMap makes a map of each row. The maps share their keys.
func evalZipMap(c *op.Eval) error {
	keys, columns, width, err := zipKeys(c.Call)
	if err != nil {
		return err
	}
	x := c.In[0]
	if _, err := c.SameDType(op.SetOf(tensor.Float32), x.DType); err != nil {
		return err
	}
	rows, n, err := matrix(c.Call, x.Shape)
	if err != nil {
		return err
	}
	if n != width {
		return c.Errorf(op.ErrInput, "input has %d columns for %d keys", n, width)
	}
	in, maps := tensor.As[float32](x), make([]*tensor.Tensor, rows)
	for r := range rows {
		values, err := c.New(tensor.Float32, keys.Shape)
		if err != nil {
			return err
		}
		for i, k := range columns {
			tensor.As[float32](values)[i] = in[r*n+k]
		}
		if maps[r], err = tensor.NewMap(keys, values); err != nil {
			return err
		}
	}
	c.Out[0] = tensor.NewSequence(maps...)
	return nil
}

// mapOf checks that a value is a map.
func mapOf(c *op.Call, t *tensor.Tensor) (keys, values *tensor.Tensor, err error) {
	if t.DType != tensor.Map {
		return nil, nil, c.Errorf(op.ErrInput, "input is %v, want a map", t.DType)
	}
	return t.Keys(), t.Values(), nil
}

// inferMapInput checks what is known of a map as input 0.
func inferMapInput(c *op.Infer) error {
	if d := c.In[0].DType; d != tensor.Undefined && d != tensor.Map {
		return c.Errorf(op.ErrInput, "input is %v, want a map", d)
	}
	return nil
}

// vocabulary returns the keys of DictVectorizer.
func vocabulary(c *op.Call) (*tensor.Tensor, error) {
	ints, strs := c.Attrs.Ints("int64_vocabulary"), c.Attrs.Strings("string_vocabulary")
	if (len(ints) == 0) == (len(strs) == 0) {
		return nil, c.Errorf(op.ErrAttr,
			"int64_vocabulary has %d elements and string_vocabulary has %d, want one of them",
			len(ints), len(strs))
	}
	if len(strs) > 0 {
		return stringList(strs), nil
	}
	return intList(ints), nil
}

func inferDictVectorizer(c *op.Infer) error {
	words, err := vocabulary(c.Call)
	if err != nil {
		return err
	}
	if err := inferMapInput(c); err != nil {
		return err
	}
	x := c.In[0]
	if x.Key != tensor.Undefined && x.Key != words.DType {
		return c.Errorf(op.ErrInput, "the keys are %v, the vocabulary is %v", x.Key, words.DType)
	}
	d := tensor.Undefined
	if x.Elem != nil {
		d = x.Elem.DType
	}
	c.Out[0] = op.Ranked(d, op.Known(1), op.Known(words.Len()))
	return nil
}

// evalDictVectorizer puts the value of each word of the vocabulary at its place, and zero or ""
// where the map has none. The output has a row, as ONNX Runtime gives it one.
func evalDictVectorizer(c *op.Eval) error {
	words, err := vocabulary(c.Call)
	if err != nil {
		return err
	}
	keys, values, err := mapOf(c.Call, c.In[0])
	if err != nil {
		return err
	}
	if keys.DType != words.DType {
		return c.Errorf(op.ErrInput, "the keys are %v, the vocabulary is %v", keys.DType,
			words.DType)
	}
	y, err := c.ZeroOutput(0, values.DType, []int{1, words.Len()})
	if err != nil {
		return err
	}
	find := lookup{keys: keys, last: true}.finder()
	for i, k := range find(words) {
		if k >= 0 {
			strided.CopyElems(y, i, values, k, 1)
		}
	}
	return nil
}

// castMap is what CastMap's attributes say.
type castMap struct {
	to     tensor.DType
	sparse bool
	length int64 // of the output when it is sparse
}

func readCastMap(c *op.Call) (m castMap, err error) {
	to, err := choice(c, "cast_to", "TO_FLOAT", "TO_STRING", "TO_INT64")
	if err != nil {
		return m, err
	}
	form, err := choice(c, "map_form", "DENSE", "SPARSE")
	if err != nil {
		return m, err
	}
	m = castMap{castMapTypes[to], form == 1, c.Attrs.Int("max_map", 1)}
	if m.sparse && (m.length < 0 || m.length > math.MaxInt32) {
		return m, c.Errorf(op.ErrAttr, "max_map is %d, want a size", m.length)
	}
	return m, nil
}

// castMapTypes are the element types that cast_to names.
var castMapTypes = [...]tensor.DType{tensor.Float32, tensor.String, tensor.Int64}

func inferCastMap(c *op.Infer) error {
	m, err := readCastMap(c.Call)
	if err != nil {
		return err
	}
	n := op.Unknown()
	if m.sparse {
		n = op.Known(int(m.length))
	}
	c.Out[0] = op.Ranked(m.to, op.Known(1), n)
	return inferMapInput(c)
}

// evalCastMap writes a map's values by ascending key: one after the other when dense, and at the
// places that the keys name when sparse. What has no key is 0, and "0.f" among strings, as in ONNX
// Runtime; keys beyond the length are left out.
func evalCastMap(c *op.Eval) error {
	m, err := readCastMap(c.Call)
	if err != nil {
		return err
	}
	keys, values, err := mapOf(c.Call, c.In[0])
	if err != nil {
		return err
	}
	if keys.DType != tensor.Int64 || values.DType != tensor.String &&
		values.DType != tensor.Float32 {
		return c.Errorf(op.ErrInput, "input maps %v to %v, want int64 to string or float32",
			keys.DType, values.DType)
	}
	sorted, at := sortedKeys(tensor.As[int64](keys))
	n := len(sorted)
	if m.sparse {
		n = int(m.length)
	}
	y, err := c.ZeroOutput(0, m.to, []int{1, n})
	if err != nil {
		return err
	}
	for i := range y.Strings {
		y.Strings[i] = "0.f"
	}
	return m.put(c.Call, y, values, sorted, at)
}

// put writes the values of ascending keys, value at[i] for key i.
func (m *castMap) put(c *op.Call, y, values *tensor.Tensor, sorted []int64, at []int) error {
	for i, key := range sorted {
		place := i
		if m.sparse {
			if key < 0 {
				return c.Errorf(op.ErrInput, "key %d, want an index for the sparse form", key)
			}
			if key >= m.length {
				break
			}
			place = int(key)
		}
		if err := castValue(c, y, place, values, at[i]); err != nil {
			return err
		}
	}
	return nil
}

// castValue writes one value of a map, a float or a string, as the output's type: floats are cut to
// integers and printed with six digits after the point, strings must be numbers when they become
// numbers.
func castValue(c *op.Call, y *tensor.Tensor, i int, values *tensor.Tensor, k int) error {
	text, number := "", 0.0
	if values.DType == tensor.String {
		text = values.Strings[k]
	} else {
		number = float64(tensor.As[float32](values)[k])
		text = fmt.Sprintf("%f", number)
	}
	if y.DType == tensor.String {
		y.Strings[i] = text
		return nil
	}
	var whole int64
	var err error
	switch text = strings.TrimSpace(text); {
	case values.DType != tensor.String:
		whole = int64(number)
	case y.DType == tensor.Int64:
		whole, err = strconv.ParseInt(text, 10, 64)
	default:
		number, err = strconv.ParseFloat(text, 32)
	}
	if err != nil {
		return c.Errorf(op.ErrInput, "value %q is no number of type %v", text, y.DType)
	}
	if y.DType == tensor.Int64 {
		tensor.As[int64](y)[i] = whole
	} else {
		tensor.As[float32](y)[i] = float32(number)
	}
	return nil
}
