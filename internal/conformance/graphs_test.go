package conformance

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// graphs are what passes look for and ONNX's cases of single operators have not.
var graphs = map[string]string{
	"convolution and batch normalisation": `input %x: float32[2,3,9,8]
		%c = Conv@17 (%x, W[8,3,3,3], W[8]) {pads=[1, 1, 1, 1]}
		%n = BatchNormalization@15 (%c, W[8], W[8], W[8], P[8])
		%r = Relu@14 (%n)
		%d = Conv@17 (%r, W[8,1,3,3]) {group=8, pads=[1, 1, 1, 1]}
		%m = BatchNormalization@15 (%d, W[8], W[8], W[8], P[8])
		%s = Add@14 (%m, %r)
		%y = HardSwish@14 (%s)
		output %y`,
	"scales and shifts around products": `input %x: float32[2,5,16]
		%a = Mul@14 (%x, W[16])
		%b = Add@14 (%a, W[16])
		%c = MatMul@13 (%b, W[16,24])
		%d = Add@14 (%c, W[24])
		%e = Mul@14 (%d, W[24])
		%f = Gelu@20 (%e)
		%y = MatMul@13 (%f, W[24,16])
		%z = Add@14 (%y, %x)
		output %z`,
	"normalisation of exporters": `input %x: float32[3,7,32]
		%m = ReduceMean@18 (%x, int64[1] {-1})
		%c = Sub@14 (%x, %m)
		%q = Pow@15 (%c, float32[] {2.0})
		%v = ReduceMean@18 (%q, int64[1] {-1})
		%e = Add@14 (%v, float32[] {1e-05})
		%r = Sqrt@13 (%e)
		%n = Div@14 (%c, %r)
		%g = Mul@14 (%n, W[32])
		%y = Add@14 (%g, W[32])
		output %y`,
	"attention of exporters": `input %q: float32[2,4,6,8]
		input %k: float32[2,4,6,8]
		input %v: float32[2,4,6,8]
		%t = Transpose@13 (%k) {perm=[0, 1, 3, 2]}
		%s = MatMul@13 (%q, %t)
		%d = Div@14 (%s, float32[] {2.828427})
		%p = Softmax@13 (%d) {axis=-1}
		%o = MatMul@13 (%p, %v)
		%u = Transpose@13 (%o) {perm=[0, 2, 1, 3]}
		%y = Reshape@13 (%u, int64[3] {0, 0, -1})
		output %y`,
	"sizes of one name that differ": `input %x: float32[2,3]
		%t = Transpose@13 (%x) {perm=[1, 0]}
		%s = Shape@15 (%t)
		%r = Reshape@14 (%x, %s)
		%y = Neg@13 (%r)
		output %y`,
	"swish and gates": `input %x: float32[2,6,5,5]
		%s = Sigmoid@13 (%x)
		%w = Mul@14 (%x, %s)
		%p = GlobalAveragePool@1 (%w)
		%c = Conv@11 (%p, W[6,6,1,1], W[6])
		%g = Sigmoid@13 (%c)
		%y = Mul@14 (%w, %g)
		output %y`,
}

// TestMetamorphicGraphs holds for graphs that passes change what [TestMetamorphic] holds for cases,
// each in some rounds of ways.
func TestMetamorphicGraphs(t *testing.T) {
	s := newTester(t)
	for name, text := range graphs {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			g, err := graph.Parse(`graph "g" { opset "" 20 ` + weighted(r, text) + "}")
			if err != nil {
				t.Fatal(err)
			}
			k := &compared{ofCase: &Case{Name: name}, graph: g}
			for _, v := range g.Inputs {
				shape, _ := v.Type.Ints()
				k.in = append(k.in, normal(r, shape))
			}
			for range 4 {
				k.ofCase.Name += "."
				if err := s.runIn(t.Context(), k); err != nil {
					t.Error(err)
				}
			}
			for as := apart; as <= sloppy; as++ {
				w := way{threads: 1, before: true, symbols: as}
				if err := k.run(t.Context(), w, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// normal draws a tensor of normal numbers.
func normal(r *rand.Rand, shape []int) *tensor.Tensor {
	n, _ := tensor.Count(shape)
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return tensor.From(v, shape...)
}

// places are where a text has a constant: W of any numbers that are drawn, P of positive ones, or
// the numbers themselves.
var places = regexp.MustCompile(`([WP]|float32|int64)(\[[0-9,]*\])( \{[^}]*\})?([,)])`)

// weighted declares the constants of a text before it.
func weighted(r *rand.Rand, text string) string {
	var declared strings.Builder
	names := 0
	text = places.ReplaceAllStringFunc(text, func(at string) string {
		m := places.FindStringSubmatch(at)
		typ, shape, numbers, end := m[1], m[2], m[3], m[4]
		if typ == "W" || typ == "P" {
			numbers, typ = drawnNumbers(r, shape, typ == "P"), "float32"
		}
		names++
		fmt.Fprintf(&declared, "const %%const%d: %s%s = %s\n", names, typ, shape, numbers)
		return fmt.Sprintf("%%const%d%s", names, end)
	})
	return declared.String() + text
}

// drawnNumbers draws the elements of a shape.
func drawnNumbers(r *rand.Rand, shape string, positive bool) string {
	n := 1
	for _, size := range strings.Split(strings.Trim(shape, "[]"), ",") {
		k, _ := strconv.Atoi(size)
		n *= k
	}
	v := make([]string, n)
	for i := range v {
		x := r.NormFloat64()
		if positive {
			x = 0.1 + x*x
		}
		v[i] = strconv.FormatFloat(x, 'f', 6, 32)
	}
	return "{" + strings.Join(v, ", ") + "}"
}
