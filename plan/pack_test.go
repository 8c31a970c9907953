package plan

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestPackOnWorkers packs a network on the calling goroutine and on pools, and wants the same bytes, each constant told of once, progress
// step by step, and the stretches that were populated to be all there is.
func TestPackOnWorkers(t *testing.T) {
	g, err := zoo.New("mobilenetv2", zoo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(t.Context(), g, Options{Shapes: map[string][]int{g.Inputs[0].Name: {1, 3, 224, 224}}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := memory(t, p.PackedBytes)
	if err := p.Pack(want, PackOptions{}); err != nil {
		t.Fatal(err)
	}
	for threads := range 4 {
		w := &packWatch{t: t, plan: p, seen: map[*tensor.Tensor]int{}}
		o := PackOptions{Progress: w.progress, Packed: w.packed, Populate: w.populate}
		if threads > 0 {
			o.Pool = cpu.NewPool(cpu.PoolOptions{Threads: threads})
			defer o.Pool.Close()
		}
		got := memory(t, p.PackedBytes)
		if err := p.Pack(got, o); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d threads: other bytes", threads)
		}
		w.check(threads)
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

func (w *packWatch) check(threads int) {
	if w.done != len(w.plan.Steps) {
		w.t.Errorf("%d threads: %d calls of progress for %d steps", threads, w.done, len(w.plan.Steps))
	}
	for c := range w.plan.Absorbed() {
		if w.seen[c] != 1 {
			w.t.Errorf("%d threads: told %d times of a constant %v", threads, w.seen[c], c.Shape)
		}
	}
	slices.SortFunc(w.stretches, func(a, b span) int { return cmp.Compare(a.off, b.off) })
	var at int64
	for _, s := range w.stretches {
		if s.off > alignUp(at) || s.n <= 0 {
			w.t.Fatalf("%d threads: %d bytes populated from %d on, after those to %d", threads, s.n, s.off, at)
		}
		at = max(at, s.off+s.n)
	}
	if alignUp(at) != w.plan.PackedBytes {
		w.t.Errorf("%d threads: %d of %d bytes populated", threads, at, w.plan.PackedBytes)
	}
}

// explosive is a kernel whose Pack panics.
type explosive struct{ cpu.Kernel }

func (explosive) Pack([]byte) { panic("boom") }

// TestPackPanics holds that a panic on a worker is an error.
func TestPackPanics(t *testing.T) {
	p := compileAs(t, parse(t, `input %x: float32[1,2]
		const %w: float32[2,2] = {1, 2, 3, 4}
		%y = MatMul@17 (%x, %w)
		output %y`), Options{})
	for i := range p.Steps {
		p.Steps[i].Kernel = explosive{p.Steps[i].Kernel}
	}
	if err := p.Pack(memory(t, p.PackedBytes), PackOptions{Pool: newPool(t)}); !errors.Is(err, cpu.ErrPanic) {
		t.Errorf("error %v, want ErrPanic", err)
	}
}
