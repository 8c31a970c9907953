package kernels

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gruKernels are GRU and RNN (ONNX 7, 14, 22) with float32 operands and the default activations,
// Relu too for RNN, without clipping.
var gruKernels = map[opKey]builder{{"", "GRU"}: recurrent(3), {"", "RNN"}: recurrent(1)}

// gruKernel computes X·Wᵀ of all steps as one product and then, in each step, one product of the
// state with R, or two for a GRU whose reset gate comes before. The gates of a GRU are in ONNX's
// order z r h.
type gruKernel struct {
	recurrentWeights
	name                         string
	gates                        int // 3 for GRU, 1 for RNN
	seq, batch, in, hidden, dirs int
	backward                     [2]bool
	// the reset gate comes after the product (linear_before_reset)
	after               bool
	relu                bool          // RNN's activation
	lens, state         bool          // whether those inputs are given
	inputs, step, reset *gemm.Product // reset nil but for a reset gate before the product
}

//go:noinline
func recurrent(gates int) builder {
	return func(r *request) (compute.Kernel, error) {
		x, _, _ := r.in(op.RNNX)
		w, _, _ := r.in(op.RNNW)
		k := &gruKernel{
			name:             []string{1: "rnn", 3: "gru"}[gates],
			gates:            gates,
			recurrentWeights: recurrentWeightsOf(r),
		}
		if len(x) != 3 || len(w) != 3 || count(x) == 0 || count(w) == 0 || !k.plain(r) ||
			!k.activation(r.Call) {
			return nil, nil
		}
		k.seq, k.batch, k.in, k.hidden, k.dirs = x[0], x[1], x[2], w[1]/gates, w[0]
		if !k.fits(r) {
			return nil, nil
		}
		switch r.Call.Attrs.String("direction", "forward") {
		case "reverse":
			k.backward[0] = true
		case "bidirectional":
			k.backward[1] = true
		}
		k.after = r.Call.Attrs.Bool("linear_before_reset", false)
		return k, k.plan()
	}
}

// plain reports whether the call has operands and attributes that the kernel takes.
func (k *gruKernel) plain(r *request) bool {
	if a := r.Call.Attrs; a.Has("clip") || a.Int("layout", 0) != 0 {
		return false
	}
	for _, i := range []int{op.RNNX, op.RNNW, op.RNNR, op.RNNB, op.RNNInitialH} {
		if _, d, ok := r.in(i); ok && d != tensor.Float32 {
			return false
		}
	}
	_, lens, _ := r.in(op.RNNLens)
	_, _, k.lens = r.in(op.RNNLens)
	_, _, k.state = r.in(op.RNNInitialH)
	return !k.lens || lens == tensor.Int32
}

// activation reads attribute activations; false for functions that the kernel does not have.
func (k *gruKernel) activation(c *op.Call) bool {
	names := c.Attrs.Strings("activations")
	if !c.Attrs.Has("activations") {
		return true
	}
	want := []string{"Sigmoid", "Tanh"}
	if k.gates == 1 {
		if want = []string{"Tanh"}; len(names) > 0 && names[0] == "Relu" {
			want, k.relu = []string{"Relu"}, true
		}
	}
	dirs := 1
	if c.Attrs.String("direction", "forward") == "bidirectional" {
		dirs = 2
	}
	return slices.Equal(names, slices.Repeat(want, dirs))
}

// fits reports whether the weights have the shapes that the others imply.
func (k *gruKernel) fits(r *request) bool {
	g, dirs := k.gates*k.hidden, 1
	if r.Call.Attrs.String("direction", "forward") == "bidirectional" {
		dirs = 2
	}
	w, _, _ := r.in(op.RNNW)
	rec, _, _ := r.in(op.RNNR)
	b, _, biased := r.in(op.RNNB)
	return k.dirs == dirs && slices.Equal(w, []int{dirs, g, k.in}) &&
		slices.Equal(rec, []int{dirs, g, k.hidden}) &&
		(!biased || slices.Equal(b, []int{dirs, 2 * g}))
}

