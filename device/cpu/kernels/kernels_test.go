package kernels

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/cputest"
	"github.com/weirgpu/weir/internal/kernel/conv"
)

// rows are the keys of the builders table in a fixed order.
func rows() []opKey {
	return slices.SortedFunc(maps.Keys(builders()), func(a, b opKey) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.name, b.name))
	})
}

func testPools(t testing.TB) []*cpu.Pool {
	var pools []*cpu.Pool
	for n := range 3 {
		p := cpu.NewPool(cpu.PoolOptions{Threads: n + 1})
		t.Cleanup(p.Close)
		pools = append(pools, p)
	}
	return pools
}

// TestKernelsAgreeWithReference runs random calls of every operator that has a builder, on every
// path of instructions.
func TestKernelsAgreeWithReference(t *testing.T) {
	pools := testPools(t)
	calls := uint64(100)
	if testing.Short() {
		calls = 10
	}
	for _, key := range rows() {
		t.Run(key.domain+key.name, func(t *testing.T) {
			gen := generator(key)
			if gen == nil {
				t.Fatal("no generator of random calls")
			}
			best := cpuinfo.Current()
			cputest.EachPath(t, func(t *testing.T) {
				if p := cpuinfo.Current(); testing.Short() && p != cpuinfo.Baseline && p != best {
					t.Skip("the race detector sees of every path of assembly the same")
				}
				var seen [3]int
				var off steps
				for i := range calls {
					s := gen(newSource(i, uint64(cpuinfo.Current())), key)
					seen[s.check(t, pools)]++
					off.join(s.steps)
				}
				if err := off.check(); err != nil {
					t.Error(err)
				}
				t.Logf("%d served, %d refused, %d invalid", seen[served], seen[refused],
					seen[invalid])
				if seen[served] < int(calls/10) && (pixelKernels[key] == nil || conv.HasNHWC()) &&
					(pixel16Kernels[key] == nil || conv.HasNHWC16()) {
					t.Errorf("only %d of %d valid calls had a kernel", seen[served],
						seen[served]+seen[refused])
				}
			})
		})
	}
}

// TestKernelsAllocateNothing holds that a bound task leaves Go's heap alone.
func TestKernelsAllocateNothing(t *testing.T) {
	pools := testPools(t)
	for _, key := range rows() {
		for i, ran := uint64(0), 0; ran < 4 && i < 200; i++ {
			s := generator(key)(newSource(i, 99), key)
			_, r, ok := s.request()
			if !ok {
				continue
			}
			k, err := prepare(r)
			if k == nil || err != nil {
				continue
			}
			p := pools[ran%len(pools)]
			b := s.bind(r, k, p.Threads())
			x := &compute.Exec{Ctx: context.Background(), Gate: device.Open, Pool: p}
			if b.task.Run(x) == nil {
				ran++
				if n := testing.AllocsPerRun(5, func() { _ = b.task.Run(x) }); n != 0 {
					t.Errorf("%v: %s on %d workers: %v allocations a run", s, k.Name(), p.Threads(),
						n)
				}
			}
			b.arena.free()
		}
	}
}

// FuzzKernels compares a random call with the reference on one of the paths of instructions.
func FuzzKernels(f *testing.F) {
	for i := range uint64(16) {
		f.Add(uint16(i*7), i, uint8(i))
	}
	pools := testPools(f)
	f.Fuzz(func(t *testing.T, which uint16, seed uint64, path uint8) {
		paths := cputest.Paths()
		defer cpuinfo.Limit(paths[int(path)%len(paths)])()
		keys := rows()
		key := keys[int(which)%len(keys)]
		s := generator(key)(newSource(seed, 7), key)
		s.check(t, pools)
		if s.steps != nil {
			if err := s.steps.check(); err != nil {
				t.Errorf("%v: %v", s, err)
			}
		}
	})
}
