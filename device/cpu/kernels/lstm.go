package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// lstmKernels are LSTM (ONNX 7, 14, 22) with the default activations and without peepholes,
// sequence lengths or clipping.
var lstmKernels = map[opKey]builder{{"", "LSTM"}: lstm}

// lstmKernel computes X·Wᵀ of all steps as one product, then one product with R a step. Gates are
// in ONNX's order i o f c.
type lstmKernel struct {
	recurrentWeights
	seq, batch, in, hidden, dirs int
	backward                     [2]bool
	inputs, step                 *gemm.Product
	stateIn                      [2]bool // whether initial h and c are given
}

func lstm(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(op.RNNX)
	w, _, _ := r.in(op.RNNW)
	if !lstmPlain(r) || len(x) != 3 || len(w) != 3 || count(x) == 0 {
		return nil, nil
	}
	k := &lstmKernel{
		recurrentWeights: recurrentWeightsOf(r),

		seq:    x[0],
		batch:  x[1],
		in:     x[2],
		hidden: w[1] / 4,
		dirs:   w[0],
	}
	k.options(r)
	var err error
	if k.inputs, err = gemm.New(
		gemm.Params{M: k.seq * k.batch, N: 4 * k.hidden, K: k.in, TransB: true, PackedB: true,
			Epilogue: gemm.Epilogue{Bias: gemm.BiasPerCol}},
	); err != nil {
		return nil, err
	}
	k.step, err = gemm.New(
		gemm.Params{M: k.batch, N: 4 * k.hidden, K: k.hidden, TransB: true, PackedB: true,
			Epilogue: gemm.Epilogue{Residual: gemm.ResidualFull}},
	)
	return k, err
}

// options reads the direction, the bias and which initial states are given.
func (k *lstmKernel) options(r *request) {
	switch r.Call.Attrs.String("direction", "forward") {
	case "reverse":
		k.backward[0] = true
	case "bidirectional":
		k.backward[1] = true
	}
	_, _, k.stateIn[0] = r.in(op.RNNInitialH)
	_, _, k.stateIn[1] = r.in(op.RNNInitialC)
}

// lstmPlain reports whether the call is of the kind that the kernel computes.
func lstmPlain(r *request) bool {
	a := r.Call.Attrs
	if a.Has("activations") || a.Has("clip") || a.Bool("input_forget", false) ||
		a.Int("layout", 0) != 0 {
		return false
	}
	for _, i := range []int{op.RNNX, op.RNNB, op.RNNInitialH, op.RNNInitialC} {
		if _, d, ok := r.in(i); ok && d != tensor.Float32 {
			return false
		}
	}
	for _, i := range []int{op.RNNLens, op.RNNPeepholes} {
		if _, _, ok := r.in(i); ok {
			return false
		}
	}
	return true
}

// Name implements Kernel.
func (k *lstmKernel) Name() string { return "lstm" }

// lens returns the floats that one direction's packed W, packed R and summed bias take, each
// rounded up to cache lines.
func (k *lstmKernel) lens() (w, r, b int) {
	round := func(n int) int { return (n + 15) &^ 15 }
	return round(gemm.F32.PackedBLen(k.in, 4*k.hidden)), round(
		gemm.F32.PackedBLen(k.hidden, 4*k.hidden)), round(4 * k.hidden)
}

// weightBytes is the size of the packed weights.
func (k *lstmKernel) weightBytes() int {
	w, r, b := k.lens()
	return 4 * k.dirs * (w + r + b)
}

// PackedBytes implements Kernel.
func (k *lstmKernel) PackedBytes() int { return k.unlessComputed(k.weightBytes()) }

// parts cuts one direction's packed weights.
func (k *lstmKernel) parts(packed []byte, dir int) (w, r, b []float32) {
	nw, nr, nb := k.lens()
	f := tensor.Cast[float32](packed)[dir*(nw+nr+nb):]
	return f[:nw], f[nw : nw+nr], f[nw+nr : nw+nr+nb]
}

// Pack implements Kernel.
func (k *lstmKernel) Pack(dst []byte) {
	if !k.computed {
		k.packer(dst, k.constants()).all()
	}
}

// packer packs weights into dst. The two halves of ONNX's bias, of W and of R, are added.
func (k *lstmKernel) packer(dst []byte, from [3][]float32) *weightPacker {
	p, g := &weightPacker{}, 4*k.hidden
	for d := range k.dirs {
		w, r, _ := k.parts(dst, d)
		p.operand(w, from[0][d*g*k.in:], k.in, g)
		p.operand(r, from[1][d*g*k.hidden:], k.hidden, g)
	}
	p.biases = func() {
		for d := range k.dirs {
			_, _, b := k.parts(dst, d)
			k.packBias(b, from[2], d)
		}
	}
	return p
}

// packBias adds the two halves of direction d's bias, which may be nil.
func (k *lstmKernel) packBias(to, b []float32, d int) {
	clear(to)
	if g := 4 * k.hidden; b != nil {
		both := b[d*2*g:]
		vec.Add(to[:g], both[:g], both[g:2*g])
	}
}

// ScratchBytes implements Kernel: computed weights, the gates of all steps, the running h and c,
// and each worker's part.
func (k *lstmKernel) ScratchBytes(workers int) int {
	gates, state := k.scratchLens()
	return k.weightBytes() - k.PackedBytes() + gates + 2*state + workers*k.workerBytes()
}

func (k *lstmKernel) scratchLens() (gates, state int) {
	return scratchBytes(k.seq * k.batch * 4 * k.hidden), scratchBytes(k.batch * k.hidden)
}

