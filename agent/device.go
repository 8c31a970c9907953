package agent

import (
	"maps"
	"sync"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// device is a device with its broker and what the jobs on it must know of each other.
type device struct {
	Device
	broker *broker.Broker

	mu sync.Mutex
	// waiters counts the jobs that wait for a lease.
	waiters int
	// lingering is the job that has no lease but whose gate is still open, because it is idle and
	// nobody waits.
	lingering *linger

	byID kicks

	// Guarded by the agent's lock.
	names   map[string]naming // by the name that was asked for; none without a job
	context uint64            // bytes, the most that making a context was found to take
}

// naming counts the jobs that asked for one name, and has the number last given to one of them.
type naming struct{ jobs, last int }

// freeName takes note that a job which asked for this name is gone. The agent's lock is held.
func (d *device) freeName(asked string) {
	n := d.names[asked]
	if n.jobs--; n.jobs <= 0 {
		delete(d.names, asked)
		return
	}
	d.names[asked] = n
}

// linger is the state of a job that lingers.
type linger struct {
	leave chan struct{} // closed by whoever wants the device
	left  chan struct{} // closed by the job when its gate is closed and it has drained
}

// slice is how long a job runs while others wait. Each change costs a drain and the way of two
// messages, some 0.1 ms in which the device has nothing to do.
const slice = 10 * time.Millisecond

// burst is by how much device time a job may exceed its limit over any window. One at its limit
// needs some of a slice of it, to make up for the others' slices.
const burst = 6 * time.Millisecond

// forPrograms fills in parameters that suit process jobs, where the policy has them and the user
// has not named them.
func forPrograms(spec string) (string, error) {
	s, err := policy.ParseSpec(spec)
	if err != nil {
		return "", err
	}
	row, err := policy.Find(s.Name)
	if err != nil {
		return "", err
	}
	args := map[string]string{}
	for _, p := range row.Params() {
		switch p.Name {
		case "slice":
			args["slice"] = slice.String()
		case "burst":
			args["burst"] = burst.String()
		}
	}
	maps.Copy(args, s.Args)
	s.Args = args
	return s.String(), nil
}

func newDevice(d Device, policyName string) (*device, error) {
	spec, err := forPrograms(policyName)
	if err != nil {
		return nil, err
	}
	c, err := core.Config{Device: d.ID(), Units: 1, Memory: d.Memory}.ForPolicy(spec)
	if err != nil {
		return nil, err
	}
	dev := &device{Device: d, names: map[string]naming{}}
	dev.byID.jobs = map[share.JobID]*job{}
	dev.broker, err = broker.New(broker.Config{Config: c, Observer: &dev.byID})
	return dev, err
}

// kicks tells a job that its lease is revoked. It has a lock of its own because it is called under
// the broker's.
type kicks struct {
	mu   sync.Mutex
	jobs map[share.JobID]*job
}

// Observe implements broker.Observer.
func (k *kicks) Observe(e core.Notice) {
	if e.Kind != core.Revoked && e.Kind != core.Ended {
		return
	}
	k.mu.Lock()
	j := k.jobs[e.Job]
	k.mu.Unlock()
	if j == nil {
		return
	}
	if e.Kind == core.Revoked {
		j.revoked()
	}
	kick(j.kicked)
}

func (k *kicks) set(id share.JobID, j *job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if j == nil {
		delete(k.jobs, id)
		return
	}
	k.jobs[id] = j
}

// kick makes whoever listens look again. It never blocks.
func kick(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// beginWait counts a job that is going to wait for a lease. If a job lingers, it is told to leave,
// and beginWait returns its state.
func (d *device) beginWait() *linger {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters++
	l := d.lingering
	if l != nil {
		d.lingering = nil
		close(l.leave)
	}
	return l
}

// resume counts the job that lingers as one that is going to wait for a lease. It returns false if
// the job has been told to leave.
func (d *device) resume(l *linger) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lingering != l {
		return false
	}
	d.lingering = nil
	d.waiters++
	return true
}

func (d *device) endWait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters--
}

// contended reports whether a job waits for a lease.
func (d *device) contended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiters > 0
}

// tryLinger lets a job linger if nobody waits and nobody else does.
func (d *device) tryLinger() *linger {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters > 0 || d.lingering != nil {
		return nil
	}
	d.lingering = &linger{leave: make(chan struct{}), left: make(chan struct{})}
	return d.lingering
}

// endLinger forgets a job that lingers, if it is still the one.
func (d *device) endLinger(l *linger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lingering == l {
		d.lingering = nil
	}
}
