package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/scale"
)

// deep is a net of so many layers, in which an activation follows each product, and the squares of
// whose results are the loss.
func deep(layers, width int, activation string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "input %%x: float32[%d,%d]\n", 8*width, width)
	for i := range layers {
		fmt.Fprintf(&b, "input %%p%d: float32[%d,%d]\n", i, width, width)
	}
	last := "x"
	for i := range layers {
		fmt.Fprintf(&b, "%%h%d = MatMul@13 (%%%s, %%p%d)\n%%a%d = %s (%%h%d)\n", i, last, i, i,
			activation, i)
		last = fmt.Sprint("a", i)
	}
	fmt.Fprintf(&b, "%%s = Mul@14 (%%%s, %%%s)\n%%loss = ReduceMean@13 (%%s) {keepdims=0}\n"+
		"output %%loss", last, last)
	return b.String()
}

// training makes a step of descent of a model whose weights are the inputs that begin with p. Its
// outputs are the weights after the step, the gradients and what the scale becomes.
func training(t *testing.T, model string, o scale.Options) (g *graph.Graph, weights int) {
	t.Helper()
	return trainingOf(t, parse(t, model), o)
}

// trainingOf is training of a graph, which becomes the step.
func trainingOf(t *testing.T, g *graph.Graph, o scale.Options) (*graph.Graph, int) {
	t.Helper()
	made := 0
	name := func(base string) string {
		made++
		return fmt.Sprint("step.", base, ".", made)
	}
	s, err := scale.New(g, o, name)
	if err != nil {
		t.Fatal(err)
	}
	var by []*graph.Value
	for _, v := range g.Inputs {
		if v.Name[0] == 'p' {
			by = append(by, v)
		}
	}
	loss := s.Loss(g.Outputs[0])
	ds, err := grad.Backward(g, grad.Objective{Of: []*graph.Value{loss}, By: by})
	if err != nil {
		t.Fatal(err)
	}
	ds = s.Gradients(ds)
	node := func(typ string, in ...*graph.Value) *graph.Value {
		n := graph.NewNode(name(typ), typ, 18, nil, in, name(typ))
		g.Nodes = append(g.Nodes, n)
		if err := n.InferTypes(); err != nil {
			t.Fatal(err)
		}
		return n.Out[0]
	}
	rate := graph.NewConst("rate", tensor.Scalar(float32(0.01)))
	g.Outputs = nil
	for i, d := range ds {
		g.Outputs = append(g.Outputs, s.Keep(node("Sub", by[i], node("Mul", d, rate)), by[i]))
	}
	g.Outputs = append(g.Outputs, ds...)
	for _, v := range s.Variables() {
		g.Outputs = append(g.Outputs, v.Next)
	}
	if err := g.Sort(); err != nil {
		t.Fatal(err)
	}
	return g, len(by)
}

// trained runs a step by its plan once and returns its outputs.
func trained(t *testing.T, g *graph.Graph, p pass.Precision, in []*tensor.Tensor,
	off ...string) (*Plan, []*tensor.Tensor) {
	t.Helper()
	pl := compileAs(t, g, Options{Target: host, Threads: threads,
		Passes: pass.Options{Precision: p, Off: off, Check: true}})
	return pl, runPlan(t, newPool(t), pl, in)
}

// operands are inputs of a step: weights of which each product keeps the size of what it is given,
// and the variables of the scale.
func operands(t *testing.T, g *graph.Graph, o scale.Options, size float64) []*tensor.Tensor {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	s, err := scale.New(&graph.Graph{}, o, func(base string) string { return base })
	if err != nil {
		t.Fatal(err)
	}
	s.Gradients([]*graph.Value{{Name: "d", Type: op.Concrete(tensor.Float32)}})
	start := map[string]*tensor.Tensor{}
	for _, v := range s.Variables() {
		start[v.Name] = v.Start
	}
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		if start[v.Name] != nil {
			in = append(in, start[v.Name])
			continue
		}
		shape, _ := v.Type.Ints()
		x, err := tensor.New(v.Type.DType, shape...)
		if err != nil {
			t.Fatal(err)
		}
		by := size
		if v.Name[0] == 'p' {
			by = math.Sqrt(2 / float64(shape[0]))
		}
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32(by * rng.NormFloat64())
		}
		in = append(in, x)
	}
	return in
}

