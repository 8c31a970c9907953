package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/tensor"
)

// warm computes what a version's first requests would else wait for: what its configuration says,
// which must succeed, or else a run of ones, unless one of them waits already.
func (v *version) warm(ctx context.Context, why occasion) error {
	if v.on == nil {
		return nil // its models are warm
	}
	if c := v.source.Config; c != nil && len(c.ModelWarmup) > 0 {
		for i := range c.ModelWarmup {
			w := &c.ModelWarmup[i]
			if err := v.warmup(ctx, w); err != nil {
				return fmt.Errorf("model_warmup %s: %w", w.Name, err)
			}
		}
		return nil
	}
	if why == asked {
		return nil
	}
	in := weir.Inputs{}
	for _, f := range v.types {
		shape := []int{}
		for _, d := range f.Shape {
			shape = append(shape, max(int(d), 1))
		}
		in[f.Name] = v.sampled(rand.New(rand.NewPCG(1, 2)), f.Name,
			filled(v.inputs[f.Name].Type.DType, shape, 1))
	}
	if _, _, err := v.behind(ctx, in); err != nil && ctx.Err() == nil {
		v.server.o.Log.Debug("a model takes no ones to be warmed up", "model", v.name, "error", err)
	}
	return ctx.Err()
}

// mostRuns bounds how often a warm-up is computed.
const mostRuns = 1000

// warmup computes one request of a configuration, as often as that says.
func (v *version) warmup(ctx context.Context, w *oip.Warmup) error {
	if w.Count > mostRuns {
		return fmt.Errorf("count is %d: give at most %d", w.Count, mostRuns)
	}
	in := weir.Inputs{}
	for name, x := range w.Inputs {
		t, err := v.warmInput(&x, w.BatchSize)
		if err != nil {
			return fmt.Errorf("input %s: %w", name, err)
		}
		if in[name], err = v.given(name, t); err != nil {
			return err
		}
	}
	for _, f := range v.types {
		if in[f.Name] == nil && v.keeps(f.Name) {
			in[f.Name] = filled(v.inputs[f.Name].Type.DType, rowed(v.inputs[f.Name],
				int(max(w.BatchSize, 1))), 1)
		}
	}
	for range max(w.Count, 1) {
		if _, _, err := v.behind(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// warmInput makes the input of a warm-up.
func (v *version) warmInput(x *oip.WarmupInput, rows int64) (*tensor.Tensor, error) {
	if len(x.DataType) < 5 {
		return nil, fmt.Errorf("data_type is %q", x.DataType)
	}
	d, err := oip.ParseDatatype(x.DataType[len("TYPE_"):])
	if x.DataType == "TYPE_STRING" {
		d, err = tensor.String, nil
	}
	if err != nil {
		return nil, err
	}
	shape := []int{}
	if v.source.Config.MaxBatchSize > 0 {
		shape = append(shape, int(max(rows, 1)))
	}
	for _, n := range x.Dims {
		shape = append(shape, int(n))
	}
	if n, err := tensor.ByteCount(d, shape); err != nil || int64(n) > v.server.o.Body {
		return nil, fmt.Errorf("dims are %v: give sizes from 1 on, of %d bytes at most", shape,
			v.server.o.Body)
	}
	switch {
	case x.InputDataFile != "":
		b, err := v.source.Read(filepath.Join("warmup", x.InputDataFile), v.server.o.Body)
		if err != nil {
			return nil, err
		}
		return oip.FromBytes(d, shape, b, nil)
	case x.RandomData:
		return random(rand.New(rand.NewPCG(1, 2)), d, shape), nil
	case x.ZeroData:
		return filled(d, shape, 0), nil
	}
	return nil, fmt.Errorf("give zero_data, random_data or input_data_file")
}

// filled is a tensor of which all elements are 0 or 1, or strings that are empty or "1".
func filled(d tensor.DType, shape []int, value byte) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	t := &tensor.Tensor{DType: d, Shape: shape}
	if d == tensor.String {
		t.Strings = make([]string, n)
		for i := range t.Strings {
			t.Strings[i] = "1"[:value]
		}
		return t
	}
	size := d.Size()
	t.Data = make([]byte, n*size)
	if value == 0 {
		return t
	}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0} // of whole numbers and truths, little-endian
	switch d {
	case tensor.Float16:
		one = []byte{0, 0x3c} // IEEE 754
	case tensor.BFloat16:
		one = []byte{0x80, 0x3f}
	case tensor.Float32:
		one = []byte{0, 0, 0x80, 0x3f}
	case tensor.Float64:
		one = []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}
	}
	for i := range n {
		copy(t.Data[i*size:(i+1)*size], one)
	}
	return t
}
