package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// recurrentGradientKernels are the gradients of LSTM and GRU.
var recurrentGradientKernels = map[opKey]builder{
	{op.FusedDomain, op.RecurrentGradient}: recurrentGradient,
}

// backKernel is weir:RecurrentGradient. States are known, so that the gates of all steps come from
// one product with W and one with R. Then it goes back step by step, with one product each, and has
// the gradients of weights and of X by one product each over all steps.
type backKernel struct {
	plain
	gates                        int // 4 for LSTM, 3 for GRU
	seq, batch, in, hidden, dirs int
	reverse                      [2]bool
	wanted                       [6]bool // which gradients are asked for
	byW, byR, back, dw, dr       *gemm.Product
	dx                           [2]*gemm.Product // of a second direction it is added
}

func recurrentGradient(r *request) (compute.Kernel, error) {
	gates, err := op.BackCell(r.Call)
	x, _, _ := r.in(op.BackX)
	w, _, _ := r.in(op.BackW)
	if err != nil || len(x) != 3 || len(w) != 3 || count(x) == 0 {
		return nil, err
	}
	k := &backKernel{gates: gates, seq: x[0], batch: x[1], in: x[2], hidden: w[1] / gates,
		dirs: w[0]}
	for i := range k.wanted {
		k.wanted[i] = wants(r, i)
	}
	switch r.Call.Attrs.String("direction", "forward") {
	case "reverse":
		k.reverse[0] = true
	case "bidirectional":
		k.reverse[1] = true
	}
	if k.hidden == 0 || !k.fits(r) {
		return nil, nil
	}
	return k, k.plan()
}

// fits reports whether operands are float32 of the shapes that X and W imply.
func (k *backKernel) fits(r *request) bool {
	g, dirs := k.gates*k.hidden, 1
	if k.reverse[1] {
		dirs = 2
	}
	states, y := []int{dirs, k.batch, k.hidden}, []int{k.seq, dirs, k.batch, k.hidden}
	want := [][]int{op.BackX: {k.seq, k.batch, k.in}, op.BackW: {dirs, g, k.in},
		op.BackR: {dirs, g, k.hidden}, op.BackB: {dirs, 2 * g}, op.BackInitialH: states,
		op.BackInitialC: states, op.BackY: y, op.BackDY: y, op.BackDYH: states,
		op.BackDYC: states}
	for i := range want {
		shape, d, ok := r.in(i)
		if ok && (d != tensor.Float32 || !slices.Equal(shape, want[i])) {
			return false
		}
	}
	return true
}

// plan plans the products.
func (k *backKernel) plan() (err error) {
	rows, g := k.seq*k.batch, k.gates*k.hidden
	product := func(p gemm.Params) (o *gemm.Product) {
		if err == nil {
			o, err = gemm.New(p)
		}
		return o
	}
	bias := gemm.Epilogue{Bias: gemm.BiasPerCol}
	added := gemm.Epilogue{Residual: gemm.ResidualFull}
	recurrent, back := added, gemm.Epilogue{}
	if k.gates == 3 {
		recurrent, back = bias, added
	}
	k.byW = product(gemm.Params{M: rows, N: g, K: k.in, PackedB: true, Epilogue: bias})
	k.byR = product(gemm.Params{M: rows, N: g, K: k.hidden, PackedB: true, Epilogue: recurrent})
	k.back = product(gemm.Params{M: k.batch, N: k.hidden, K: g, PackedB: true, Near: true,
		Epilogue: back})
	k.dx[0] = product(gemm.Params{M: rows, N: k.in, K: g, PackedB: true, Near: true})
	k.dx[1] = product(gemm.Params{M: rows, N: k.in, K: g, PackedB: true, Near: true,
		Epilogue: added})
	k.dw = product(gemm.Params{M: g, N: k.in, K: rows, TransA: true, Near: true})
	k.dr = product(gemm.Params{M: g, N: k.hidden, K: rows, TransA: true, Near: true})
	return err
}

