package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// sample is one operator call with its operands.
type sample struct {
	call     *op.Call
	in       []*tensor.Tensor // nil for an absent optional input
	constant []bool           // which inputs the builder may see
	absent   []bool           // which outputs nobody asks for; nil for none
	exact    bool             // the kernel must give the reference's bits
	atol     float64          // what rounding may do where large terms cancel
	steps    *steps           // what rounding may do to bytes; nil where they are the reference's
	// given returns what the reference computes where it depends on the kernel's outputs; nil where
	// it does not.
	given func(s *sample, got []*tensor.Tensor) ([]*tensor.Tensor, error)
}

func (s *sample) String() string {
	text := fmt.Sprintf("%s-%d", s.call.Name(), s.call.Version)
	for _, a := range s.call.Attrs {
		text += fmt.Sprintf(" %s=%v%v%v", a.Name, a.Ints, a.Floats, a.Strings)
	}
	for i, v := range s.in {
		switch {
		case v == nil:
			text += " -"
		case s.constant[i]:
			text += fmt.Sprintf(" %v%v'", v.DType, v.Shape)
		default:
			text += fmt.Sprintf(" %v%v", v.DType, v.Shape)
		}
	}
	return text + fmt.Sprintf(" -> %d", s.call.NumOut)
}

// request infers the output types as a plan would; false when the call is not a valid one of static
// types.
func (s *sample) request() (*op.Op, *compute.Request, bool) {
	o, err := op.Lookup(s.call.Domain, s.call.Type, s.call.Version)
	if err != nil {
		return nil, nil, false
	}
	r := &compute.Request{Call: s.call, In: make([]op.Type, len(s.in))}
	present := make([]bool, len(s.in))
	for i, v := range s.in {
		switch {
		case v == nil:
		case s.constant[i]:
			r.In[i], present[i] = op.TypeOf(v), true
		default:
			r.In[i], present[i] = op.Concrete(v.DType, v.Shape...), true
		}
	}
	if r.Out, err = op.InferTypes(o, s.call, r.In, present); err != nil {
		return nil, nil, false
	}
	for i := range r.Out {
		if s.absent != nil && s.absent[i] {
			r.Out[i] = op.Type{}
		} else if !r.Out[i].Static() {
			return nil, nil, false
		} else if n, err := tensor.ByteCount(r.Out[i].DType, shapeOf(r.Out[i])); err != nil ||
			n > arenaBytes/4 {
			return nil, nil, false
		}
	}
	return o, r, true
}

func shapeOf(t op.Type) []int {
	shape, _ := t.Ints()
	return shape
}

// verdict is what became of a sample.
type verdict int

const (
	invalid verdict = iota // not a valid call
	refused                // valid, and left to the reference
	served                 // a kernel ran and was right
)

// check prepares the call and, when there is a kernel, runs it with several numbers of workers on
// memory full of NaNs, and compares with the reference.
func (s *sample) check(t testing.TB, pools []*cpu.Pool) verdict {
	t.Helper()
	o, r, ok := s.request()
	if !ok {
		return invalid
	}
	want, wantErr := op.Run(context.Background(), o, s.call, s.in)
	k, err := prepare(r)
	if err != nil {
		if wantErr == nil {
			t.Errorf("%v: the reference computes what Prepare refuses: %v", s, err)
		}
		return invalid
	}
	if k == nil {
		return refused
	}
	if wantErr == nil {
		s.checkInPlace(t, r, k, pools[len(pools)-1], want)
		s.checkRenewing(t, r, k, pools[len(pools)-1], want)
		s.checkAbsorbed(t, r, k, pools[len(pools)-1])
	}
	var first []*tensor.Tensor
	for _, p := range pools {
		got, err := s.run(t, r, k, p)
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%v: %s: error %v, the reference's %v", s, k.Name(), err, wantErr)
			return served
		}
		if err != nil {
			return served
		}
		if first == nil {
			first = got
			s.compare(t, k, p, got, want)
			continue
		}
		for i := range got {
			if got[i] != nil && !bytes.Equal(got[i].Data, first[i].Data) {
				t.Errorf("%v: %s: %d workers give other bits than %d", s, k.Name(), p.Threads(),
					pools[0].Threads())
			}
		}
	}
	return served
}

