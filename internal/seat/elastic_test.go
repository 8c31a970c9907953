package seat_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/tensor"
)

// tenant is a job whose weights leave the device, and its session.
type tenant struct {
	broker  *broker.Broker
	job     *broker.Job
	memory  *seat.Elastic
	session *engine.Session
	request *engine.Instance
	asked   chan struct{} // a transfer asks for memory of the host
	on      chan struct{} // it may go on
	waits   bool
}

// Reserve implements device.Quota: that of the host's memory, which a transfer asks within.
func (n *tenant) Reserve(int64) error {
	if n.waits {
		n.asked <- struct{}{}
		<-n.on
	}
	return nil
}

func (n *tenant) Release(int64) {}

// products is a plan whose weights come in two transfers.
func products(t *testing.T, target compute.Target) *plan.Plan {
	t.Helper()
	g, err := graph.ParseExternal(`graph "products" {
		opset "" 17
		input %x: float32[1,32]
		const %w: float32[32,4096] = at 0
		const %v: float32[4096,32] = at 1
		%y: float32[1,4096] = MatMul@17 (%x, %w)
		%z: float32[1,32] = MatMul@17 (%y, %v)
		output %z
	}`, func(d tensor.DType, shape []int, at int64) (*tensor.Tensor, error) {
		x, err := tensor.New(d, shape...)
		if err == nil {
			for i := range tensor.As[float32](x) {
				tensor.As[float32](x)[i] = float32(i%7) - float32(at)
			}
		}
		return x, err
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), g, plan.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inTurn are jobs on a device for the weights of one, which have been loaded one after the other.
func inTurn(t *testing.T, names ...string) []*tenant {
	t.Helper()
	d, err := far.Open("far", far.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := products(t, d.Target())
	c, err := core.Config{Device: "far:0", Units: 1,
		Memory: share.Bytes(int64(len(names))*p.ArenaBytes + p.PackedBytes)}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(broker.Config{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	tenants := make([]*tenant, len(names))
	for i, name := range names {
		n := &tenant{broker: b, asked: make(chan struct{}), on: make(chan struct{})}
		spec := share.Job{Name: name, Share: share.Share{Elastic: true,
			Memory: share.Bytes(p.PeakBytes(1)), Keep: share.Bytes(p.ArenaBytes)}}
		if n.job, err = b.Admit(spec, share.Bytes(p.PeakBytes(1))); err != nil {
			t.Fatal(err)
		}
		n.memory = seat.NewElastic(n.job)
		if err := n.memory.Reserve(t.Context(), p.PackedBytes, p.ArenaBytes); err != nil {
			t.Fatal(err)
		}
		n.session, err = engine.Load(p, engine.Options{Device: d, Quota: n.memory.Weights(),
			ArenaQuota: n.memory.Arenas(), HostQuota: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			n.session.Close()
			n.request.Put()
		})
		if n.request, err = n.session.Take(); err != nil {
			t.Fatal(err)
		}
		n.memory.Attach(n.session)
		tenants[i] = n
	}
	return tenants
}

// bring has the weights of a job come, and returns while they are on their way.
func (n *tenant) bring(t *testing.T) {
	t.Helper()
	n.waits = true
	n.job.Arrive()
	if err := n.memory.Resident(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-n.asked
	n.waits = false
}

// iterate is one iteration, whose request has arrived.
func (n *tenant) iterate(t *testing.T) {
	for {
		if err := n.memory.Resident(t.Context()); err != nil {
			t.Error(err)
			return
		}
		if _, err := n.job.Acquire(t.Context()); err != nil {
			t.Error(err)
			return
		}
		if n.memory.Begin() {
			break
		}
		n.job.Lease().Release()
	}
	n.job.BeginIteration()
	if err := n.request.Run(t.Context(), device.Open); err != nil {
		t.Error(err)
	}
	n.job.EndIteration()
	n.memory.End()
	n.job.Complete()
	n.job.Lease().Release()
}

// TestUnusedIsGivenBack: what was reserved for weights before they were loaded, and was not used,
// is held no more once they are there.
func TestUnusedIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTurn(t, "a")[0]
		has := func() int64 { return int64(a.job.Status().Memory.Resident()) }
		want := has()
		a.session.Evict(5)
		if err := a.memory.Reserve(t.Context(), 3, 0); err != nil {
			t.Fatal(err)
		}
		if a.memory.Attach(a.session); has() != want-5 {
			t.Errorf("%d bytes are held, want %d", has(), want-5)
		}
	})
}

// TestAskedBeforeItIsLoaded: a job that others wait for while its weights are being loaded gives
// them back once they are there.
func TestAskedBeforeItIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := inTurn(t, "a", "b")
		a, b := jobs[0], jobs[1]
		loading := seat.NewElastic(b.job)
		a.job.Arrive()
		came := make(chan error, 1)
		go func() { came <- a.memory.Resident(t.Context()) }()
		synctest.Wait()
		if _, told := b.job.Told(); !told || b.session.Away() != 0 {
			t.Fatalf("told %v, %d bytes are away", told, b.session.Away())
		}
		loading.Attach(b.session)
		if err := <-came; err != nil {
			t.Error(err)
		}
	})
}

