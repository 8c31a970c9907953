package seat_test

import (
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// pot is what a job holds of its quota, and can give back but for what is stuck.
type pot struct {
	*seat.Lent
	t           *testing.T
	job         *broker.Job
	held, stuck int64
}

// newPot admits a job that may hold 80 bytes, all of them lent.
func newPot(t *testing.T, b *broker.Broker, name string) *pot {
	t.Helper()
	job, err := b.Admit(share.Job{Name: name, Share: share.Share{Elastic: true, Memory: 80}}, 10)
	if err != nil {
		t.Fatal(err)
	}
	p := &pot{t: t, job: job}
	p.Lent = seat.NewLent(job, func(most int64) int64 {
		n := max(0, min(most, p.held-p.stuck))
		p.held -= n
		p.Quota().Release(n)
		return n
	})
	return p
}

// up is what is missing to so many bytes.
func (p *pot) up(to int64) func() int64 { return func() int64 { return to - p.held } }

// take has the job hold so many more, of what it reserved.
func (p *pot) take(n int64) {
	p.t.Helper()
	if err := p.Quota().Reserve(n); err != nil {
		p.t.Fatal(err)
	}
	p.held += n
}

// room reserves up to so many bytes.
func (p *pot) room(to int64) {
	p.t.Helper()
	if err := p.Room(p.t.Context(), p.up(to)); err != nil {
		p.t.Fatal(err)
	}
}

// has holds what the job holds, and what is counted for it.
func (p *pot) has(when string, held, counted int64) {
	p.t.Helper()
	if n := int64(p.job.Status().Memory.Resident()); p.held != held || n != counted {
		p.t.Errorf("%s: %d bytes are held and %d counted, want %d and %d", when, p.held, n, held,
			counted)
	}
}

// TestLentGoesAndComes: what a job lends goes to who waits for it between Begin and End and never
// within, first what was reserved and not used; where it cannot give all, another is asked.
func TestLentGoesAndComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := brokerOf(t, core.Config{Device: "test:0", Units: 1, Memory: 100}, "fair")
		defer b.Close()
		p, other, third := newPot(t, b, "a"), newPot(t, b, "b"), newPot(t, b, "c")
		p.room(60)
		if !p.Begin(p.up(60)) || p.Begin(p.up(61)) || !p.Begin(p.up(60)) {
			t.Error("it begins with what is missing, or not without")
		}
		p.take(50)
		p.Cut(100)
		p.has("within", 50, 60)
		p.End()
		p.has("what was not used", 50, 50)
		p.Cut(5)
		p.has("cut", 45, 45)
		p.room(60)
		p.Cut(10)
		p.has("cut of what was not used", 45, 45)

		p.room(60)
		wants := func(o *pot, to int64) chan error {
			done := make(chan error, 1)
			go func() { done <- o.Room(t.Context(), o.up(to)) }()
			synctest.Wait()
			return done
		}
		if err := <-wants(other, 80); err != nil {
			t.Fatal(err)
		}
		p.has("asked for 40 of 60, of which 15 are not used", 20, 20)
		other.Cut(80)
		if !p.Begin(p.up(20)) {
			t.Error("nothing is missing, and it does not begin")
		}
		if err := <-wants(third, 80); err != nil {
			t.Fatal(err)
		}
		third.take(80)
		last := wants(other, 80)
		if most, told := p.job.Told(); !told || most != 0 {
			t.Errorf("it is told %v to hold %v", told, most)
		}
		p.has("within, and asked", 20, 20)
		p.stuck = 15
		p.End()
		p.has("of what it can give", 15, 15)
		if err := <-last; err != nil {
			t.Errorf("what it cannot give is asked of nobody: %v", err)
		}
		third.has("asked in its place", 5, 5)
	})
}