// checkInPlace writes output 0 over each input that the kernel says it may.
func (s *sample) checkInPlace(
	t testing.TB, r *compute.Request, k compute.Kernel, p *cpu.Pool, want []*tensor.Tensor,
) {
	t.Helper()
	ip, ok := k.(compute.InPlace)
	if !ok {
		return
	}
	for _, i := range ip.InPlace() {
		if len(s.in[i].Data) != len(want[0].Data) { // a comparison's result is of another size
			continue
		}
		b := s.bindOver(r, k, p.Threads(), i)
		copy(b.in[i].Data, s.in[i].Data)
		x := &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: p}
		if err := b.task.Run(x); err != nil {
			t.Errorf("%v: %s over input %d: %v", s, k.Name(), i, err)
		}
		got := b.out[0].Clone()
		if !b.arena.intact() {
			t.Errorf("%v: %s over input %d: wrote outside its memory", s, k.Name(), i)
		}
		b.arena.free()
		s.compare(t, k, p, []*tensor.Tensor{got}, want)
	}
}

// checkRenewing writes all outputs over the inputs that the kernel says they may be.
func (s *sample) checkRenewing(
	t testing.TB, r *compute.Request, k compute.Kernel, p *cpu.Pool, want []*tensor.Tensor,
) {
	t.Helper()
	renewing, ok := k.(compute.Renewing)
	if !ok {
		return
	}
	b := s.bindOver(r, k, p.Threads(), -1)
	for i, over := range renewing.Renewing() {
		if i < len(b.out) && b.out[i] != nil {
			b.out[i].Data = b.in[over].Data
		}
	}
	b.task = k.Bind(compute.Binding{In: b.in, Out: b.out, Packed: b.packed, Scratch: b.scratch,
		Workers: p.Threads()})
	x := &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: p}
	if err := b.task.Run(x); err != nil {
		t.Errorf("%v: %s over its inputs: %v", s, k.Name(), err)
	}
	got := make([]*tensor.Tensor, len(b.out))
	for i, v := range b.out {
		if v != nil {
			got[i] = v.Clone()
		}
	}
	b.arena.free()
	s.compare(t, k, p, got, want)
}

// checkAbsorbed prepares and binds the call without the contents of the inputs that the kernel says
// only Pack reads, and wants the bits that it gives with them.
func (s *sample) checkAbsorbed(t testing.TB, r *compute.Request, k compute.Kernel, p *cpu.Pool) {
	t.Helper()
	a, ok := k.(compute.Absorbing)
	if !ok || len(a.Absorbed()) == 0 {
		return
	}
	bare := &compute.Request{Call: r.Call, In: slices.Clone(r.In), Out: r.Out}
	for _, i := range a.Absorbed() {
		bare.In[i].Const = &tensor.Tensor{DType: s.in[i].DType, Shape: s.in[i].Shape}
	}
	same, err := prepare(bare)
	if err != nil || same == nil || same.Name() != k.Name() ||
		same.PackedBytes() != k.PackedBytes() {
		t.Errorf("%v: without the contents of inputs %v: kernel %v, error %v; want %s of %d bytes",
			s, a.Absorbed(), same, err, k.Name(), k.PackedBytes())
		return
	}
	with, without := s.bind(r, k, p.Threads()), s.bind(r, k, p.Threads())
	defer with.arena.free()
	defer without.arena.free()
	for _, i := range a.Absorbed() {
		without.in[i] = bare.In[i].Const
	}
	without.task = same.Bind(
		compute.Binding{
			In:      without.in,
			Out:     without.out,
			Packed:  without.packed,
			Scratch: without.scratch,
			Workers: p.Threads(),
		},
	)
	x := &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: p}
	if err := errors.Join(with.task.Run(x), without.task.Run(x)); err != nil {
		t.Errorf("%v: %s: %v", s, k.Name(), err)
		return
	}
	for i, v := range with.out {
		if v != nil && !bytes.Equal(v.Data, without.out[i].Data) {
			t.Errorf(
				"%v: %s: output %d depends on the contents of inputs %v beside the packed copy", s,
				k.Name(), i, a.Absorbed())
		}
	}
}

