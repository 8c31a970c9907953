package kernels

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// BenchmarkColumns reduces the first axis of matrices that lie in the first cache, the second and
// memory, with one worker.
func BenchmarkColumns(b *testing.B) {
	for _, name := range []string{"ReduceSum", "ReduceSumSquare", "Softmax"} {
		for _, shape := range [][]int{{50, 100}, {64, 4096}, {196, 384}, {1024, 512}, {4096, 64},
			{20000, 3}, {8000, 1000}} {
			b.Run(fmt.Sprintf("%s/%dx%d", name, shape[0], shape[1]), func(b *testing.B) {
				benchmarkColumns(b, name, shape)
			})
		}
	}
}

func benchmarkColumns(b *testing.B, name string, shape []int) {
	r := newSource(1, 1)
	s := r.call(opKey{"", name}, op.Attrs{op.IntAttr("axis", 0)}, r.floats(shape...))
	s.call.Version = 13
	if name != "Softmax" {
		s.call.Attrs = op.Attrs{op.IntsAttr("axes", 0)}
		s.call.Version = 11
	}
	_, req, ok := s.request()
	if !ok {
		b.Fatal("not a call")
	}
	k, err := prepare(req)
	if err != nil || k == nil {
		b.Fatal(k, err)
	}
	p := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer p.Close()
	bound := s.bind(req, k, 1)
	defer bound.arena.free()
	x := &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: p}
	b.SetBytes(int64(len(tensor.As[float32](s.in[0])) * 4))
	for b.Loop() {
		if err := bound.task.Run(x); err != nil {
			b.Fatal(err)
		}
	}
}
