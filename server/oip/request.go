package oip

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Parameters are what a client may say beside the protocol's own fields: values of type string,
// bool, int64 and, for numbers that are none, float64. Whoever does not know one leaves it alone.
type Parameters map[string]any

// keys are the names, sorted.
func (p Parameters) keys() []string { return slices.Sorted(maps.Keys(p)) }

// The parameters that say where binary data are (Triton, extension_binary_data.md).
const (
	binarySize   = "binary_data_size"
	binaryOutput = "binary_data_output"
)

// Request is one inference.
type Request struct {
	ID         string // given back with the answer; "" stands for none
	Parameters Parameters
	Inputs     []Input
	Outputs    []Output // in the order asked for; nil: all of the model's
	behind     any      // binary_data_output, of a request that was decoded
}

// Input is a value of a request.
type Input struct {
	Name       string
	Parameters Parameters
	// Tensor may share the bytes of the body that the request was decoded from.
	Tensor *tensor.Tensor
	// Region is where the elements are, nil where they are in Tensor. With a region, Tensor has a
	// type and a shape only.
	Region *Region
}

// Output is an output that a request asks for.
type Output struct {
	Name       string
	Parameters Parameters
	Binary     bool // wanted behind the JSON
	Classes    int  // the number of classes wanted in place of the values; 0: the values
	// Region is where the elements are wanted; nil: in the answer.
	Region *Region
}

// Wants returns what the request says of a model's output of that name, and whether it asks for it.
func (r *Request) Wants(name string) (Output, bool) {
	if r.Outputs == nil {
		return Output{Name: name, Binary: r.binary()}, true
	}
	for _, o := range r.Outputs {
		if o.Name == name {
			return o, true
		}
	}
	return Output{}, false
}

// binary is Triton's binary_data_output: whether outputs that say nothing of it are wanted so.
func (r *Request) binary() bool {
	v := r.behind
	if v == nil {
		v = r.Parameters[binaryOutput]
	}
	b, _ := v.(bool)
	return b
}

// finish reads the parameters that mean something to this package, and refuses names given twice.
func (r *Request) finish() error {
	seen := map[string]bool{}
	for i := range r.Inputs {
		name := r.Inputs[i].Name
		if len(r.Inputs) == 1 {
			break
		}
		if seen[name] {
			return fmt.Errorf("%w: input %.200q is given twice", ErrRequest, name)
		}
		seen[name] = true
	}
	clear(seen)
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if seen[o.Name] {
			return fmt.Errorf("%w: output %.200q is asked for twice", ErrRequest, o.Name)
		}
		seen[o.Name] = true
		if err := o.finish(r.binary()); err != nil {
			return err
		}
	}
	return nil
}

func (o *Output) finish(binary bool) error {
	o.Binary = binary
	if v, given := o.Parameters["binary_data"]; given {
		b, ok := v.(bool)
		if !ok {
			return fmt.Errorf("%w: output %.200q: binary_data is true or false", ErrRequest, o.Name)
		}
		o.Binary = b
	}
	if v, given := o.Parameters["classification"]; given {
		k, ok := v.(int64)
		if !ok || k < 0 || k > math.MaxInt32 {
			return fmt.Errorf("%w: output %.200q: classification is a number of classes",
				ErrRequest,
				o.Name)
		}
		o.Classes = int(k)
	}
	var err error
	if o.Region, err = regionOf(o.Parameters); err != nil {
		return fmt.Errorf("output %.200q: %w", o.Name, err)
	}
	return nil
}
