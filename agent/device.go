package agent

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

	// conserving: the policy gives a job without a limit the device if nobody else wants it.
	conserving atomic.Bool

	byID kicks
	late lateness
	asks asks

	holds gauge[map[uint32]uint64] // what processes hold, as [Config] has it,
	used  gauge[uint64]            // and what is not free
	// unmeasured is why it does not say what processes hold, empty if it did when last asked; nil:
	// it was not asked.
	unmeasured atomic.Pointer[string]

	// Guarded by the agent's lock.
	mps     MPS               // the control daemon, zero without
	clients bool              // the policy needs all programs to be clients
	names   map[string]naming // by the name that was asked for; none without a job
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

// slice is how long a job runs while others wait. Each change costs a drain and the way of two
// messages, some 0.1 ms in which the device has nothing to do.
const slice = 10 * time.Millisecond

// burst is by how much device time a job may exceed its limit over any window. One at its limit
// needs some of a slice of it, to make up for the others' slices.
const burst = 6 * time.Millisecond

// await is for how long a program's pause is waited for where it is owed more than a slice: pauses
// of half as long are those of a host that prepares the next input.
const await = 10 * time.Millisecond

// suited is a policy as it is for process jobs.
type suited struct {
	spec string
	// conserving: it leaves no device idle that a job without a limit waits for.
	conserving bool
	// clients: programs must be clients of MPS for it.
	clients bool
}

// forPrograms fills in parameters that suit process jobs, where the policy has them and the user
// has not named them.
func forPrograms(spec string) (suited, error) {
	s, err := policy.ParseSpec(spec)
	if err != nil {
		return suited{}, err
	}
	row, err := policy.Find(s.Name)
	if err != nil {
		return suited{}, err
	}
	args := map[string]string{}
	for _, p := range row.Params() {
		switch p.Name {
		case "slice":
			args["slice"] = slice.String()
		case "burst":
			args["burst"] = burst.String()
		case "await":
			args["await"] = await.String()
		}
	}
	maps.Copy(args, s.Args)
	s.Args = args
	conserving, err := s.Conserving()
	return suited{s.String(), conserving, row.Needs.Overlap || row.Needs.Limit}, err
}

func newDevice(d Device, cfg *Config, mps MPS, can share.Can) (*device, error) {
	p, err := forPrograms(cfg.Policy)
	if err != nil {
		return nil, err
	}
	c, err := core.Config{Device: d.ID(), Units: units, Memory: d.Memory,
		Can: can, Moving: cfg.Moving}.ForPolicy(p.spec)
	if err != nil {
		return nil, err
	}
	dev := &device{Device: d, names: map[string]naming{}, mps: mps, clients: p.clients}
	dev.conserving.Store(p.conserving)
	dev.byID.jobs = map[share.JobID]*job{}
	dev.broker, err = broker.New(broker.Config{Config: c, Observer: &dev.byID})
	return dev, lacksMPS(err, can)
}

// gaugeWith sets what the device is measured with.
func (d *device) gaugeWith(c *Config) {
	d.holds.ask = func() (map[uint32]uint64, error) { return c.Holds(d.Ordinal) }
	d.used.ask = func() (uint64, error) { return c.Used(d.Ordinal) }
}

// kicks tells a job that its lease is granted, revoked or bounded. It has a lock of its own because
// it is called under the broker's.
type kicks struct {
	mu   sync.Mutex
	jobs map[share.JobID]*job
}

// Observe implements broker.Observer.
func (k *kicks) Observe(e core.Notice) {
	switch e.Kind {
	case core.Granted, core.Revoked, core.Ended, core.Bounded:
	default:
		return
	}
	k.mu.Lock()
	j := k.jobs[e.Job]
	k.mu.Unlock()
	if j == nil {
		return
	}
	switch e.Kind {
	case core.Granted:
		j.granted(e.Until)
		return // a goroutine that waits for this is woken by the broker
	case core.Revoked:
		j.revoked()
	case core.Bounded:
		j.bounds.Store(e.Terms)
		j.tryBounds()
	}
	kick(j.kicked)
}

// free returns the jobs of which launches pass the closed gate.
func (k *kicks) free() (jobs []*job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, j := range k.jobs {
		if b := j.bounds.Load(); b != nil && b.Free > 0 {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// all returns the jobs.
func (k *kicks) all() []*job {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.jobs))
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
