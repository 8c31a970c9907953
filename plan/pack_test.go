package plan

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// bodies is a graph with weights in branches, and in the body of a loop in one of them.
const bodies = `input %x: float32[2,4]
	input %c: bool[]
	const %w: float32[4,4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	%h: float32[2,4] = MatMul@17 (%x, %w)
	%y: float32[2,4] = If@17 (%c | %h) {then_branch=graph "then" captures 1 {
		input %h
		const %v: float32[4,4] = {2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
		const %n: int64[] = {3}
		%a: float32[2,4] = MatMul@17 (%h, %v)
		%l: float32[2,4] = Loop@17 (%n, _, %a) {body=graph "body" {
			input %i: int64[]
			input %go: bool[]
			input %s: float32[2,4]
			const %u: float32[4,4] = {3, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
			%t: float32[2,4] = MatMul@17 (%s, %u)
			%r: float32[2,4] = Tanh@17 (%t)
			output %go
			output %r
		}}
		output %l
	}, else_branch=graph "else" captures 1 {
		input %h
		const %v: float32[4,4] = {4, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
		%b: float32[2,4] = MatMul@17 (%h, %v)
		%e: float32[2,4] = Exp@17 (%b)
		output %e
	}}
	output %y`

// TestPackOnWorkers packs graphs on the calling goroutine and on pools, and wants the bytes that
// the kernels write one after the other, each constant told of once, progress step by step, and the
// stretches that were populated to be all there is.
func TestPackOnWorkers(t *testing.T) {
	g, err := zoo.New("mobilenetv2", zoo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		graph   *graph.Graph
		shapes  map[string][]int
		most    int // threads
		weights int
	}{
		{g, map[string][]int{g.Inputs[0].Name: {1, 3, 224, 224}}, 2, 53},
		{parse(t, bodies), nil, 3, 4},
	} {
		p, err := Compile(t.Context(), c.graph, Options{Target: host, Shapes: c.shapes, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		want := memory(t, p.PackedBytes)
		for i := range p.Steps {
			if st := &p.Steps[i]; st.packed.n > 0 {
				st.Kernel.Pack(st.packed.of(want))
			}
		}
		for threads := range c.most + 1 {
			w := &packWatch{t: t, plan: p, seen: map[*tensor.Tensor]int{}}
			o := PackOptions{Progress: w.progress, Packed: w.packed, Populate: w.populate}
			if threads > 0 {
				pool := cpu.NewPool(cpu.PoolOptions{Threads: threads})
				defer pool.Close()
				o.Pool = pool
			}
			got := memory(t, p.PackedBytes)
			if err := p.Pack(got, o); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s, %d threads: other bytes", p.Graph.Name, threads)
			}
			w.check(threads, c.weights)
		}
	}
}

// eachPlan calls f with a plan and those of its bodies.
func eachPlan(p *Plan, f func(p *Plan)) {
	f(p)
	for i := range p.Steps {
		if k, ok := p.Steps[i].Kernel.(control); ok {
			for _, b := range k.bodies() {
				eachPlan(b, f)
			}
		}
	}
}

// packWatch is told of what Pack does.
type packWatch struct {
	t    *testing.T
	plan *Plan
	done int

	mu        sync.Mutex
	seen      map[*tensor.Tensor]int
	stretches []span
}

func (w *packWatch) progress(done, total int) {
	if w.done++; done != w.done || total != len(w.plan.Steps) {
		w.t.Errorf("progress %d of %d after %d calls", done, total, w.done)
	}
}

func (w *packWatch) packed(c *tensor.Tensor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[c]++
}

func (w *packWatch) populate(from, to int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stretches = append(w.stretches, span{from, to - from})
}

func (w *packWatch) check(threads, weights int) {
	if w.done != len(w.plan.Steps) {
		w.t.Errorf("%d threads: %d calls of progress for %d steps", threads, w.done,
			len(w.plan.Steps))
	}
	told := 0
	eachPlan(w.plan, func(p *Plan) {
		for c := range p.Absorbed() {
			if told++; w.seen[c] != 1 {
				w.t.Errorf("%d threads: told %d times of a constant %v", threads, w.seen[c],
					c.Shape)
			}
		}
	})
	if told != weights {
		w.t.Errorf("%d threads: told of %d weights, want %d", threads, told, weights)
	}
	slices.SortFunc(w.stretches, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	var at int64
	for _, s := range w.stretches {
		if s.off > alignUp(at) || s.n <= 0 {
			w.t.Fatalf("%d threads: %d bytes populated from %d on, after those to %d", threads, s.n,
				s.off, at)
		}
		at = max(at, s.off+s.n)
	}
	if alignUp(at) != w.plan.PackedBytes {
		w.t.Errorf("%d threads: %d of %d bytes populated", threads, at, w.plan.PackedBytes)
	}
}

// explosive is a kernel whose Pack panics.
type explosive struct{ compute.Kernel }

func (explosive) Pack([]byte) { panic("boom") }

// TestPackPanics holds that a panic on a worker is an error.
func TestPackPanics(t *testing.T) {
	p := compileAs(t, parse(t, `input %x: float32[1,2]
		const %w: float32[2,2] = {1, 2, 3, 4}
		%y = MatMul@17 (%x, %w)
		output %y`), Options{Target: host})
	for i := range p.Steps {
		p.Steps[i].Kernel = explosive{p.Steps[i].Kernel}
	}
	err := p.Pack(memory(t, p.PackedBytes), PackOptions{Pool: newPool(t)})
	if !errors.Is(err, compute.ErrPanic) {
		t.Errorf("error %v, want ErrPanic", err)
	}
}
