package roofline

import (
	"context"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
)

// Format is the number format in which a step multiplies.
type Format string

// The formats that have a peak of their own.
const (
	FP32 Format = "fp32"
	BF16 Format = "bf16"
	Int8 Format = "int8"
)

// Machine is what a device was measured to reach, all threads of a pool together.
type Machine struct {
	Device  string `json:"device"` // its ID
	Threads int    `json:"threads"`
	// Processor is the kind of processor, nothing for a device that is none.
	Processor Processor `json:"processor"`
	// Peak is the GFLOP/s of matrix products whose operands stay in the caches next to a core, by
	// format, that of single precision at least what multiply-adds between registers reach;
	// formats that the processor has no instructions for are left out.
	Peak map[Format]float64 `json:"peak_gflops_per_s"`
	// Read is the rate of reading, from the smallest working set to the largest.
	Read []Rate `json:"read"`
	// TookMS is how long measuring took.
	TookMS float64 `json:"took_ms"`
}

// Known reports whether limits were measured. Where they were not, steps have times and work only.
func (m *Machine) Known() bool { return len(m.Peak) > 0 }

// Rate is how fast a working set is read again and again.
type Rate struct {
	Bytes  int64   `json:"working_set_bytes"` // of all threads together
	GBPerS float64 `json:"gb_per_s"`
}

// peak returns the peak of a format; what has none of its own is computed in single precision.
func (m *Machine) peak(p Format) float64 {
	if v := m.Peak[p]; v > 0 {
		return v
	}
	return m.Peak[FP32]
}

// bandwidth returns the GB/s at which so many bytes can be had at best: the rate of the largest
// working set that is no larger.
func (m *Machine) bandwidth(bytes int64) float64 {
	best := 0.0
	for i, r := range m.Read {
		if i == 0 || r.Bytes <= bytes {
			best = r.GBPerS
		}
	}
	return best
}

// leastMS is the least time in ms for so much work, and whether arithmetic takes it or memory.
func (m *Machine) leastMS(p Format, flops, bytes int64) (ms float64, compute bool) {
	arithmetic, memory := rateTime(flops, m.peak(p)), rateTime(bytes, m.bandwidth(bytes))
	return max(arithmetic, memory), arithmetic >= memory
}

// rateTime is the time in ms of so many units at so many units a nanosecond.
func rateTime(units int64, perNS float64) float64 {
	if perNS <= 0 {
		return 0
	}
	return float64(units) / perNS / 1e6
}

var measured struct {
	sync.Mutex
	machines map[int]*Machine // by threads
}

// Measure returns the limits of the device that a target is for, with the threads of a pool. The
// first call for a number of threads measures for about 0.1 s and wants the cores for itself; the
// process keeps what it found. What is run to measure runs on the host, so that the limits of a
// device whose memory that cannot address stay unknown. The error is ctx's.
func Measure(ctx context.Context, target compute.Target, pool compute.Pool) (*Machine, error) {
	info := target.Info()
	if target.Features().Remote {
		return &Machine{Device: info.ID, Threads: info.Units, Peak: map[Format]float64{},
			Read: []Rate{}}, nil
	}
	measured.Lock()
	defer measured.Unlock()
	if m := measured.machines[pool.Threads()]; m != nil {
		return m, nil
	}
	m, err := measure(ctx, info.ID, pool)
	if err != nil {
		return nil, err
	}
	if measured.machines == nil {
		measured.machines = map[int]*Machine{}
	}
	measured.machines[pool.Threads()] = m
	return m, nil
}

// Again measures once more, as Measure does, and returns of each limit the higher of what was found
// before, if anything was, and now. The process keeps these.
func Again(ctx context.Context, target compute.Target, pool compute.Pool) (*Machine, error) {
	before, err := Measure(ctx, target, pool)
	if err != nil || !before.Known() {
		return before, err
	}
	now, err := measure(ctx, before.Device, pool)
	if err != nil {
		return nil, err
	}
	measured.Lock()
	defer measured.Unlock()
	now.raise(measured.machines[pool.Threads()])
	measured.machines[pool.Threads()] = now
	return now, nil
}

// raise has no limit be below that of another measurement of the same machine.
func (m *Machine) raise(other *Machine) {
	for f, v := range other.Peak {
		m.Peak[f] = max(m.Peak[f], v)
	}
	for i := range m.Read {
		m.Read[i].GBPerS = max(m.Read[i].GBPerS, other.Read[i].GBPerS)
	}
	m.TookMS += other.TookMS
}

// measure measures what a device's processor does with the threads of a pool.
func measure(ctx context.Context, device string, pool compute.Pool) (*Machine, error) {
	began := time.Now()
	m := &Machine{
		Device:    device,
		Threads:   pool.Threads(),
		Processor: Identify(),
		Peak:      map[Format]float64{},
	}
	b := bench{ctx: ctx, pool: pool}
	if err := b.peaks(m); err != nil {
		return nil, err
	}
	if err := b.reads(m); err != nil {
		return nil, err
	}
	m.TookMS = milliseconds(time.Since(began))
	return m, nil
}

// bench runs calibration loops on all threads of a pool.
type bench struct {
	ctx  context.Context
	pool compute.Pool
}

// Each loop is run for this long at a time, and as often as the time of all together allows. The
// fastest counts: whatever else the machine does only makes a loop slower, and one shorter than a
// slice of the system's scheduler has a chance to be left alone.
const (
	oneLoop  = time.Millisecond / 2
	allLoops = 15 * time.Millisecond
)

// loop is a calibration loop of one thread.
type loop struct {
	pass   func(worker int)
	passes int
}

// Chunk implements compute.Region.
func (l *loop) Chunk(i, _ int) {
	for range l.passes {
		l.pass(i)
	}
}

// fastest returns the least time of one pass of all threads at once, in ns.
func (b bench) fastest(pass func(part int)) (ns float64, err error) {
	l := &loop{pass: pass, passes: 1}
	var took time.Duration
	for began := time.Now(); took < oneLoop && time.Since(began) < allLoops; {
		if took, err = b.once(l); err != nil {
			return 0, err
		}
		if took < oneLoop {
			l.passes = min(2*l.passes+int(float64(l.passes)*float64(oneLoop-took)/float64(took+1)),
				1<<24)
		}
	}
	ns = float64(took) / float64(l.passes)
	for began := time.Now(); time.Since(began) < allLoops; {
		if took, err = b.once(l); err != nil {
			return 0, err
		}
		ns = min(ns, float64(took)/float64(l.passes))
	}
	return ns, nil
}

func (b bench) once(l *loop) (time.Duration, error) {
	began := time.Now()
	err := b.pool.Run(b.ctx, device.Open, b.pool.Threads(), l)
	return max(time.Since(began), 1), err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
