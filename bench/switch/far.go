package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	// a run beside a transfer of as many bytes, and that transfer: what the host costs that plays
	// the bus
	beset, besetTransfer []float64
}

// newFarther loads a model of so many tokens. Of one, weights and computing take about as long.
func newFarther(ctx context.Context, bus device.Bus, tokens int) (f *farther, err error) {
	f = &farther{bus: bus, steps: map[*plan.Step][]float64{}}
	if f.device, err = far.Open("far", far.Options{Bus: bus}); err != nil {
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
		resident, err := run()
		if err != nil {
			return err
		}
		f.session.Evict(f.session.Plan().PackedBytes)
		switched, err := run()
		if err != nil {
			return err
		}
		f.resident, f.switched = append(f.resident, resident), append(f.switched, switched)
		f.exposed = append(f.exposed, switched-resident)
		if err := f.bring(); err != nil {
			return err
		}
		if err := f.strain(run); err != nil {
			return err
		}
		if err := f.profile(ctx); err != nil {
			return err
		}
	}
	return nil
}

// strain runs with the weights there, beside a transfer of as many bytes.
func (f *farther) strain(run func() (float64, error)) error {
	brought := make(chan error)
	go func() {
		begin := time.Now()
		err := f.beside.CopyIn(0, f.packed)
		f.besetTransfer = append(f.besetTransfer, ms(begin))
		brought <- err
	}()
	took, err := run()
	f.beset = append(f.beset, took)
	return errors.Join(err, <-brought)
}

// bring copies as many bytes to the device in one transfer.
func (f *farther) bring() error {
	begin := time.Now()
	err := f.beside.CopyIn(0, f.packed)
	f.transfer = append(f.transfer, ms(begin))
	return err
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
	transfer := b.note(name+", transfer of all, ms", f.transfer)
	b.Figures[name+", bytes"] = float64(p.PackedBytes)

	var sum float64
	for i := range p.Steps {
		sum += claims.Median(f.steps[&p.Steps[i]])
	}
	layers := p.LayersOf(func(s *plan.Step) time.Duration {
		took := claims.Median(f.steps[s]) * resident / sum // steps alone are waited for
		return time.Duration(took * float64(time.Millisecond))
	})
	was := f.bus
	was.BytesPerS = min(was.BytesPerS, float64(p.PackedBytes)/transfer*1e3)
	b.Figures[name+", bus as it was, GB/s"] = was.BytesPerS / 1e9
	ends, done := plan.Pipeline(was, layers)
	b.Figures[name+", groups of that"] = float64(len(ends))
	over := f.over(b, name, exposed, done, layers)
	if claim := name + ", exposed over its optimum"; was.BytesPerS >= played*f.bus.BytesPerS {
		b.Claims.Check(claim, over, exposedBound, true)
	} else {
		b.Notes = append(b.Notes, fmt.Sprintf("%s: no claim of real time, as this host copies "+
			"%.1f GB/s alone and cannot play the bus; it is %.3f, and stands in virtual time",
			claim, was.BytesPerS/1e9, over))
	}
	hosted, speed := f.hosted(b, name, resident)
	ends, _ = plan.Pipeline(hosted, layers)
	f.over(b, name+" as the host plays it", exposed, slowed(hosted, layers, ends, speed), layers)
	slices.Sort(f.exposed)
	b.Figures[name+", exposed, lower quartile, ms"] = f.exposed[len(f.exposed)/4]
	b.Figures[name+", exposed, upper quartile, ms"] = f.exposed[len(f.exposed)*3/4]
}

// played is the part of a bus's bandwidth at which the host must copy for something to be said of
// that bus.
const played = 0.95

// over is what was exposed over the least, where all is done at a time at the earliest.
func (f *farther) over(b *bench, name string, exposed float64, done time.Duration,
	layers []plan.Layer) float64 {
	for _, l := range layers {
		done -= l.Compute
	}
	least := float64(done) / float64(time.Millisecond)
	b.Figures[name+", exposed at least, ms"] = least
	b.Figures[name+", exposed over that"] = exposed / least
	return exposed / least
}

// hosted is the bus as the host plays it beside a run, and what of its speed a run then has: the
// core that copies takes caches and memory from the one that computes, which an engine for copies
// beside a device's own memory does not.
func (f *farther) hosted(b *bench, name string, resident float64) (bus device.Bus, speed float64) {
	beset := b.note(name+", resident run beside a transfer of all, ms", f.beset)
	transfer := b.note(name+", transfer of all beside a resident run, ms", f.besetTransfer)
	bus = f.bus
	bus.BytesPerS = min(bus.BytesPerS, float64(len(f.packed))/transfer*1e3)
	both := min(beset, transfer)
	speed = min(1, 1-(beset-resident)/both)
	b.Figures[name+", speed of a run beside a transfer"] = speed
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