func (s *sample) compare(
	t testing.TB, k compute.Kernel, p *cpu.Pool, got, want []*tensor.Tensor,
) {
	t.Helper()
	if s.given != nil {
		var err error
		if want, err = s.given(s, got); err != nil {
			t.Errorf("%v: %s: %v", s, k.Name(), err)
			return
		}
	}
	for i, g := range got {
		if g == nil {
			continue
		}
		var err error
		switch {
		case isByte(g.DType) && s.steps != nil:
			err = s.steps.add(g, want[i])
		case s.exact:
			if !tensor.Equal(g, want[i]) {
				err = tensor.Close(g, want[i], 0, 0)
				if err == nil {
					err = fmt.Errorf("same values, other bits")
				}
			}
		default:
			atol := s.atol
			if k.Name() == "conv.winograd" {
				atol *= tileError
			}
			own := ownError
			if g.DType == tensor.BFloat16 {
				own = halfError
			}
			err = tensor.Close(g, want[i], own, atol+termError*math.Max(1, largest(want[i])))
		}
		if err != nil {
			t.Errorf("%v: %s on %d workers: output %d: %v", s, k.Name(), p.Threads(), i, err)
		}
	}
}

// What a result may differ by from the reference, which rounds once: as a share of itself, the 4.5
// units in the last place of the least exact function of package vec, and the few roundings around
// it; and as a share of the largest element, twice that, where terms of its size cancel.
//
// Numbers that are nearly equal are the same in bfloat16, or neighbours there.
const (
	ownError  = 0x1p-20
	termError = 0x1p-19
	halfError = 0x1p-7
)

// sumError is what the sum of n products of numbers by [source.floats] may differ by, beside that.
// A rounding is off by 2^-25 of a partial sum, and a partial sum of i products is 2.25·√i, in the
// root of their mean squares. Roundings are independent, so that those of n sums add up to
// 2^-25·2.25·n/√2, and none is seen at six times that.
func sumError(n int) float64 { return 6 * 0x1p-25 * 2.25 * float64(n) / math.Sqrt2 }

// attentionError is sumError of an attention with heads of some size: an error of a score is one of
// its weight as a share of that, and weighs values of 1.5 in the root of their mean squares.
func attentionError(c *op.Call, size int) float64 {
	otherwise := float32(1) // of weir:Attention
	if c.Domain != op.FusedDomain {
		otherwise /= float32(math.Sqrt(float64(size)))
	}
	e := 1.5 * float64(c.Attrs.Float("scale", otherwise)) * sumError(size)
	if c.Attrs.Bool("do_rotary", false) {
		e *= 4.5 // random numbers in place of sines make scores so much larger
	}
	return e
}

// tileError is how many times as far as by its definition a convolution in tiles may be off: the
// worst place of a tile has 10.5 times the errors, in the root of their mean squares, as
// internal/kernel/conv derives and its TestTileErrors holds. Ten thus leave 5.7 times that root, in
// place of six.
const tileError = 10

// largest is the greatest finite magnitude in a float tensor.
func largest(v *tensor.Tensor) float64 {
	m := 0.0
	fs, err := v.Floats()
	if err != nil {
		return 0
	}
	for _, f := range fs {
		if f = math.Abs(f); !math.IsInf(f, 0) && f > m {
			m = f
		}
	}
	return m
}

// bound is a kernel bound to memory of its own.
type bound struct {
	packed  []byte
	task    compute.Task
	arena   *guardedArena
	scratch []byte
	in, out []*tensor.Tensor
	given   []*tensor.Tensor
}

// bind places operands, packed weights and scratch as a plan does: aligned, and full of NaNs.
func (s *sample) bind(r *compute.Request, k compute.Kernel, workers int) *bound {
	return s.bindOver(r, k, workers, -1)
}

// bindOver is bind with output 0 in the place of an input, if over is one.
func (s *sample) bindOver(r *compute.Request, k compute.Kernel, workers, over int) *bound {
	b := &bound{
		arena: newGuardedArena(),
		given: s.in,
		in:    make([]*tensor.Tensor, len(s.in)),
		out:   make([]*tensor.Tensor, len(r.Out)),
	}
	for i, v := range s.in {
		if v != nil {
			b.in[i] = &tensor.Tensor{
				DType: v.DType,
				Shape: v.Shape,
				Data:  b.arena.take(len(v.Data)),
			}
			copy(b.in[i].Data, v.Data)
		}
	}
	for i := range r.Out {
		if shape, ok := r.Out[i].Ints(); ok && r.Out[i].DType != tensor.Undefined {
			n, _ := tensor.ByteCount(r.Out[i].DType, shape)
			b.out[i] = &tensor.Tensor{DType: r.Out[i].DType, Shape: shape, Data: b.arena.take(n)}
		}
	}
	if over >= 0 {
		b.out[0].Data = b.in[over].Data
	}
	b.packed = b.arena.take(k.PackedBytes())
	k.Pack(b.packed)
	b.scratch = b.arena.take(k.ScratchBytes(workers))
	b.task = k.Bind(
		compute.Binding{In: b.in, Out: b.out, Packed: b.packed, Scratch: b.scratch,
			Workers: workers},
	)
	return b
}

