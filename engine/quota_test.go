package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// TestQuotaIsExact follows a session's bytes through its life: what the plan says, what the quota
// grants and what the device holds are one number.
func TestQuotaIsExact(t *testing.T) {
	b := newBench(t)
	p := network(t)
	if p.PackedBytes == 0 || p.ArenaBytes == 0 {
		t.Fatalf("plan of %d and %d bytes", p.PackedBytes, p.ArenaBytes)
	}
	s := b.load(t, p)
	check := func(instances int64) {
		t.Helper()
		want := p.PeakBytes(int(instances))
		if b.quota.sum() != want || b.device.Held() != want || s.Held() != want {
			t.Errorf("granted %d, on the device %d, session says %d; want %d", b.quota.sum(),
				b.device.Held(), s.Held(), want)
		}
	}
	check(0)
	one, two := take(t, s), take(t, s)
	check(2)
	one.Put()
	check(2)
	if three := take(t, s); three != one {
		t.Error("a free instance is not used again")
	}
	check(2)
	if err := two.Run(context.Background(), device.Open); err != nil {
		t.Fatal(err)
	}
	check(2)
	s.Close()
	check(2)
	one.Put()
	check(1)
	two.Put()
	b.nothingHeld(t)
	if s.Held() != 0 {
		t.Errorf("a closed session holds %d bytes", s.Held())
	}
	if want := []int64{
		p.PackedBytes,
		p.ArenaBytes,
		p.ArenaBytes,
	}; !slices.Equal(b.quota.asked, want) {
		t.Errorf("asked for %v, want %v", b.quota.asked, want)
	}
}

// TestRefusalAllocatesNothing refuses each request in turn.
func TestRefusalAllocatesNothing(t *testing.T) {
	b := newBench(t)
	p := network(t)
	b.quota.refuse = 1
	if _, err := Load(p, b.options()); !errors.Is(err, errQuota) {
		t.Errorf("loads although the quota refuses: %v", err)
	}
	b.nothingHeld(t)
	b.quota.refuse, b.quota.asked = 2, nil
	s := b.load(t, p)
	if _, err := s.Take(); !errors.Is(err, errQuota) {
		t.Errorf("gives an instance although the quota refuses: %v", err)
	}
	if b.device.Held() != p.PackedBytes || b.quota.sum() != p.PackedBytes {
		t.Errorf("%d held and %d granted after a refusal, want %d", b.device.Held(), b.quota.sum(),
			p.PackedBytes)
	}
	take(t, s).Put()
}

// TestFullDeviceTakesNoQuota gives back what the quota granted when the device has no room.
func TestFullDeviceTakesNoQuota(t *testing.T) {
	p := network(t)
	d, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: p.PackedBytes + p.ArenaBytes/2})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	o := b.options()
	o.Device = d
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Take(); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("error %v, want %v", err, device.ErrOutOfMemory)
	}
	if got := b.quota.sum(); got != p.PackedBytes {
		t.Errorf("%d bytes granted, want %d", got, p.PackedBytes)
	}
	small, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: p.PackedBytes - 1})
	if err != nil {
		t.Fatal(err)
	}
	o.Device = small
	if _, err := Load(p, o); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("error %v, want %v", err, device.ErrOutOfMemory)
	}
}

// TestTwoQuotas charges weights and arenas to quotas of their own.
func TestTwoQuotas(t *testing.T) {
	b := newBench(t)
	p := network(t)
	o := b.options()
	arenas := &ledger{cap: 1 << 40}
	o.ArenaQuota, o.MaxInstances = arenas, 2
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	one, two := take(t, s), take(t, s)
	if b.quota.sum() != p.PackedBytes || arenas.sum() != 2*p.ArenaBytes {
		t.Errorf("%d and %d bytes granted, want %d and %d", b.quota.sum(), arenas.sum(),
			p.PackedBytes, 2*p.ArenaBytes)
	}
	if _, err := s.Take(); !errors.Is(err, ErrBusy) {
		t.Errorf("a third of two instances: error %v, want %v", err, ErrBusy)
	}
	one.Put()
	two.Put()
	s.Close()
	s.Close()
	if _, err := s.Take(); !errors.Is(err, ErrClosed) {
		t.Errorf("an instance of a closed session: error %v, want %v", err, ErrClosed)
	}
	if arenas.sum() != 0 {
		t.Errorf("%d bytes of arenas left", arenas.sum())
	}
}