// Name implements Kernel.
func (k *backKernel) Name() string { return "recurrent.gradient" }

// parts are the floats of each part of the scratch before the workers': the packed operands of the
// products that give gates, go back and give the gradient of X, the biases, the gates of all steps,
// GRU's products with R, the states and the cells before each step, and the gradients of both.
func (k *backKernel) parts() [11]int {
	rows, g := k.seq*k.batch, k.gates*k.hidden
	n := [11]int{gemm.F32.PackedBLen(k.in, g), gemm.F32.PackedBLen(k.hidden, g),
		gemm.F32.PackedBLen(g, k.hidden), 0, g, g, rows * g, 0, rows * k.hidden, 0,
		2 * k.batch * k.hidden}
	if k.wanted[0] {
		n[3] = gemm.F32.PackedBLen(g, k.in)
	}
	if k.gates == 3 {
		n[7] = rows * g
	} else {
		n[9] = rows * k.hidden
	}
	return n
}

// ScratchBytes implements Kernel.
func (k *backKernel) ScratchBytes(workers int) int {
	most := 2*k.hidden + vec.ColumnSumScratch(k.seq*k.batch, k.sumColumns())
	for _, o := range []*gemm.Product{k.byW, k.byR, k.back, k.dx[0], k.dx[1], k.dw, k.dr} {
		most = max(most, o.ScratchLen())
	}
	total := workers * scratchBytes(most)
	for _, n := range k.parts() {
		total += scratchBytes(n)
	}
	return total
}

// Bind implements Kernel.
func (k *backKernel) Bind(b compute.Binding) compute.Task {
	t := &backTask{of: k}
	for i := range t.in {
		t.in[i] = optional(b.In, i)
	}
	for i := range t.out {
		t.out[i] = optional(b.Out, i)
	}
	n := k.parts()
	for i, part := range []*[]float32{&t.w, &t.r, &t.back, &t.dx, &t.wBias, &t.rBias, &t.pre,
		&t.rec, &t.h, &t.c, &t.dh} {
		*part = tensor.Cast[float32](b.Scratch[:scratchBytes(n[i])])[:n[i]]
		b.Scratch = b.Scratch[scratchBytes(n[i]):]
	}
	half := k.batch * k.hidden
	t.dh, t.dc = t.dh[:half], t.dh[half:]
	if k.gates == 4 {
		t.rec = t.pre
	}
	t.product.scratch = perWorker(b)
	t.regions = [...]regionFunc{t.activate, t.carry, t.stepBack, t.sum, t.state}
	for d := range k.dirs {
		t.packs[d] = t.packer(d)
	}
	return t
}

// backTask is a backKernel bound to memory. All but operands and results are of one direction.
type backTask struct {
	of                           *backKernel
	in                           [op.BackDYC + 1][]float32 // nil for those that are absent
	out                          [6][]float32
	w, r, back, dx, wBias, rBias []float32
	// the gates of all steps, and GRU's products with R, which become the gradients of what they
	// are the activations of, by way of W and of R; one slice for LSTM
	pre, rec      []float32
	h, c, dh, dc  []float32 // states before each step, cells after it, and the gradients of both
	packs         [2]*weightPacker
	product       gemmTask
	regions       [5]regionFunc
	d, step, sums int // the direction, step and half of the bias that run
}

// packer packs the weights of direction d.
func (t *backTask) packer(d int) *weightPacker {
	k, p := t.of, &weightPacker{}
	g := k.gates * k.hidden
	w, r := t.in[op.BackW][d*g*k.in:], t.in[op.BackR][d*g*k.hidden:]
	p.operand(t.w, w, k.in, g)
	p.operand(t.r, r, k.hidden, g)
	p.columns(t.back, r, g, k.hidden)
	if k.wanted[0] {
		p.columns(t.dx, w, g, k.in)
	}
	return p
}

