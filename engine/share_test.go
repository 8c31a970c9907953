package engine

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// batched plans a network, simplified once, for a batch.
func batched(t *testing.T, g *graph.Graph, batch int) *plan.Plan {
	t.Helper()
	p, err := plan.Compile(
		context.Background(),
		g,
		plan.Options{Target: kernels.Target(device.Info{}),
			Shapes: map[string][]int{"input": {batch, 3, 224, 224}}, Threads: 3},
	)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWeightsAreShared loads plans of one model for two batches: the second uses the weights of the
// first, which live as long as either.
func TestWeightsAreShared(t *testing.T) {
	g, err := zoo.New("mobilenetv2", zoo.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pass.Run(context.Background(), g, pass.Options{}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	one, two := batched(t, g, 1), batched(t, g, 2)
	if !one.SamePacking(two) || !two.SamePacking(one) {
		t.Fatal("plans for two batches pack differently")
	}
	first := b.load(t, one)
	o := b.options()
	o.Like = first
	second, err := Load(two, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.quota.sum(); got != one.PackedBytes {
		t.Errorf("%d bytes granted for weights of %d", got, one.PackedBytes)
	}
	x := make([]float32, 2*3*224*224)
	for i := range x {
		x[i] = float32(i%251)/251 - 0.5
	}
	i, j := take(t, first), take(t, second)
	copy(tensor.As[float32](i.Inputs()[0]), x)
	copy(tensor.As[float32](j.Inputs()[0]), x)
	for _, in := range []*Instance{i, j} {
		if err := in.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
	}
	want := append([]float32(nil), tensor.As[float32](i.Outputs()[0])...)
	got := append([]float32(nil), tensor.As[float32](j.Outputs()[0])[:len(want)]...)
	if d, err := tensor.RelL2(
		tensor.From(got, len(got)),
		tensor.From(want, len(want)),
	); err != nil ||
		d > 1e-5 {
		t.Errorf("the first image of two gives another result: relative distance %g, %v", d, err)
	}
	i.Put()
	first.Close()
	if err := j.Run(context.Background(), device.Open); err != nil {
		t.Fatalf("after the other session was closed: %v", err)
	}
	j.Put()
	second.Close()
	b.nothingHeld(t)
	o.Like = second
	third, err := Load(two, o)
	if err != nil {
		t.Fatalf("like a closed session: %v", err)
	}
	third.Close()
}

// notWrapping is a device that computes on its own memory only.
type notWrapping struct{ device.Device }

// TestWeightsGiven loads a plan with weights that were packed before, in place and on a device that
// copies them: the results are those of packing, and quota and device count the bytes as theirs.
func TestWeightsGiven(t *testing.T) {
	b := newBench(t)
	p := network(t)
	packing := b.load(t, p)
	var weights []byte
	if err := packing.WithWeights(t.Context(), func(w []byte) error {
		weights = bytes.Clone(w)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	aligned, err := b.device.Alloc(p.PackedBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer aligned.Free()
	copy(device.HostView(aligned), weights)
	i := take(t, packing)
	defer i.Put()
	picture(i, 1)
	if err := i.Run(context.Background(), device.Open); err != nil {
		t.Fatal(err)
	}
	want := result(i)
	for name, d := range map[string]device.Device{"in place": b.device,
		"copied": notWrapping{b.device}} {
		o := b.options()
		o.Device, o.Weights = d, device.HostView(aligned)
		held, granted := b.device.Held(), b.quota.sum()
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if b.device.Held()-held != p.PackedBytes || b.quota.sum()-granted != p.PackedBytes ||
			s.Held() != p.PackedBytes {
			t.Errorf(
				"%s: %d bytes more on the device, %d granted, %d held; want %d",
				name,
				b.device.Held()-held,
				b.quota.sum()-granted,
				s.Held(),
				p.PackedBytes,
			)
		}
		j := take(t, s)
		picture(j, 1)
		if err := j.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
		if !tensor.Equal(result(j), want) {
			t.Errorf("%s: other results than of weights packed now", name)
		}
		j.Put()
		s.Close()
		freed := s.WithWeights(t.Context(), func([]byte) error { return nil })
		if !errors.Is(freed, ErrClosed) || b.device.Held() != held || b.quota.sum() != granted {
			t.Errorf(
				"%s: after Close: %d bytes more on the device, %d granted",
				name,
				b.device.Held()-held,
				b.quota.sum()-granted,
			)
		}
		o.Weights = device.HostView(aligned)[64:]
		if _, err := Load(p, o); err == nil || b.device.Held() != held || b.quota.sum() != granted {
			t.Errorf(
				"%s: too few bytes: error %v, %d bytes more on the device",
				name,
				err,
				b.device.Held()-held,
			)
		}
		b.quota.cap = granted + p.PackedBytes - 1
		o.Weights = device.HostView(aligned)
		if _, err := Load(p, o); !errors.Is(err, errQuota) || b.device.Held() != held {
			t.Errorf(
				"%s: a byte over the quota: error %v, %d bytes more on the device",
				name,
				err,
				b.device.Held()-held,
			)
		}
		b.quota.cap = 1 << 40
	}
	if string(weights) != string(device.HostView(aligned)) {
		t.Error("the given weights were written")
	}
}

// TestQuotasDoNotShare loads one plan for two jobs, each of which is to be charged for what it
// holds whoever ends first: the second has weights of its own, under its own cap.
func TestQuotasDoNotShare(t *testing.T) {
	b := newBench(t)
	p := network(t)
	first, err := Load(p, b.options())
	if err != nil {
		t.Fatal(err)
	}
	other := &ledger{cap: p.PackedBytes}
	o := b.options()
	o.Quota, o.Like = other, first
	second, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, one, two int64) {
		t.Helper()
		if b.quota.sum() != one || other.sum() != two || b.device.Held() != one+two ||
			first.Held() != one || second.Held() != two {
			t.Errorf("%s: granted %d and %d, held %d, sessions say %d and %d; want %d and %d", when,
				b.quota.sum(), other.sum(), b.device.Held(), first.Held(), second.Held(), one, two)
		}
	}
	check("both", p.PackedBytes, p.PackedBytes)
	first.Close()
	check("the first has ended", 0, p.PackedBytes)
	if err := other.Reserve(1); !errors.Is(err, errQuota) {
		t.Errorf("a byte over the second's cap: %v", err)
	}
	o.Quota, o.Like = &ledger{cap: p.PackedBytes - 1}, second
	if _, err := Load(p, o); !errors.Is(err, errQuota) {
		t.Errorf("a third job with a byte too few: %v", err)
	}
	check("a third was refused", 0, p.PackedBytes)
	second.Close()
	check("both have ended", 0, 0)
}

// TestHeldCountsSharedWeightsOnce loads a plan thrice for one job: the sessions together hold what
// is on the device, whichever of them ends first.
func TestHeldCountsSharedWeightsOnce(t *testing.T) {
	b := newBench(t)
	p := network(t)
	var all []*Session
	check := func(when string) {
		t.Helper()
		sum := int64(0)
		for _, s := range all {
			sum += s.Held()
		}
		if sum != b.device.Held() {
			t.Errorf("%s: sessions hold %d bytes, there are %d on the device", when, sum,
				b.device.Held())
		}
	}
	o := b.options()
	for range 3 {
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		all, o.Like = append(all, s), s
		take(t, s).Put()
		check("loaded")
	}
	for range 2 { // the first, which has had them for longest, goes on counting them
		err := all[0].WithWeights(t.Context(), func([]byte) error { check("read"); return nil })
		if err != nil || all[0].Held() != p.PackedBytes+p.ArenaBytes {
			t.Errorf("read: error %v, the first session holds %d bytes", err, all[0].Held())
		}
	}
	for _, i := range []int{1, 0, 2} {
		err := all[i].WithWeights(t.Context(), func([]byte) error {
			all[i].Close()
			check("closed while read")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		check("closed")
	}
}

// TestHeldWhileWeightsAreRead closes a session, whose weights another has come to share, while
// WithWeights reads them: they are counted until nobody has them, and once.
func TestHeldWhileWeightsAreRead(t *testing.T) {
	b := newBench(t)
	p := network(t)
	first, err := Load(p, b.options())
	if err != nil {
		t.Fatal(err)
	}
	var second *Session
	check := func(when string, want int64) {
		t.Helper()
		if sum := first.Held() + second.Held(); sum != want || b.device.Held() != want {
			t.Errorf("%s: sessions hold %d bytes, there are %d on the device, want %d", when, sum,
				b.device.Held(), want)
		}
	}
	err = first.WithWeights(t.Context(), func([]byte) error {
		o := b.options()
		o.Like = first
		if second, err = Load(p, o); err != nil {
			return err
		}
		check("both open", p.PackedBytes)
		first.Close()
		check("the first closed", p.PackedBytes)
		second.Close()
		check("both closed", p.PackedBytes)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check("all read", 0)
	if err := first.WithWeights(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("reading freed weights: error %v", err)
	}
}

// TestHeldAtOnce reads the weights of sessions that share them, and asks what they hold, while they
// are closed. No session ever holds more than the weights, and none in the end.
func TestHeldAtOnce(t *testing.T) {
	b := newBench(t)
	p := network(t)
	for range 20 {
		o := b.options()
		var wg sync.WaitGroup
		var all []*Session
		for range 3 {
			s, err := Load(p, o)
			if err != nil {
				t.Fatal(err)
			}
			all, o.Like = append(all, s), s
		}
		for _, s := range all {
			wg.Go(func() {
				err := s.WithWeights(t.Context(), func(mem []byte) error {
					if len(mem) != int(p.PackedBytes) {
						t.Errorf("%d bytes of weights", len(mem))
					}
					return nil
				})
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
			wg.Go(func() {
				for range 10 {
					if held := s.Held(); held != 0 && held != p.PackedBytes {
						t.Errorf("a session holds %d bytes, want %d or none", held, p.PackedBytes)
					}
				}
			})
			wg.Go(s.Close)
		}
		wg.Wait()
		if held := b.device.Held(); held != 0 {
			t.Fatalf("%d bytes are left on the device", held)
		}
	}
}
