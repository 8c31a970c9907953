package pass

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// productNode is one node with operands of the given shapes, the second constant or computed.
func productNode(t *testing.T, kind string, attrs op.Attrs, a, b []int, constant bool) *graph.Node {
	t.Helper()
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, a...)}
	w := &graph.Value{Name: "w", Type: op.Concrete(tensor.Float32, b...)}
	if constant {
		v, err := tensor.New(tensor.Float32, b...)
		if err != nil {
			t.Fatal(err)
		}
		w = graph.NewConst("w", v)
	}
	n := graph.NewNode("n", kind, 13, attrs, []*graph.Value{x, w}, "y")
	if err := n.InferTypes(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAmpCost holds the cost of products that differ in one thing each.
// costs are those of a CPU.
var costs = compute.Costs{Rounding: 6, TiledWeights: 256 * 256, TiledPixels: 28 * 28,
	SharedQueries: 16}

func TestAmpCost(t *testing.T) {
	ints := func(name string, v ...int64) op.Attrs { return op.Attrs{op.IntsAttr(name, v...)} }
	group := func(v int64) op.Attrs { return op.Attrs{op.IntAttr("group", v)} }
	for _, tc := range []struct {
		name, kind string
		attrs      op.Attrs
		a, b       []int
		constant   bool
		pays       bool
		why        string
	}{
		{"many columns", "MatMul", nil, []int{64, 96}, []int{96, 128}, true, true, "saves"},
		{"few columns", "MatMul", nil, []int{64, 96}, []int{96, 4}, true, false, "costs"},
		{"one row waits for memory", "MatMul", nil, []int{1, 96}, []int{96, 128}, true, true,
			"saves"},
		{"one row, both operands computed", "MatMul", nil, []int{1, 96}, []int{96, 128}, false,
			false, "costs"},
		{"both operands computed", "MatMul", nil, []int{64, 96}, []int{96, 128}, false, true,
			"saves"},
		{"transposed", "Gemm", op.Attrs{op.IntAttr("transA", 1)}, []int{96, 64}, []int{96, 128},
			true, true, "saves"},
		{"a batch", "MatMul", nil, []int{12, 128, 64}, []int{12, 64, 128}, false, true, "saves"},
		{"convolution", "Conv", nil, []int{1, 64, 14, 14}, []int{64, 64, 1, 1}, true, true,
			"saves"},
		{"weights' gradient as a convolution of few pixels", "Conv", nil, []int{256, 8, 14, 14},
			[]int{1024, 8, 14, 14}, false, true, "saves"},
		{"depthwise", "Conv", group(64), []int{1, 64, 14, 14}, []int{64, 1, 3, 3}, true, false,
			"depthwise"},
		{"in tiles", "Conv", nil, []int{1, 64, 56, 56}, []int{64, 64, 3, 3}, true, false, "tiles"},
		{"too few pixels for tiles", "Conv", nil, []int{1, 64, 14, 14}, []int{64, 64, 3, 3}, true,
			true, "saves"},
		{"strides have no tiles", "Conv", ints("strides", 2, 2), []int{1, 64, 112, 112},
			[]int{64, 64, 3, 3}, true, true, "saves"},
	} {
		c := ampCostOf(productNode(t, tc.kind, tc.attrs, tc.a, tc.b, tc.constant), &costs)
		if c.pays() != tc.pays || !strings.Contains(c.why(), tc.why) {
			t.Errorf("%s: pays %v (%s), want %v", tc.name, c.pays(), c.why(), tc.pays)
		}
	}
}

// TestAmpCostByRate holds that a processor on which bfloat16 is not faster multiplies nothing in
// it, whatever else speaks for it, that a little faster is not enough for what costs more to round,
// and that the rate is told.
func TestAmpCostByRate(t *testing.T) {
	n := productNode(t, "MatMul", nil, []int{64, 96}, []int{96, 16}, true)
	for _, tc := range []struct {
		rate float64
		pays bool
		why  string
	}{
		{0.5, false, "bfloat16 has 0.5 times the rate of float32 here"},
		{1, false, "bfloat16 has 1 times the rate"},
		{1.25, false, "1.25 times the rate saves 1.97e+04"},
		{1.75, true, "1.75 times the rate saves 4.21e+04 multiplications"},
		{16, true, "16 times the rate saves 9.22e+04 multiplications"},
	} {
		on := costs
		on.BF16Rate = compute.RateOf(func() float64 { return tc.rate })
		c := ampCostOf(n, &on)
		if c.pays() != tc.pays || !strings.Contains(c.why(), tc.why) || c.Rate != tc.rate {
			t.Errorf("rate %v: pays %v: %s", tc.rate, c.pays(), c.why())
		}
	}
	if c := ampCostOf(n, &costs); c.Rate != 2 || !c.pays() {
		t.Errorf("nothing measured: %+v", c)
	}
}

// TestFinishingResults holds what a result costs in bfloat16 beyond float32, by the rate of short
// products: nothing where that is about the rate of long ones.
func TestFinishingResults(t *testing.T) {
	conv := productNode(t, "Conv", nil, []int{1, 16, 112, 112}, []int{96, 16, 1, 1}, true)
	long := productNode(t, "MatMul", nil, []int{128, 768}, []int{768, 768}, true)
	fixed := func(rate float64) *compute.Rate {
		return compute.RateOf(func() float64 { return rate })
	}
	for _, tc := range []struct {
		rate, short float64 // 0 for none
		want        float64
		pays        bool // the convolution of 16 steps
	}{
		{2, 0, 0, true}, {2, 2, 0, true}, {2, 1.5, 0, true}, {2, 1.25, 4.8, true},
		{8, 1, 28, false}, {8, 0.25, 196, false}, {16, 8, 0, true},
	} {
		on := costs
		on.BF16Rate, on.ShortSteps, on.Finishing = fixed(tc.rate), 32, 24
		if tc.short > 0 {
			on.BF16Short = fixed(tc.short)
		}
		if got := finishing(&on); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("rate %v, short %v: %v, want %v", tc.rate, tc.short, got, tc.want)
		}
		if c := ampCostOf(conv, &on); c.pays() != tc.pays {
			t.Errorf("rate %v, short %v: a convolution of few steps pays %v: %s", tc.rate, tc.short,
				c.pays(), c.why())
		}
		if c := ampCostOf(long, &on); !c.pays() {
			t.Errorf(
				"rate %v, short %v: a long product does not pay: %s", tc.rate, tc.short, c.why(),
			)
		}
	}
}

