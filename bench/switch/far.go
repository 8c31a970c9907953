package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// buses are the bandwidths of issue 13, in GB/s, and exposedBound its bound of what is exposed.
var buses = []float64{1, 5, 20}

const exposedBound = 1.1

// distant is the group far: in virtual time, and then as this host plays the bus.
func distant(ctx context.Context, b *bench) error {
	if err := virtually(ctx, b); err != nil {
		return err
	}
	for _, gbs := range buses {
		f, err := newFarther(ctx, device.Bus{BytesPerS: gbs * 1e9,
			PerTransfer: 10 * time.Microsecond}, 1)
		if err == nil {
			err = f.measure(ctx, max(10, b.Rounds/3))
			f.close()
		}
		if err != nil {
			return err
		}
		f.judge(b, fmt.Sprintf("far, %v GB/s", gbs))
	}
	return nil
}

// farther is a model on the device whose memory the host cannot address, and what was measured of
// it, in milliseconds.
type farther struct {
	bus     device.Bus
	device  *far.Device
	pool    *cpu.Pool
	session *engine.Session
	request *engine.Instance
	packed  []byte
	beside  device.Buffer // for as many bytes
	steps   map[*plan.Step][]float64

	resident, switched, exposed, transfer []float64

	// a run beside the same copies as of a switch, and those copies, made one after the other by
	// nothing of weir's but the device: what the host costs that plays the bus
	beset, besetTransfer []float64

	// by how much the latest copy of a round ended after the bus would be done with it, in a
	// switch, beside a run, and alone
	lateSwitched, lateBeset, lateAlone []float64

	mu     sync.Mutex
	copies []copied
}

// copied is a copy behind the bus.
type copied struct {
	bytes int
	late  time.Duration
}

// ended notes a copy.
func (f *farther) ended(bytes int, late time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.copies = append(f.copies, copied{bytes, late})
}

// came returns the copies since it was last called, and by how much the latest was late, in
// milliseconds.
func (f *farther) came() (copies []copied, latest float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	copies, f.copies = f.copies, nil
	for _, c := range copies {
		latest = max(latest, float64(c.late)/float64(time.Millisecond))
	}
	return copies, latest
}

// newFarther loads a model of so many tokens. Of one, weights and computing take about as long.
func newFarther(ctx context.Context, bus device.Bus, tokens int) (f *farther, err error) {
	f = &farther{bus: bus, steps: map[*plan.Step][]float64{}}
	if f.device, err = far.Open("far", far.Options{Bus: bus, Late: f.ended}); err != nil {
		return nil, err
	}
	g, err := zoo.New("minilm-l6", zoo.Options{Vocabulary: 2000})
	if err != nil {
		return nil, err
	}
	p, err := plan.Compile(ctx, g, plan.Options{Target: f.device.Target(),
		Shapes: map[string][]int{"input_ids": {1, tokens}}})
	if err != nil {
		return nil, err
	}
	packed, err := tensor.New(tensor.Uint8, int(p.PackedBytes))
	if err != nil {
		return nil, err
	}
	if err := p.Pack(packed.Data, plan.PackOptions{}); err != nil {
		return nil, err
	}
	f.packed = packed.Data
	if f.beside, err = f.device.Alloc(p.PackedBytes); err != nil {
		return nil, err
	}
	f.pool = cpu.NewPool(cpu.PoolOptions{Threads: 1})
	f.session, err = engine.Load(p, engine.Options{Device: f.device, Pool: f.pool,
		Weights: packed.Data})
	if err != nil {
		return nil, err
	}
	f.request, err = f.session.Take()
	return f, err
}

func (f *farther) close() {
	f.session.Close()
	f.request.Free()
	f.beside.Free()
	f.pool.Close()
	_ = f.device.Close()
}

