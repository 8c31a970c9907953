package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestSameBits holds that results are the same bits from run to run and on 1 to 4 workers, on every
// path of instructions: small variants of the standard architectures in float32, with products in
// bfloat16, and quantised as exporters do it.
func TestSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many plans")
	}
	var pools []*cpu.Pool
	for n := range 4 {
		p := cpu.NewPool(cpu.PoolOptions{Threads: n + 1})
		t.Cleanup(p.Close)
		pools = append(pools, p)
	}
	eachSmall(t, func(t *testing.T, g, quantised *graph.Graph, shapes map[string][]int,
		in []*tensor.Tensor) {
		cputest.EachPath(t, func(t *testing.T) {
			sameBits(t, pools, g, Options{Target: host, Shapes: shapes}, in, "")
			sameBits(t, pools, g, Options{Target: host, Shapes: shapes,
				Passes: pass.Options{Precision: pass.BF16}}, in, "bf16")
			sameBits(t, pools, quantised, Options{Target: host, Shapes: shapes}, in, "int8")
		})
	})
}

// eachSmall calls f with each of small, as it is and quantised, and inputs of these shapes.
func eachSmall(t *testing.T, f func(t *testing.T, g, quantised *graph.Graph,
	shapes map[string][]int, in []*tensor.Tensor)) {
	t.Helper()
	for _, a := range small {
		t.Run(a.name, func(t *testing.T) {
			g, err := zoo.New(a.name, a.options)
			if err != nil {
				t.Fatal(err)
			}
			shapes := shapesOf(g, a.shape)
			quantised := g.Clone()
			quantize(t, quantised)
			f(t, g, quantised, shapes, like(rand.New(rand.NewPCG(1, 1)), g, shapes))
		})
	}
}

// sameBits runs g twice on each pool. Some step's kernel has kind in its name.
func sameBits(t *testing.T, pools []*cpu.Pool, g *graph.Graph, o Options, in []*tensor.Tensor,
	kind string) {
	t.Helper()
	var first []*tensor.Tensor
	for i, pool := range pools {
		o.Threads = i + 1
		p := compileAs(t, g, o)
		if !slices.ContainsFunc(p.Steps, func(s Step) bool {
			return strings.Contains(s.Kernel.Name(), kind)
		}) {
			t.Fatalf("no kernel of kind %q", kind)
		}
		prog, _ := bindTo(t, p)
		for round := range 2 {
			set(prog, in)
			if err := prog.Run(exec(pool)); err != nil {
				t.Fatal(err)
			}
			first = sameOutputs(t, 2*i+round, first, prog)
		}
	}
	for i, v := range first {
		if v.DType == tensor.Float32 &&
			!slices.ContainsFunc(tensor.As[float32](v), func(x float32) bool {
				return x != 0 && !math.IsNaN(float64(x))
			}) {
			t.Errorf("%q: output %d holds nothing that could differ", kind, i)
		}
	}
}

// quantize puts every convolution between nodes that quantise, and makes every product by a
// constant a dynamic one of bytes, as the quantisers of ONNX Runtime do ("static" and "dynamic"
// quantisation).
func quantize(t *testing.T, g *graph.Graph) {
	t.Helper()
	q := quantizer{g: g, old: g.Nodes}
	g.Nodes = nil
	for _, n := range q.old {
		w := constantOf(n, 1)
		switch {
		case n.Type == "Conv" && w != nil:
			n.In[0], n.In[1] = q.onGrid(n.In[0]),
				q.add("DequantizeLinear", nil, 1, q.bytes(w)...)[0]
			g.Nodes = append(g.Nodes, n)
			q.replace(n.Out[0], q.onGrid(n.Out[0]))
		case n.Type == "MatMul" && w != nil && len(w.Shape) == 2:
			q.replace(n.Out[0], q.product(n.In[0], w))
		case n.Type == "Gemm" && w != nil && n.Attrs.Int("transB", 0) == 0 && len(n.In) == 3:
			q.replace(n.Out[0], q.add("Add", nil, 1, q.product(n.In[0], w), n.In[2])[0])
		default:
			g.Nodes = append(g.Nodes, n)
		}
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
}

func constantOf(n *graph.Node, i int) *tensor.Tensor {
	if i < len(n.In) && n.In[i] != nil && n.In[i].IsConst() {
		return n.In[i].Const()
	}
	return nil
}

type quantizer struct {
	g     *graph.Graph
	old   []*graph.Node
	count int
}

func (q *quantizer) add(typ string, attrs op.Attrs, outputs int,
	in ...*graph.Value) []*graph.Value {
	q.count++
	var out []string
	for i := range outputs {
		out = append(out, fmt.Sprintf("q%d.%d", q.count, i))
	}
	n := graph.NewNode(fmt.Sprint(typ, q.count), typ, q.g.Opsets[""], attrs, in, out...)
	q.g.Nodes = append(q.g.Nodes, n)
	return n.Out
}

func (q *quantizer) constant(x *tensor.Tensor) *graph.Value {
	q.count++
	return graph.NewConst(fmt.Sprintf("q%d", q.count), x)
}

// onGrid returns x rounded to unsigned bytes.
func (q *quantizer) onGrid(x *graph.Value) *graph.Value {
	scale, zero := q.constant(tensor.From([]float32{0.05})), q.constant(tensor.From([]uint8{117}))
	y := q.add("QuantizeLinear", nil, 1, x, scale, zero)[0]
	return q.add("DequantizeLinear", nil, 1, y, scale, zero)[0]
}

// product returns the product of x and w with both in bytes, x on a grid that is chosen as the
// model runs.
func (q *quantizer) product(x *graph.Value, w *tensor.Tensor) *graph.Value {
	a, b := q.add("DynamicQuantizeLinear", nil, 3, x), q.bytes(w)
	sums := q.add("MatMulInteger", nil, 1, a[0], b[0], a[2])[0]
	floats := q.add("Cast", op.Attrs{op.IntAttr("to", int64(tensor.Float32))}, 1, sums)[0]
	return q.add("Mul", nil, 1, floats, q.add("Mul", nil, 1, a[1], b[1])[0])[0]
}

// bytes returns w as signed bytes and its scale.
func (q *quantizer) bytes(w *tensor.Tensor) []*graph.Value {
	most := float32(0)
	for _, v := range tensor.As[float32](w) {
		most = max(most, v, -v)
	}
	b := make([]int8, w.Len())
	for i, v := range tensor.As[float32](w) {
		b[i] = int8(math.RoundToEven(float64(127 * v / most)))
	}
	return []*graph.Value{q.constant(tensor.From(b, w.Shape...)),
		q.constant(tensor.From([]float32{most / 127}))}
}

// replace makes the nodes to come, and the outputs, read new in place of old.
func (q *quantizer) replace(old, new *graph.Value) {
	for _, n := range q.old {
		for i, v := range n.In {
			if v == old && n != old.Producer && !slices.Contains(q.g.Nodes, n) {
				n.In[i] = new
			}
		}
	}
	for i, v := range q.g.Outputs {
		if v == old {
			q.g.Outputs[i] = new
		}
	}
}
