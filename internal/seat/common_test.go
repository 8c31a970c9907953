package seat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// member is a job that shares its weights.
type member struct {
	job     *broker.Job
	use     *seat.Use
	session *engine.Session
	request *engine.Instance
}

// join has a job come that uses the weights of a key.
func (c *crowd) join(ctx context.Context, all *seat.Commons, name, key string, elastic bool) (
	*member, error) {
	arena := share.Bytes(c.plan.ArenaBytes)
	m := &member{}
	var err error
	m.job, err = c.broker.Admit(share.Job{Name: name, Share: share.Share{Memory: arena}}, arena)
	if err != nil {
		return nil, err
	}
	memory := seat.NewElastic(m.job)
	o := engine.Options{Device: c.device, ArenaQuota: memory.Arenas(),
		HostQuota: engine.Unlimited, Context: ctx}
	keep := c.plan.PackedBytes
	if elastic {
		keep = 0
	}
	m.use, err = all.Join(ctx, key, "weights of "+key, c.plan.PackedBytes, keep,
		func(q device.Quota) (seat.Loaded, error) {
			own := o
			own.Quota = q
			return engine.Load(c.plan, own)
		})
	if err != nil {
		m.job.End(err)
		return nil, err
	}
	o.Quota, o.Like, o.OneModel = m.use.Quota(), m.use.Weights().(*engine.Session), true
	if err = memory.Reserve(ctx, 0, c.plan.ArenaBytes); err == nil {
		m.session, err = engine.Load(c.plan, o)
	}
	if err == nil {
		m.request, err = m.session.Take()
	}
	if err != nil {
		m.leave()
		return nil, err
	}
	return m, nil
}

func (m *member) leave() {
	if m.request != nil {
		m.request.Put()
	}
	if m.session != nil {
		m.session.Close()
	}
	m.use.Leave()
	m.job.End(nil)
}

// holds compares what the broker counts with what is on the device.
func (c *crowd) holds(when string, want int64) {
	c.t.Helper()
	if counted := int64(c.broker.Status().Reserved); counted != want || c.device.Held() != want {
		c.t.Errorf("%s: %d bytes are counted, %d on the device, want %d", when, counted,
			c.device.Held(), want)
	}
}

// TestWeightsAreCountedOnce has jobs come that share weights, and go in either order: what is on
// the device is counted, to the byte, once, and no job's end takes it from another.
func TestWeightsAreCountedOnce(t *testing.T) {
	c := gather(t, 1)
	defer c.broker.Close()
	defer c.pool.Close()
	all := seat.NewCommons(c.broker)
	arena, packed := c.plan.ArenaBytes, c.plan.PackedBytes
	for _, last := range []int{0, 1} {
		var both [2]*member
		for i := range both {
			m, err := c.join(t.Context(), all, fmt.Sprint("j", i), "a", i == 0)
			if err != nil {
				t.Fatal(err)
			}
			both[i] = m
			c.holds("joined", packed+int64(i+1)*arena)
		}
		// one of them is not elastic, so there is no room for others
		if m, err := c.join(t.Context(), all, "other", "b", false); !errors.Is(err,
			core.ErrNoMemory) {
			t.Errorf("weights that have no room beside: %v, %v", m, err)
		}
		both[1-last].leave()
		both[1-last].use.Leave() // twice is allowed
		c.holds("one has left", packed+arena)
		if err := both[last].use.Resident(t.Context()); err != nil {
			t.Fatal(err)
		}
		fill(both[last].request)
		if err := both[last].request.Run(t.Context(), device.Open); err != nil ||
			!bytes.Equal(both[last].request.Outputs()[0].Data, c.want) {
			t.Errorf("after the other's end: another result, %v", err)
		}
		both[last].leave()
		c.holds("both have left", 0)
	}
}

// TestCommonsAtRandom has jobs that share weights with others come, iterate, lose patience and go,
// on a device that has no room for the weights of both groups: each result is right, nobody waits
// for ever, never is more on the device than is counted, and nothing is left.
func TestCommonsAtRandom(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 10
	}
	var served, gaveUp int64
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			c := gather(t, seed)
			all := seat.NewCommons(c.broker)
			var jobs sync.WaitGroup
			for k := range 4 {
				jobs.Go(func() { c.lives(rand.New(rand.NewPCG(seed, uint64(20+k))), all, k) })
			}
			done := make(chan struct{})
			go func() { jobs.Wait(); close(done) }()
			for live := true; live; {
				synctest.Wait()
				held, counted := c.device.Held(), int64(c.broker.Status().Reserved)
				if held > counted {
					t.Errorf("%d bytes are on the device, %d are counted", held, counted)
				}
				select {
				case <-done:
					live = false
				case <-time.After(time.Millisecond):
				}
			}
			c.holds("all have left", 0)
			c.pool.Close()
			c.broker.Close()
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

// lives has some jobs of a name come, one after another, that share weights with others.
func (c *crowd) lives(r *rand.Rand, all *seat.Commons, k int) {
	for n := range 3 {
		time.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond))))
		ctx, cancel := context.WithTimeout(c.t.Context(), draw(r))
		m, err := c.join(ctx, all, fmt.Sprint(k, "-", n), []string{"a", "b"}[k%2], true)
		cancel()
		if err != nil {
			c.over(err)
			continue
		}
		own := seat.New(m.job, c.pool)
		for range 1 + r.IntN(6) {
			time.Sleep(time.Duration(r.IntN(int(20 * time.Millisecond))))
			if err := c.iterate(draw(r), own, m.use, m.request); err != nil {
				c.over(err)
				m.use.End() // of what was not to be
				continue
			}
			if c.served.Add(1); !bytes.Equal(m.request.Outputs()[0].Data, c.want) {
				c.t.Errorf("job %s: another result", m.job.Name())
			}
		}
		m.leave()
	}
}