// TestDataDependentValuesAreCharged reserves values whose shape depends on data while an iteration
// runs, and no longer, whether it succeeds or not.
func TestDataDependentValuesAreCharged(t *testing.T) {
	b := newBench(t)
	p := selective(t)
	s := b.load(t, p)
	i := take(t, s)
	defer i.Put()
	still := b.quota.sum()
	for _, n := range []int64{8, 0, 3, 3, 8} {
		x := tensor.As[float32](i.Inputs()[0])
		clear(x)
		for k := range n {
			x[k] = float32(k) + 1
		}
		b.quota.most = still
		if err := i.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
		if got := b.quota.most - still; got != 12*n || b.quota.sum() != still {
			t.Errorf("%d values: %d bytes at most, %d left; want %d and 0", n, got,
				b.quota.sum()-still, 12*n)
		}
		if out := i.Outputs()[0]; out.Len() != int(n) ||
			n > 0 && tensor.As[float32](out)[n-1] != float32(n) {
			t.Errorf("%d values: output %v", n, out)
		}
		if b.quota.cap = still + 12*n - 1; n == 0 {
			b.quota.cap = 1 << 40
			continue
		}
		for k := range n {
			x[k] = 1
		}
		if err := i.Run(context.Background(), device.Open); !errors.Is(err, errQuota) {
			t.Errorf("%d values in a byte less: error %v", n, err)
		}
		if b.quota.sum() != still {
			t.Errorf("%d bytes left after a refusal", b.quota.sum()-still)
		}
		b.quota.cap = 1 << 40
	}
}

// loopTest is a Loop whose body makes temporaries of 4·n bytes from n, which no plan can know.
const loopTest = `graph "loop" {
	opset "" 17
	input %n: int64[1]
	const %m: int64[] = {5}
	const %x: float32[] = {0}
	%y: float32[] = Loop@17 (%m, _, %x | %n) {body=graph "body" captures 1 {
		input %i: int64[]
		input %c: bool[]
		input %v: float32[]
		input %s: int64[1]
		%z: float32[?] = ConstantOfShape@17 (%s)
		%sum: float32[] = ReduceSum@17 (%z) {keepdims=0}
		%w: float32[] = Add@17 (%v, %sum)
		output %c
		output %w
	}}
	output %y
}`

// TestLoopsPassTheDevice gives the lease back inside a loop: a job whose one step is long must not
// hold up the others.
func TestLoopsPassTheDevice(t *testing.T) {
	b := newBench(t)
	g, err := graph.Parse(loopTest)
	if err != nil {
		t.Fatal(err)
	}
	i := take(t, b.load(t, compiled(t, g, nil)))
	defer i.Put()
	tensor.As[int64](i.Inputs()[0])[0] = 10
	asked := &askedBack{}
	if err := i.Run(context.Background(), asked); err != nil {
		t.Fatal(err)
	}
	if asked.renewed < 3*5 {
		t.Errorf("the lease was given back %d times in 5 iterations of 3 nodes", asked.renewed)
	}
}

// askedBack is a gate whose lease is always asked back.
type askedBack struct{ renewed int }

func (*askedBack) Revoked() bool { return true }

func (g *askedBack) Renew(context.Context) error {
	g.renewed++
	return nil
}