// plan plans the products.
func (k *gruKernel) plan() (err error) {
	if k.inputs, err = gemm.New(
		gemm.Params{M: k.seq * k.batch, N: k.gates * k.hidden, K: k.in, PackedB: true,
			Epilogue: gemm.Epilogue{Bias: gemm.BiasPerCol}},
	); err != nil {
		return err
	}
	p := gemm.Params{
		M:        k.batch,
		N:        k.stepGates() * k.hidden,
		K:        k.hidden,
		PackedB:  true,
		Epilogue: gemm.Epilogue{Bias: gemm.BiasPerCol},
	}
	if k.step, err = gemm.New(p); err != nil || k.stepGates() == k.gates {
		return err
	}
	p.N = k.hidden
	k.reset, err = gemm.New(p)
	return err
}

// stepGates is how many gates the product of the state as it is serves.
func (k *gruKernel) stepGates() int {
	if k.gates == 3 && !k.after {
		return 2
	}
	return k.gates
}

// Name implements Kernel.
func (k *gruKernel) Name() string { return k.name }

// gruWeights are one direction's packed weights: W, the parts of R, and what is added to the
// products with W and with R.
type gruWeights struct{ w, r, reset, wBias, rBias []float32 }

// lengths are the floats of each part, rounded up to cache lines.
func (k *gruKernel) lengths() [5]int {
	n, s := k.hidden, k.stepGates()
	l := [5]int{
		gemm.F32.PackedBLen(k.in, k.gates*n),
		gemm.F32.PackedBLen(n, s*n),
		0,
		k.gates * n,
		k.gates * n,
	}
	if s < k.gates {
		l[2] = gemm.F32.PackedBLen(n, (k.gates-s)*n)
	}
	for i := range l {
		l[i] = (l[i] + 15) &^ 15
	}
	return l
}

// PackedBytes implements Kernel.
func (k *gruKernel) PackedBytes() int { return k.unlessComputed(k.weightBytes()) }

// weightBytes is the size of the packed weights.
func (k *gruKernel) weightBytes() int {
	total := 0
	for _, n := range k.lengths() {
		total += n
	}
	return 4 * k.dirs * total
}

// packed cuts one direction's packed weights.
func (k *gruKernel) packed(packed []byte, dir int) (w gruWeights) {
	f := tensor.Cast[float32](packed)[dir*k.weightBytes()/4/k.dirs:]
	for i, part := range []*[]float32{&w.w, &w.r, &w.reset, &w.wBias, &w.rBias} {
		n := k.lengths()[i]
		*part, f = f[:n:n], f[n:]
	}
	return w
}

// Packing implements [compute.Packing].
func (k *gruKernel) Packing() any {
	type packing struct {
		name    string
		w, r, b *tensor.Tensor
		after   bool
		panel   int // stands for the instruction level
	}
	return packing{k.name, k.w, k.r, k.b, k.after, k.inputs.PanelWidth()}
}

// Pack implements Kernel.
func (k *gruKernel) Pack(dst []byte) {
	if !k.computed {
		k.packer(dst, k.constants()).all()
	}
}

// packer packs weights into dst.
func (k *gruKernel) packer(dst []byte, from [3][]float32) *weightPacker {
	n, g, s, to := k.hidden, k.gates*k.hidden, k.stepGates(), &weightPacker{}
	for d := range k.dirs {
		p := k.packed(dst, d)
		r := from[1][d*g*n:][:g*n]
		to.operand(p.w, from[0][d*g*k.in:], k.in, g)
		to.operand(p.r, r, n, s*n)
		if s < k.gates {
			to.operand(p.reset, r[s*n*n:], n, n)
		}
	}
	to.biases = func() {
		for d := range k.dirs {
			k.packBias(k.packed(dst, d), from[2], d)
		}
	}
	return to
}

