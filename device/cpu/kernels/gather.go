package kernels

import (
	"fmt"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gatherKernels are Gather (ONNX 1, 11, 13), the embedding look-up, for any fixed-size type.
var gatherKernels = map[opKey]builder{{"", "Gather"}: gather}

// gatherKernel copies, for each outer index and each entry of the indices, one run of bytes.
type gatherKernel struct {
	plain
	call       *op.Call
	outer, n   int // data is [outer, n, run bytes]
	run, count int
}

func gather(r *request) (compute.Kernel, error) {
	shape, d, _ := r.in(0)
	idx, di, _ := r.in(1)
	axis, ok := r.axis(len(shape), 0)
	if !ok || d == tensor.String || di != tensor.Int64 && di != tensor.Int32 {
		return nil, nil
	}
	bits := count(shape[axis+1:]) * d.Bits()
	if bits%8 != 0 {
		return nil, nil
	}
	return &gatherKernel{
		call:  r.Call,
		outer: count(shape[:axis]),
		n:     shape[axis],
		run:   bits / 8,
		count: count(idx),
	}, nil
}

// Name implements Kernel.
func (k *gatherKernel) Name() string { return "gather" }

// Bind implements Kernel.
func (k *gatherKernel) Bind(b compute.Binding) compute.Task {
	t := &gatherTask{of: k, x: b.In[0].Data, y: b.Out[0].Data}
	if b.In[1].DType == tensor.Int64 {
		t.wide = tensor.As[int64](b.In[1])
	} else {
		t.narrow = tensor.As[int32](b.In[1])
	}
	t.per = max(1, 4*moveBlock/max(1, k.run))
	return t
}

type gatherTask struct {
	of     *gatherKernel
	x, y   []byte
	wide   []int64
	narrow []int32
	per    int
}

func (t *gatherTask) index(i int) int {
	v := 0
	if t.wide != nil {
		v = int(t.wide[i])
	} else {
		v = int(t.narrow[i])
	}
	if v < 0 {
		v += t.of.n
	}
	return v
}

// Run implements Task. Indices are data and are checked before anything is copied.
func (t *gatherTask) Run(x *compute.Exec) error {
	for i := range t.of.count {
		if v := t.index(i); v < 0 || v >= t.of.n {
			return t.of.call.Errorf(op.ErrInput, "index %s is outside an axis of %d", t.given(i),
				t.of.n)
		}
	}
	return x.For((t.of.outer*t.of.count+t.per-1)/t.per, t)
}

func (t *gatherTask) given(i int) string {
	if t.wide != nil {
		return fmt.Sprint(t.wide[i])
	}
	return fmt.Sprint(t.narrow[i])
}

// Chunk implements Region.
func (t *gatherTask) Chunk(c, _ int) {
	for k := c * t.per; k < min((c+1)*t.per, t.of.outer*t.of.count); k++ {
		o, i := k/t.of.count, k%t.of.count
		from := (o*t.of.n + t.index(i)) * t.of.run
		copy(t.y[k*t.of.run:(k+1)*t.of.run], t.x[from:from+t.of.run])
	}
}