// TestBodiesAskForMemory charges the values inside a loop's body to the quota while an iteration of
// the loop lasts, and refuses what the device does not have before it is made.
func TestBodiesAskForMemory(t *testing.T) {
	b := newBench(t)
	g, err := graph.Parse(loopTest)
	if err != nil {
		t.Fatal(err)
	}
	s := b.load(t, compiled(t, g, nil))
	i := take(t, s)
	defer i.Put()
	still := b.quota.sum()
	run := func(n int64) error {
		b.quota.most = still
		tensor.As[int64](i.Inputs()[0])[0] = n
		return i.Run(context.Background(), device.Open)
	}
	if err := run(1000); err != nil {
		t.Fatal(err)
	}
	if got := b.quota.most - still; got < 4000 || got > 4100 {
		t.Errorf("%d bytes at most, want those of one iteration, some 4,000", got)
	}
	b.quota.cap = still + 3999
	if err := run(1000); !errors.Is(err, errQuota) {
		t.Errorf("over its quota: %v", err)
	}
	b.quota.cap = 1 << 62
	if err := run(b.device.Info().MemoryBytes); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("more than the device has: %v", err)
	}
	if b.quota.sum() != still {
		t.Errorf("%d bytes are left over", b.quota.sum()-still)
	}
}

// TestCompositionsAskForMemory holds that an operator which is made of others asks for what they
// make, before they make it.
func TestCompositionsAskForMemory(t *testing.T) {
	g, err := graph.Parse(`graph "composed" {
		opset "" 17
		opset "com.microsoft" 1
		input %x: float32[4]
		input %p: int64[2]
		%y: float32[?] = com.microsoft:Pad@1 "grow" (%x, %p)
		output %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(
		context.Background(),
		g,
		plan.Options{Target: kernels.Target(device.Info{}), Threads: 2,
			Passes: pass.Options{Off: pass.Names()}},
	)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.quota.cap = 1 << 20
	i := take(t, b.load(t, p))
	defer i.Put()
	for after, refused := range map[int64]bool{8: false, 1 << 20: true} {
		tensor.As[int64](i.Inputs()[1])[1] = after
		asked := len(b.quota.asked)
		err := i.Run(context.Background(), device.Open)
		if refused != errors.Is(err, errQuota) || !refused && err != nil {
			t.Errorf("%d more elements: %v", after, err)
		}
		if !refused && len(b.quota.asked) < asked+2 {
			t.Errorf("asked for %v: the result alone", b.quota.asked[asked:])
		}
	}
}

// TestRequota: another quota counts the packed weights from then on, which both agree on; while one
// is asked for what is away nobody is put in its place; and on an error the one before counts on.
func TestRequota(t *testing.T) {
	b := newBench(t)
	p := network(t)
	s := b.load(t, p)
	next := &ledger{cap: 1 << 40}
	refused := errors.New("refused")
	err := s.Requota(t.Context(), func(int64) (device.Quota, error) { return next, refused })
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	if freed := s.Evict(1); freed != 1 || b.quota.sum() != p.PackedBytes-1 || next.sum() != 0 {
		t.Errorf("after an error %d bytes are the first quota's, %d the other's", b.quota.sum(),
			next.sum())
	}
	s.packed.asking <- struct{}{} // as by a recall
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(int64) (device.Quota, error) {
		t.Error("asked within a recall")
		return nil, refused
	}
	if err := s.Requota(ended, none); !errors.Is(err, context.Canceled) {
		t.Errorf("within a recall: %v", err)
	}
	<-s.packed.asking
	err = s.Requota(t.Context(), func(granted int64) (device.Quota, error) {
		if len(s.packed.asking) != 1 {
			t.Error("a recall could ask while the quota changes")
		}
		b.quota.Release(granted)
		return next, next.Reserve(granted)
	})
	if err != nil || next.sum() != p.PackedBytes-1 || b.quota.sum() != 0 {
		t.Fatalf("%d bytes are the next quota's, %d the first's: %v", next.sum(), b.quota.sum(),
			err)
	}
	if err := s.Recall(t.Context()); err != nil || next.sum() != p.PackedBytes {
		t.Errorf("%d bytes are the next quota's once all is recalled: %v", next.sum(), err)
	}
	s.Close()
	if next.sum() != 0 || b.quota.sum() != 0 {
		t.Errorf("a closed session leaves %d and %d bytes", next.sum(), b.quota.sum())
	}
}