// TestAmpCostGrows holds that what is saved and what it costs grow with every size, and that a
// computed operand never costs less than a constant one.
func TestAmpCostGrows(t *testing.T) {
	sizes := []int{1, 7, 32, 200}
	cost := func(m, k, n int, constant bool) AmpCost {
		return ampCostOf(productNode(t, "MatMul", nil, []int{m, k}, []int{k, n}, constant), &costs)
	}
	for _, m := range sizes {
		for _, k := range sizes {
			for _, n := range sizes {
				c, name := cost(m, k, n, true), fmt.Sprintf("%d x %d x %d", m, k, n)
				for _, d := range []AmpCost{cost(m+1, k, n, true), cost(m, k+1, n, true),
					cost(m, k, n+1, true)} {
					if d.Saves < c.Saves || d.Costs < c.Costs {
						t.Errorf("%s: %+v becomes %+v when it grows", name, c, d)
					}
				}
				if d := cost(m, k, n, false); d.Saves != c.Saves || d.Costs <= c.Costs {
					t.Errorf("%s: constant %+v, computed %+v", name, c, d)
				}
			}
		}
	}
}

// TestAmpCostUnknown holds that a product of unknown shape stays as it is.
func TestAmpCostUnknown(t *testing.T) {
	g, err := graph.Parse("graph \"g\" {\n opset \"\" 17\n input %x: float32[N,8]\n input %w: " +
		"float32[8,M]\n %y = MatMul@17 (%x, %w)\n output %y\n}")
	if err != nil {
		t.Fatal(err)
	}
	if c := ampCostOf(g.Nodes[0], &costs); c.pays() || !strings.Contains(c.why(), "not known") {
		t.Errorf("got %+v: %s", c, c.why())
	}
}
