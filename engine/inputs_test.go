package engine

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/zoo"
)

// noting is a queue that notes what it is given, and what else somebody notes, once all that can go
// on has.
type noting struct {
	compute.Queue
	mu   sync.Mutex
	seen []string
}

func (q *noting) note(what string) {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seen = append(q.seen, what)
}

func (q *noting) CopyIn(at compute.Block, src []byte) error {
	q.note("input")
	return q.Queue.CopyIn(at, src)
}

func (q *noting) Run(x *compute.Exec, t compute.Task) error {
	q.note("step")
	return q.Queue.Run(x, t)
}

func (q *noting) Wait() error {
	err := q.Queue.Wait()
	q.note("waited")
	return err
}

// TestInputsFirst: a run that has weights brought gives its inputs first, and waits for those that
// would wait for weights. The weights begin to come before any step, whether that needs them or
// not.
func TestInputsFirst(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options zoo.Options
		shapes  map[string][]int
		first   []string
	}{
		{"minilm-l6", zoo.Options{Vocabulary: 500}, tokens(1),
			[]string{"input", "weights", "step"}},
		{"mobilenetv2", zoo.Options{Resolution: 96}, pictures(96),
			[]string{"input", "waited", "weights"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := &noting{}
			s, i := behindBus(t, tc.name, tc.options, tc.shapes)
			defer s.Close()
			defer i.Free()
			q.Queue, i.exec.Queue = i.exec.Queue, q
			w := s.packed
			w.bring = func() {
				q.mu.Lock()
				q.seen = append(q.seen, "weights")
				q.mu.Unlock()
				w.serve()
			}
			s.Evict(s.Plan().PackedBytes)
			if err := i.Run(t.Context(), device.Open); err != nil {
				t.Fatal(err)
			}
			if got := slices.Compact(q.seen); len(got) < 3 || !slices.Equal(got[:3], tc.first) {
				t.Errorf("%s: %v, want first %v", tc.name, q.seen, tc.first)
			}
			q.seen = nil
			if err := i.Run(t.Context(), device.Open); err != nil {
				t.Fatal(err)
			}
			if got := slices.Compact(q.seen); len(got) < 2 || got[1] != "step" ||
				slices.Contains(got, "weights") {
				t.Errorf("%s: all weights are there: %v", tc.name, q.seen)
			}
		})
	}
}

// behindBus loads a model on a device behind a bus, whose steps compute nothing.
func behindBus(t *testing.T, name string, o zoo.Options,
	shapes map[string][]int) (*Session, *Instance) {
	t.Helper()
	d, err := far.Open("far", far.Options{Bus: device.Bus{BytesPerS: 1e9,
		PerTransfer: 10 * time.Microsecond}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := zoo.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), g, plan.Options{Target: timed{d.Target(), true},
		Shapes: shapes})
	if err != nil {
		t.Fatal(err)
	}
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	t.Cleanup(pool.Close)
	s, err := Load(p, Options{Device: d, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return s, take(t, s)
}
