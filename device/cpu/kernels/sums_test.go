package kernels

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// longSums are calls that add up many numbers for each element of their result, n of them, and the
// error that they may make beside that of the sums.
var longSums = []struct {
	name    string
	shape   func(n int) []int
	version int
	attrs   func(n int) op.Attrs
	more    int // further inputs, vectors of as many elements as channels or, below 0, as rows
	atol    float64
}{
	{"ReduceSum", leading, 11, axesOf(0), 0, 0},
	{"ReduceMean", leading, 11, axesOf(0), 0, 0},
	{"ReduceSumSquare", leading, 11, axesOf(0), 0, 0},
	{"ReduceL2", leading, 11, axesOf(0), 0, 0},
	{"ReduceL1", leading, 11, axesOf(0), 0, 0},
	{"ReduceLogSum", leading, 11, axesOf(0), 0, 0},
	{"ReduceLogSumExp", leading, 11, axesOf(0), 0, 0},
	{"ReduceL1", middle, 11, axesOf(1, 2), 0, 0},
	{"ReduceL1", broad, 11, axesOf(0), 0, 0},
	{"ReduceL1", trailing, 11, axesOf(1), 0, 0},
	{"ReduceLogSum", middle, 11, axesOf(1, 2), 0, 0},
	{"ReduceLogSum", broad, 11, axesOf(0), 0, 0},
	{"ReduceLogSum", trailing, 11, axesOf(1), 0, 0},
	{"ReduceLogSumExp", middle, 11, axesOf(1, 2), 0, 0},
	{"ReduceLogSumExp", broad, 11, axesOf(0), 0, 0},
	{"ReduceLogSumExp", trailing, 11, axesOf(1), 0, 0},
	{"ReduceSum", middle, 11, axesOf(1, 2), 0, 0},
	{"ReduceMean", middle, 11, axesOf(1, 2), 0, 0},
	{"ReduceMean", trailing, 11, axesOf(1), 0, 0},
	{"ReduceL2", trailing, 11, axesOf(1), 0, 0},
	{"ReduceMean", trailing, 11, axesOf(0, 1), 0, 0},
	{"ReduceSum", trailing, 11, axesOf(1), 0, 0},
	{"ReduceSumSquare", trailing, 11, axesOf(1), 0, 0},
	{"ReduceMax", trailing, 11, axesOf(1), 0, 0},
	{"ReduceMin", trailing, 11, axesOf(1), 0, 0},
	{"ReduceMax", leading, 11, axesOf(0), 0, 0},
	{"ReduceMin", middle, 11, axesOf(1, 2), 0, 0},
	{"ReduceSum", broad, 11, axesOf(0), 0, 0},
	{"ReduceL2", broad, 11, axesOf(0), 0, 0},
	{"Softmax", broad, 13, axisOf(0), 0, 0},
	{"Softmax", middle, 13, axisOf(2), 0, 0},
	{"Softmax", leading, 13, axisOf(0), 0, 0},
	{"LogSoftmax", leading, 13, axisOf(0), 0, 0},
	{"LogSoftmax", broad, 13, axisOf(0), 0, 0},
	{"LogSoftmax", middle, 13, axisOf(2), 0, 0},
	{"Softmax", trailing, 13, axisOf(1), 0, 0},
	{"LogSoftmax", trailing, 13, axisOf(1), 0, 0},
	{"GlobalAveragePool", image, 1, none, 0, 0},
	{"AveragePool", image, 11, whole, 0, 0},
	{"AveragePool", image, 11, wide, 0, 5e-6 * 0.1},
	{"AveragePool", tall, 11, high, 0, 5e-6 * 0.1},
	{"GlobalMaxPool", image, 1, none, 0, 0},
	{"MaxPool", image, 11, whole, 0, 0},
	{"MaxPool", plane, 11, small, 0, 0},
	{"AveragePool", plane, 11, small, 0, 0},
	// whose deviations are small beside the mean, which they inherit the error of
	{"InstanceNormalization", image, 6, none, 2, 1e-5 * 0.1 / 0.0025},
	{"GroupNormalization", image, 21, oneGroup, 2, 1e-5 * 0.1 / 0.0025},
	{"LayerNormalization", trailing, 17, axisOf(1), -2, 1e-5 * 0.1 / 0.0025},
}

