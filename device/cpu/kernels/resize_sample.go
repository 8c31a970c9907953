package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// taps says from which input elements each output element along an axis is made: from[i] alone, or,
// when weights are given, (1-weight[i])·from[i] + weight[i]·next[i].
type taps struct {
	from, next []int32
	weight     []float32
}

// coordinates are the formulas of coordinate_transformation_mode (ONNX Resize-19) that need no
// region of interest: from an output coordinate to the input's, for an axis of in elements resized
// to out by scale.
var coordinates = map[string]func(x float64, in, out int, scale float64) float64{
	"half_pixel": func(x float64, _, _ int, scale float64) float64 { return (x+0.5)/scale - 0.5 },
	"asymmetric": func(x float64, _, _ int, scale float64) float64 { return x / scale },
	"pytorch_half_pixel": func(x float64, _, out int, scale float64) float64 {
		if out == 1 {
			return -0.5
		}
		return (x+0.5)/scale - 0.5
	},
	"align_corners": func(x float64, in, out int, scale float64) float64 {
		if out == 1 {
			return 0
		}
		return x * float64(in-1) / (scale*float64(in) - 1)
	},
}

// nearest are the values of nearest_mode.
var nearest = map[string]func(float64) float64{
	"floor": math.Floor, "ceil": math.Ceil,
	"round_prefer_floor": func(x float64) float64 { return math.Ceil(x - 0.5) },
	"round_prefer_ceil":  func(x float64) float64 { return math.Floor(x + 0.5) },
}

// maxTaps bounds the length of an axis whose taps are tabled: a long thin output would have tables
// larger than itself.
const maxTaps = 1 << 20

// sampling returns the kernel of a resize that is no repetition, nil when it is one of the modes
// that the reference serves.
func sampling(r *request, x, y []int, linear bool) compute.Kernel {
	attrs := r.Call.Attrs
	sy, sx, ok := r.scales()
	if !ok || attrs.Bool("antialias", false) || attrs.Bool("exclude_outside", false) {
		return nil
	}
	coordinate, round := "asymmetric", "floor"
	first := r.Call.Type == "Upsample" || r.Call.Version < 11
	if !first {
		coordinate = attrs.String("coordinate_transformation_mode", "half_pixel")
		round = attrs.String("nearest_mode", "round_prefer_floor")
	}
	at, pick := coordinates[coordinate], nearest[round]
	if at == nil || pick == nil || y[2] > maxTaps || y[3] > maxTaps {
		return nil
	}
	axis := func(in, out int, scale float64) taps {
		same := in == out && scale == 1
		return newTaps(in, out, linear && !same, func(i int) float64 {
			switch {
			case same:
				return float64(i)
			case linear:
				return at(float64(i), in, out, scale)
			}
			if first && scale < 1 { // Resize-10 shrinks by the element after the place
				return math.Ceil(at(float64(i), in, out, scale))
			}
			return pick(at(float64(i), in, out, scale))
		})
	}
	return &sampleKernel{planes: x[0] * x[1], in: [2]int{x[2], x[3]}, out: [2]int{y[2], y[3]},
		y: axis(x[2], y[2], sy), x: axis(x[3], y[3], sx)}
}

// newTaps makes the taps of an axis from the input coordinate of each output element.
func newTaps(in, out int, weighted bool, at func(i int) float64) taps {
	t := taps{from: make([]int32, out)}
	if weighted {
		t.next, t.weight = make([]int32, out), make([]float32, out)
	}
	clamp := func(v float64) int32 { return int32(max(0, min(v, float64(in-1)))) }
	for i := range out {
		x := at(i)
		t.from[i] = clamp(math.Floor(x))
		if weighted {
			t.next[i], t.weight[i] = clamp(math.Floor(x)+1), float32(x-math.Floor(x))
		}
	}
	return t
}

// sampleKernel resizes planes with taps for rows and columns.
type sampleKernel struct {
	plain
	planes  int
	in, out [2]int
	y, x    taps
}

// Name implements Kernel.
func (k *sampleKernel) Name() string { return "resize.sample" }

// ScratchBytes implements Kernel: one row of the input, blended from two, for each worker.
func (k *sampleKernel) ScratchBytes(workers int) int { return workers * scratchBytes(k.in[1]) }

// Bind implements Kernel.
func (k *sampleKernel) Bind(b compute.Binding) compute.Task {
	return &sampleTask{
		of:      k,
		per:     max(1, mapBlock/max(1, k.out[1])),
		scratch: perWorker(b),
		src:     tensor.Cast[float32](b.In[0].Data),
		dst:     tensor.Cast[float32](b.Out[0].Data),
	}
}

type sampleTask struct {
	of       *sampleKernel
	per      int // output rows of a chunk
	scratch  [][]float32
	src, dst []float32 // bits of any four-byte type when nothing is blended
}

// Run implements Task.
func (t *sampleTask) Run(x *compute.Exec) error {
	return x.For((t.of.planes*t.of.out[0]+t.per-1)/t.per, t)
}

// Chunk implements Region.
func (t *sampleTask) Chunk(i, worker int) {
	for row := i * t.per; row < min((i+1)*t.per, t.of.planes*t.of.out[0]); row++ {
		plane, at := row/t.of.out[0], row%t.of.out[0]
		src := t.src[plane*t.of.in[0]*t.of.in[1]:][:t.of.in[0]*t.of.in[1]]
		dst := t.dst[row*t.of.out[1]:][:t.of.out[1]]
		line := src[int(t.of.y.from[at])*t.of.in[1]:][:t.of.in[1]]
		if t.of.y.weight != nil {
			blended := t.scratch[worker][:t.of.in[1]]
			next := src[int(t.of.y.next[at])*t.of.in[1]:][:t.of.in[1]]
			w := t.of.y.weight[at]
			for j, v := range line {
				blended[j] = v*(1-w) + next[j]*w
			}
			line = blended
		}
		t.columns(dst, line)
	}
}

// columns resamples one row.
func (t *sampleTask) columns(dst, line []float32) {
	if t.of.x.weight == nil {
		for j, f := range t.of.x.from {
			dst[j] = line[f]
		}
		return
	}
	for j, f := range t.of.x.from {
		w := t.of.x.weight[j]
		dst[j] = line[f]*(1-w) + line[t.of.x.next[j]]*w
	}
}
