package devicetest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// adder is x + y = x on the device.
type adder struct {
	task compute.Task
	x, y compute.Block
	exec compute.Exec
}

const addends = 1000

func newAdder(t *testing.T, m Machine) *adder {
	t.Helper()
	typ := op.Concrete(tensor.Float32, addends)
	k, err := m.Target.Prepare(&compute.Request{
		Call: &op.Call{Type: "Add", Version: 14, NumIn: 2, NumOut: 1},
		In:   []op.Type{typ, typ}, Out: []op.Type{typ}})
	if err != nil || k == nil {
		t.Fatalf("Add: kernel %v, error %v", k, err)
	}
	bufs := []device.Buffer{alloc(t, m.Device, 4*addends), alloc(t, m.Device, 4*addends),
		alloc(t, m.Device, max(1, int64(k.ScratchBytes(m.Pool.Threads()))))}
	t.Cleanup(func() {
		for _, b := range bufs {
			b.Free()
		}
	})
	a := &adder{x: compute.BlockOf(bufs[0]), y: compute.BlockOf(bufs[1]),
		exec: compute.Exec{Ctx: t.Context(), Gate: device.Open, Pool: m.Pool}}
	scratch := compute.BlockOf(bufs[2])
	b := compute.Binding{Workers: m.Pool.Threads(), Scratch: scratch.Host,
		In: []*tensor.Tensor{a.tensor(a.x), a.tensor(a.y)}, Out: []*tensor.Tensor{a.tensor(a.x)}}
	if scratch.Host == nil {
		b.Places = &compute.Places{In: []compute.Block{a.x, a.y}, Out: []compute.Block{a.x},
			Scratch: scratch}
	}
	a.task = k.Bind(b)
	return a
}

func (a *adder) tensor(b compute.Block) *tensor.Tensor {
	return &tensor.Tensor{DType: tensor.Float32, Shape: []int{addends}, Data: b.Host}
}

func repeated(v float32) *tensor.Tensor {
	vs := make([]float32, addends)
	for i := range vs {
		vs[i] = v
	}
	return tensor.From(vs, addends)
}