// run runs the task on computed operands of garbage, whose result and error do not matter, and then
// on the real ones.
func (s *sample) run(
	t testing.TB, r *compute.Request, k compute.Kernel, p *cpu.Pool,
) ([]*tensor.Tensor, error) {
	t.Helper()
	b := s.bind(r, k, p.Threads())
	x := &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: p}
	for i, v := range b.in {
		if v != nil && !s.constant[i] {
			poison(v.Data)
		}
	}
	_ = b.task.Run(x)
	for i, v := range b.in {
		if v != nil {
			copy(v.Data, s.in[i].Data)
		}
	}
	for _, v := range b.out {
		if v != nil {
			poison(v.Data)
		}
	}
	poison(b.scratch)
	err := b.task.Run(x)
	for i, v := range b.in {
		if v != nil && !bytes.Equal(v.Data, s.in[i].Data) {
			t.Errorf("%v: %s: input %d was written", s, k.Name(), i)
		}
	}
	if !b.arena.intact() {
		t.Errorf("%v: %s on %d workers: wrote outside its memory", s, k.Name(), p.Threads())
	}
	out := make([]*tensor.Tensor, len(b.out))
	for i, v := range b.out {
		if v != nil {
			out[i] = v.Clone()
		}
	}
	b.arena.free()
	return out, err
}

// poisoned is a run of what poison writes. Written run by run, the race detector looks at a range
// and not at each byte.
var poisoned = bytes.Repeat([]byte{0xff}, 64<<10)

func poison(b []byte) {
	for n := 0; n < len(b); {
		n += copy(b[n:], poisoned)
	}
}

// guardedArena hands out pieces of device memory, each on a cache line of its own and followed by
// at least a cache line that nobody may write. All of it is 0xff, which is NaN in every
// floating-point type, so that reading outside a piece shows in the result.
type guardedArena struct {
	mem  []byte
	next int
	gaps [][2]int
}

const (
	guardBytes = 256
	arenaBytes = 128 << 20 // touched only as far as samples need
)

// arenaDevice is what arenas are memory of.
var arenaDevice = sync.OnceValues(func() (*cpu.Device, error) {
	return cpu.Open("cpu:0", cpu.Options{})
})

// arenas are those that are free. A sync.Pool drops some under the race detector, and the pages of
// a new one are faulted in once more.
var arenas struct {
	sync.Mutex
	free []*guardedArena
}

func newGuardedArena() *guardedArena {
	a := freeArena()
	poison(a.mem[:guardBytes])
	a.next, a.gaps = guardBytes, append(a.gaps[:0], [2]int{0, guardBytes})
	return a
}

func freeArena() *guardedArena {
	arenas.Lock()
	defer arenas.Unlock()
	if n := len(arenas.free); n > 0 {
		a := arenas.free[n-1]
		arenas.free = arenas.free[:n-1]
		return a
	}
	d, err := arenaDevice()
	if err != nil {
		panic(err)
	}
	b, err := d.Alloc(arenaBytes)
	if err != nil {
		panic(err)
	}
	return &guardedArena{mem: device.HostView(b)}
}

func (a *guardedArena) free() {
	arenas.Lock()
	defer arenas.Unlock()
	arenas.free = append(arenas.free, a)
}

func (a *guardedArena) take(n int) []byte {
	at := a.next
	a.next = (at+n+63)&^63 + guardBytes
	poison(a.mem[at:a.next])
	a.gaps = append(a.gaps, [2]int{at + n, a.next})
	return a.mem[at : at+n : at+n]
}

func (a *guardedArena) intact() bool {
	for _, g := range a.gaps {
		if !bytes.Equal(a.mem[g[0]:g[1]], poisoned[:g[1]-g[0]]) {
			return false
		}
	}
	return true
}

// source makes random calls.
type source struct{ *rand.Rand }

func newSource(seed, stream uint64) source { return source{rand.New(rand.NewPCG(seed, stream))} }