// setBias adds the halves of a direction's bias where both products are added up, which they are
// but for GRU's last gate.
func (t *backTask) setBias() {
	k := t.of
	g := k.gates * k.hidden
	clear(t.wBias)
	clear(t.rBias)
	if t.in[op.BackB] == nil {
		return
	}
	both := t.in[op.BackB][t.d*2*g:]
	if copy(t.wBias, both[:g]); k.gates == 3 {
		copy(t.rBias, both[g:2*g])
	} else {
		vec.Add(t.wBias, t.wBias, both[g:2*g])
	}
}

// Run implements Task.
func (t *backTask) Run(x *compute.Exec) error {
	for t.d = range t.of.dirs {
		if err := t.direction(x); err != nil {
			return err
		}
	}
	return nil
}

// multiply runs one product.
func (t *backTask) multiply(x *compute.Exec, o *gemm.Product, a, b, c, bias, residual []float32,
) error {
	t.product.op = o
	t.product.args = gemm.Args{A: a, B: b, C: c, Bias: bias, Residual: residual}
	return t.product.Run(x)
}

// direction goes back through one direction.
func (t *backTask) direction(x *compute.Exec) error {
	if err := t.again(x); err != nil {
		return err
	}
	k, n := t.of, t.of.batch*t.of.hidden
	start(t.dh, t.in[op.BackDYH], t.d*n)
	start(t.dc, t.in[op.BackDYC], t.d*n)
	for i := k.seq - 1; i >= 0; i-- {
		t.step = t.place(i)
		if err := x.For(k.blocks(k.batch), t.regions[2]); err != nil {
			return err
		}
		if i == 0 && t.out[4] == nil {
			break
		}
		rec := t.rec[t.step*k.batch*k.gates*k.hidden:]
		if err := t.multiply(x, k.back, rec, t.back, t.dh, nil, t.dh); err != nil {
			return err
		}
	}
	finish(t.out[4], t.dh, t.d*n)
	finish(t.out[5], t.dc, t.d*n)
	return t.weights(x)
}

// again computes states, gates and cells of all steps.
func (t *backTask) again(x *compute.Exec) error {
	k := t.of
	t.setBias()
	if err := x.For(k.seq, t.regions[4]); err != nil {
		return err
	}
	if err := t.packs[t.d].run(x); err != nil {
		return err
	}
	if err := t.multiply(x, k.byW, t.in[op.BackX], t.w, t.pre, t.wBias, nil); err != nil {
		return err
	}
	if err := t.multiply(x, k.byR, t.h, t.r, t.rec, t.rBias, t.rec); err != nil {
		return err
	}
	if err := x.For(k.blocks(k.seq*k.batch), t.regions[0]); err != nil || k.gates == 3 {
		return err
	}
	return x.For(k.batch*k.units(), t.regions[1])
}

// weights gives the gradients of X and of the weights by those of all steps.
func (t *backTask) weights(x *compute.Exec) error {
	k, dx := t.of, t.out[0]
	at := t.d * k.gates * k.hidden
	if dx != nil {
		if err := t.multiply(x, k.dx[t.d], t.pre, t.dx, dx, nil, dx); err != nil {
			return err
		}
	}
	if dw := t.out[1]; dw != nil {
		if err := t.multiply(x, k.dw, t.pre, t.in[op.BackX], dw[at*k.in:], nil, nil); err != nil {
			return err
		}
	}
	if dr := t.out[2]; dr != nil {
		if err := t.multiply(x, k.dr, t.rec, t.h, dr[at*k.hidden:], nil, nil); err != nil {
			return err
		}
	}
	if t.out[3] == nil {
		return nil
	}
	return t.biases(x)
}

// biases adds up the gradients of all steps, by way of W and of R.
func (t *backTask) biases(x *compute.Exec) error {
	k, g, columns := t.of, t.of.gates*t.of.hidden, t.of.sumColumns()
	for t.sums = range 2 {
		if t.sums == 1 && k.gates == 4 {
			both := t.out[3][2*t.d*g:]
			copy(both[g:2*g], both[:g])
			return nil
		}
		if err := x.For((g+columns-1)/columns, t.regions[3]); err != nil {
			return err
		}
	}
	return nil
}

