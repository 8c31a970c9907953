package broker_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/core/coretest"
	"github.com/weirgpu/weir/share/policy"
)

const ms = time.Millisecond

// units are those of the brokers of the tests.
const units = 4

// newBroker returns a broker with 4 units and 1 GiB that is closed after the test, for a policy
// that lends no unit twice. Its observer checks the invariants of every event.
func newBroker(t testing.TB, p share.Policy) (*broker.Broker, *monitor) {
	t.Helper()
	return newBrokerOf(t, core.Config{Policy: p}, nil)
}

// newBrokerOf is newBroker with what is given of a configuration, recorded if record is not nil.
func newBrokerOf(t testing.TB, c core.Config, record io.Writer) (*broker.Broker, *monitor) {
	t.Helper()
	c.Device, c.Units, c.Memory = "cpu:0", units, share.GiB
	m := &monitor{Auditor: coretest.NewAuditor(c.Units, c.Needs.Overlap)}
	b, err := broker.New(broker.Config{Config: c, Observer: m, Record: record})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if err := m.Err(); err != nil {
			t.Error(err)
		}
	})
	return b, m
}

func named(t testing.TB, name string) share.Policy {
	t.Helper()
	p, err := policy.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func admit(t testing.TB, b *broker.Broker, name string, s share.Share) *broker.Job {
	t.Helper()
	j, err := b.Admit(share.Job{Name: name, Share: s}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestConfigValidate(t *testing.T) {
	_, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 0, Memory: -1}})
	for _, want := range []string{"device cpu:0", "units is 0", "memory is -1B", "policy is nil"} {
		if !errors.Is(err, share.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestAdmission(t *testing.T) {
	type ask struct {
		spec share.Job
		need share.Bytes
		want error
		says []string
	}
	job := func(name string, s share.Share) share.Job { return share.Job{Name: name, Share: s} }
	for _, tc := range []struct {
		name string
		asks []ask
	}{
		{"over its own cap", []ask{
			{job("train-7", share.Share{Memory: 8 * share.MiB}), 12 * share.MiB, core.ErrOverCap,
				[]string{"job train-7", "12MiB", "8MiB", "raise memory"}},
			{job("exact", share.Share{Memory: 8 * share.MiB}), 8 * share.MiB, nil, nil},
			{job("byte", share.Share{Memory: 8 * share.MiB}), 8*share.MiB + 1, core.ErrOverCap,
				[]string{"8388609B"}},
			{job("negative", share.Share{}), -1, core.ErrOverCap, nil},
		}},
		{"device memory", []ask{
			{job("a", share.Share{Memory: 768 * share.MiB}), 0, nil, nil},
			{job("b", share.Share{Memory: 257 * share.MiB}), 0, core.ErrNoMemory,
				[]string{"job b", "257MiB", "256MiB", "1GiB", "cpu:0"}},
			{job("c", share.Share{}), 256*share.MiB + 1, core.ErrNoMemory, nil},
			{job("d", share.Share{}), 256 * share.MiB, nil, nil},
			{job("e", share.Share{}), 0, nil, nil},
		}},
		{"device compute", []ask{
			{job("a", share.Share{Compute: 0.7}), 0, nil, nil},
			{job("b", share.Share{Compute: 0.4}), 0, core.ErrNoCompute,
				[]string{"job b", "0.4", "0.3"}},
			{job("c", share.Share{Compute: 0.4, Class: share.Opportunistic}), 0, nil, nil},
			{job("d", share.Share{Compute: 0.1}), 0, nil, nil},
			{job("e", share.Share{Compute: 0.1}), 0, nil, nil},
			{job("f", share.Share{Compute: 0.1}), 0, nil, nil},
			{job("g", share.Share{Compute: 0.01}), 0, core.ErrNoCompute, nil},
			{job("h", share.Share{}), 0, nil, nil},
		}},
		{"names and specifications", []ask{
			{job("a", share.Share{}), 0, nil, nil},
			{job("a", share.Share{}), 0, core.ErrName, []string{"job a"}},
			{job("b", share.Share{Compute: 2}), 0, share.ErrInvalid, []string{"compute is 2"}},
		}},
	} {
		b, _ := newBroker(t, named(t, "fair"))
		for _, ask := range tc.asks {
			_, err := b.Admit(ask.spec, ask.need)
			if !errors.Is(err, ask.want) {
				t.Errorf("%s: job %s: error is %v, want %v", tc.name, ask.spec.Name, err, ask.want)
			}
			for _, s := range ask.says {
				if err == nil || !strings.Contains(err.Error(), s) {
					t.Errorf("%s: job %s: error %v does not say %q", tc.name, ask.spec.Name, err, s)
				}
			}
		}
	}
}

// TestEndMakesRoom: what a job was promised is free once it has ended.
func TestEndMakesRoom(t *testing.T) {
	b, _ := newBroker(t, named(t, "fair"))
	all := share.Share{Memory: share.GiB, Compute: 1}
	first := admit(t, b, "a", all)
	first.End(nil)
	second := admit(t, b, "a", all)
	if first.ID() >= second.ID() {
		t.Errorf("IDs %d, then %d: want them to rise", first.ID(), second.ID())
	}
	b.Close()
	if _, err := b.Admit(share.Job{Name: "late"}, 0); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestQuotaIsExact(t *testing.T) {
	b, _ := newBroker(t, named(t, "fair"))
	j := admit(t, b, "a", share.Share{Memory: 1000})
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(err, want error, says ...string) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("error is %v, want %v", err, want)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("error %v does not say %q", err, s)
			}
		}
	}
	ok(j.Reserve(core.Persistent, 600))
	ok(j.Reserve(core.Ephemeral, 400))
	refused(j.Reserve(core.Ephemeral, 1), core.ErrOverCap, "job a", "1B", "ephemeral", "1kB")
	ok(j.Free(core.Ephemeral, 1))
	ok(j.Reserve(core.Persistent, 1))
	refused(j.Reserve(core.Persistent, 1), core.ErrOverCap)
	refused(j.Reserve(core.Persistent, 1<<62), core.ErrOverCap)
	refused(j.Reserve(core.Persistent, -1), core.ErrOverCap)
	refused(j.Free(core.Ephemeral, 400), core.ErrNotReserved, "400B", "399B")
	refused(j.Free(core.Ephemeral, -1), core.ErrNotReserved)
	ok(j.Free(core.Ephemeral, 399))
	s := j.Status()
	if s.Memory.Persistent != 601 || s.Memory.Ephemeral != 0 || s.Peak != 1000 {
		t.Errorf("holds %v and %v, peak %v; want 601, 0, 1000", s.Memory.Persistent,
			s.Memory.Ephemeral, s.Peak)
	}
	if got := b.Status(); got.Reserved != 601 || got.Promised != 1000 {
		t.Errorf("device: reserved %v, promised %v", got.Reserved, got.Promised)
	}
	j.End(nil)
	refused(j.Reserve(core.Persistent, 1), core.ErrEnded)
	ok(j.Free(core.Persistent, 601))
	if s := j.Status(); s.Memory.Persistent != 0 || s.Peak != 1000 {
		t.Errorf("after the end: holds %v, peak %v", s.Memory.Persistent, s.Peak)
	}
}

func TestLeaseMisuse(t *testing.T) {
	b, _ := newBroker(t, named(t, "fair"))
	j := admit(t, b, "a", share.Share{})
	ctx := context.Background()
	lease, err := j.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if lease.Units().Len() != 4 || lease.Revoked() {
		t.Errorf("lease on %v, revoked %v", lease.Units(), lease.Revoked())
	}
	if _, err := j.Acquire(ctx); !errors.Is(err, core.ErrHeld) {
		t.Errorf("second Acquire: %v", err)
	}
	lease.Release()
	lease.Release()
	if !lease.Revoked() || lease.Until() != 0 {
		t.Error("a lease given back does not say so")
	}
	if err := lease.Renew(ctx); !errors.Is(err, core.ErrNotHeld) {
		t.Errorf("Renew of a lease not held: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := j.Acquire(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire with a context done: %v", err)
	}
	if _, err := j.Acquire(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lease.Renew(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("Renew with a context done: %v", err)
	}
	if s := j.Status(); s.Phase != share.Idle || !s.Units.Empty() {
		t.Errorf("after a failed Renew: %v with %v", s.Phase, s.Units)
	}
}

// TestWaiting: each way in which a wait can end, with time standing still.
func TestWaiting(t *testing.T) {
	cause := errors.New("out of luck")
	for _, tc := range []struct {
		name string
		do   func(b *broker.Broker, holder, waiter *broker.Job, lease *broker.Lease, cancel func())
		want error
	}{
		{"release hands over", func(_ *broker.Broker, _, _ *broker.Job, l *broker.Lease, _ func()) {
			l.Release()
		}, nil},
		{"end of the holder hands over",
			func(_ *broker.Broker, h, _ *broker.Job, _ *broker.Lease, _ func()) {
				h.End(nil)
			}, nil},
		{"context", func(_ *broker.Broker, _, _ *broker.Job, _ *broker.Lease, cancel func()) {
			cancel()
		}, context.Canceled},
		{"end of the waiter", func(_ *broker.Broker, _, w *broker.Job, _ *broker.Lease, _ func()) {
			w.End(cause)
		}, cause},
		{"close", func(b *broker.Broker, _, _ *broker.Job, _ *broker.Lease, _ func()) {
			b.Close()
		}, broker.ErrClosed},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newBroker(t, named(t, "fifo"))
			holder, waiter := admit(t, b, "holder", share.Share{}),
				admit(t, b, "waiter", share.Share{})
			lease, err := holder.Acquire(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			got := make(chan error, 1)
			go func() {
				_, err := waiter.Acquire(ctx)
				got <- err
			}()
			synctest.Wait()
			if waiter.Status().Phase != share.Waiting {
				t.Fatalf("%s: the second job does not wait", tc.name)
			}
			tc.do(b, holder, waiter, lease, cancel)
			if err := <-got; !errors.Is(err, tc.want) {
				t.Errorf("%s: Acquire returned %v, want %v", tc.name, err, tc.want)
			}
			phase := waiter.Status().Phase
			if want := tc.want == nil; (phase == share.Running) != want {
				t.Errorf("%s: the waiter is %v", tc.name, phase)
			}
		})
	}
}

// TestCloseGrantsNothing: what closing takes from one job it hands to no other, not even for the
// moment until that one is ended too.
func TestCloseGrantsNothing(t *testing.T) {
	for range 20 { // jobs are closed in any order
		synctest.Test(t, closeGrantsNothing)
	}
}

func closeGrantsNothing(t *testing.T) {
	seen := &leases{t: t}
	b, err := broker.New(broker.Config{Observer: seen, Config: core.Config{
		Device: "cpu:0", Units: units, Memory: share.GiB, Policy: named(t, "fifo")}})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 3)
	var held []*broker.Lease
	for _, name := range []string{"first", "second", "third"} {
		j := admit(t, b, name, share.Share{})
		held = append(held, j.Lease())
		go func() {
			_, err := j.Acquire(context.Background())
			got <- err
		}()
		synctest.Wait()
	}
	if err := <-got; err != nil {
		t.Fatalf("first: %v", err)
	}
	seen.waiting = held[1:]
	b.Close()
	for range 2 {
		if err := <-got; !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Acquire returned %v, want %v", err, broker.ErrClosed)
		}
	}
}

