package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

func parseGraph(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestFarHostMemory holds that a device out of sight is charged for what lies on it, to the byte,
// and the host for its own: for copies of what passes through it, and for values whose shape
// depends on data, which here have more bytes than the device.
func TestFarHostMemory(t *testing.T) {
	g := parseGraph(t, `graph "selective" {
		opset "" 17
		input %x: float32[1000]
		%y: float32[1000] = Add@17 (%x, %x)
		%c: int64[1,?] = NonZero@17 (%y)
		%v: float32[1,?] = Gather@17 (%y, %c)
		output %v
	}`)
	peak := compiledFar(t, openFar(t, 0), g, nil).PeakBytes(1)
	d := openFar(t, peak)
	p := compiledFar(t, d, g, nil)
	const dynamic = 1000 * (8 + 4)
	if p.HostBytes != 4032*2 || peak >= dynamic {
		t.Fatalf("%d bytes on the host, %d on the device", p.HostBytes, peak)
	}
	b := newBench(t)
	o := Options{Device: d, Pool: b.pool, Quota: b.quota}
	for _, c := range []struct {
		cap      int64
		take, ok bool
	}{{p.HostBytes - 1, false, false}, {p.HostBytes + dynamic - 1, true, false},
		{p.HostBytes + dynamic, true, true}} {
		host := &ledger{cap: c.cap}
		o.HostQuota = host
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		i, err := s.Take()
		if !c.take {
			if !errors.Is(err, errQuota) || host.sum() != 0 || s.HostHeld() != 0 {
				t.Errorf("of %d bytes: error %v, %d held", c.cap, err, host.sum())
			}
			s.Close()
			continue
		}
		if err != nil || host.sum() != p.HostBytes || s.HostHeld() != p.HostBytes {
			t.Fatalf("of %d bytes: error %v, %d held", c.cap, err, host.sum())
		}
		for range 2 {
			x := tensor.As[float32](i.Inputs()[0])
			for k := range x {
				x[k] = float32(k + 1)
			}
			err := i.Run(t.Context(), device.Open)
			if c.ok && err != nil || !c.ok && !errors.Is(err, errQuota) {
				t.Errorf("of %d bytes: error %v", c.cap, err)
			}
			if host.sum() != p.HostBytes {
				t.Errorf("of %d bytes: %d held after a run", c.cap, host.sum())
			}
		}
		got := tensor.As[float32](i.Outputs()[0])
		if c.ok && (len(got) != 1000 || got[999] != 2000) {
			t.Errorf("got %v", got)
		}
		i.Put()
		s.Close()
		if host.sum() != 0 {
			t.Errorf("of %d bytes: %d held in the end", c.cap, host.sum())
		}
	}
	if b.quota.most != peak {
		t.Errorf("%d bytes of the device were granted, planned %d", b.quota.most, peak)
	}
}

// TestFarStaging holds that packed weights go to a device out of sight, and come from it, by way of
// memory of the host that is granted, and that packing needs no more of it than its largest step.
func TestFarStaging(t *testing.T) {
	g, err := zoo.New("mobilenetv2",
		zoo.Options{Layers: 1, Width: 0.25, Resolution: 32, Classes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), g, plan.Options{
		Target: compute.WithFeatures(kernels.Target(device.Info{}), compute.Features{Remote: true}),
		Shapes: map[string][]int{"input": {1, 3, 32, 32}}})
	if err != nil {
		t.Fatal(err)
	}
	staging := p.StagingBytes()
	if staging == 0 || staging >= p.PackedBytes {
		t.Fatalf("staging of %d bytes for %d", staging, p.PackedBytes)
	}
	want := make([]byte, p.PackedBytes)
	if err := p.Pack(want, plan.PackOptions{}); err != nil {
		t.Fatal(err)
	}
	d, b := openFar(t, p.PackedBytes), newBench(t)
	host := &ledger{cap: staging - 1}
	o := Options{Device: d, Pool: b.pool, PackPool: b.pool, Quota: b.quota, HostQuota: host}
	if _, err := Load(p, o); !errors.Is(err, errQuota) || d.Held() != 0 || host.sum() != 0 {
		t.Errorf("of %d bytes: error %v, %d held", host.cap, err, d.Held())
	}
	host.cap = staging
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if host.most != staging || host.sum() != 0 {
		t.Errorf("%d bytes were granted, want %d; %d are held", host.most, staging, host.sum())
	}
	err = s.WithWeights(t.Context(), func([]byte) error { return nil })
	if !errors.Is(err, errQuota) {
		t.Errorf("a copy of %d bytes, of %d: error %v", p.PackedBytes, host.cap, err)
	}
	host.cap = p.PackedBytes
	err = s.WithWeights(t.Context(), func(w []byte) error {
		if !bytes.Equal(w, want) || host.sum() != p.PackedBytes || s.Held() != p.PackedBytes {
			t.Errorf("other weights than Pack writes, or %d bytes granted", host.sum())
		}
		return errQuota
	})
	if !errors.Is(err, errQuota) || host.sum() != 0 {
		t.Errorf("error %v, %d bytes granted", err, host.sum())
	}
}

// TestFarSharesWeights holds that plans for two shapes share what they have packed, though the
// device reads constants that follow from the shapes.
func TestFarSharesWeights(t *testing.T) {
	g := parseGraph(t, `graph "spread" {
		opset "" 17
		input %x: float32[N,2048]
		const %first: int64[1] = {0}
		const %size: int64[1] = {2048}
		%s: int64[2] = Shape@17 (%x)
		%r: float32[1,2048] = ReduceSum@17 (%x, %first)
		%k: float32[2048] = ConstantOfShape@17 (%size) {value=tensor float32[1] {2}}
		%e: float32[N,2048] = Expand@17 (%r, %s)
		%y: float32[N,2048] = Mul@17 (%e, %k)
		output %y
	}`)
	d, b := openFar(t, 0), newBench(t)
	var like *Session
	var arenas int64
	for n := 1; n < 4; n++ {
		p := compiledFar(t, d, g, map[string][]int{"x": {n, 2048}})
		s, err := Load(p, Options{Device: d, Pool: b.pool, Like: like})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if p.PackedBytes != 4*2048 || d.Held() != p.PackedBytes+arenas {
			t.Errorf("%d rows: %d bytes held, %d of weights", n, d.Held(), p.PackedBytes)
		}
		like = s
		i := take(t, s)
		for k := range tensor.As[float32](i.Inputs()[0]) {
			tensor.As[float32](i.Inputs()[0])[k] = 3
		}
		if err := i.Run(t.Context(), device.Open); err != nil {
			t.Fatal(err)
		}
		got := tensor.As[float32](i.Outputs()[0])
		if len(got) != n*2048 || got[0] != float32(6*n) || got[len(got)-1] != float32(6*n) {
			t.Errorf("%d rows: got %d values, the first %v", n, len(got), got[0])
		}
		i.Put()
		arenas += p.ArenaBytes
	}
}

// counted is a device whose queues count copies and refuse one of them.
type counted struct {
	*far.Device
	in, out, refuse int
	queues          int  // that are open
	busy            bool // work was given and not waited for
	late            bool // the device refuses the copy, when its turn has come
	noQueue         bool // there is no room for one
}

func (c *counted) NewQueue() (compute.Queue, error) {
	if c.noQueue {
		return nil, errCopy
	}
	q, err := c.Device.NewQueue()
	c.queues++
	return &countedQueue{q, c}, err
}

type countedQueue struct {
	compute.Queue
	count *counted
}

var errCopy = errors.New("no way")

func (q *countedQueue) Run(x *compute.Exec, t compute.Task) error {
	q.count.busy = true
	return q.Queue.Run(x, t)
}

func (q *countedQueue) Wait() error {
	q.count.busy = false
	return q.Queue.Wait()
}

func (q *countedQueue) Close() {
	q.count.queues--
	q.Queue.Close()
}

func (q *countedQueue) CopyIn(at compute.Block, src []byte) error {
	q.count.in++
	q.count.busy = true
	if q.count.in+q.count.out == q.count.refuse {
		if !q.count.late {
			return errCopy
		}
		at.At = 1 // where there is nothing
	}
	return q.Queue.CopyIn(at, src)
}

func (q *countedQueue) CopyOut(dst []byte, at compute.Block) error {
	q.count.out++
	q.count.busy = true
	if q.count.in+q.count.out == q.count.refuse {
		if !q.count.late {
			return errCopy
		}
		at.At = 1 // where there is nothing
	}
	return q.Queue.CopyOut(dst, at)
}

// TestFarCopiesOnce holds that a value goes from the device to the host, or back, at most once in a
// run and when the other side needs it, that an error names what could not be copied, and that no
// work is left in the queue by a run that failed, nor the queue by the session.
func TestFarCopiesOnce(t *testing.T) {
	g := parseGraph(t, `graph "to and fro" {
		opset "" 17
		input %x: float32[8]
		input %aside: float32[8]
		const %k: float32[3] = {5, 6, 7}
		%y: float32[8] = Add@17 (%x, %x)
		%c: int64[1,?] = NonZero@17 (%y)
		%v: float32[1,?] = Gather@17 (%y, %c)
		%n: float32[] = ReduceSum@17 (%v) {keepdims=0}
		%m: float32[1,?] = Mul@17 (%v, %n)
		%o: float32[] = ReduceSum@17 (%m) {keepdims=0}
		%p: float32[1,?] = Mul@17 (%m, %o)
		%w: float32[8] = Mul@17 (%y, %n)
		output %p
		output %w
		output %y
		output %k
		output %aside
	}`)
	d, b := &counted{Device: openFar(t, 0)}, newBench(t)
	s, err := Load(compiledFar(t, d.Device, g, nil), Options{Device: d, Pool: b.pool})
	if err != nil {
		t.Fatal(err)
	}
	i := take(t, s)
	run := func() error {
		d.in, d.out = 0, 0
		for k, in := range i.Inputs() {
			x := tensor.From([]float32{0, 1, 0, 2, 0, 3, 0, float32(k)}, 8)
			if err := in.Set(x); err != nil {
				t.Fatal(err)
			}
		}
		return i.Run(t.Context(), device.Open)
	}
	want := []string{"[3456 6912 10368]", "[0 24 0 48 0 72 0 0]", "[0 2 0 4 0 6 0 0]", "[5 6 7]",
		"[0 1 0 2 0 3 0 1]"}
	for range 2 {
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if d.in != 2 || d.out != 2 { // x and n; y and w
			t.Errorf("%d copies to the device and %d from it, want 2 and 2", d.in, d.out)
		}
		for k, out := range i.Outputs() {
			if got := fmt.Sprint(tensor.As[float32](out)); got != want[k] {
				t.Errorf("output %d: got %s, want %s", k, got, want[k])
			}
		}
	}
	for copied, value := range []string{`"x"`, `"y"`, `"n"`, `"w"`} {
		d.refuse, d.late = copied+1, true
		err := run()
		var failed *compute.CopyError
		if !errors.As(err, &failed) || !errors.Is(err, device.ErrBounds) || failed.At.N == 0 ||
			!strings.HasPrefix(err.Error(), `graph "to and fro": copy of `+value+": device far:0: ") ||
			!strings.Contains(err.Error(), fmt.Sprint(failed.At.N, " bytes")) {
			t.Errorf("copy %d fails late: error %v, want one that names %s", d.refuse, err, value)
		}
		if d.busy {
			t.Errorf("copy %d fails late: the run ends before its work on the device", d.refuse)
		}
	}
	d.late = false
	for copied, value := range []string{`"x" to`, `"y" from`, `"n" to`, `"w" from`} {
		d.refuse = copied + 1
		err := run()
		if !errors.Is(err, errCopy) || !strings.Contains(err.Error(), value) ||
			!strings.Contains(err.Error(), "to and fro") {
			t.Errorf("copy %d fails: error %v, want one that names %s", d.refuse, err, value)
		}
		if d.busy {
			t.Errorf("copy %d fails: the run ends before its work on the device", d.refuse)
		}
	}
	d.refuse = 0
	if err := run(); err != nil {
		t.Errorf("after errors: %v", err)
	}
	i.Put()
	s.Close()
	if d.queues != 0 || d.Held() != 0 {
		t.Errorf("%d queues are open in the end, %d bytes held", d.queues, d.Held())
	}
}

// TestFarNoQueue has the device refuse a queue: the instance is refused, and nothing of it is held.
func TestFarNoQueue(t *testing.T) {
	d, b := &counted{Device: openFar(t, 0), noQueue: true}, newBench(t)
	host := &ledger{cap: 1 << 20}
	s, err := Load(compiledFar(t, d.Device, parsed(t), nil),
		Options{Device: d, Pool: b.pool, Quota: b.quota, HostQuota: host})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held := d.Held()
	if _, err := s.Take(); !errors.Is(err, errCopy) || d.Held() != held || host.sum() != 0 ||
		s.Held() != held || s.HostHeld() != 0 {
		t.Errorf("error %v, %d bytes held on the device, %d on the host", err, d.Held()-held,
			host.sum())
	}
	d.noQueue = false
	take(t, s).Put()
}

// TestFarOneQuota holds that the quota of a job that has no other for the host bounds what the job
// holds on both, to the byte.
func TestFarOneQuota(t *testing.T) {
	g := parseGraph(t, `graph "selective" {
		opset "" 17
		input %x: float32[1000]
		%y: float32[1000] = Add@17 (%x, %x)
		%c: int64[1,?] = NonZero@17 (%y)
		output %c
	}`)
	d, b := openFar(t, 0), newBench(t)
	p := compiledFar(t, d, g, nil)
	const dynamic = 1000 * 8
	need := p.PeakBytes(1) + p.HostBytes + dynamic
	for _, limit := range []int64{p.PeakBytes(1) + p.HostBytes - 1, need - 1, need} {
		q := &ledger{cap: limit}
		s, err := Load(p, Options{Device: d, Pool: b.pool, Quota: q})
		if err != nil {
			t.Fatal(err)
		}
		i, err := s.Take()
		if err == nil {
			for k := range tensor.As[float32](i.Inputs()[0]) {
				tensor.As[float32](i.Inputs()[0])[k] = 1
			}
			err = i.Run(t.Context(), device.Open)
			i.Put()
		}
		if (err == nil) != (limit == need) || err != nil && !errors.Is(err, errQuota) ||
			err == nil && q.most != need {
			t.Errorf("of %d bytes: error %v, at most %d held", limit, err, q.most)
		}
		s.Close()
		if q.sum() != 0 {
			t.Errorf("of %d bytes: %d held in the end", limit, q.sum())
		}
	}
}

// listed is a device that cannot be compared.
type listed struct {
	*far.Device
	_ []int
}

// TestFarNotComparable holds that a device which cannot be compared is taken for another one each
// time, and ends nothing.
func TestFarNotComparable(t *testing.T) {
	d, b := listed{Device: openFar(t, 0)}, newBench(t)
	g := parseGraph(t, `graph "spread" {
		opset "" 17
		input %x: float32[2048]
		const %size: int64[1] = {2048}
		%k: float32[2048] = ConstantOfShape@17 (%size) {value=tensor float32[1] {2}}
		%y: float32[2048] = Mul@17 (%x, %k)
		output %y
	}`)
	p := compiledFar(t, d.Device, g, nil)
	var like *Session
	for n := range int64(2) {
		s, err := Load(p, Options{Device: d, Pool: b.pool, Like: like})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if like = s; p.PackedBytes == 0 || d.Held() != (n+1)*p.PackedBytes {
			t.Errorf("%d sessions hold %d bytes, weights of %d", n+1, d.Held(), p.PackedBytes)
		}
	}
}