// place is where in X step i is.
func (t *backTask) place(i int) int {
	if t.of.reverse[t.d] {
		return t.of.seq - 1 - i
	}
	return i
}

// state copies what the state is before step i.
func (t *backTask) state(i, _ int) {
	k := t.of
	n := k.batch * k.hidden
	h := t.h[t.place(i)*n:][:n]
	if i == 0 {
		start(h, t.in[op.BackInitialH], t.d*n)
		return
	}
	copy(h, t.in[op.BackY][(t.place(i-1)*k.dirs+t.d)*n:])
}

// blocks is how many chunks rows of states are cut into.
func (k *backKernel) blocks(rows int) int {
	per := cellRows(k.hidden)
	return (rows + per - 1) / per
}

// block are the rows of a chunk.
func (k *backKernel) block(i, rows int) (from, to int) {
	per := cellRows(k.hidden)
	return i * per, min((i+1)*per, rows)
}

// row cuts a row of gates.
func (k *backKernel) row(of []float32, i int) []float32 {
	g := k.gates * k.hidden
	return of[i*g:][:g]
}

// activate makes gates of products.
func (t *backTask) activate(i, _ int) {
	k, n := t.of, t.of.hidden
	from, to := k.block(i, k.seq*k.batch)
	for row := from; row < to; row++ {
		g := k.row(t.pre, row)
		if k.gates == 4 {
			vec.Sigmoid(g[:3*n], g[:3*n])
			vec.Tanh(g[3*n:], g[3*n:])
			continue
		}
		rec := k.row(t.rec, row)
		vec.Add(g[:2*n], g[:2*n], rec[:2*n])
		vec.Sigmoid(g[:2*n], g[:2*n])
		vec.FMA(g[2*n:], g[n:2*n], rec[2*n:], g[2*n:])
		vec.Tanh(g[2*n:], g[2*n:])
	}
}

// carriedElements is how many elements of cells a chunk of [backTask.carry] computes, about.
const carriedElements = 1 << 15

// width is how many units of a batch entry a chunk carries through all steps, units how many such
// parts there are.
func (k *backKernel) width() int { return min(k.hidden, max(16, carriedElements/k.seq&^15)) }
func (k *backKernel) units() int { return (k.hidden + k.width() - 1) / k.width() }

// carry computes the cells of all steps: c = f∘c + i∘g.
func (t *backTask) carry(i, _ int) {
	k, n := t.of, t.of.hidden
	b, from := i/k.units(), i%k.units()*k.width()
	to := min(from+k.width(), n)
	for i := range k.seq {
		row := t.place(i)*k.batch + b
		g, c := k.row(t.pre, row), t.c[row*n:][from:to]
		vec.Mul(c, g[from:to], g[3*n+from:3*n+to])
		if before := t.cellBefore(i, b); before != nil {
			vec.FMA(c, g[2*n+from:2*n+to], before[from:to], c)
		}
	}
}

// cellBefore is the cell of a batch entry before step i, nil for zeros.
func (t *backTask) cellBefore(i, b int) []float32 {
	k, n := t.of, t.of.hidden
	switch {
	case i > 0:
		return t.c[(t.place(i-1)*k.batch+b)*n:][:n]
	case t.in[op.BackInitialC] == nil:
		return nil
	}
	return t.in[op.BackInitialC][(t.d*k.batch+b)*n:][:n]
}