var one = scale.Options{Kind: scale.Constant, Init: 1}

// TestSavedBytes: kept in 16 bits, what the backward half reads again takes less memory, to the
// byte of the plan, and gradients lose nothing that products have not lost already; where another
// activation reads more, it is within the rounding of bfloat16.
func TestSavedBytes(t *testing.T) {
	for activation, bound := range map[string]float64{"Relu@14": 0, "Tanh@13": 0.01,
		"Gelu@20": 0.01} {
		g, weights := training(t, deep(12, 64, activation), one)
		in := operands(t, g, one, 1)
		wide, want := trained(t, g, pass.BF16, in, "ampsave")
		narrow, got := trained(t, g, pass.BF16, in)
		if r := float64(narrow.ArenaBytes) / float64(wide.ArenaBytes); r > 0.75 {
			t.Errorf("%s: %d bytes, %d with saved values in 16 bits: %.2f, want at most 0.75",
				activation, wide.ArenaBytes, narrow.ArenaBytes, r)
		}
		t.Logf("%s: %d bytes, %d with saved values in 16 bits", activation, wide.ArenaBytes,
			narrow.ArenaBytes)
		for i := range 2 * weights {
			if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > bound {
				t.Errorf("%s: output %d: relative distance %g, %v", activation, i, d, err)
			}
		}
	}
}

// encoder is a net of so many layers of attention and of products with Gelu between, around each of
// which is a branch, on samples of 32 tokens of 64 numbers.
func encoder(layers int) string {
	var b strings.Builder
	b.WriteString("input %x: float32[4,32,64]\nconst %heads: int64[4] = {0, 0, 4, 16}\n" +
		"const %tokens: int64[3] = {0, 0, 64}\nconst %quarter: float32[] = {0.25}\n")
	last := "x"
	for i := range layers {
		for _, p := range []string{"q: float32[64,64]", "k: float32[64,64]", "v: float32[64,64]",
			"o: float32[64,64]", "f: float32[64,256]", "g: float32[256,64]", "s: float32[64]",
			"t: float32[64]", "b: float32[64]"} {
			fmt.Fprintf(&b, "input %%p%d%s\n", i, p)
		}
		b.WriteString(strings.NewReplacer("#", fmt.Sprint(i), "&", last).Replace(
			`%n# = LayerNormalization@17 (%&, %p#s, %p#b)
			%q# = MatMul@13 (%n#, %p#q)
			%k# = MatMul@13 (%n#, %p#k)
			%v# = MatMul@13 (%n#, %p#v)
			%qh# = Reshape@13 (%q#, %heads)
			%kh# = Reshape@13 (%k#, %heads)
			%vh# = Reshape@13 (%v#, %heads)
			%qt# = Transpose@13 (%qh#) {perm=[0,2,1,3]}
			%kt# = Transpose@13 (%kh#) {perm=[0,2,3,1]}
			%vt# = Transpose@13 (%vh#) {perm=[0,2,1,3]}
			%s# = MatMul@13 (%qt#, %kt#)
			%c# = Mul@14 (%s#, %quarter)
			%w# = Softmax@13 (%c#) {axis=-1}
			%m# = MatMul@13 (%w#, %vt#)
			%mt# = Transpose@13 (%m#) {perm=[0,2,1,3]}
			%mf# = Reshape@13 (%mt#, %tokens)
			%o# = MatMul@13 (%mf#, %p#o)
			%a# = Add@14 (%o#, %&)
			%l# = LayerNormalization@17 (%a#, %p#t, %p#b)
			%f# = MatMul@13 (%l#, %p#f)
			%h# = Gelu@20 (%f#)
			%g# = MatMul@13 (%h#, %p#g)
			%e# = Add@14 (%g#, %a#)
			`))
		last = fmt.Sprint("e", i)
	}
	fmt.Fprintf(&b, "%%sq = Mul@14 (%%%s, %%%s)\n%%loss = ReduceMean@13 (%%sq) {keepdims=0}\n"+
		"output %%loss", last, last)
	return b.String()
}