func newQueue(t *testing.T, d device.Device) compute.Queue {
	t.Helper()
	q, err := compute.NewQueue(d)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// testOrder gives copies and tasks that each need what was given before.
func testOrder(t *testing.T, open Open) {
	m := open(t, few)
	a := newAdder(t, m)
	q := newQueue(t, m.Device)
	defer q.Close()
	const turns = 20
	var got [turns][]byte
	one := repeated(1)
	give := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	give(q.CopyIn(a.x, repeated(0).Data))
	give(q.CopyIn(a.y, one.Data))
	for i := range got {
		got[i] = make([]byte, 4*addends)
		give(q.Run(&a.exec, a.task))
		give(q.CopyOut(got[i], a.x))
	}
	give(q.Wait())
	for i := range got {
		if want := repeated(float32(i + 1)).Data; !bytes.Equal(got[i], want) {
			t.Errorf("after %d additions: another sum", i+1)
		}
	}
	q.Close()
	q.Close()
}

// testFailure holds that an error comes once, of the first that failed, and that the queue and
// others go on; and that a copy of another length than its block's fails.
func testFailure(t *testing.T, open Open) {
	m := open(t, few)
	a := newAdder(t, m)
	q, other := newQueue(t, m.Device), newQueue(t, m.Device)
	defer q.Close()
	defer other.Close()
	want := errors.New("no such sum")
	failing := taskFunc(func(*compute.Exec) error { return want })
	if err := errors.Join(q.Run(&a.exec, failing), q.Wait()); !errors.Is(err, want) {
		t.Errorf("a task failed: error %v", err)
	}
	if err := q.Wait(); err != nil {
		t.Errorf("the same error comes again: %v", err)
	}
	short := make([]byte, 4*addends-1)
	for _, copied := range []error{q.CopyIn(a.x, short), q.Wait(), q.CopyOut(short, a.x),
		q.Wait()} {
		if copied != nil && !errors.Is(copied, device.ErrBounds) {
			t.Errorf("a short copy: error %v", copied)
		}
	}
	err := errors.Join(q.CopyIn(a.x, short), q.Wait())
	var failed *compute.CopyError
	if !errors.As(err, &failed) || !errors.Is(err, device.ErrBounds) || failed.At.At != a.x.At ||
		failed.At.N != a.x.N || len(failed.Host) != len(short) || &failed.Host[0] != &short[0] {
		t.Errorf("a short copy: error %v", err)
	}
	for _, q := range []compute.Queue{q, other} {
		got := make([]byte, 4*addends)
		err := errors.Join(q.CopyIn(a.x, repeated(2).Data), q.CopyIn(a.y, repeated(3).Data),
			q.Run(&a.exec, a.task), q.CopyOut(got, a.x), q.Wait())
		if err != nil || !bytes.Equal(got, repeated(5).Data) {
			t.Errorf("after a failure: error %v, or another sum than 5", err)
		}
	}
}

// taskFunc is a task of the host's.
type taskFunc func(x *compute.Exec) error

func (f taskFunc) Run(x *compute.Exec) error { return f(x) }

// renewing is a gate whose lease was asked back.
type renewing struct{ renew func() }

func (g renewing) Revoked() bool { return true }

func (g renewing) Renew(ctx context.Context) error {
	g.renew()
	return ctx.Err()
}

// testPass holds that nothing of a queue is on the device when its lease is given back: whatever
// was given before is done, and what the host gets of it is there.
func testPass(t *testing.T, open Open) {
	m := open(t, few)
	a := newAdder(t, m)
	q := newQueue(t, m.Device)
	defer q.Close()
	got, renewed := make([]byte, 4*addends), 0
	x := a.exec
	x.Queue, x.Gate = q, renewing{func() {
		renewed++
		if want := repeated(float32(2 * renewed)).Data; !bytes.Equal(got, want) {
			t.Errorf("lease %d is given back, and the sum is not %d", renewed, 2*renewed)
		}
	}}
	given := errors.Join(q.CopyIn(a.x, repeated(0).Data), q.CopyIn(a.y, repeated(1).Data))
	if given != nil {
		t.Fatal(given)
	}
	const turns = 20
	for range turns { // of tasks that hold the lease themselves
		if err := errors.Join(q.Run(&a.exec, a.task), q.Run(&a.exec, a.task), q.CopyOut(got, a.x),
			x.Pass()); err != nil {
			t.Fatal(err)
		}
	}
	if renewed != turns {
		t.Errorf("%d leases were given back, want %d", renewed, turns)
	}
	want := errors.New("no such sum")
	err := q.Run(&x, taskFunc(func(*compute.Exec) error { return want }))
	if err == nil {
		err = x.Pass()
	}
	if !errors.Is(err, want) || renewed != turns {
		t.Errorf("a task failed: error %v, and %d leases were given back", err, renewed-turns)
	}
}

// testInFlight holds that a queue has no more work at a time than it may, however slow that is.
func testInFlight(t *testing.T, open Open) {
	m := open(t, few)
	q := newQueue(t, m.Device)
	defer q.Close()
	x := &compute.Exec{Ctx: t.Context(), Gate: device.Open, Pool: m.Pool}
	var given atomic.Int64
	var most int64
	for i := range int64(10 * compute.MaxInFlight) {
		err := q.Run(x, taskFunc(func(*compute.Exec) error {
			for range 20 { // so that more is given meanwhile
				runtime.Gosched()
			}
			most = max(most, given.Load()-i)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		given.Add(1)
	}
	if err := q.Wait(); err != nil || most > compute.MaxInFlight {
		t.Errorf("%d pieces of work were in flight, at most %d may be; error %v", most,
			compute.MaxInFlight, err)
	}
}

// testContext holds that nothing begins when its context is done, or when the queue is closed.
func testContext(t *testing.T, open Open) {
	m := open(t, few)
	a := newAdder(t, m)
	q := newQueue(t, m.Device)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	task := taskFunc(func(*compute.Exec) error { ran = true; return nil })
	x := a.exec
	x.Ctx = ended
	if err := errors.Join(q.Run(&x, task), q.Wait()); !errors.Is(err, context.Canceled) || ran {
		t.Errorf("the context is done: error %v, the task ran: %v", err, ran)
	}
	x.Ctx = nil
	if err := errors.Join(q.Run(&x, task), q.Wait()); err != nil || !ran {
		t.Errorf("no context: error %v, the task ran: %v", err, ran)
	}
	if err := errors.Join(q.Run(&x, a.task), q.Wait()); err != nil || x.Ctx != nil {
		t.Errorf("a sum, no context: error %v, context %v in the end", err, x.Ctx)
	}
	q.Close()
	q.Close()
	ran = false
	mem := repeated(0).Data
	for name, err := range map[string]error{"Run": q.Run(&a.exec, task),
		"CopyIn": q.CopyIn(a.x, mem), "CopyOut": q.CopyOut(mem, a.x)} {
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s after Close: error %v", name, err)
		}
	}
	if err := q.Wait(); err != nil || ran {
		t.Errorf("Wait after Close: error %v, the task ran: %v", err, ran)
	}
}

// testCloseInFlight closes queues with work under way: when Close returns, what had begun has
// ended, and nothing else begins or touches the host's memory.
func testCloseInFlight(t *testing.T, open Open) {
	m := open(t, few)
	a := newAdder(t, m)
	for range 50 {
		q := newQueue(t, m.Device)
		begun, ended, release := 0, 0, make(chan bool)
		task := taskFunc(func(*compute.Exec) error {
			begun++
			<-release
			ended++
			return nil
		})
		var releasing sync.WaitGroup
		releasing.Go(func() {
			for range 10 { // most often until Close waits
				runtime.Gosched()
			}
			close(release)
		})
		got := make([]byte, 4*addends)
		if err := errors.Join(q.Run(&a.exec, task), q.Run(&a.exec, a.task),
			q.CopyOut(got, a.x), q.Run(&a.exec, task)); err != nil {
			t.Fatal(err)
		}
		q.Close()
		if begun != ended {
			t.Fatalf("after Close %d tasks had begun and %d ended", begun, ended)
		}
		clear(got) // the race detector sees a copy that comes later
		releasing.Wait()
		if begun != ended {
			t.Fatal("a task began after Close")
		}
	}
}

// testTwoQueues runs queues at the same time: a task of each waits for one of the other, and the
// sums of each are its own.
func testTwoQueues(t *testing.T, open Open) {
	m := open(t, few)
	meet := make(chan bool)
	var all sync.WaitGroup
	for i := range 2 {
		a := newAdder(t, m)
		q := newQueue(t, m.Device)
		all.Go(func() {
			defer q.Close()
			got, step := make([]byte, 4*addends), float32(i+1)
			err := errors.Join(q.CopyIn(a.x, repeated(0).Data), q.CopyIn(a.y, repeated(step).Data))
			for turn := range 20 {
				err = errors.Join(err, q.Run(&a.exec, a.task),
					q.Run(&a.exec, taskFunc(func(*compute.Exec) error {
						if i == 0 {
							meet <- true
						} else {
							<-meet
						}
						return nil
					})), q.CopyOut(got, a.x), q.Wait())
				if want := repeated(step * float32(turn+1)).Data; !bytes.Equal(got, want) {
					t.Errorf("queue %d: after %d additions another sum", i, turn+1)
				}
			}
			if err != nil {
				t.Errorf("queue %d: %v", i, err)
			}
		})
	}
	all.Wait()
}

// testCloseAtOnce closes devices while memory is asked for: either one is refused, or the other.
func testCloseAtOnce(t *testing.T, open Open) {
	for range 50 {
		d := open(t, few).Device
		var all sync.WaitGroup
		var refused [4]error
		var got [4]device.Buffer
		for i := range got {
			all.Go(func() { got[i], refused[i] = d.Alloc(1) })
		}
		closing := d.Close()
		all.Wait()
		for i, err := range refused {
			switch {
			case err == nil && closing == nil:
				t.Fatal("a device is closed and has given a buffer")
			case err == nil:
				got[i].Free()
			case closing != nil || !errors.Is(err, device.ErrClosed):
				t.Errorf("Close: error %v; Alloc: error %v", closing, err)
			}
		}
		if closing != nil && !errors.Is(closing, device.ErrInUse) || d.Held() != 0 {
			t.Errorf("Close: error %v, and %d bytes are held", closing, d.Held())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