func (k *lstmKernel) workerBytes() int {
	return scratchBytes(max(k.inputs.ScratchLen(), k.step.ScratchLen()))
}

// Bind implements Kernel.
func (k *lstmKernel) Bind(b compute.Binding) compute.Task {
	packed, pack := k.bind(&b, k.weightBytes(), k.packer)
	t := &lstmTask{lstmState: newLSTMState(k, b), pack: pack}
	gates, state := k.scratchLens()
	worker := b
	worker.Scratch = b.Scratch[gates+2*state:]
	t.product.scratch = perWorker(worker)
	for d := range k.dirs {
		t.w[d], t.r[d], t.b[d] = k.parts(packed, d)
	}
	return t
}

// lstmState is the operands of a task that are not weights, and the running state. It takes the
// beginning of the scratch.
type lstmState struct {
	*lstmKernel
	x, h0, c0   []float32
	y, yh, yc   []float32 // nil when not asked for
	gates, h, c []float32

	at  int       // the place of Y that the step writes
	now []float32 // and its gates
}

func newLSTMState(k *lstmKernel, b compute.Binding) lstmState {
	t := lstmState{lstmKernel: k, x: tensor.As[float32](b.In[op.RNNX])}
	gates, state := k.scratchLens()
	t.gates = tensor.Cast[float32](b.Scratch[:gates])
	t.h = tensor.Cast[float32](b.Scratch[gates:][:state])[:k.batch*k.hidden]
	t.c = tensor.Cast[float32](b.Scratch[gates+state:][:state])[:k.batch*k.hidden]
	if k.stateIn[0] {
		t.h0 = tensor.As[float32](b.In[op.RNNInitialH])
	}
	if k.stateIn[1] {
		t.c0 = tensor.As[float32](b.In[op.RNNInitialC])
	}
	for i, p := range []*[]float32{&t.y, &t.yh, &t.yc} {
		if i < len(b.Out) && b.Out[i] != nil {
			*p = tensor.As[float32](b.Out[i])
		}
	}
	return t
}

// begin sets the state before the first step of direction d.
func (t *lstmState) begin(d int) {
	n := t.batch * t.hidden
	start(t.h, t.h0, d*n)
	start(t.c, t.c0, d*n)
}

// position is the place in the sequence of step i of direction d, and the gates of that place.
func (t *lstmState) position(d, i int) (at int, gates []float32) {
	if t.backward[d] {
		i = t.seq - 1 - i
	}
	n := 4 * t.batch * t.hidden
	return i, t.gates[i*n : (i+1)*n]
}

// advance updates the state from the finished gates of one place.
func (t *lstmState) advance(x *compute.Exec, d, at int, gates []float32) error {
	t.at, t.now = at*t.dirs+d, gates
	per := cellRows(t.hidden)
	return x.For((t.batch+per-1)/per, t)
}

// Chunk implements Region: some batch entries of a step.
func (t *lstmState) Chunk(i, _ int) {
	per, n := cellRows(t.hidden), t.hidden
	for b := i * per; b < min((i+1)*per, t.batch); b++ {
		h := t.h[b*n:][:n]
		lstmCell(t.now[b*4*n:][:4*n], h, t.c[b*n:][:n])
		if t.y != nil {
			copy(t.y[(t.at*t.batch+b)*n:], h)
		}
	}
}

// end writes the state after the last step of direction d.
func (t *lstmState) end(d int) {
	n := t.batch * t.hidden
	finish(t.yh, t.h, d*n)
	finish(t.yc, t.c, d*n)
}

type lstmTask struct {
	lstmState
	w, r, b [2][]float32
	pack    *weightPacker // nil where weights are packed already
	product gemmTask
}

// Run implements Task.
func (t *lstmTask) Run(x *compute.Exec) error {
	if err := t.pack.run(x); err != nil {
		return err
	}
	for d := range t.dirs {
		if err := t.direction(x, d); err != nil {
			return err
		}
	}
	return nil
}

func (t *lstmTask) direction(x *compute.Exec, d int) error {
	t.begin(d)
	t.product.op = t.inputs
	t.product.args = gemm.Args{A: t.x, B: t.w[d], C: t.gates, Bias: t.b[d]}
	if err := t.product.Run(x); err != nil {
		return err
	}
	t.product.op = t.step
	for i := range t.seq {
		at, gates := t.position(d, i)
		t.product.args = gemm.Args{A: t.h, B: t.r[d], C: gates, Residual: gates}
		if err := t.product.Run(x); err != nil {
			return err
		}
		if err := t.advance(x, d, at, gates); err != nil {
			return err
		}
	}
	t.end(d)
	return nil
}

func start(dst, given []float32, at int) {
	clear(dst)
	if given != nil {
		copy(dst, given[at:])
	}
}

func finish(dst, src []float32, at int) {
	if dst != nil {
		copy(dst[at:], src)
	}
}

// lstmCell updates h and c of a batch entry from the gates of one step, which it leaves as they are
// after their activations: c = f∘c + i∘g, h = o∘tanh(c).
func lstmCell(g, h, c []float32) {
	n := len(h)
	vec.Sigmoid(g[:3*n], g[:3*n])
	i, o, f, u := g[:n], g[n:2*n], g[2*n:3*n], g[3*n:]
	vec.Tanh(u, u)
	vec.Mul(c, c, f)
	vec.FMA(c, i, u, c)
	vec.Tanh(h, c)
	vec.Mul(h, h, o)
}