// TestSavedEncoder: of what layers of attention leave for the backward half nearly all waits in 16
// bits, under whatever shape it is read again, and gradients are as near to those in float32 as
// those of products in bfloat16 alone.
func TestSavedEncoder(t *testing.T) {
	g, weights := training(t, encoder(3), one)
	in := operands(t, g, one, 1)
	run := func(p pass.Precision, off ...string) (*Plan, []*tensor.Tensor) {
		pl := compileAs(t, g, Options{Target: host, Threads: threads,
			Passes: pass.Options{Precision: p, Off: off}})
		return pl, runPlan(t, newPool(t), pl, in)
	}
	full, want := run(pass.FP32)
	_, products := run(pass.BF16, "ampsave")
	narrow, got := run(pass.BF16)
	r := float64(narrow.ArenaBytes) / float64(full.ArenaBytes)
	t.Logf("%d bytes in float32, %d in bfloat16: %.2f", full.ArenaBytes, narrow.ArenaBytes, r)
	most := 0.75 // scratch, which is more on some processors, is the same in both
	if cpuinfo.HasAVX512BF16() {
		most = 0.7
	}
	if r > most {
		t.Errorf("%d bytes in float32, %d in bfloat16: %.2f, want at most %v", full.ArenaBytes,
			narrow.ArenaBytes, r, most)
	}
	for i := range 2 * weights {
		d, err := tensor.RelL2(got[i], want[i])
		most, err2 := tensor.RelL2(products[i], want[i])
		if err != nil || err2 != nil || d > 1.5*most+0.002 {
			t.Errorf("output %d: relative distance %g, %g of products alone, %v", i, d, most, err)
		}
	}
	reads := map[string]int{}
	for _, n := range narrow.Graph.Nodes {
		if len(n.In) > 1 && n.In[1] != nil && n.In[1].Type.DType == tensor.BFloat16 {
			reads[n.Type]++
		}
	}
	for _, typ := range []string{op.GeluGradient, op.SoftmaxGradient, op.LayerNormGradient} {
		if reads[typ] < 2 {
			t.Errorf("%d of %s read in bfloat16 what has waited, want 2 at least", reads[typ], typ)
		}
	}
}

// TestSavedAgain: what is computed again is computed of what has waited in 16 bits, so that both
// save memory together; on any number of threads, and under a bound, results are the same bits.
func TestSavedAgain(t *testing.T) {
	g, _ := training(t, encoder(3), one)
	in := operands(t, g, one, 1)
	run := func(p pass.Precision, threads int, most int64, times float64) (*Plan,
		[]*tensor.Tensor) {
		pl := compileAs(t, g, Options{Target: host, Threads: threads, MostArena: most,
			Recompute: Recompute{MostTime: times}, Passes: pass.Options{Precision: p}})
		pool := cpu.NewPool(cpu.PoolOptions{Threads: threads})
		defer pool.Close()
		return pl, runPlan(t, pool, pl, in)
	}
	wide, _ := run(pass.FP32, 2, 0, 1.1)
	once, _ := run(pass.BF16, 2, 0, 1)
	narrow, want := run(pass.BF16, 2, 0, 1.1)
	t.Logf("%d bytes in float32, %d in bfloat16, %d of them with values computed again",
		wide.ArenaBytes, once.ArenaBytes, narrow.ArenaBytes)
	most := 0.9 // of float32's; scratch, which is more on some processors, is the same in both
	if cpuinfo.HasAVX512BF16() {
		most = 0.75
	}
	if narrow.ArenaBytes >= once.ArenaBytes || float64(narrow.ArenaBytes) >
		most*float64(wide.ArenaBytes) {
		t.Errorf("%d bytes in bfloat16, want fewer than %d and than %v of %d", narrow.ArenaBytes,
			once.ArenaBytes, most, wide.ArenaBytes)
	}
	for name, got := range map[string]func() (*Plan, []*tensor.Tensor){
		"one thread": func() (*Plan, []*tensor.Tensor) { return run(pass.BF16, 1, 0, 1.1) },
		"a bound": func() (*Plan, []*tensor.Tensor) {
			return run(pass.BF16, 2, narrow.ArenaBytes*15/16, 1.1)
		}} {
		pl, out := got()
		for i := range want {
			if !slices.Equal(out[i].Data, want[i].Data) {
				t.Errorf("%s: output %d differs", name, i)
			}
		}
		if name == "a bound" && pl.ArenaBytes >= narrow.ArenaBytes {
			t.Errorf("%d bytes under the bound, %d without", pl.ArenaBytes, narrow.ArenaBytes)
		}
	}
}