// leases looks, at each notice, whether one of those that wait may use the device.
type leases struct {
	t       *testing.T
	waiting []*broker.Lease
}

func (l *leases) Observe(n core.Notice) {
	for _, lease := range l.waiting {
		if lease.Until() != 0 {
			l.t.Errorf("at a notice %v a lease is granted until %v", n.Kind, lease.Until())
		}
	}
}

// TestPanicOfOwner: a job whose owner panics holds nothing a moment later.
func TestPanicOfOwner(t *testing.T) {
	b, _ := newBroker(t, named(t, "fair"))
	next := admit(t, b, "next", share.Share{})
	bad, err := b.Admit(share.Job{Name: "bad", Share: share.Share{Memory: share.GiB}}, share.GiB)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			_ = recover()
			bad.End(errors.New("panic"))
		}()
		if _, err := bad.Acquire(context.Background()); err != nil {
			t.Error(err)
		}
		if err := bad.Reserve(core.Ephemeral, share.GiB); err != nil {
			t.Error(err)
		}
		bad.BeginIteration()
		panic("kernel fault")
	}()
	if _, err := next.Acquire(context.Background()); err != nil {
		t.Error(err)
	}
	if s := b.Status(); s.Reserved != 0 || len(s.Jobs) != 1 {
		t.Errorf("after the panic: %v reserved, %d jobs", s.Reserved, len(s.Jobs))
	}
	if _, err := bad.Acquire(context.Background()); !errors.Is(err, core.ErrEnded) {
		t.Errorf("Acquire after the end: %v", err)
	}
}

func TestRenewAloneAllocatesNothing(t *testing.T) {
	for _, row := range policy.All() {
		b, err := broker.New(broker.Config{Config: core.Config{Device: "cpu:0", Units: 4,
			Memory: share.GiB, Policy: named(t, row.Name)}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		j := admit(t, b, "a", share.Share{Compute: 0.5})
		ctx := context.Background()
		lease, err := j.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(1000, func() {
			j.Arrive()
			j.BeginIteration()
			if lease.Revoked() {
				err = lease.Renew(ctx)
			}
			j.EndIteration()
			err = errors.Join(err, lease.Renew(ctx))
			j.Complete()
		})
		if allocs != 0 || err != nil {
			t.Errorf("%s: %v allocations per iteration, error %v", row.Name, allocs, err)
		}
	}
}
