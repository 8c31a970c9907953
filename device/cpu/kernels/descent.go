package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// descentKernels are the optimizers: one pass over a weight and what its optimizer keeps of it,
// which may be written where they lie. They round as the definitions do.
var descentKernels = map[opKey]builder{
	{op.FusedDomain, op.SGD}:      descentBy(sgdPiece, 0, 2, 3, 4),
	{op.FusedDomain, op.Momentum}: descentBy(momentumPiece, 1, 3, -1, 4),
	{op.FusedDomain, op.Adagrad}:  descentBy(adagradPiece, 1, 3, -1, 4),
	{op.FusedDomain, op.Adam}:     descentBy(adamPiece, 2, 4, 6, 7),
	{op.FusedDomain, op.LAMB}:     descentBy(lambPiece, 2, 4, -1, 6),
}

// descentPiece is the number of elements that each operation takes at a time: all that an update
// reads, writes and has in the making then stays in the first cache.
const descentPiece = 512

// descentRooms is how many pieces are in the making: two of an operation's, and one of each result.
const descentRooms = 5

// descentKernel is an optimizer of so many histories. Its numbers are the operands from first to
// before condition, but for the one at optional, which may be absent; -1 where none may.
type descentKernel struct {
	plain
	name                       string
	piece                      func(t *descentTask, p *descentSpan)
	histories                  int
	first, optional, condition int

	keep1, take1, keep2, take2, decay, epsilon, momentum float32
	nesterov                                             bool
	over                                                 [3]int // by output
}

// descentBy makes a row of descentKernels.
func descentBy(piece func(t *descentTask, p *descentSpan), histories, first, optional,
	condition int) builder {
	return func(r *request) (compute.Kernel, error) {
		return newDescent(r, &descentKernel{piece: piece, histories: histories, first: first,
			optional: optional, condition: condition})
	}
}

func newDescent(r *request, k *descentKernel) (compute.Kernel, error) {
	if !r.allFloat32(k.condition) {
		return nil, nil
	}
	as := r.Call.Attrs
	number := func(name string) float32 { return as.Float(name, 0) }
	k.name, k.over = "descent."+r.Call.Type, [3]int{0, 2, 3}
	if r.Call.Type == op.LAMB {
		k.over[0] = 1
	}
	k.keep1, k.take1 = number(op.DescentKeep1), number(op.DescentTake1)
	k.keep2, k.take2 = number(op.DescentKeep2), number(op.DescentTake2)
	k.decay, k.epsilon = number(op.DescentDecay), number(op.DescentEpsilon)
	k.momentum, k.nesterov = number(op.DescentMomentum), as.Bool(op.DescentNesterov, false)
	return k, nil
}

// Name implements Kernel.
func (k *descentKernel) Name() string { return k.name }

// InPlace implements [compute.InPlace]: the weight becomes the new one, the gradient LAMB's step.
func (k *descentKernel) InPlace() []int {
	return k.over[:1]
}

// Renewing implements [compute.Renewing].
func (k *descentKernel) Renewing() []int { return k.over[:1+k.histories] }

// ScratchBytes implements Kernel.
func (k *descentKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(descentRooms*descentPiece)
}

// Bind implements Kernel.
func (k *descentKernel) Bind(b compute.Binding) compute.Task {
	t := &descentTask{of: k, w: tensor.As[float32](b.In[0]), g: tensor.As[float32](b.In[1]),
		rooms: perWorker(b), spans: make([]descentSpan, b.Workers)}
	t.to = optional(b.Out, 0)
	for i := range k.histories {
		t.was[i], t.next[i] = tensor.As[float32](b.In[2+i]), optional(b.Out, i+1)
	}
	for i := k.first; i < min(k.condition, len(b.In)); i++ {
		if b.In[i] != nil {
			t.numbers[i-k.first] = tensor.As[float32](b.In[i])
		}
	}
	if k.condition < len(b.In) && b.In[k.condition] != nil {
		t.condition = tensor.As[bool](b.In[k.condition])
	}
	return t
}

type descentTask struct {
	of        *descentKernel
	w, g, to  []float32
	was, next [2][]float32
	numbers   [4][]float32 // nil for one that is absent
	condition []bool       // nil where there is none
	rooms     [][]float32  // of each worker
	spans     []descentSpan
}

// number is operand i of the numbers.
func (t *descentTask) number(i int) float32 { return t.numbers[i][0] }

// Run implements Task.
func (t *descentTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.w)), t) }

// descentSpan are a few elements in the making: results that nobody asks for, and those that are
// not kept, are made in a piece of their own.
type descentSpan struct {
	w, g, to  []float32
	was, next [2][]float32
	a, b      []float32 // scratch
}

// Chunk implements Region.
func (t *descentTask) Chunk(i, worker int) {
	lo, hi := block(i, len(t.w))
	for ; lo < hi; lo += descentPiece {
		t.span(lo, min(lo+descentPiece, hi), worker)
	}
}