// normalised is a net of convolutions, each with batch normalisation, of which every other has a
// branch around it.
func normalised(layers int) string {
	var b strings.Builder
	b.WriteString("input %x: float32[4,64,12,12]\ninput %m: float32[64]\ninput %v: float32[64]\n")
	for i := range layers {
		fmt.Fprintf(&b, "input %%p%d: float32[64,64,3,3]\ninput %%ps%d: float32[64]\n"+
			"input %%pb%d: float32[64]\n", i, i, i)
	}
	last := "x"
	for i := range layers {
		fmt.Fprintf(&b, "%%c%d = Conv@11 (%%%s, %%p%d) {pads=[1,1,1,1]}\n"+
			"%%n%d, %%rm%d, %%rv%d, %%m%d, %%i%d = weir:BatchNormalization@1 (%%c%d, %%ps%d, "+
			"%%pb%d, %%m, %%v)\n", i, last, i, i, i, i, i, i, i, i, i)
		if i%2 == 1 {
			fmt.Fprintf(&b, "%%s%d = Add@14 (%%n%d, %%%s)\n%%a%d = Relu@14 (%%s%d)\n", i, i, last,
				i, i)
		} else {
			fmt.Fprintf(&b, "%%a%d = Relu@14 (%%n%d)\n", i, i)
		}
		last = fmt.Sprint("a", i)
	}
	fmt.Fprintf(&b, "%%s = Mul@14 (%%%s, %%%s)\n%%loss = ReduceMean@13 (%%s) {keepdims=0}\n"+
		"output %%loss", last, last)
	return b.String()
}

// wideChannels is a net of products, each with batch normalisation of so many channels, whose
// vectors are as long as values that are worth 16 bits.
func wideChannels(layers, channels int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "input %%x: float32[64,64]\ninput %%m: float32[%d]\n"+
		"input %%v: float32[%[1]d]\n", channels)
	last := "x"
	for i := range layers {
		fmt.Fprintf(&b, "input %%p%d: float32[64,%d]\ninput %%pq%[1]d: float32[%[2]d,64]\n"+
			"input %%ps%[1]d: float32[%[2]d]\ninput %%pb%[1]d: float32[%[2]d]\n", i, channels)
		b.WriteString(strings.NewReplacer("#", fmt.Sprint(i), "&", last).Replace(
			`%c# = MatMul@13 (%&, %p#)
			%n#, %rm#, %rv#, %m#, %i# = weir:BatchNormalization@1 (%c#, %ps#, %pb#, %m, %v)
			%a# = Relu@14 (%n#)
			%d# = MatMul@13 (%a#, %pq#)
			`))
		last = fmt.Sprint("d", i)
	}
	fmt.Fprintf(&b, "%%s = Mul@14 (%%%s, %%%s)\n%%loss = ReduceMean@13 (%%s) {keepdims=0}\n"+
		"output %%loss", last, last)
	return b.String()
}

