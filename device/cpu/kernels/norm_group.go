package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// groupNorm is GroupNormalization (ONNX 18, with a scale and bias a group, and 21, with one a
// channel), and InstanceNormalization (6, 22), whose groups are channels.
func groupNorm(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(0)
	if !r.allFloat32(-1) || len(shape) < 3 || count(shape) == 0 {
		return nil, nil
	}
	c := shape[1]
	groups := c
	if r.Call.Type == "GroupNormalization" {
		groups = int(r.Call.Attrs.Int("num_groups", 0))
	}
	if groups < 1 || c%groups != 0 {
		return nil, nil
	}
	scales := c
	if r.Call.Type == "GroupNormalization" && r.Call.Version < 21 {
		scales = groups
	}
	for i := 1; i < 3; i++ {
		if s, _, _ := r.in(i); len(s) != 1 || s[0] != scales {
			return nil, nil
		}
	}
	k := &groupNormKernel{
		rows:     shape[0] * groups,
		groups:   groups,
		channels: c / groups,
		inner:    count(shape[2:]),
		shared:   scales != c,
		eps:      r.Call.Attrs.Float("epsilon", 1e-5),
	}
	if k.channels*k.inner > longRow {
		return &longGroupNorm{k}, nil
	}
	return k, nil
}

type groupNormKernel struct {
	plain
	first
	rows     int // groups of all images
	groups   int // groups of one image
	channels int // of a group
	inner    int
	shared   bool // one scale and bias serve a whole group
	eps      float32
}

// Name implements Kernel.
func (k *groupNormKernel) Name() string { return "groupnorm" }

// Bind implements Kernel.
func (k *groupNormKernel) Bind(b compute.Binding) compute.Task { return k.bind(b) }

func (k *groupNormKernel) bind(b compute.Binding) *groupNormTask {
	return &groupNormTask{
		of:    k,
		x:     tensor.As[float32](b.In[0]),
		scale: tensor.As[float32](b.In[1]),
		bias:  tensor.As[float32](b.In[2]),
		y:     tensor.As[float32](b.Out[0]),
	}
}

type groupNormTask struct {
	of                *groupNormKernel
	x, y, scale, bias []float32
}

// Run implements Task.
func (t *groupNormTask) Run(x *compute.Exec) error { return x.For(t.of.rows, t) }

// Chunk implements Region: one group.
func (t *groupNormTask) Chunk(i, _ int) {
	n := t.of.channels * t.of.inner
	x, y := t.x[i*n:(i+1)*n], t.y[i*n:(i+1)*n]
	vec.LayerNorm(y, x, nil, nil, t.of.eps)
	t.affine(y, i, 0)
}

// affine applies scale and bias to y, elements of group i of all from the one at first on.
func (t *groupNormTask) affine(y []float32, i, first int) {
	for len(y) > 0 {
		c := first / t.of.inner
		n := min(len(y), (c+1)*t.of.inner-first)
		at := i % t.of.groups
		if !t.of.shared {
			at = at*t.of.channels + c
		}
		vec.Affine(y[:n], y[:n], t.scale[at], t.bias[at])
		y, first = y[n:], first+n
	}
}