func leading(n int) []int  { return []int{n, 2} }
func middle(n int) []int   { return []int{2, 4, n / 4, 3} }
func trailing(n int) []int { return []int{2, n} }
func image(n int) []int    { return []int{1, 2, 4, n / 4} }
func broad(n int) []int    { return []int{n / 700, 700} }
func tall(n int) []int     { return []int{1, 2, n, 1} }

func plane(n int) []int { return []int{1, 1, n / 800, 800} }

func axesOf(axes ...int64) func(int) op.Attrs {
	return func(int) op.Attrs { return op.Attrs{op.IntsAttr("axes", axes...)} }
}

func axisOf(axis int64) func(int) op.Attrs {
	return func(int) op.Attrs { return op.Attrs{op.IntAttr("axis", axis)} }
}

func none(int) op.Attrs { return nil }

func oneGroup(int) op.Attrs { return op.Attrs{op.IntAttr("num_groups", 1)} }

// whole is the window of the whole plane.
func whole(n int) op.Attrs { return op.Attrs{op.IntsAttr("kernel_shape", 4, int64(n/4))} }

// small is a window of few elements.
func small(int) op.Attrs { return op.Attrs{op.IntsAttr("kernel_shape", 3, 2)} }

// wide and high are windows of some rows and of some columns.
func wide(n int) op.Attrs { return op.Attrs{op.IntsAttr("kernel_shape", 3, int64(n/4)-5)} }

func high(n int) op.Attrs { return op.Attrs{op.IntsAttr("kernel_shape", int64(n)-5, 1)} }

// ownBits reports whether plain Go computes the operator by functions of float64.
func ownBits(name string) bool {
	return strings.HasSuffix(name, "Softmax") || strings.HasSuffix(name, "Exp") ||
		strings.HasSuffix(name, "LogSum")
}

// TestLongSums holds what sums promise against the definition, whose sums are in float64: the
// error, and the same bits on every path, with 1 to 4 workers. Exponentials and logarithms have
// bits of their own in plain Go. The addends are about one tenth, so that the rounding errors of a
// running sum in float32 have one sign: it is per cents off. WEIR_LONG makes them 10^8 a result.
func TestLongSums(t *testing.T) {
	n := 800_000
	switch {
	case os.Getenv("WEIR_LONG") != "":
		n = 1e8
	case testing.Short(): // two parts, of which the race detector sees what three would show
		n = longRow + longRow/8
	}
	for i, c := range longSums {
		if testing.Short() && i%3 != 0 {
			continue // kernels of one kind are cut and joined by the same code
		}
		t.Run(fmt.Sprintf("%s/%v", c.name, c.shape(n)), func(t *testing.T) {
			shape := c.shape(n)
			s := longSum(c.name, shape, c.version, c.attrs(n), c.more)
			o, r, ok := s.request()
			if !ok {
				t.Fatal("not a call")
			}
			want, err := op.Run(context.Background(), o, s.call, s.in)
			if err != nil {
				t.Fatal(err)
			}
			var first []byte
			best := cpuinfo.Current()
			cputest.EachPath(t, func(t *testing.T) {
				if p := cpuinfo.Current(); testing.Short() && p != cpuinfo.Baseline && p != best {
					t.Skip("the race detector sees of every path of assembly the same")
				}
				got := checkLongSum(t, s, r, want, c.atol)
				if cpuinfo.Current() == cpuinfo.Baseline && ownBits(c.name) {
					return
				}
				if first == nil {
					first = got
				}
				if !bytes.Equal(got, first) {
					t.Error("other bits than on another path")
				}
			})
		})
	}
}

// longSum is a call on tenths, every third of which is a bit more, and one number for softmax to
// stand out.
func longSum(name string, shape []int, version int, attrs op.Attrs, more int) *sample {
	v := make([]float32, count(shape))
	for i := range v {
		v[i] = 0.1 + float32(i%3/2)*0.003
	}
	v[0], v[len(v)-1] = 2, 2
	in := []*tensor.Tensor{tensor.From(v, shape...)}
	last := shape[len(shape)-1]
	for range max(more, -more) {
		w := []float32{1, 0.5}
		if more < 0 {
			// whose period divides no part of a row
			w = slices.Repeat([]float32{1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4}, last/7+1)[:last]
		}
		in = append(in, tensor.From(w, len(w)))
	}
	return &sample{in: in, constant: make([]bool, len(in)), call: &op.Call{Type: name,
		Version: version, Attrs: attrs, NumIn: len(in), NumOut: 1}}
}