// TestMomentsStayWide: the moments of a batch are sums, which wait in float32 however many there
// are.
func TestMomentsStayWide(t *testing.T) {
	g, _ := training(t, wideChannels(4, 4096), one)
	pl := compileAs(t, g, Options{Target: host, Threads: threads,
		Passes: pass.Options{Precision: pass.BF16, Check: true}})
	narrowed := 0
	for _, n := range pl.Graph.Nodes {
		if n.Type != "Cast" || n.Out[0].Type.DType != tensor.BFloat16 {
			continue
		}
		narrowed++
		if from := n.In[0].Producer; from != nil && from.Type == "BatchNormalization" &&
			n.In[0].Index > 0 {
			t.Errorf("moment %s of %v is kept in 16 bits", n.In[0].Name, n.In[0].Type)
		}
	}
	if narrowed < 4 && cpuinfo.HasAVX512BF16() {
		t.Errorf("%d values are kept in 16 bits, want those of each layer", narrowed)
	}
}

// TestReadAsItWaits: gradients that read what waited in 16 bits as it lies are the same to the bit,
// of fewer steps, and take no more memory.
func TestReadAsItWaits(t *testing.T) {
	for name, model := range map[string]string{"products": deep(8, 64, "Relu@14"),
		"convolutions": normalised(6)} {
		g, _ := training(t, model, one)
		in := operands(t, g, one, 1)
		o := Options{Target: host, Threads: threads,
			Passes: pass.Options{Precision: pass.BF16, Off: []string{"ampread"}}}
		// what waits in 16 bits depends on what is in memory beside it, so it is found once
		waits, _, err := optimised(t.Context(), g, &o)
		if err != nil {
			t.Fatal(err)
		}
		before, want := trained(t, waits, pass.BF16, in, pass.Names()...)
		after, got := trained(t, waits, pass.BF16, in,
			slices.DeleteFunc(pass.Names(), func(name string) bool {
				return name == "ampread" || name == "dead"
			})...)
		for i := range want {
			if !slices.Equal(got[i].Data, want[i].Data) {
				t.Errorf("%s: output %d differs", name, i)
			}
		}
		// Without dot products of bfloat16 gradients of weights widen an image as scratch.
		widens := name == "convolutions" && !cpuinfo.HasAVX512BF16()
		if n, m := len(after.Graph.Nodes), len(before.Graph.Nodes); n >= m ||
			after.ArenaBytes > before.ArenaBytes && !widens {
			t.Errorf("%s: %d steps in %d bytes, %d in %d with casts", name, n, after.ArenaBytes, m,
				before.ArenaBytes)
		}
		narrow := map[string]int{}
		for _, n := range after.Graph.Nodes {
			for _, v := range n.In {
				if v != nil && v.Type.DType == tensor.BFloat16 {
					narrow[n.Type]++
				}
			}
		}
		t.Logf("%s: %d steps, %d with casts; in bfloat16 are read by %v", name,
			len(after.Graph.Nodes), len(before.Graph.Nodes), narrow)
		if narrow[op.ReluGradient] == 0 ||
			name == "convolutions" && (narrow[op.BatchNormGradient] == 0 ||
				narrow[op.ConvWeightsGradient] == 0) {
			t.Errorf("%s: in bfloat16 are read by %v", name, narrow)
		}
	}
}

// TestScaledHalves trains a net whose gradients float16 takes for zeros: without a scale none of
// its first weights moves, and with one all move, each as in float32.
func TestScaledHalves(t *testing.T) {
	model := deep(6, 16, "Tanh@13")
	const size = 2e-5 // of inputs; the loss is a mean of squares of what is that small
	full, weights := training(t, model, scale.Options{})
	_, want := trained(t, full, pass.FP32, operands(t, full, scale.Options{}, size))
	for _, tc := range []struct {
		o     scale.Options
		moves bool
	}{{scale.Options{}, false}, {one, false},
		{scale.Options{Kind: scale.Constant, Init: 0x1p24}, true},
		{scale.Options{Kind: scale.Torch, Init: 0x1p24}, true}} {
		g, _ := training(t, model, tc.o)
		_, got := trained(t, g, pass.FP16, operands(t, g, tc.o, size))
		for i := range weights {
			d, err := tensor.RelL2(got[weights+i], want[weights+i])
			if err != nil {
				t.Fatal(err)
			}
			zeros := 0
			for _, v := range tensor.As[float32](got[weights+i]) {
				if v == 0 {
					zeros++
				}
			}
			switch {
			case tc.moves && (d > 0.02 || zeros > 0):
				t.Errorf("%+v: gradient %d of %d: relative distance %g, %d zeros", tc.o, i, weights,
					d, zeros)
			case !tc.moves && i == 0 && zeros < 16*16:
				t.Errorf("%+v: gradient %d has %d zeros of %d", tc.o, i, zeros, 16*16)
			}
		}
	}
}

