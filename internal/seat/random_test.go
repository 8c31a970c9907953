package seat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/tensor"
)

// bounding is a policy that also bounds the copies of jobs at random.
type bounding struct {
	share.Policy
	r *rand.Rand
}

func (p *bounding) Decide(s *share.Snapshot) share.Decision {
	d := p.Policy.Decide(s)
	bounds := []share.Bytes{0, 100, 10 << 20}
	for i := range d.Set {
		d.Set[i].Copy = bounds[p.r.IntN(3)]
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Phase == share.Idle && j.Units.Empty() && p.r.IntN(3) == 0 {
			d.Set = append(d.Set, share.Terms{Job: j.ID, Resident: share.Keep,
				Copy: bounds[p.r.IntN(3)]})
		}
	}
	return d
}

// crowd are jobs on a device that has room for the weights of one and a half of them: not a byte
// more, so that whoever held more than it was granted would have others fail.
type crowd struct {
	t      *testing.T
	device *far.Device
	plan   *plan.Plan
	broker *broker.Broker
	pool   *cpu.Pool
	want   []byte
	served atomic.Int64
	gaveUp atomic.Int64
}

// TestJobsInTurnAtRandom has jobs whose weights leave the device for each other's iterate, be
// cancelled while they wait for memory, for the device or for their weights, which the policy holds
// back, and leave for others to take their place: each iteration gives the right result or ends
// with its context, none waits for ever, and in the end nothing is held.
func TestJobsInTurnAtRandom(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 10
	}
	var served, gaveUp int64
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			c := gather(t, seed)
			var all sync.WaitGroup
			for k := range 4 {
				all.Go(func() { c.live(rand.New(rand.NewPCG(seed, uint64(20+k))), k) })
			}
			all.Wait()
			c.pool.Close()
			c.broker.Close()
			if held := c.device.Held(); held != 0 {
				t.Errorf("%d bytes are held on the device by nobody", held)
			}
			served, gaveUp = served+c.served.Load(), gaveUp+c.gaveUp.Load()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if served < int64(n) || gaveUp < int64(n) {
		t.Errorf("%d requests were served, %d given up: want more for a test", served, gaveUp)
	}
}

func gather(t *testing.T, seed uint64) *crowd {
	d, err := far.Open("far", far.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, plan: products(t, d.Target()),
		pool: cpu.NewPool(cpu.PoolOptions{Threads: 1})}
	memory := 4*c.plan.ArenaBytes + c.plan.PackedBytes*3/2
	if c.device, err = far.Open("far", far.Options{MemoryBytes: memory}); err != nil {
		t.Fatal(err)
	}
	c.plan = products(t, c.device.Target())
	p, err := policy.New("fifo")
	if err != nil {
		t.Fatal(err)
	}
	can := share.Can{Copies: true}
	if c.broker, err = broker.New(broker.Config{Config: core.Config{Device: "far:0", Units: 1,
		Memory: share.Bytes(memory), Can: can,
		Policy: &bounding{p, rand.New(rand.NewPCG(seed, 19))}}}); err != nil {
		t.Fatal(err)
	}
	s, err := engine.Load(c.plan, engine.Options{Device: c.device})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer i.Put()
	fill(i)
	if err := i.Run(t.Context(), device.Open); err != nil {
		t.Fatal(err)
	}
	c.want = i.Outputs()[0].Clone().Data
	return c
}

func fill(i *engine.Instance) {
	for k := range tensor.As[float32](i.Inputs()[0]) {
		tensor.As[float32](i.Inputs()[0])[k] = float32(k)
	}
}

// live has some jobs of a name come, one after another.
func (c *crowd) live(r *rand.Rand, k int) {
	for n := range 3 {
		job, err := c.broker.Admit(share.Job{Name: fmt.Sprint(k, "-", n),
			Share: share.Share{Elastic: true, Memory: share.Bytes(c.plan.PeakBytes(1)),
				Keep: share.Bytes(c.plan.ArenaBytes)}}, share.Bytes(c.plan.PeakBytes(1)))
		if err != nil {
			c.t.Error(err)
			return
		}
		c.job(r, job)
		job.End(nil)
	}
}

// job loads a job, and has it serve requests, of whose clients each has so much patience.
func (c *crowd) job(r *rand.Rand, job *broker.Job) {
	ctx, cancel := context.WithTimeout(c.t.Context(), draw(r))
	defer cancel()
	memory := seat.NewElastic(job)
	err := memory.Reserve(ctx, c.plan.PackedBytes, c.plan.ArenaBytes)
	if err != nil {
		c.over(err)
		return
	}
	s, err := engine.Load(c.plan, engine.Options{Device: c.device, Quota: memory.Weights(),
		ArenaQuota: memory.Arenas(), HostQuota: engine.Unlimited, Context: ctx})
	if err != nil {
		c.over(err)
		return
	}
	defer s.Close()
	i, err := s.Take()
	if err != nil {
		c.t.Error(err)
		return
	}
	defer i.Put()
	memory.Attach(s)
	own := seat.New(job, c.pool)
	for range 1 + r.IntN(6) {
		time.Sleep(time.Duration(r.IntN(int(20 * time.Millisecond))))
		began, patience := time.Now(), draw(r)
		err := c.iterate(patience, own, memory, i)
		if took := time.Since(began); took > patience {
			c.t.Errorf("job %s: a client waits for %v, and answered after %v: %v", job.Name(),
				patience, took, err)
		}
		if err != nil {
			c.over(err)
			continue
		}
		if c.served.Add(1); !bytes.Equal(i.Outputs()[0].Data, c.want) {
			c.t.Errorf("job %s: another result", job.Name())
		}
	}
}

// draw is for how long somebody has patience.
func draw(r *rand.Rand) time.Duration {
	return time.Duration(r.IntN(int(time.Second))) >> r.IntN(12)
}

// over holds that what ended before its time did because patience was at an end.
func (c *crowd) over(err error) {
	if c.gaveUp.Add(1); !errors.Is(err, context.DeadlineExceeded) {
		c.t.Error(err)
	}
}

// bending is memory of a job's own, or that it shares.
type bending interface {
	Resident(ctx context.Context) error
	Begin() bool
	End()
}

// iterate is one request.
func (c *crowd) iterate(patience time.Duration, own *seat.Seat, memory bending,
	i *engine.Instance) (err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	own.Arrive()
	defer own.Complete()
	var gate device.Gate
	for {
		if err := memory.Resident(ctx); err != nil {
			return err
		}
		if gate, err = own.Acquire(ctx); err != nil {
			return err
		}
		if memory.Begin() {
			break
		}
		own.Release()
	}
	defer own.Release()
	defer memory.End()
	own.Begin()
	defer own.End()
	fill(i)
	return i.Run(ctx, gate)
}
