package broker

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// ErrClosed: the broker was closed.
var ErrClosed = errors.New("broker is closed")

// Config describes the device to share and how.
type Config struct {
	core.Config
	// Observer, if not nil, is told what happens.
	Observer Observer
	// Record, if not nil, is where every event and decision is written, for core.Replay.
	Record io.Writer
}

// Observer is told of notices in their order. Observe is called with the broker's lock held: it
// must return soon, and must not call the broker.
type Observer interface {
	Observe(core.Notice)
}

// Broker shares one device between jobs in real time.
type Broker struct {
	device   string
	epoch    time.Time
	observer Observer
	recorder *core.Recorder // nil: not recorded

	mu      sync.Mutex
	core    *core.Core
	jobs    map[share.JobID]*Job
	timer   *time.Timer
	timerAt time.Duration // 0: not running
	closed  bool
}

// New returns a broker with no jobs. Its clock starts at zero now. It needs [Broker.Close].
func New(c Config) (*Broker, error) {
	k, err := core.New(c.Config)
	if err != nil {
		return nil, err
	}
	b := &Broker{device: c.Device, epoch: time.Now(), observer: c.Observer, core: k,
		jobs: map[share.JobID]*Job{}}
	if c.Record != nil {
		b.recorder = core.NewRecorder(c.Record)
	}
	return b, nil
}

// Now returns the time on the broker's clock, which all of its times are on.
func (b *Broker) Now() time.Duration { return time.Since(b.epoch) }

// Admit lets a job in. needBytes is the most memory it will hold, by its plan; it becomes the job's
// cap if its share names none.
//
// Admit refuses an invalid specification ([share.ErrInvalid]), a name already here
// ([core.ErrName]), a job that needs more than its own cap ([core.ErrOverCap]), a cap that does not
// fit beside the others' ([core.ErrNoMemory]), a guarantee that does not ([core.ErrNoCompute]), and
// what the policy's own rule refuses. What is admitted can therefore always be kept. The job needs
// [Job.End].
func (b *Broker) Admit(spec share.Job, needBytes share.Bytes) (*Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("job %s: device %s: %w", spec.Name, b.device, ErrClosed)
	}
	return b.let(&spec, core.Event{Kind: core.Admit, Need: needBytes})
}

// let tells the core of an event that lets a job in, with the lock held.
func (b *Broker) let(spec *share.Job, e core.Event) (*Job, error) {
	// The job is made before it is known by number, so that no notice can miss it.
	j := &Job{b: b, name: spec.Name, wake: make(chan struct{}, 1),
		traffic: traffic{turn: make(chan struct{}, 1)}}
	j.lease.job, j.lease.epoch = j, b.epoch
	j.opportunistic.Store(spec.Class == share.Opportunistic)
	b.jobs[0] = j
	e.Spec = spec
	err := b.step(e)
	delete(b.jobs, 0)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// step tells the core of an event that happens now, and does what it answers.
func (b *Broker) step(e core.Event) error {
	e.At = b.Now()
	var notices []core.Notice
	var err error
	if b.recorder != nil {
		notices, err = b.recorder.Step(b.core, e)
	} else {
		notices, err = b.core.Step(e)
	}
	for i := range notices {
		b.heed(&notices[i])
	}
	b.sleep(b.core.Wake())
	return err
}

// heed does what a notice says, and passes it on. A goroutine that waits for it is woken last: an
// observer may do at once what that would, and waking one takes the system a while.
func (b *Broker) heed(n *core.Notice) {
	if n.Kind == core.Admitted {
		j := b.jobs[0]
		j.id = n.Job
		b.jobs[n.Job] = j
	}
	j := b.jobs[n.Job]
	over := j != nil && j.heed(n)
	if n.Kind == core.Ended {
		delete(b.jobs, n.Job)
	}
	if b.observer != nil {
		b.observer.Observe(*n)
	}
	if over {
		j.unpark()
	}
}

// sleep sets the timer for the policy's next call. A timer that goes off early does no harm, so a
// running one is only ever moved forward.
func (b *Broker) sleep(wake time.Duration) {
	if wake == 0 || b.closed || b.timerAt != 0 && b.timerAt <= wake {
		return
	}
	b.timerAt = wake
	if b.timer == nil {
		b.timer = time.AfterFunc(wake-b.Now(), b.onTimer)
		return
	}
	b.timer.Reset(wake - b.Now())
}

func (b *Broker) onTimer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timerAt = 0
	if !b.closed {
		_ = b.step(core.Event{Kind: core.Tick}) // never refused
	}
}

// SetPolicy makes another policy decide from here on, as policy.New reads it. Jobs are asked to
// give back what they hold, as at the end of a lease, and go on when granted it again. The error
// is policy.New's, a [share.ErrCannot], or that of the first job which the policy's rule for
// admission would not have let in beside those before it.
func (b *Broker) SetPolicy(spec string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("device %s: %w", b.device, ErrClosed)
	}
	return b.step(core.Event{Kind: core.Switch, Policy: spec})
}

// SetPolicyWhere is SetPolicy for a device on which from here on other things can be enforced than
// before. On an error nothing changes.
func (b *Broker) SetPolicyWhere(spec string, can share.Can) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("device %s: %w", b.device, ErrClosed)
	}
	return b.step(core.Event{Kind: core.Switch, Policy: spec, Can: &can})
}

// Accepts returns nil if SetPolicyWhere would change the policy now, or else its error. Nothing
// changes.
func (b *Broker) Accepts(spec string, can share.Can) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("device %s: %w", b.device, ErrClosed)
	}
	return b.core.Accepts(spec, can)
}

// Ruled is [core.Core.Ruled].
func (b *Broker) Ruled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.Ruled()
}

// Waiting reports whether a job waits for the device.
func (b *Broker) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.Waiting()
}

// WaitingOf reports whether a job of this class waits for the device.
func (b *Broker) WaitingOf(class share.Class) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.WaitingOf(class)
}

// Close ends all jobs and refuses new ones.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, j := range b.jobs {
		j.end(ErrClosed)
	}
	if b.timer != nil {
		b.timer.Stop()
	}
}

// Status returns the state of the device now.
func (b *Broker) Status() core.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look()
	return b.core.Status()
}

// look brings the accounts up to now.
func (b *Broker) look() { _ = b.step(core.Event{Kind: core.Look}) } // never refused

// Faults returns how many of the policy's instructions were unsound and not carried out, and the
// first of them as an error.
func (b *Broker) Faults() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.core.Faults()
}

// RecordError returns the first error in writing the record, if there is one.
func (b *Broker) RecordError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recorder == nil {
		return nil
	}
	return b.recorder.Err()
}
