package seat_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// weights is what the broker knows of the job that holds the weights of a key.
func (c *crowd) weights(key string) core.JobStatus {
	c.t.Helper()
	for _, j := range c.broker.Status().Jobs {
		if j.Name == "weights of "+key {
			return j
		}
	}
	c.t.Fatalf("nobody holds the weights of %s", key)
	return core.JobStatus{}
}

// joined is join, which must succeed.
func (c *crowd) joined(all *seat.Commons, name, key string) *member {
	c.t.Helper()
	m, err := c.join(c.t.Context(), all, name, key, true)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// alone has a test run with a device and its jobs in virtual time, and nothing left of them.
func alone(t *testing.T, f func(t *testing.T, c *crowd, all *seat.Commons)) {
	synctest.Test(t, func(t *testing.T) {
		c := gather(t, 1)
		f(t, c, seat.NewCommons(c.broker))
		c.holds("in the end", 0)
		c.pool.Close()
		c.broker.Close()
	})
}

// TestUsesKeepTheMost: of weights that jobs share, as many stay as the one keeps that keeps most,
// and no longer than it uses them; what does not fit beside others changes nothing. How many use
// them, and how long they take to come, is told, and no device time is set apart for them.
func TestUsesKeepTheMost(t *testing.T) {
	alone(t, func(t *testing.T, c *crowd, all *seat.Commons) {
		packed := c.plan.PackedBytes
		a, b := c.joined(all, "a", "x"), c.joined(all, "b", "x")
		keeps := func(u *seat.Use, n, want int64) {
			t.Helper()
			if err := u.Keep(n); err != nil {
				t.Error(err)
			}
			got := c.weights("x").Share.Keep
			if got != share.Bytes(want) || u.Kept() != min(n, packed) {
				t.Errorf("kept are %v, and %d by this one, want %d", got, u.Kept(), want)
			}
		}
		keeps(b.use, 50, 50)
		for n := range int64(20) { // a map has no order
			keeps(a.use, 100+n, 100+n)
		}
		keeps(a.use, 20, 50)
		keeps(b.use, packed+5, packed)
		keeps(b.use, 50, 50)
		if w := c.weights("x"); w.Next.Users != 2 || w.Next.Reload <= 0 {
			t.Errorf("it is told %+v", w.Next)
		}
		if s := c.weights("x").Share; s.Compute > 1e-6 || s.Class != share.Opportunistic {
			t.Errorf("device time is for those who use them: %+v", s)
		}
		other := c.joined(all, "other", "y") // as many again, in turn
		if err := b.use.Keep(packed); !errors.Is(err, core.ErrNoMemory) || b.use.Kept() != 50 {
			t.Errorf("what does not fit: %v, and %d are kept", err, b.use.Kept())
		}
		if _, err := c.join(t.Context(), all, "c", "x", false); !errors.Is(err, core.ErrNoMemory) ||
			a.use.Members() != 2 {
			t.Errorf("one that keeps what does not fit: %v, %d use them", err, a.use.Members())
		}
		keeps(a.use, 20, 50)
		b.leave()
		if w := c.weights("x"); w.Share.Keep != 20 || w.Next.Users != 1 {
			t.Errorf("of one that is left %v are kept for %d", w.Share.Keep, w.Next.Users)
		}
		other.leave()
		a.leave()
	})
}

// TestUsesOfTheFirst: who waits for weights that another loads in vain loads them itself.
func TestUsesOfTheFirst(t *testing.T) {
	alone(t, func(t *testing.T, c *crowd, all *seat.Commons) {
		broken, failed := errors.New("broken"), make(chan error)
		fails := make(chan struct{})
		go func() {
			_, err := all.Join(t.Context(), "x", "weights of x", c.plan.PackedBytes, 0,
				func(device.Quota) (seat.Loaded, error) { <-fails; return nil, broken })
			failed <- err
		}()
		synctest.Wait()
		came := make(chan *member)
		go func() { came <- c.joined(all, "b", "x") }()
		synctest.Wait()
		close(fails)
		if err := <-failed; !errors.Is(err, broken) || !strings.Contains(err.Error(), "of x") {
			t.Errorf("the first: %v", err)
		}
		m := <-came
		if m.use.Members() != 1 {
			t.Errorf("%d use them", m.use.Members())
		}
		m.leave()
	})
}

// TestUsesWaitTheirTurn: weights that are in use stay for who uses them and come into use again
// when others have had the room that they wait for; a request of theirs is counted for as long.
func TestUsesWaitTheirTurn(t *testing.T) {
	alone(t, func(t *testing.T, c *crowd, all *seat.Commons) {
		a, b, other := c.joined(all, "a", "x"), c.joined(all, "b", "x"), c.joined(all, "o", "y")
		waits := func(u *seat.Use) chan error {
			done := make(chan error, 1)
			go func() { done <- u.Resident(t.Context()) }()
			synctest.Wait()
			return done
		}
		requests := func(when, key string, want int) {
			t.Helper()
			if n := c.weights(key).Requests; n != want {
				t.Errorf("%s: %d requests for the weights of %s, want %d", when, n, key, want)
			}
		}
		if err := <-waits(a.use); err != nil {
			t.Fatal(err)
		}
		if err := <-waits(b.use); err != nil { // together, while nobody waits for the room
			t.Fatal(err)
		}
		requests("in use", "x", 1)
		a.use.End()
		b.use.End() // and with it their turn
		requests("not in use", "x", 0)
		if err := <-waits(a.use); err != nil {
			t.Fatal(err)
		}
		if other.use.Begin() {
			t.Error("it begins with its weights away")
		}
		requests("not begun", "y", 0)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() { gaveUp <- other.use.Resident(ctx) }()
		synctest.Wait()
		requests("waits for the room", "y", 1)
		if cancel(); <-gaveUp == nil {
			t.Error("it has the room that is in use")
		}
		requests("given up", "y", 0)
		third := waits(other.use)
		if b.use.Begin() {
			t.Error("it begins though others wait for the room")
		}
		second := waits(b.use)
		select {
		case err := <-second:
			t.Errorf("it does not wait though others do: %v", err)
		default:
		}
		a.use.End()
		if err := <-third; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		requests("it has the room", "y", 1)
		if a.use.Begin() {
			t.Error("it begins without its weights")
		}
		if err := a.use.Resident(ctx); err == nil {
			t.Error("it waits for ever")
		}
		other.leave() // amid its iteration
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		requests("in use again", "x", 1)
		b.use.End()
		requests("not in use", "x", 0)
		if !a.use.Begin() {
			t.Error("it does not begin with its weights there")
		}
		a.leave() // amid an iteration
		requests("who used them has left", "x", 0)
		b.leave()
	})
}

// TestFoundOnce: weights that a job has had alone are shared once, keep what it keeps, and leave
// for others from then on.
func TestFoundOnce(t *testing.T) {
	alone(t, func(t *testing.T, c *crowd, all *seat.Commons) {
		packed, arena := c.plan.PackedBytes, c.plan.ArenaBytes
		need := share.Bytes(packed + arena)
		job, err := c.broker.Admit(share.Job{Name: "a", Share: share.Share{Elastic: true,
			Memory: need, Keep: share.Bytes(arena)}}, need)
		if err != nil {
			t.Fatal(err)
		}
		memory := seat.NewElastic(job)
		if err := memory.Reserve(t.Context(), packed, arena); err != nil {
			t.Fatal(err)
		}
		s, err := engine.Load(c.plan, engine.Options{Device: c.device, Quota: memory.Weights(),
			ArenaQuota: memory.Arenas(), HostQuota: engine.Unlimited})
		if err != nil {
			t.Fatal(err)
		}
		memory.Attach(s)
		found := func() (*seat.Use, error) {
			return all.Found(t.Context(), "x", "weights of x", packed, 100, job, s)
		}
		u, err := found()
		if err != nil {
			t.Fatal(err)
		}
		if w := c.weights("x"); u.Kept() != 100 || w.Share.Keep != 100 ||
			w.Memory.Persistent != share.Bytes(packed) {
			t.Errorf("%d are kept of %+v", u.Kept(), w.JobState)
		}
		if _, err := found(); err == nil || !strings.Contains(err.Error(), "shared already") {
			t.Errorf("shared twice: %v", err)
		}
		other := c.joined(all, "o", "y")
		if s.Away() == 0 {
			t.Error("they stay where others wait for the room")
		}
		other.leave()
		u.Leave() // which closes the session
		job.End(nil)
	})
}