// measure runs with the weights there and on their way, in turn, brings them alone, and takes the
// times of the steps.
func (f *farther) measure(ctx context.Context, rounds int) error {
	run := func() (float64, error) {
		fill(f.request)
		begin := time.Now()
		err := f.request.Run(ctx, device.Open)
		return ms(begin), err
	}
	if _, err := run(); err != nil {
		return err
	}
	if err := f.beside.CopyIn(0, f.packed); err != nil { // which takes the memory's pages
		return err
	}
	for range rounds {
		if err := f.round(run); err != nil {
			return err
		}
		if err := f.profile(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round takes what is compared once, one after the other.
func (f *farther) round(run func() (float64, error)) error {
	resident, err := run()
	if err != nil {
		return err
	}
	f.session.Evict(f.session.Plan().PackedBytes)
	f.came()
	switched, err := run()
	if err != nil {
		return err
	}
	copies, late := f.came()
	f.resident, f.switched = append(f.resident, resident), append(f.switched, switched)
	f.exposed = append(f.exposed, switched-resident)
	f.lateSwitched = append(f.lateSwitched, late)
	took, err := f.bring(copies)
	if err != nil {
		return err
	}
	_, late = f.came()
	f.transfer, f.lateAlone = append(f.transfer, took), append(f.lateAlone, late)
	return f.strain(run, copies)
}

// strain runs with the weights there, beside the copies of a switch.
func (f *farther) strain(run func() (float64, error), copies []copied) error {
	brought := make(chan error)
	go func() {
		took, err := f.bring(copies)
		f.besetTransfer = append(f.besetTransfer, took)
		brought <- err
	}()
	took, err := run()
	f.beset = append(f.beset, took)
	err = errors.Join(err, <-brought)
	_, late := f.came()
	f.lateBeset = append(f.lateBeset, late)
	return err
}

// bring makes copies of a switch again, one after the other, to where nobody reads.
func (f *farther) bring(copies []copied) (took float64, err error) {
	begin, at := time.Now(), 0
	for _, c := range copies {
		c.bytes = min(c.bytes, len(f.packed)-at) // inputs are among them where they are large
		if err := f.beside.CopyIn(int64(at), f.packed[at:at+c.bytes]); err != nil {
			return 0, err
		}
		at += c.bytes
	}
	return ms(begin), nil
}

// profile takes the time of each step.
func (f *farther) profile(ctx context.Context) error {
	fill(f.request)
	last := time.Now()
	return f.request.Profile(ctx, func(s *plan.Step, _ plan.Cost) {
		f.steps[s] = append(f.steps[s], ms(last))
		last = time.Now()
	})
}

// judge compares by how much a run was longer with what it had to be.
func (f *farther) judge(b *bench, name string) {
	p := f.session.Plan()
	resident := b.note(name+", resident run, ms", f.resident)
	b.note(name+", switch, ms", f.switched)
	exposed := b.note(name+", exposed, ms", f.exposed)
	b.note(name+", the same copies alone, ms", f.transfer)
	b.Figures[name+", bytes"] = float64(p.PackedBytes)

	var sum float64
	for i := range p.Steps {
		sum += claims.Median(f.steps[&p.Steps[i]])
	}
	layers := p.LayersOf(func(s *plan.Step) time.Duration {
		took := claims.Median(f.steps[s]) * resident / sum // steps alone are waited for
		return time.Duration(took * float64(time.Millisecond))
	})
	ends, done := plan.Pipeline(f.bus, layers)
	b.Figures[name+", groups of that"] = float64(len(ends))
	over, least := f.over(b, name, exposed, done, layers)
	claim := name + ", exposed over its optimum"
	if why := f.uneven(b, name, least); why == "" {
		b.Claims.Check(claim, over, exposedBound, true)
	} else {
		b.Notes = append(b.Notes, fmt.Sprintf("%s: no claim of real time: %s; it is %.3f, and "+
			"stands in virtual time", claim, why, over))
	}
	hosted, speed := f.hosted(b, name, resident)
	ends, _ = plan.Pipeline(hosted, layers)
	f.over(b, name+" as the host plays it", exposed, slowed(hosted, layers, ends, speed), layers)
	slices.Sort(f.exposed)
	b.Figures[name+", exposed, lower quartile, ms"] = f.exposed[len(f.exposed)/4]
	b.Figures[name+", exposed, upper quartile, ms"] = f.exposed[len(f.exposed)*3/4]
}

// A host plays a bus where the copies of a switch end on time beside a run whose weights are there,
// and leave that as fast as it is, within these parts of what a switch exposes at least. Nothing of
// weir's brings those copies, so that what weir loses does not count as the host's. What the host
// does lose is no allowance: a switch that is judged has to hold the bound with it.
const lateMost, slowMost = 0.05, 0.25

// uneven says why this host does not play the bus, "" where it does.
func (f *farther) uneven(b *bench, name string, least float64) (why string) {
	b.note(name+", latest copy of a switch ends after its time, ms", f.lateSwitched)
	b.note(name+", latest of the same copies alone, ms", f.lateAlone)
	late := b.note(name+", latest of the same copies beside a run, ms", f.lateBeset)
	slower := make([]float64, len(f.beset))
	for i, took := range f.beset {
		slower[i] = took - f.resident[i]
	}
	slow := b.note(name+", run beside the same copies is longer by, ms", slower)
	if late > lateMost*least {
		return fmt.Sprintf("beside a run this host ends the same copies up to %.3f ms late, which "+
			"is over %v of the %.3f ms that are exposed at least", late, lateMost, least)
	}
	if slow > slowMost*least {
		return fmt.Sprintf("beside the same copies this host computes a run %.3f ms slower, which "+
			"is over %v of the %.3f ms that are exposed at least", slow, slowMost, least)
	}
	return ""
}

// over is what was exposed over the least, and that, where all is done at a time at the earliest.
func (f *farther) over(b *bench, name string, exposed float64, done time.Duration,
	layers []plan.Layer) (over, least float64) {
	for _, l := range layers {
		done -= l.Compute
	}
	least = float64(done) / float64(time.Millisecond)
	b.Figures[name+", exposed at least, ms"] = least
	b.Figures[name+", exposed over that"] = exposed / least
	return exposed / least, least
}

// hosted is the bus as the host plays it beside a run, and what of its speed a run then has: the
// core that copies takes caches and memory from the one that computes, which an engine for copies
// beside a device's own memory does not.
func (f *farther) hosted(b *bench, name string, resident float64) (bus device.Bus, speed float64) {
	beset := b.note(name+", resident run beside the same copies, ms", f.beset)
	transfer := b.note(name+", the same copies beside a resident run, ms", f.besetTransfer)
	bus = f.bus
	bus.BytesPerS = min(bus.BytesPerS, float64(len(f.packed))/transfer*1e3)
	both := min(beset, transfer)
	speed = min(1, 1-(beset-resident)/both)
	b.Figures[name+", speed of a run beside them"] = speed
	return bus, speed
}

// slowed is when all layers have been computed that come in groups, where they are computed at a
// part of their speed until the last transfer has ended.
func slowed(bus device.Bus, layers []plan.Layer, ends []int, speed float64) (done time.Duration) {
	arrivals := make([]time.Duration, len(ends))
	var at time.Duration
	from := 0
	for i, end := range ends {
		var bytes int64
		for _, l := range layers[from:end] {
			bytes += l.Bytes
		}
		at += bus.Transfer(bytes)
		arrivals[i], from = at, end
	}
	from = 0
	for i, end := range ends {
		done = max(done, arrivals[i])
		for _, l := range layers[from:end] {
			done = computed(done, at, l.Compute, speed)
		}
		from = end
	}
	return done
}

// computed is when something has been computed that is begun at a time, at a part of its speed
// until another.
func computed(begin, until, takes time.Duration, speed float64) time.Duration {
	slow := max(0, until-begin)
	if whole := time.Duration(float64(takes) / speed); whole <= slow {
		return begin + whole
	}
	return begin + slow + takes - time.Duration(float64(slow)*speed)
}