func (r source) one(n int) bool { return r.IntN(n) == 0 }

func (r source) pick(v ...string) string { return v[r.IntN(len(v))] }

// size is mostly a few, sometimes one, seldom none or many.
func (r source) size() int {
	switch r.IntN(12) {
	case 0, 1:
		return 1
	case 2:
		return 8 + r.IntN(60)
	default:
		return 2 + r.IntN(6)
	}
}

// maxElems bounds the elements of one operand: beyond several chunks of every loop.
const maxElems = 80_000

// shape makes a shape; one in twelve is long enough for several chunks, one in forty has no
// elements.
func (r source) shape(rank int) []int {
	s := make([]int, rank)
	for {
		for i := range s {
			s[i] = r.size()
		}
		if rank > 0 && r.one(12) {
			s[r.IntN(rank)] = 5000 + r.IntN(15000)
		}
		if rank > 0 && r.one(40) {
			s[r.IntN(rank)] = 0
		}
		if count(s) <= maxElems {
			return s
		}
	}
}

// floats fills a float32 tensor with numbers of some units.
func (r source) floats(shape ...int) *tensor.Tensor {
	v := make([]float32, count(shape))
	for i := range v {
		v[i] = float32(r.NormFloat64() * 1.5)
	}
	return tensor.From(v, shape...)
}

// wild is floats with values sprinkled in that arithmetic has to respect.
func (r source) wild(shape ...int) *tensor.Tensor {
	v := r.floats(shape...)
	f := tensor.As[float32](v)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	if r.one(3) {
		for range len(f)/8 + min(1, len(f)) {
			f[r.IntN(len(f))] = []float32{nan, inf, -inf, 0, float32(math.Copysign(0, -1)), 1e30,
				-1e30, 88.5, -104, 1e-30}[r.IntN(10)]
		}
	}
	return v
}

// bits fills a tensor of any fixed-size type with random bytes, booleans with truth values.
func (r source) bits(d tensor.DType, shape ...int) *tensor.Tensor {
	v, err := tensor.New(d, shape...)
	if err != nil {
		panic(err)
	}
	for i := range v.Data {
		v.Data[i] = byte(r.Uint32())
		if d == tensor.Bool {
			v.Data[i] &= 1
		}
	}
	return v
}

// dtype is a fixed-size element type, often float32.
func (r source) dtype() tensor.DType {
	return []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float32, tensor.Int64,
		tensor.Int32, tensor.Uint8, tensor.Bool, tensor.Float64, tensor.Float16, tensor.Int16,
		tensor.Complex128, tensor.Float8E4M3FN, tensor.Int4, tensor.Uint2}[r.IntN(14)]
}

// broadcastTo makes a shape that broadcasts to the given one.
func (r source) broadcastTo(shape []int) []int {
	s := slices.Clone(shape)
	switch r.IntN(5) {
	case 0:
		return s
	case 1:
		return s[r.IntN(len(s)+1):]
	case 2:
		for i := range s {
			s[i] = 1
		}
		return s
	}
	for i := range s {
		if r.one(2) {
			s[i] = 1
		}
	}
	for len(s) > 0 && s[0] == 1 && r.one(2) {
		s = s[1:]
	}
	return s
}

// version is one of the opset versions that have the operator.
func (r source) version(key opKey) int {
	if key.domain != "" {
		return 1
	}
	o, err := op.Lookup(key.domain, key.name, 0)
	if err != nil {
		panic(err)
	}
	return o.Since[0] + r.IntN(25-o.Since[0])
}

// call makes a sample of a call with computed inputs.
func (r source) call(key opKey, attrs op.Attrs, in ...*tensor.Tensor) *sample {
	return &sample{
		call: &op.Call{
			Domain:  key.domain,
			Type:    key.name,
			Version: r.version(key),
			Attrs:   attrs,
			NumIn:   len(in),
			NumOut:  1,
		},
		in:       in,
		constant: make([]bool, len(in)),
	}
}

// fix makes some inputs constants.
func (s *sample) fix(inputs ...int) *sample {
	for _, i := range inputs {
		if i < len(s.in) && s.in[i] != nil {
			s.constant[i] = true
		}
	}
	return s
}

func i64(v ...int64) *tensor.Tensor { return tensor.From(v, len(v)) }

func ints64(v []int) []int64 {
	out := make([]int64, len(v))
	for i, n := range v {
		out[i] = int64(n)
	}
	return out
}