// TestEvictedOnTheWay: a job that is to give its weights back while they come gives all of them,
// when the transfer under way has ended. If it kept what that writes, it would wait for the rest of
// them, and another job for these.
func TestEvictedOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := inTurn(t, "a", "b")
		a, b := jobs[0], jobs[1]
		b.session.Evict(b.session.Held())
		a.bring(t)
		b.job.Arrive()
		var both sync.WaitGroup
		both.Go(func() { b.iterate(t) })
		synctest.Wait() // b waits for memory, a for its transfer
		if away := a.session.Away(); away == 0 || away == a.session.Plan().PackedBytes {
			t.Errorf("%d bytes are away within the first of two transfers", away)
		}
		if a.memory.Begin() {
			t.Error("an iteration begins with weights that are about to go")
		}
		both.Go(func() { a.iterate(t) })
		synctest.Wait()
		close(a.on)
		both.Wait()
	})
}

// TestBegunIsKept: from Begin to End a job keeps its weights, whoever waits for them: also before
// the broker knows of the iteration, in which it could not have them back. Then they go.
func TestBegunIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := inTurn(t, "a", "b")
		a, b := jobs[0], jobs[1]
		b.session.Evict(b.session.Held())
		a.job.Arrive()
		if err := a.memory.Resident(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.job.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !a.memory.Begin() {
			t.Fatal("weights that nobody wants are away")
		}
		b.job.Arrive()
		came := make(chan error, 1)
		go func() { came <- b.memory.Resident(t.Context()) }()
		synctest.Wait()
		if n, told := a.job.Told(); !told {
			t.Errorf("b waits, and a was not told: it may hold %v", n)
		}
		if n := a.session.Away(); n != 0 {
			t.Errorf("%d bytes have gone from under an iteration", n)
		}
		a.job.BeginIteration()
		if err := a.request.Run(t.Context(), device.Open); err != nil {
			t.Error(err)
		}
		a.job.EndIteration()
		a.memory.End()
		a.job.Complete()
		a.job.Lease().Release()
		if err := <-came; err != nil || b.session.Away() != 0 || a.session.Away() == 0 {
			t.Errorf("after a's iteration: %d bytes of b are away, %d of a: error %v",
				b.session.Away(), a.session.Away(), err)
		}
		b.job.Complete()
	})
}

// TestWaitLetsOthers: while a job waits within an iteration for weights, which take their time,
// another has the device.
func TestWaitLetsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTurn(t, "a")[0]
		pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
		defer pool.Close()
		other, err := a.broker.Admit(share.Job{Name: "b"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.session.Evict(a.session.Held())
		a.bring(t)
		own := seat.New(a.job, pool)
		gate, err := own.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		own.Begin()
		ran := make(chan error)
		go func() { ran <- a.request.Run(t.Context(), gate) }()
		other.Arrive()
		if _, err := other.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.session.Away() != 0 {
			t.Error("the weights went from under an iteration")
		}
		close(a.on)
		synctest.Wait()
		select {
		case err := <-ran:
			t.Errorf("an iteration ended without the device: %v", err)
		default:
		}
		other.Lease().Release()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		own.End()
		own.Release()
	})
}

// stuck is weights that do not leave.
type stuck struct{}

func (stuck) Away() int64                  { return 0 }
func (stuck) Evict(int64) int64            { return 0 }
func (stuck) Recall(context.Context) error { return nil }

// leaving is weights that leave.
type leaving struct {
	stuck
	quota device.Quota
}

func (l leaving) Evict(most int64) int64 {
	l.quota.Release(most)
	return most
}

// TestStuckIsSaid: a job that is told to give back what cannot leave says so, and another is asked.
func TestStuckIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokerOf(t, core.Config{Device: "cpu:0", Units: 1, Memory: 200}, "fair")
		defer b.Close()
		var all []*seat.Elastic
		for _, name := range []string{"stuck", "leaves", "comes"} {
			job, err := b.Admit(share.Job{Name: name,
				Share: share.Share{Elastic: true, Memory: 100}}, 100)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, seat.NewElastic(job))
			if name == "comes" {
				job.Arrive()
			}
		}
		for _, e := range all[:2] {
			if err := e.Reserve(t.Context(), 100, 0); err != nil {
				t.Fatal(err)
			}
			if err := e.Weights().Reserve(100); err != nil {
				t.Fatal(err)
			}
		}
		all[0].Attach(stuck{})
		all[1].Attach(leaving{quota: all[1].Weights()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := all[2].Reserve(ctx, 100, 0); err != nil {
			t.Errorf("one cannot give back, and the other was not asked: %v", err)
		}
	})
}