// stepBack makes of the gates of a step the gradients of what they are the activations of.
func (t *backTask) stepBack(i, worker int) {
	k, n := t.of, t.of.hidden
	from, to := k.block(i, k.batch)
	for b := from; b < to; b++ {
		row := t.step*k.batch + b
		dh, g := t.dh[b*n:][:n], k.row(t.pre, row)
		if dy := t.in[op.BackDY]; dy != nil {
			vec.Add(dh, dh, dy[((t.step*k.dirs+t.d)*k.batch+b)*n:][:n])
		}
		t1, t2 := t.product.scratch[worker][:n], t.product.scratch[worker][n:2*n]
		if k.gates == 3 {
			gruBack(g, k.row(t.rec, row), t.h[row*n:][:n], dh, t1, t2)
			continue
		}
		lstmBack(g, t.c[row*n:][:n], t.cellBefore(t.place(t.step), b), dh, t.dc[b*n:][:n], t1, t2)
	}
}

// lstmBack replaces the gates of a step by the gradients of what they are the activations of, and
// the gradient of the cell after it, c, by that of the cell before, which is nil for zeros.
func lstmBack(g, c, before, dh, dc, t1, t2 []float32) {
	n := len(dh)
	i, o, f, u := g[:n], g[n:2*n], g[2*n:3*n], g[3*n:]
	vec.Tanh(t1, c)
	vec.Square(t2, t1) // dc += dh∘o∘(1 - tanh²)
	vec.RSubScalar(t2, t2, 1)
	vec.Mul(t2, t2, dh)
	vec.Mul(t2, t2, o)
	vec.Add(dc, dc, t2)
	vec.Mul(t1, t1, dh) // do = dh∘tanh∘o∘(1 - o)
	vec.Mul(t1, t1, o)
	vec.RSubScalar(o, o, 1)
	vec.Mul(o, o, t1)
	vec.Mul(t1, dc, i) // di = dc∘i∘(1 - i)∘u
	vec.RSubScalar(i, i, 1)
	vec.Mul(i, i, u)
	vec.Mul(i, i, t1)
	vec.Square(u, u) // du = dc∘i∘(1 - u²)
	vec.RSubScalar(u, u, 1)
	vec.Mul(u, u, t1)
	vec.Mul(dc, dc, f) // df = dc∘f∘(1 - f)∘before
	if before == nil {
		clear(f)
		return
	}
	vec.RSubScalar(f, f, 1)
	vec.Mul(f, f, before)
	vec.Mul(f, f, dc)
}

// gruBack replaces the gates of a step by the gradients of what they are the activations of, by way
// of W; and the products with R, of which the last is read, by those by way of R. What is left of
// dh goes to the state before, h, besides.
func gruBack(g, rec, h, dh, t1, t2 []float32) {
	n := len(dh)
	z, r, u, q := g[:n], g[n:2*n], g[2*n:], rec[2*n:]
	vec.RSubScalar(t1, z, 1)
	vec.Sub(t2, h, u)
	vec.Mul(t2, t2, dh)
	vec.Square(u, u) // du = dh∘(1 - z)∘(1 - u²)
	vec.RSubScalar(u, u, 1)
	vec.Mul(u, u, t1)
	vec.Mul(u, u, dh)
	vec.Mul(dh, dh, z)
	vec.Mul(z, z, t1) // dz = dh∘(h - u)∘z∘(1 - z)
	vec.Mul(z, z, t2)
	vec.RSubScalar(t1, r, 1)
	vec.Mul(t1, t1, q)
	vec.Mul(q, u, r) // dq = du∘r, dr = du∘q∘r∘(1 - r)
	vec.Mul(r, q, t1)
	copy(rec, g[:2*n])
}

// sumColumns is how many columns of the gradients of all steps a chunk adds up.
func (k *backKernel) sumColumns() int {
	return min(256, max(16, 1<<16/(k.seq*k.batch)&^15))
}

// sum adds up columns over all steps.
func (t *backTask) sum(i, worker int) {
	k := t.of
	g, columns := k.gates*k.hidden, k.sumColumns()
	from, of := i*columns, t.pre
	if t.sums == 1 {
		of = t.rec
	}
	to := min(from+columns, g)
	sums := vec.MakeColumnSums(t.out[3][(2*t.d+t.sums)*g:][from:to], t.product.scratch[worker])
	sums.AddRows(of[from:], g)
	sums.Finish()
}