// span makes the elements from lo to before hi.
func (t *descentTask) span(lo, hi, worker int) {
	p, room := &t.spans[worker], t.rooms[worker]
	stays := t.condition != nil && !t.condition[0]
	place := func(of []float32, at int, skip bool) []float32 {
		if of == nil || skip {
			return room[at*descentPiece:][:hi-lo]
		}
		return of[lo:hi]
	}
	p.w, p.g, p.a, p.b = t.w[lo:hi], t.g[lo:hi], place(nil, 0, true), place(nil, 1, true)
	step := t.of.over[0] == 1 // which is given whatever the condition says
	p.to = place(t.to, 2, stays && !step)
	for i := range t.of.histories {
		p.was[i], p.next[i] = t.was[i][lo:hi], place(t.next[i], 3+i, stays)
	}
	if !stays || step {
		t.of.piece(t, p)
	}
	if stays {
		t.stay(lo, hi, !step)
	}
}

// stay has all results be what they were.
func (t *descentTask) stay(lo, hi int, weight bool) {
	if weight && t.to != nil {
		copy(t.to[lo:hi], t.w[lo:hi])
	}
	for i := range t.of.histories {
		if t.next[i] != nil {
			copy(t.next[i][lo:hi], t.was[i][lo:hi])
		}
	}
}

// decayed is the gradient with the decay of the weight, in a.
func (k *descentKernel) decayed(p *descentSpan) []float32 {
	if k.decay == 0 {
		return p.g
	}
	vec.MulScalar(p.a, p.w, k.decay)
	vec.Add(p.a, p.g, p.a)
	return p.a
}

// down gives the weight less step times the rate. The step is written over.
func (p *descentSpan) down(w, step []float32, rate float32) {
	vec.MulScalar(step, step, rate)
	vec.Sub(p.to, w, step)
}

func sgdPiece(t *descentTask, p *descentSpan) {
	step := t.of.decayed(p)
	if t.numbers[1] != nil {
		vec.MulScalar(p.b, step, t.number(1))
		step = p.b
	}
	vec.MulScalar(p.b, step, t.number(0))
	vec.Sub(p.to, p.w, p.b)
}

func momentumPiece(t *descentTask, p *descentSpan) {
	k := t.of
	d, v := k.decayed(p), p.next[0]
	vec.MulScalar(p.b, p.was[0], k.momentum)
	vec.Add(v, p.b, d)
	step := v
	if k.nesterov {
		vec.MulScalar(p.b, v, k.momentum)
		vec.Add(p.b, d, p.b)
		step = p.b
	}
	vec.MulScalar(p.b, step, t.number(0))
	vec.Sub(p.to, p.w, p.b)
}

func adagradPiece(t *descentTask, p *descentSpan) {
	d, sum := t.of.decayed(p), p.next[0]
	vec.Mul(p.b, d, d)
	vec.Add(sum, p.was[0], p.b)
	vec.Sqrt(p.b, sum)
	vec.AddScalar(p.b, p.b, t.of.epsilon)
	vec.Div(p.b, d, p.b)
	p.down(p.w, p.b, t.number(0))
}

// moments gives those of gradient d, and in b the root of the second, which is not zero. The
// gradient may lie in a, which is written over.
func (t *descentTask) moments(p *descentSpan, d []float32, root float32) {
	k, first, second := t.of, p.next[0], p.next[1]
	vec.Mul(p.b, d, d)
	vec.MulScalar(p.b, p.b, k.take2)
	vec.MulScalar(second, p.was[1], k.keep2)
	vec.Add(second, second, p.b)
	vec.Sqrt(p.b, second)
	vec.MulScalar(p.b, p.b, root)
	vec.AddScalar(p.b, p.b, k.epsilon)
	vec.MulScalar(p.a, d, k.take1)
	vec.MulScalar(first, p.was[0], k.keep1)
	vec.Add(first, first, p.a)
}

func adamPiece(t *descentTask, p *descentSpan) {
	t.moments(p, t.of.decayed(p), t.number(1))
	w := p.w
	if t.numbers[2] != nil {
		vec.MulScalar(p.a, w, t.number(2))
		w = p.a
	}
	vec.Div(p.b, p.next[0], p.b)
	p.down(w, p.b, t.number(0))
}

func lambPiece(t *descentTask, p *descentSpan) {
	t.moments(p, p.g, t.number(1))
	vec.MulScalar(p.a, p.next[0], t.number(0))
	if t.of.decay == 0 {
		vec.Div(p.to, p.a, p.b)
		return
	}
	vec.Div(p.b, p.a, p.b)
	vec.MulScalar(p.a, p.w, t.of.decay)
	vec.Add(p.to, p.b, p.a)
}