// packBias adds R's half of direction d's bias, which may be nil, to W's, but where a reset gate
// comes between them.
func (k *gruKernel) packBias(p gruWeights, b []float32, d int) {
	n, g := k.hidden, k.gates*k.hidden
	clear(p.wBias)
	clear(p.rBias)
	if b == nil {
		return
	}
	both := b[d*2*g:]
	vec.Add(p.wBias[:g], both[:g], both[g:2*g])
	if k.after && k.gates == 3 {
		copy(p.wBias[2*n:g], both[2*n:g])
		copy(p.rBias[2*n:g], both[g+2*n:2*g])
	}
}

// parts are the sizes of the parts of the scratch before the workers': the gates of all steps, the
// products of a step, and the state, of which there are two, one with the reset gate applied.
func (k *gruKernel) parts() (gates, rec, state int) {
	g := k.gates * k.hidden
	return scratchBytes(k.seq * k.batch * g), scratchBytes(k.batch * g),
		scratchBytes(k.batch * k.hidden)
}

// ScratchBytes implements Kernel.
func (k *gruKernel) ScratchBytes(workers int) int {
	gates, rec, state := k.parts()
	most := max(k.inputs.ScratchLen(), k.step.ScratchLen())
	if k.reset != nil {
		most = max(most, k.reset.ScratchLen())
	}
	return k.weightBytes() - k.PackedBytes() + gates + rec + 2*state + workers*scratchBytes(most)
}

// Bind implements Kernel.
func (k *gruKernel) Bind(b compute.Binding) compute.Task {
	packed, pack := k.bind(&b, k.weightBytes(), k.packer)
	gates, rec, state := k.parts()
	t := &gruTask{of: k, x: tensor.As[float32](b.In[op.RNNX]), pack: pack}
	rest := b.Scratch
	for _, part := range []struct {
		to *[]float32
		n  int
	}{{&t.gatesOf, gates}, {&t.rec, rec}, {&t.h, state}, {&t.let, state}} {
		*part.to, rest = tensor.Cast[float32](rest[:part.n]), rest[part.n:]
	}
	t.h, t.let = t.h[:k.batch*k.hidden], t.let[:k.batch*k.hidden]
	worker := b
	worker.Scratch = rest
	t.product.scratch = perWorker(worker)
	for d := range k.dirs {
		t.weights[d] = k.packed(packed, d)
	}
	if k.lens {
		t.ends = tensor.As[int32](b.In[op.RNNLens])
	}
	if k.state {
		t.h0 = tensor.As[float32](b.In[op.RNNInitialH])
	}
	for i, p := range []*[]float32{&t.y, &t.yh} {
		if i < len(b.Out) && b.Out[i] != nil {
			*p = tensor.As[float32](b.Out[i])
		}
	}
	return t
}

// gruTask is a gruKernel bound to memory.
type gruTask struct {
	of                   *gruKernel
	x, h0, y, yh         []float32 // the last three nil when not there
	ends                 []int32   // inputs of each batch entry, nil for all
	gatesOf, rec, h, let []float32
	weights              [2]gruWeights
	pack                 *weightPacker // nil where weights are packed already
	product              gemmTask
	d, i                 int // the direction and the step that run
}

// Run implements Task.
func (t *gruTask) Run(x *compute.Exec) error {
	for i, n := range t.ends {
		if n < 0 || int(n) > t.of.seq {
			return fmt.Errorf("%w: sequence_lens[%d] is %d, X has %d steps", op.ErrInput, i, n,
				t.of.seq)
		}
	}
	if err := t.pack.run(x); err != nil {
		return err
	}
	if t.ends != nil {
		clear(t.y)
	}
	for d := range t.of.dirs {
		if err := t.direction(x, d); err != nil {
			return err
		}
	}
	return nil
}

// multiply runs one product.
func (t *gruTask) multiply(x *compute.Exec, o *gemm.Product, a, b, c, bias []float32) error {
	t.product.op, t.product.args = o, gemm.Args{A: a, B: b, C: c, Bias: bias}
	return t.product.Run(x)
}

