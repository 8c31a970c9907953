package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// variadicKernels are the float32 operators that fold any number of operands (ONNX Max, Min, Sum,
// Mean 6 to 13); Max and Min also of two integers.
var variadicKernels = map[opKey]builder{
	{"", "Max"}: anyOf(binary(maxRows), integers(func(a, b int64) int64 { return max(a, b) }),
		variadic(maxRows, false)),
	{"", "Min"}: anyOf(binary(minRows), integers(func(a, b int64) int64 { return min(a, b) }),
		variadic(minRows, false)),
	{"", "Sum"}:  anyOf(binary(addRows), variadic(addRows, false)),
	{"", "Mean"}: variadic(addRows, true),
}

//go:noinline
func variadic(f pairs[float32, float32], mean bool) builder {
	return func(r *request) (compute.Kernel, error) {
		if !r.allFloat32(-1) || len(r.In) > maxOperands {
			return nil, nil
		}
		shapes := make([][]int, len(r.In))
		for i := range shapes {
			shapes[i], _, _ = r.in(i)
		}
		return &variadicKernel{
			name: r.Call.Type,
			f:    f,
			mean: mean,
			cut:  cutRows(broadcast(r.outShape(), shapes...)),
			full: r.full(0),
		}, nil
	}
}

type variadicKernel struct {
	plain
	name string
	f    pairs[float32, float32]
	mean bool
	cut  rowChunks
	full []int
}

// InPlace implements [compute.InPlace]: the first operand is spread over the result before the
// others are read.
func (k *variadicKernel) InPlace() []int { return k.full }

// Name implements Kernel.
func (k *variadicKernel) Name() string { return "broadcast." + k.name }

// Bind implements Kernel.
func (k *variadicKernel) Bind(b compute.Binding) compute.Task {
	t := &variadicTask{of: k, y: tensor.As[float32](b.Out[0])}
	for _, in := range b.In {
		t.in = append(t.in, tensor.As[float32](in))
	}
	return t
}

type variadicTask struct {
	of *variadicKernel
	in [][]float32
	y  []float32
}

// Run implements Task.
func (t *variadicTask) Run(x *compute.Exec) error { return x.For(t.of.cut.chunks, t) }

// Chunk implements Region: the first operand is spread over the row, the others are folded in.
func (t *variadicTask) Chunk(i, _ int) {
	first, last, lo, hi := t.of.cut.chunk(i)
	l := &t.of.cut.loop
	var off [maxOperands]int
	for row := first; row < last; row++ {
		l.at(row, &off)
		y := t.y[row*l.inner+lo : row*l.inner+hi]
		for k, x := range t.in {
			switch o := off[k]; {
			case k == 0 && l.runs[k]:
				copy(y, x[o+lo:o+hi])
			case k == 0:
				vec.Fill(y, x[o])
			case l.runs[k]:
				t.of.f.vv(y, y, x[o+lo:o+hi])
			default:
				t.of.f.vs(y, y, x[o])
			}
		}
		if t.of.mean {
			vec.DivScalar(y, y, float32(len(t.in)))
		}
	}
}
