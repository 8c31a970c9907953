package cpu

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// stacked is a region whose worker is put onto its caller's processor, and then looks where it is.
type stacked struct {
	place   *place // of the worker
	joined  atomic.Bool
	at      atomic.Int32 // where the worker found itself in its second chunk
	free    atomic.Bool  // whether it could be anywhere then
	counted atomic.Int32
}

func (s *stacked) Chunk(_, worker int) {
	switch {
	case worker == 0: // keeps its processor busy while the worker has a chunk to claim
		for began := time.Now(); s.counted.Load() < 2 && time.Since(began) < time.Second; {
			backOff(0)
		}
	case s.counted.Add(1) == 1:
		runtime.LockOSThread()
		mask := threadMask()
		pinThread(allowedCPUs()[:1])
		mask.restore()
		runtime.UnlockOSThread()
		s.place.stays = time.Time{} // it may move again
		s.joined.Store(cpuinfo.Place() == allowedCPUs()[0])
	default:
		s.at.Store(int32(cpuinfo.Place()))
		s.free.Store(slices.Equal(cpusOfThread(), allowedCPUs()))
	}
}

func TestWorkerLeavesItsCallersProcessor(t *testing.T) {
	allowed := allowedCPUs()
	if cpuinfo.Place() < 0 || len(allowed) < 2 {
		t.Skip("there is one processor, or its number is not to be had")
	}
	p := newTestPool(t, PoolOptions{Threads: 2})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := threadMask()
	pinThread(allowed[:1])
	defer mask.restore()
	left, stayed := 0, 0
	for range 20 {
		s := &stacked{place: &p.places[1]}
		if err := p.Run(t.Context(), nil, 3, s); err != nil {
			t.Fatal(err)
		}
		switch {
		case !s.joined.Load() || s.counted.Load() < 2:
			continue
		case !s.free.Load():
			t.Fatal("a worker that has left its caller's processor is tied")
		case int(s.at.Load()) == allowed[0]:
			stayed++
		default:
			left++
		}
	}
	if stayed > left {
		t.Errorf("a worker on its caller's processor left it %d times and stayed %d times", left,
			stayed)
	}
	if !p.places[0].stays.IsZero() {
		t.Error("a worker notes its moves where the caller does")
	}
	if got := cpusOfThread(); !slices.Equal(got, allowed[:1]) {
		t.Errorf("the caller is tied to %v, want %v", got, allowed[:1])
	}
}

// TestCallersProcessorIsThatOfItsRegion: no worker is told where another region's caller was.
func TestCallersProcessorIsThatOfItsRegion(t *testing.T) {
	allowed := allowedCPUs()
	if cpuinfo.Place() < 0 || len(allowed) < 2 {
		t.Skip("there is one processor, or its number is not to be had")
	}
	p := newTestPool(t, PoolOptions{Threads: 2})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := threadMask()
	defer mask.restore()
	for _, c := range []int{allowed[0], allowed[1], allowed[0]} {
		pinThread([]int{c})
		g := &script{}
		g.gone.Store(true) // so that the caller's first chunk begins as workers may
		first := newAudit(2, 2, func(i, _ int) {
			if at := int(p.slots[0].at.Load()) - 1; i == 0 && at != c {
				t.Errorf("a caller on processor %d is said to be on %d", c, at)
			}
		})
		if err := p.Run(t.Context(), g, 2, first); err != nil {
			t.Fatal(err)
		}
	}
	moving := newAudit(3, 2, func(i, _ int) { // of whom no worker takes a chunk
		if at := int(p.slots[0].at.Load()) - 1; at != allowed[i%2] {
			t.Errorf("a caller on processor %d is said to be on %d", allowed[i%2], at)
		}
		pinThread(allowed[(i+1)%2:][:1])
	})
	if err := p.Run(t.Context(), &narrowGate{units: unitsOf(0)}, 3, moving); err != nil {
		t.Fatal(err)
	}
}

// TestApartIsRare: a worker looks where it may be once in apartEvery at most where a move
// takes no time.
func TestApartIsRare(t *testing.T) {
	if cpuinfo.Place() < 0 {
		t.Skip("the processor's number is not to be had")
	}
	synctest.Test(t, func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		mask := threadMask()
		defer mask.restore()
		pinThread(allowedCPUs()[:1])
		w := &place{mask: newAffinity()}
		w.mask.set.Zero()
		if apart(allowedCPUs()[0]+1, w); w.mask.set.Count() > 0 {
			t.Error("a worker looks where it may be that is not where its caller is")
		}
		for turn := range 6 {
			w.mask.set.Zero()
			apart(allowedCPUs()[0], w)
			if looked := w.mask.set.Count() > 0; looked != (turn%2 == 0) {
				t.Errorf("after %v: looked %v", time.Duration(turn)*apartEvery/2, looked)
			}
			time.Sleep(apartEvery / 2)
		}
	})
}

// TestStay: moves take one part in apartShare of a worker's time at most.
func TestStay(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: apartEvery,
		20 * time.Microsecond: apartEvery, 3 * time.Millisecond: 96 * time.Millisecond} {
		if got := stay(took); got != want {
			t.Errorf("after a move of %v a worker stays for %v, want %v", took, got, want)
		}
	}
}

// TestApartAllocatesNothing holds that a worker that moves is no garbage collector's business.
func TestApartAllocatesNothing(t *testing.T) {
	w := &place{mask: newAffinity()}
	if n := testing.AllocsPerRun(100, func() {
		w.stays = time.Time{}
		apart(cpuinfo.Place(), w)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMoreWorkersThanProcessors lets those stay of whom some share a processor in any case.
func TestMoreWorkersThanProcessors(t *testing.T) {
	n := len(allowedCPUs())
	if p := newTestPool(t, PoolOptions{Threads: n + 1}); p.places != nil {
		t.Errorf("%d workers move on %d processors", n+1, n)
	}
	if p := newTestPool(t, PoolOptions{Threads: n}); n > 1 && p.places == nil {
		t.Errorf("%d workers do not move on as many processors", n)
	}
}

func TestWorkerThatIsTiedStays(t *testing.T) {
	if cpuinfo.Place() < 0 || len(allowedCPUs()) < 2 {
		t.Skip("there is one processor, or its number is not to be had")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := threadMask()
	defer mask.restore()
	pinThread(allowedCPUs()[1:2])
	apart(allowedCPUs()[1], &place{mask: newAffinity()})
	if got := cpusOfThread(); len(got) != 1 || got[0] != allowedCPUs()[1] {
		t.Errorf("a thread tied to processor %d is tied to %v", allowedCPUs()[1], got)
	}
}

func TestPlace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := threadMask()
	defer mask.restore()
	for _, c := range allowedCPUs() {
		pinThread([]int{c})
		if got := cpuinfo.Place(); got != c && got != -1 {
			t.Errorf("a thread tied to processor %d is on %d", c, got)
		}
	}
}