// checkLongSum runs the call with 1 to 4 workers, in scratch full of NaN, on the path that is set,
// and returns what it gives.
func checkLongSum(t *testing.T, s *sample, r *compute.Request, want []*tensor.Tensor,
	atol float64) []byte {
	t.Helper()
	k, err := prepare(r)
	if err != nil || k == nil {
		t.Fatal(k, err)
	}
	var first []byte
	for workers := range 4 {
		p := cpu.NewPool(cpu.PoolOptions{Threads: workers + 1})
		out := runOnce(t, s, k, want[0].Shape, p, device.Open)
		p.Close()
		if first == nil {
			first = out.Data
			checkClose(t, k, tensor.As[float32](out), tensor.As[float32](want[0]), atol)
		}
		if !bytes.Equal(out.Data, first) {
			t.Errorf("%s: %d workers give other bits than 1", k.Name(), workers+1)
		}
	}
	return first
}

// runOnce runs the call in scratch full of NaN.
func runOnce(t *testing.T, s *sample, k compute.Kernel, shape []int, p *cpu.Pool,
	gate device.Gate) *tensor.Tensor {
	t.Helper()
	out, err := tensor.New(tensor.Float32, shape...)
	if err != nil {
		t.Fatal(err)
	}
	b := compute.Binding{In: s.in, Out: []*tensor.Tensor{out}, Workers: p.Threads(),
		Scratch: make([]byte, k.ScratchBytes(p.Threads()))}
	poison(b.Scratch)
	x := &compute.Exec{Ctx: context.Background(), Gate: gate, Pool: p}
	if err := k.Bind(b).Run(x); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLongSoftmaxOfRisingRows has the greatest element of each row and column in its last part, so
// far above the others that exponentials below the greatest of any other part are infinite.
func TestLongSoftmaxOfRisingRows(t *testing.T) {
	if testing.Short() {
		t.Skip("TestLongSums has the race detector see the same kernels")
	}
	const n = 2*longRow + 5
	pool := testPools(t)[1]
	for _, name := range []string{"Softmax", "LogSoftmax", "ReduceLogSumExp"} {
		for _, shape := range [][]int{{2, n, 1}, {1, n, 2}, {2, n / 2, 3}} {
			x := make([]float32, count(shape))
			for i := range x {
				x[i] = 1000 * float32(i/shape[2]%shape[1]) / n
			}
			attrs := axisOf(1)(n)
			if name == "ReduceLogSumExp" {
				attrs = axesOf(1)(n)
			}
			s := &sample{in: []*tensor.Tensor{tensor.From(x, shape...)}, constant: []bool{false},
				call: &op.Call{Type: name, Version: 13, Attrs: attrs, NumIn: 1, NumOut: 1}}
			if got := s.check(t, []*cpu.Pool{pool}); got != served {
				t.Errorf("%v has no kernel", s)
			}
		}
	}
}

// TestRowsAreCutBeyondLongRow holds where one chunk of work becomes two.
func TestRowsAreCutBeyondLongRow(t *testing.T) {
	p := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer p.Close()
	for _, c := range []struct {
		name    string
		version int
		attrs   op.Attrs
		more    int
	}{
		{"ReduceSum", 11, axesOf(2)(0), 0},
		{"ReduceMax", 11, axesOf(2)(0), 0},
		{"ReduceLogSumExp", 11, axesOf(2)(0), 0},
		{"Softmax", 13, axisOf(2)(0), 0},
		{"LogSoftmax", 13, axisOf(2)(0), 0},
		{"LayerNormalization", 17, axisOf(2)(0), -2},
		{"InstanceNormalization", 6, nil, 2},
	} {
		var asked [2]int64
		for more := range asked {
			s := longSum(c.name, []int{1, 2, longRow + more}, c.version, c.attrs, c.more)
			asked[more] = timesAsked(t, s, p)
		}
		if asked[1] <= asked[0] {
			t.Errorf("%s asks %d times for %d elements and %d times for one more", c.name,
				asked[0], longRow, asked[1])
		}
	}
}

// countingGate counts how often work asks whether its lease was asked back.
type countingGate struct {
	device.Gate
	asked atomic.Int64
}

func (g *countingGate) Revoked() bool {
	g.asked.Add(1)
	return g.Gate.Revoked()
}

// TestLongRowsYield holds that a reduction, a softmax or a normalisation of one row, or of few
// columns, gives a lease back on the way: it asks for each part of longRow elements, and for each
// of its passes.
func TestLongRowsYield(t *testing.T) {
	if testing.Short() {
		t.Skip("of one worker there is nothing for the race detector to see")
	}
	const n = 5 * longRow
	p := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer p.Close()
	for _, c := range longSums {
		if c.name == "AveragePool" && c.atol > 0 {
			continue // whose work is cut by planes, but for windows of whole ones
		}
		t.Run(fmt.Sprintf("%s/%v", c.name, c.shape(n)), func(t *testing.T) {
			s := longSum(c.name, c.shape(n), c.version, c.attrs(n), c.more)
			asked := timesAsked(t, s, p)
			least := int64(s.in[0].Len() / longRow)
			switch {
			case strings.HasSuffix(c.name, "Exp"):
				least *= 2
			case strings.HasSuffix(c.name, "Softmax"), strings.HasSuffix(c.name, "Normalization"):
				least *= 3
			}
			if asked < least {
				t.Errorf("%v asks %d times, want %d", s, asked, least)
			}
		})
	}
}

// timesAsked returns how often the call's kernel asks for its lease.
func timesAsked(t *testing.T, s *sample, p *cpu.Pool) int64 {
	t.Helper()
	_, r, ok := s.request()
	if !ok {
		t.Fatal("not a call")
	}
	k, err := prepare(r)
	if err != nil || k == nil {
		t.Fatal(k, err)
	}
	gate := &countingGate{Gate: device.Open}
	shape, _ := r.Out[0].Ints()
	runOnce(t, s, k, shape, p, gate)
	return gate.asked.Load()
}

func checkClose(t *testing.T, k compute.Kernel, got, want []float32, atol float64) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - float64(w)); !(d <= 1.1e-5*math.Abs(float64(w))+atol) {
			t.Fatalf("%s: element %d is %v, want %v", k.Name(), i, got[i], w)
		}
	}
}