func (t *gruTask) direction(x *compute.Exec, d int) error {
	n, w := t.of.batch*t.of.hidden, &t.weights[d]
	start(t.h, t.h0, d*n)
	if err := t.multiply(x, t.of.inputs, t.x, w.w, t.gatesOf, w.wBias); err != nil {
		return err
	}
	for i := range t.of.seq {
		if err := t.multiply(x, t.of.step, t.h, w.r, t.rec, w.rBias); err != nil {
			return err
		}
		t.d, t.i = d, i
		if t.of.reset != nil {
			if err := x.For(t.chunks(), (*gruReset)(t)); err != nil {
				return err
			}
			if err := t.multiply(x, t.of.reset, t.let, w.reset, t.rec, w.rBias); err != nil {
				return err
			}
		}
		if err := x.For(t.chunks(), t); err != nil {
			return err
		}
	}
	finish(t.yh, t.h, d*n)
	return nil
}

// chunks is the number of chunks of a step's batch entries.
func (t *gruTask) chunks() int {
	per := cellRows(t.of.hidden)
	return (t.of.batch + per - 1) / per
}

// Chunk implements Region: some batch entries of a step.
func (t *gruTask) Chunk(i, _ int) {
	per, k := cellRows(t.of.hidden), t.of
	for b := i * per; b < min((i+1)*per, k.batch); b++ {
		at := t.place(t.d, b, t.i)
		if at < 0 {
			continue
		}
		t.advance(b, at)
		if t.y != nil {
			copy(t.y[((at*k.dirs+t.d)*k.batch+b)*k.hidden:], t.h[b*k.hidden:][:k.hidden])
		}
	}
}

// gruReset is what comes before the product of the state that the reset gate lets through.
type gruReset gruTask

// Chunk implements Region: some batch entries of a step.
func (r *gruReset) Chunk(i, _ int) {
	t := (*gruTask)(r)
	per := cellRows(t.of.hidden)
	for b := i * per; b < min((i+1)*per, t.of.batch); b++ {
		t.letThrough(b, t.place(t.d, b, t.i))
	}
}

// place is the input of batch entry b that step i of direction d takes, -1 when it has no more.
func (t *gruTask) place(d, b, i int) int {
	end := t.of.seq
	if t.ends != nil {
		end = int(t.ends[b])
	}
	switch {
	case i >= end:
		return -1
	case t.of.backward[d]:
		return end - 1 - i
	}
	return i
}

// input returns the products with W of batch entry b at an input.
func (t *gruTask) input(b, at int) []float32 {
	g := t.of.gates * t.of.hidden
	return t.gatesOf[(at*t.of.batch+b)*g:][:g]
}

// letThrough computes the gates z and r of a batch entry, and the state that r lets through.
func (t *gruTask) letThrough(b, at int) {
	n := t.of.hidden
	let := t.let[b*n:][:n]
	if at < 0 {
		clear(let)
		return
	}
	g := t.input(b, at)
	vec.Add(g[:2*n], g[:2*n], t.rec[b*2*n:][:2*n])
	vec.Sigmoid(g[:2*n], g[:2*n])
	vec.Mul(let, g[n:2*n], t.h[b*n:])
}

// advance updates the state of a batch entry: h = (1-z)∘tanh(..) + z∘h, or RNN's f(..).
func (t *gruTask) advance(b, at int) {
	n, g := t.of.hidden, t.input(b, at)
	h := t.h[b*n:][:n]
	switch {
	case t.of.gates == 1:
		vec.Add(h, g, t.rec[b*n:])
		if t.of.relu {
			vec.Relu(h, h)
		} else {
			vec.Tanh(h, h)
		}
		return
	case t.of.reset != nil:
		vec.Add(g[2*n:], g[2*n:], t.rec[b*n:])
	default:
		rec := t.rec[b*3*n:][:3*n]
		vec.Add(g[:2*n], g[:2*n], rec)
		vec.Sigmoid(g[:2*n], g[:2*n])
		vec.FMA(g[2*n:], g[n:2*n], rec[2*n:], g[2*n:])
	}
	z, u := g[:n], g[2*n:]
	vec.Tanh(u, u)
	vec.Sub(h, h, u)
	vec.FMA(h, z, h, u)
}
