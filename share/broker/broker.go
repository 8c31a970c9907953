package broker

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirgpu/weir/share"
)

// Config describes the device to share and how.
type Config struct {
	// Device is the device's name in errors and snapshots, such as "cpu:0".
	Device string
	// Units is the number of compute units; at least 1.
	Units int
	// Memory is the memory that may be promised to jobs; above 0.
	Memory share.Bytes
	// Policy decides who runs. It must serve no other broker.
	Policy share.Policy
	// Observer, if not nil, is told what happens.
	Observer Observer
}

// Validate reports all faults together.
func (c Config) Validate() error {
	f := share.Faults{Object: "device " + c.Device}
	if c.Units < 1 {
		f.List = append(f.List,
			share.Fault{Field: "units", Value: fmt.Sprint(c.Units), Bound: "must be at least 1"})
	}
	if c.Memory <= 0 {
		f.List = append(f.List,
			share.Fault{Field: "memory", Value: c.Memory.String(), Bound: "must be above 0"})
	}
	if c.Policy == nil {
		f.List = append(f.List, share.Fault{Field: "policy", Value: "nil", Bound: "must be set"})
	}
	if len(f.List) == 0 {
		return nil
	}
	return f
}

// Broker shares one device between jobs.
type Broker struct {
	device string
	units  int
	memory share.Bytes
	epoch  time.Time

	mu        sync.Mutex
	policy    share.Policy
	observer  Observer
	jobs      []*Job // in order of admission
	last      share.JobID
	snap      share.Snapshot // used again for every decision
	timer     *time.Timer
	timerAt   time.Duration // 0: not running
	meter     *share.Meter
	decisions int64
	faults    int64
	fault     error
	closed    bool
}

// New returns a broker with no jobs. Its clock starts at zero now. It needs [Broker.Close].
func New(c Config) (*Broker, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Broker{
		device: c.Device, units: c.Units, memory: c.Memory,
		policy: c.Policy, observer: c.Observer,
		epoch: time.Now(), meter: share.NewMeter(),
	}, nil
}

// Now returns the time on the broker's clock, which all of its times are on.
func (b *Broker) Now() time.Duration { return time.Since(b.epoch) }

// Admit lets a job in. needBytes is the most memory it will hold, by its plan; it becomes the job's
// cap if its share names none.
//
// Admit refuses an invalid specification ([share.ErrInvalid]), a name already here ([ErrName]), a
// job that needs more than its own cap ([ErrOverCap]), a cap that does not fit beside the others'
// ([ErrNoMemory]) and a guarantee that does not ([ErrNoCompute]). What is admitted can therefore
// always be kept. The job needs [Job.End].
func (b *Broker) Admit(spec share.Job, needBytes share.Bytes) (*Job, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Memory == 0 {
		spec.Memory = needBytes
	}
	if needBytes < 0 || needBytes > spec.Memory {
		return nil, fmt.Errorf("job %s: needs %v, cap %v: %w: raise memory or lower the batch",
			spec.Name, needBytes.About(), spec.Memory.About(), ErrOverCap)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("job %s: device %s: %w", spec.Name, b.device, ErrClosed)
	}
	if err := b.fits(spec); err != nil {
		return nil, err
	}
	now := b.Now()
	j := b.newJob(spec, now)
	b.jobs = append(b.jobs, j)
	b.meter.Add(j.state.ID, spec.Share)
	b.observe(j, Event{Kind: Admitted, At: now, From: now})
	b.decide(now)
	return j, nil
}

// fits says whether the device can keep one more promise.
func (b *Broker) fits(spec share.Job) error {
	left, compute := b.memory, 1.0
	for _, j := range b.jobs {
		if j.spec.Name == spec.Name {
			return fmt.Errorf("job %s: device %s: %w: choose another", spec.Name, b.device, ErrName)
		}
		left -= j.spec.Memory
		compute -= j.spec.Guarantee()
	}
	if spec.Memory > left {
		return fmt.Errorf("job %s: wants %v, device %s has %v of %v not promised: %w: lower its "+
			"memory or end another job",
			spec.Name, spec.Memory.About(), b.device, left.About(), b.memory.About(), ErrNoMemory)
	}
	// The tolerance lets ten jobs have a tenth each.
	if spec.Guarantee() > compute+1e-9 {
		return fmt.Errorf("job %s: wants a guarantee of %.4g, device %s has %.4g not promised: "+
			"%w: lower its compute or end another job",
			spec.Name, spec.Guarantee(), b.device, max(0, compute), ErrNoCompute)
	}
	return nil
}

func (b *Broker) newJob(spec share.Job, now time.Duration) *Job {
	b.last++
	j := &Job{b: b, spec: spec, wake: make(chan struct{}, 1)}
	j.lease.job, j.lease.epoch = j, b.epoch
	remaining := int64(-1)
	if spec.Iterations > 0 {
		remaining = spec.Iterations
	}
	j.state = share.JobState{
		ID: b.last, Share: spec.Share, Since: now, Ready: now, Admitted: now,
		Remaining: remaining, Cap: spec.Memory,
	}
	if p, ok := b.policy.(share.Stateful); ok {
		j.state.State = p.NewJobState()
	}
	return j
}

// Close ends all jobs and refuses new ones.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	now := b.Now()
	for len(b.jobs) > 0 {
		b.end(b.jobs[len(b.jobs)-1], now, ErrClosed)
	}
	if b.timer != nil {
		b.timer.Stop()
	}
}

// end takes everything from a job and forgets it.
func (b *Broker) end(j *Job, now time.Duration, cause error) {
	j.ended, j.cause = true, cause
	if j.state.Phase == share.Running {
		b.giveBack(j, now, ReasonEnded)
	}
	j.enter(share.Idle, now)
	j.state.InIteration, j.arrivals.n = false, 0
	j.state.Persistent, j.state.Ephemeral = 0, 0
	b.demand(j, now)
	j.unpark()
	b.jobs = slices.DeleteFunc(b.jobs, func(x *Job) bool { return x == j })
	b.observe(j, Event{Kind: Ended, At: now, From: j.state.Admitted, Err: cause})
}