// TestSumsThatAreNoNumbers reduces columns that hold an infinity or NaN, or whose sums leave the
// range of float32 on the way only.
func TestSumsThatAreNoNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("TestLongSums has the race detector see the same kernels")
	}
	const big = 3e38
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	columns := [][3]float32{ // in every row, in the second half, and in one row
		{1, 1, inf}, {1, 1, -inf}, {1, 1, nan}, {big, -big, 1}, {big, big, 1}, {1e30, 1e30, 1}}
	pool := testPools(t)[1]
	for _, n := range []int{2, 4300} {
		for _, width := range []int{len(columns), 700} {
			x := make([]float32, n*width)
			for i := range x {
				c := columns[i%width%len(columns)]
				x[i] = c[2*(i/width)/n]
				if i/width == n/3 {
					x[i] = c[2]
				}
			}
			for _, name := range []string{"ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1",
				"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"} {
				s := &sample{in: []*tensor.Tensor{tensor.From(x, n, width)},
					constant: []bool{false},
					call: &op.Call{Type: name, Version: 11, Attrs: axesOf(0)(n), NumIn: 1,
						NumOut: 1}}
				checkNoNumbers(t, s, pool)
			}
		}
	}
}

// checkNoNumbers wants the infinities and NaN of the definition, and no others.
func checkNoNumbers(t *testing.T, s *sample, pool *cpu.Pool) {
	t.Helper()
	o, r, ok := s.request()
	if !ok {
		t.Fatal("not a call")
	}
	want, err := op.Run(context.Background(), o, s.call, s.in)
	if err != nil {
		t.Fatal(err)
	}
	x := tensor.As[float32](want[0])
	cputest.EachPath(t, func(t *testing.T) {
		k, err := prepare(r)
		if err != nil || k == nil {
			t.Fatal(k, err)
		}
		got, err := s.run(t, r, k, pool)
		if err != nil {
			t.Fatal(err)
		}
		for i, y := range tensor.As[float32](got[0]) {
			switch {
			case x[i] != x[i] && y != y, x[i] == y:
			case !(math.Abs(float64(y)-float64(x[i])) <= 1.1e-5*math.Abs(float64(x[i]))):
				t.Fatalf("%v: element %d is %v, want %v", s, i, y, x[i])
			}
		}
	})
}
