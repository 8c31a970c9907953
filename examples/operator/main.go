// Command operator runs a model that uses an operator which ONNX does not have: Snake, the
// activation of vocoders such as BigVGAN (Ziyin, Hartwig and Ueda, "Neural Networks Fail to Learn
// Periodic Functions and How to Fix It", NeurIPS 2020), as a node of domain com.example.
//
//	go run ./examples/operator
//
// Meet first: snake, which is the operator. Its Eval is all that it needs; its Kernel computes the
// same on all cores, without garbage.
//
// Concurrency: none of its own.
//
// What it refuses: nothing; it takes no arguments.
package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// snake is x + sin²(a x) / a, with a for each channel: x is float32[N,C,T], a is float32[C]. The
// result is of the type and shape of x, which is what Operator says without an Infer.
var snake = weir.Operator{
	Domain: "com.example", Name: "Snake", Inputs: 2,
	Eval: func(c *op.Eval) error {
		x, a := c.In[0], c.In[1]
		if !takes(x.DType, a.DType, x.Shape, a.Shape) {
			return c.Errorf(op.ErrInput, "takes float32[N,C,T] and float32[C], not %v%v and %v%v",
				x.DType, x.Shape, a.DType, a.Shape)
		}
		y, err := c.Output(0, x.DType, x.Shape)
		if err != nil {
			return err
		}
		r := rows(x, a, y)
		for i := range x.Shape[0] * x.Shape[1] {
			r.Chunk(i, 0)
		}
		return nil
	},
	Kernel: func(r *compute.Request) (compute.Kernel, error) {
		x, _ := r.In[0].Ints()
		a, _ := r.In[1].Ints()
		if !takes(r.In[0].DType, r.In[1].DType, x, a) {
			return nil, nil // the evaluation says what is wrong
		}
		return kernel{}, nil
	},
}

// takes reports whether the operator takes operands of these types and shapes.
func takes(x, a tensor.DType, shape, channels []int) bool {
	return x == tensor.Float32 && a == tensor.Float32 && len(shape) == 3 && len(channels) == 1 &&
		shape[1] == channels[0]
}

// channels computes a channel of T samples at a time.
type channels struct {
	x, a, y []float32
	t       int
}

func rows(x, a, y *tensor.Tensor) *channels {
	return &channels{tensor.As[float32](x), tensor.As[float32](a), tensor.As[float32](y),
		x.Shape[2]}
}

// Chunk implements compute.Region: it computes channel i of all examples.
func (c *channels) Chunk(i, _ int) {
	a := float64(c.a[i%len(c.a)])
	x, y := c.x[i*c.t:][:c.t], c.y[i*c.t:][:c.t]
	for k, v := range x {
		s := math.Sin(a * float64(v))
		y[k] = float32(float64(v) + s*s/a)
	}
}

// kernel runs the channels on all cores.
type kernel struct{ compute.Unpacked }

// Name implements compute.Kernel.
func (kernel) Name() string { return "snake" }

// Bind implements compute.Kernel.
func (kernel) Bind(b compute.Binding) compute.Task { return task{rows(b.In[0], b.In[1], b.Out[0])} }

type task struct{ *channels }

// Run implements compute.Task.
func (t task) Run(x *compute.Exec) error { return x.For(len(t.x)/max(1, t.t), t) }

// exported is a model as an exporter writes it for a program with an operator of its own.
func exported() ([]byte, error) {
	g, err := graph.Parse(`graph "vocoder" {
		opset "" 17
		opset "com.example" 1
		input %x: float32[N,2,T]
		const %a: float32[2] = {1, 2}
		%y: float32[N,2,T] = com.example:Snake@1 "snake" (%x, %a)
		output %y
	}`)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = onnx.Write(&b, g, onnx.WriteOptions{})
	return b.Bytes(), err
}

// run applies the model to samples of two channels.
func run(ctx context.Context, samples []float32, ops ...weir.Operator) ([]float32, error) {
	data, err := exported()
	if err != nil {
		return nil, err
	}
	m, err := weir.Load(data, weir.WithOperators(ops...))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	x, err := weir.NewTensor(samples, 1, 2, len(samples)/2)
	if err != nil {
		return nil, err
	}
	out, err := m.Run(ctx, weir.Inputs{"x": x})
	if err != nil {
		return nil, err
	}
	defer out.Close()
	y, err := weir.Output[float32](out, "y")
	return slices.Clone(y), err // the result's own ends with it
}

func main() {
	y, err := run(context.Background(), []float32{0, 0.5, 1, 0, 0.5, 1}, snake)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(y)
}