// TestOverflow: a scale that is too large overflows float16, which leaves all weights as they were
// and halves the scale for the next step; automatic ones find a scale that does not.
func TestOverflow(t *testing.T) {
	for _, o := range []scale.Options{{Kind: scale.Torch, Init: 0x1p40},
		{Kind: scale.Auto, Init: 0x1p22}} {
		g, weights := training(t, deep(3, 16, "Tanh@13"), o)
		in := operands(t, g, o, 1)
		p := compileAs(t, g, Options{Target: host, Threads: threads,
			Passes: pass.Options{Precision: pass.FP16}})
		pool, skips := newPool(t), 0
		index := map[string]int{}
		for i, v := range g.Inputs {
			index[v.Name] = i
		}
		last := 0
		for step := range 60 {
			out := runPlan(t, pool, p, in)
			state := out[2*weights:]
			was := tensor.As[float32](in[index[scale.VarScale]])[0]
			now := tensor.As[float32](state[0])[0]
			if skipped := tensor.As[int64](state[1])[0]; int(skipped) > skips {
				skips, last = int(skipped), step
				if now != was/2 {
					t.Errorf("%s, step %d: scale %g after an overflow at %g", o.Kind, step, now,
						was)
				}
				for i := range weights {
					if !tensor.Equal(out[i], in[1+i]) {
						t.Errorf("%s, step %d: weight %d moved in a step that overflowed", o.Kind,
							step, i)
					}
				}
			}
			in[index[scale.VarScale]], in[index[scale.VarSkipped]] = state[0], state[1]
			for k, name := range map[scale.Kind][]string{scale.Torch: {scale.VarGood},
				scale.Auto: {scale.VarPeak, scale.VarMargin}}[o.Kind] {
				in[index[name]] = state[2+k]
			}
		}
		if skips == 0 || last > 40 {
			t.Errorf("%s: %d steps skipped, the last of 60 at %d", o.Kind, skips, last)
		}
	}
}

// TestOptimizersStayWide: no cast and no product in 16 bits follows the unscale mark, and a product
// there multiplies in float32.
func TestOptimizersStayWide(t *testing.T) {
	for _, p := range []pass.Precision{pass.BF16, pass.Auto, pass.FP16} {
		// one that may skip a step, as then all that optimizers replace is chosen behind the mark
		g, weights := training(t, deep(4, 64, "Relu@14"), scale.Options{Kind: scale.Constant,
			Init: 2})
		// an optimizer that multiplies matrices, as those of second order do
		d := g.Outputs[weights]
		n := graph.NewNode("second", "MatMul", 13, nil, []*graph.Value{d, d}, "second")
		if g.Nodes = append(g.Nodes, n); n.InferTypes() != nil {
			t.Fatal("no types")
		}
		g.Outputs = append(g.Outputs, n.Out[0])
		pl := compileAs(t, g, Options{Target: host, Threads: threads,
			Passes: pass.Options{Precision: p}})
		behind, wide, half := map[*graph.Node]bool{}, 0, 0
		for _, n := range pl.Graph.Nodes {
			behind[n] = n.Type == op.Unscale
			for _, v := range n.In {
				behind[n] = behind[n] || v != nil && behind[v.Producer]
			}
			is16 := n.Attrs.Has("precision") || n.Attrs.Has("_precision") || n.Type == "Cast"
			switch {
			case behind[n] && is16:
				t.Errorf("%s: %v is behind the mark", p, n)
			case behind[n]:
				wide++
			case is16:
				half++
			}
		}
		if wide < 4*4 || half < 4*3 {
			t.Errorf("%s: %d nodes behind the mark, %d in 16 bits before", p, wide, half)
		}
	}
}

