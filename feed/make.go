package feed

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Make returns one value an input: the given one, or a made-up one of the shape from [Shapes]:
// floats uniform from 0 to 1 by the seed, integers 1, booleans true, strings empty, sequences and
// optionals of one value, maps without pairs.
func Make(inputs []*graph.Value, shapes map[string][]int, given map[string]*tensor.Tensor,
	seed uint64) ([]*tensor.Tensor, error) {
	rng := rand.New(rand.NewPCG(seed, 0x77656972))
	made := make([]*tensor.Tensor, len(inputs))
	for i, v := range inputs {
		if made[i] = given[v.Name]; made[i] != nil {
			continue
		}
		var err error
		if made[i], err = makeValue(v.Type, shapes[v.Name], rng); err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
	}
	return made, nil
}

// Bytes is the memory of what [Make] returns for the same arguments.
func Bytes(inputs []*graph.Value, shapes map[string][]int, given map[string]*tensor.Tensor) (int64,
	error) {
	var total int64
	for _, v := range inputs {
		if t := given[v.Name]; t != nil {
			total += t.Size()
			continue
		}
		n, err := valueBytes(v.Type, shapes[v.Name])
		if err == nil && int64(n) > math.MaxInt64-total {
			err = fmt.Errorf("%w: the inputs have more than %d bytes", tensor.ErrShape, total)
		}
		if err != nil {
			return 0, fmt.Errorf("input %q: %w", v.Name, err)
		}
		total += int64(n)
	}
	return total, nil
}

// valueBytes is the memory of what makeValue makes.
func valueBytes(typ op.Type, shape []int) (int, error) {
	switch {
	case !typ.DType.IsContainer():
		return tensor.ByteCount(typ.DType, shape)
	case typ.DType == tensor.Map || typ.Elem == nil:
		return 0, nil
	}
	return valueBytes(*typ.Elem, declaredShape(*typ.Elem, nil))
}

// makeValue makes up a tensor of a shape, or a value of another type: a sequence or optional of one
// value, if its type is known, with sizes of 1 for those that are not, and a map without pairs.
func makeValue(typ op.Type, shape []int, rng *rand.Rand) (*tensor.Tensor, error) {
	if typ.DType.IsContainer() {
		return makeContainer(typ, rng)
	}
	t, err := tensor.New(typ.DType, shape...)
	if err != nil {
		return nil, err
	}
	makeUp(t, rng)
	return t, nil
}

// makeContainer makes up an empty map, or a container with one item where its type is known.
func makeContainer(typ op.Type, rng *rand.Rand) (*tensor.Tensor, error) {
	switch {
	case typ.DType == tensor.Map:
		keys, err := tensor.New(typ.Key, 0)
		if err != nil || typ.Elem == nil {
			return nil, errors.Join(err,
				fmt.Errorf("%w: cannot make up a %v", op.ErrUnsupported, typ))
		}
		values, err := tensor.New(typ.Elem.DType, 0)
		if err != nil {
			return nil, err
		}
		return tensor.NewMap(keys, values)
	case typ.Elem == nil:
		return &tensor.Tensor{DType: typ.DType, Shape: []int{0}}, nil
	}
	item, err := makeValue(*typ.Elem, declaredShape(*typ.Elem, nil), rng)
	if err != nil {
		return nil, err
	}
	return &tensor.Tensor{DType: typ.DType, Shape: []int{1}, Items: []*tensor.Tensor{item}}, nil
}

func makeUp(t *tensor.Tensor, rng *rand.Rand) {
	switch t.DType {
	case tensor.Float32:
		elems := tensor.As[float32](t)
		for i := range elems {
			elems[i] = rng.Float32()
		}
	case tensor.Float64:
		for i := range tensor.As[float64](t) {
			tensor.As[float64](t)[i] = rng.Float64()
		}
	case tensor.Float16:
		for i := range tensor.As[tensor.Half](t) {
			tensor.As[tensor.Half](t)[i] = tensor.HalfOf(rng.Float32())
		}
	case tensor.BFloat16:
		for i := range tensor.As[tensor.BHalf](t) {
			tensor.As[tensor.BHalf](t)[i] = tensor.BHalfOf(rng.Float32())
		}
	case tensor.String:
	default:
		// integers and booleans: a one in the lowest byte of each element, or of those that share
		// it
		for i := 0; i < len(t.Data); i += max(1, t.DType.Size()) {
			t.Data[i] = 1
		}
	}
}

// Fill copies one request into the inputs of an instance. It fails with [ErrInput] when types or
// shapes differ.
func Fill(to, request []*tensor.Tensor) error {
	for k, t := range to {
		if err := t.Set(request[k]); err != nil {
			return fmt.Errorf("%w: input %d: %w", ErrInput, k, err)
		}
	}
	return nil
}
