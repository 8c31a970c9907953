package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// poolGradientKernels are the gradients of poolings over one to three spatial axes.
var poolGradientKernels = map[opKey]builder{
	{op.FusedDomain, op.MaxPoolGradient}: maxPoolGradient,
}

// poolGradientKernel finds in each window again where its largest element is.
type poolGradientKernel struct {
	plain
	planes, per int // of which a chunk takes so many
	in, out     int // elements of a plane
	width       int // and of a row of it
	size        [3]int
	axes        [3][]axisTaps // one a place
	step        [3]int        // between taps, in elements of a plane
	ranked      bool          // whether planes are small enough for ranks of their elements
}

// rankedPlane is the most elements of a plane whose ranks are kept, so that they stay in a cache.
const rankedPlane = 1 << 18

// axisTaps are the taps of a place along one axis that see the image: where the first is, in
// elements of a plane, and how many there are.
type axisTaps struct{ at, n int }

func maxPoolGradient(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(1)
	g, _, _ := r.in(0)
	if !r.allFloat32(-1) || len(x) < 3 || len(x) > 5 || count(x) == 0 {
		return nil, nil
	}
	win, ok := poolWindow(r.Call, x[2:])
	if !ok {
		return nil, nil
	}
	k := &poolGradientKernel{planes: x[0] * x[1], in: count(x[2:]), width: x[len(x)-1],
		size: [3]int{1, 1, 1}}
	copy(k.size[5-len(x):], g[2:])
	k.out = k.size[0] * k.size[1] * k.size[2]
	k.per = max(1, mapBlock/k.in)
	k.ranked = k.in <= rankedPlane
	k.walk(&win)
	return k, nil
}

// walk lists where the places of each axis see the image.
func (k *poolGradientKernel) walk(win *conv.Window) {
	pitch := 1
	for a := 2; a >= 0; a-- {
		k.step[a] = pitch * win.Dilate[a]
		for at := range k.size[a] {
			k.axes[a] = append(k.axes[a], tapsAlong(win, a, at, pitch))
		}
		pitch *= win.In[a]
	}
}

// tapsAlong are the taps of a place along an axis whose neighbours lie pitch elements apart.
func tapsAlong(w *conv.Window, axis, place, pitch int) axisTaps {
	from := place*w.Stride[axis] - w.PadLo[axis]
	lo, hi := 0, w.Kernel[axis]
	for lo < hi && from+lo*w.Dilate[axis] < 0 {
		lo++
	}
	for hi > lo && from+(hi-1)*w.Dilate[axis] >= w.In[axis] {
		hi--
	}
	return axisTaps{(from + lo*w.Dilate[axis]) * pitch, hi - lo}
}

// Name implements Kernel.
func (k *poolGradientKernel) Name() string { return "pool.gradient" }

// ScratchBytes implements Kernel: of each worker the ranks of a plane, and of a row.
func (k *poolGradientKernel) ScratchBytes(workers int) int {
	if !k.ranked {
		return 0
	}
	return workers * scratchBytes(2*(k.in+k.width))
}

// Bind implements Kernel.
func (k *poolGradientKernel) Bind(b compute.Binding) compute.Task {
	t := &poolGradientTask{of: k, g: tensor.As[float32](b.In[0]), x: tensor.As[float32](b.In[1]),
		dx: tensor.As[float32](b.Out[0])}
	if k.ranked {
		t.ranks = perWorker(b)
	}
	return t
}

type poolGradientTask struct {
	of       *poolGradientKernel
	g, x, dx []float32
	ranks    [][]float32
}

// Run implements Task.
func (t *poolGradientTask) Run(x *compute.Exec) error {
	return x.For((t.of.planes+t.of.per-1)/t.of.per, t)
}

// Chunk implements Region: some planes.
func (t *poolGradientTask) Chunk(i, worker int) {
	var ranks []int64
	if t.of.ranked {
		ranks = tensor.Cast[int64](tensor.Bytes(t.ranks[worker]))[:t.of.in+t.of.width]
	}
	for p := i * t.of.per; p < min((i+1)*t.of.per, t.of.planes); p++ {
		t.of.plane(t.g[p*t.of.out:][:t.of.out], t.x[p*t.of.in:][:t.of.in],
			t.dx[p*t.of.in:][:t.of.in], ranks)
	}
}

// plane adds the gradient of each place of a plane where its largest element is.
func (k *poolGradientKernel) plane(g, x, dx []float32, ranks []int64) {
	clear(dx)
	ordered := k.ranked && rank(ranks, x)
	for _, z := range k.axes[0] {
		for _, y := range k.axes[1] {
			switch row := g[:k.size[2]]; {
			case z.n == 0 || y.n == 0:
			case ordered:
				k.rankedRow(row, dx, ranks[:k.in], ranks[k.in:], z, y)
			default:
				k.row(row, x, dx, z, y)
			}
			g = g[k.size[2]:]
		}
	}
}

// rank writes numbers that are in the order of the elements of x, of equal ones in that of which
// comes first, the largest of which is found without a jump that depends on them. Their low halves
// are the complements of where elements are. It returns false where an element is no number.
func rank(ranks []int64, x []float32) bool {
	_ = ranks[:len(x)]
	most := int32(0)
	for i, v := range x {
		b := int32(math.Float32bits(v))
		sign, size := b>>31, b&math.MaxInt32
		ranks[i] = int64(size^sign-sign)<<32 | int64(^uint32(i))
		most = max(most, size)
	}
	return most <= int32(math.Float32bits(float32(math.Inf(1))))
}

// rankedRow is row by ranks: the largest of the rows under the places come first, into columns.
func (k *poolGradientKernel) rankedRow(g, dx []float32, ranks, columns []int64, z, y axisTaps) {
	for dz := range z.n {
		for dy := range y.n {
			from := ranks[z.at+dz*k.step[0]+y.at+dy*k.step[1]:][:len(columns)]
			if dz+dy == 0 {
				copy(columns, from)
				continue
			}
			for i, v := range from {
				columns[i] = max(columns[i], v)
			}
		}
	}
	for i, along := range k.axes[2] {
		if along.n == 0 {
			continue
		}
		best := columns[along.at]
		for t := 1; t < along.n; t++ {
			best = max(best, columns[along.at+t*k.step[2]])
		}
		dx[^uint32(best)] += g[i]
	}
}

// row is plane for a row of places, whose taps along the other axes are given.
func (k *poolGradientKernel) row(g, x, dx []float32, z, y axisTaps) {
	for i, along := range k.axes[2] {
		if along.n == 0 {
			continue
		}
		found := z.at + y.at + along.at
		best := x[found]
		for dz := range z.n {
			for dy := range y.n {
				at := z.at + dz*k.step[0] + y.at + dy*k.step[1] + along.at
				for range along.n {
					// the last NaN wins, as in the definition
					if v := x[at]; v > best || v != v {
						best, found = v, at
					}
					at += k.step[2]
				}
			}
		}
		dx[found] += g[i]
	}
}