// twisted is a random net: products, activations, and sums with what came before.
func twisted(rng *rand.Rand) string {
	const width = 32
	var b strings.Builder
	fmt.Fprintf(&b, "input %%x: float32[%d,%d]\n", 8*width, width)
	layers := 3 + rng.IntN(8)
	for i := range layers {
		fmt.Fprintf(&b, "input %%p%d: float32[%d,%d]\n", i, width, width)
	}
	names := []string{"x"}
	for i := range layers {
		from := names[max(0, len(names)-1-rng.IntN(3))]
		fmt.Fprintf(&b, "%%h%d = MatMul@13 (%%%s, %%p%d)\n", i, from, i)
		last := fmt.Sprint("h", i)
		for k := range 1 + rng.IntN(3) {
			v := fmt.Sprintf("v%d_%d", i, k)
			fmt.Fprintf(&b, "%%%s = ", v)
			switch rng.IntN(5) {
			case 0:
				fmt.Fprintf(&b, "Add@14 (%%%s, %%%s)\n", last, names[rng.IntN(len(names))])
			case 1:
				fmt.Fprintf(&b, "Neg@13 (%%%s)\n", last)
			case 2:
				fmt.Fprintf(&b, "Softsign@1 (%%%s)\n", last)
			default:
				fmt.Fprintf(&b, "%s (%%%s)\n",
					[]string{"Tanh@13", "Gelu@20", "Relu@14", "Sigmoid@13"}[rng.IntN(4)], last)
			}
			last = v
		}
		names = append(names, last)
	}
	last := names[len(names)-1]
	fmt.Fprintf(&b, "%%s = Mul@14 (%%%s, %%%s)\n%%loss = ReduceMean@13 (%%s) {keepdims=0}\n"+
		"output %%loss", last, last)
	return b.String()
}

// TestRandomSteps: random steps are in 16 bits near what they are in float32, values that are kept
// in it add no more than products do, and they take less memory, never much more.
func TestRandomSteps(t *testing.T) {
	fewer := 0
	for seed := range uint64(12) {
		model := twisted(rand.New(rand.NewPCG(seed, 9)))
		for p, tc := range map[pass.Precision]struct {
			o     scale.Options
			bound float64
		}{pass.BF16: {one, 0.01},
			pass.FP16: {scale.Options{Kind: scale.Constant, Init: 0x1p12}, 0.001}} {
			g, weights := training(t, model, tc.o)
			in := operands(t, g, tc.o, 1)
			_, want := trained(t, g, pass.FP32, in)
			wide, products := trained(t, g, p, in, "ampsave")
			narrow, got := trained(t, g, p, in)
			for i := range 2 * weights {
				d, err := tensor.RelL2(got[i], want[i])
				most, err2 := tensor.RelL2(products[i], want[i])
				if err != nil || err2 != nil || d > 2*most+tc.bound {
					t.Errorf("seed %d, %s: output %d: relative distance %g, %g of products alone, "+
						"%v\n%s", seed, p, i, d, most, err, model)
				}
				if most > 0.3 {
					t.Errorf("seed %d, %s: output %d: relative distance %g", seed, p, i, most)
				}
			}
			if narrow.ArenaBytes < wide.ArenaBytes {
				fewer++
			}
			if narrow.ArenaBytes > wide.ArenaBytes+wide.ArenaBytes/20 {
				t.Errorf("seed %d, %s: %d bytes, %d with values kept in 16 bits", seed, p,
					wide.ArenaBytes, narrow.ArenaBytes)
			}
		}
	}
	if fewer < 12 {
		t.Errorf("%d of 24 steps take fewer bytes", fewer)
	}
}
