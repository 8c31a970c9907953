package agent

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
)

// DefaultPolicy honours classes, keeps guarantees, and shares as fair does between jobs of one
// class.
const DefaultPolicy = "priority"

// Device is a device that an agent shares.
type Device struct {
	Ordinal uint32   // the driver's number
	Name    string   // for people, such as "NVIDIA H200"
	UUID    [16]byte // zero if not known
	// BusIndex is its number among CUDA's devices in the order of the PCI bus; -1 if not certain.
	BusIndex int
	Memory   share.Bytes // that jobs may be promised
	Fake     bool        // a device of the fake driver, to be labelled as such
}

// ID returns the device's name in weir, such as "cuda:0".
func (d Device) ID() string { return fmt.Sprintf("cuda:%d", d.Ordinal) }

// uuid returns the UUID as the management library writes it; empty if it is not known.
func (d Device) uuid() string {
	if d.UUID == [16]byte{} {
		return ""
	}
	id := d.UUID
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Config says what an agent shares and how.
type Config struct {
	// Dir is the runtime folder; see [RuntimeDir].
	Dir string
	// Devices are the devices to share; at least one, but for an agent that has others Beside.
	Devices []Device
	// Policy is the policy as policy.New reads it; empty means DefaultPolicy. One that programs
	// cannot be held to is refused.
	Policy string
	// MPS looks for the MPS control daemon that programs become clients of, with [FindMPS]. It is
	// called when the agent starts and before each change of the policy. Nil: there is none.
	MPS func() (MPS, error)
	// Holds tells what each process holds of the memory of a device, in bytes, by its number in the
	// agent's pid namespace; the management library does, for processes in containers too. It is
	// called from several goroutines, and only once a program uses the device. Nil: nobody tells,
	// and what programs do not count themselves is not seen.
	Holds func(ordinal uint32) (map[uint32]uint64, error)
	// Used tells how much of the memory of a device is not free, in bytes, whoever holds it. Nil:
	// a process's memory counts until it has ended, whenever the driver has it back.
	Used func(ordinal uint32) (uint64, error)
	// Limits is the driver's own limit of memory, which is set for jobs in control groups of their
	// own. Nil: there is none, and programs alone keep to their caps.
	Limits Limiter
	// AllowUIDs are users whose processes may join jobs by their tokens, such as root in a
	// container without a user namespace of its own. They may make no job and change none. Each
	// maps its job's page and can write to it, and so harm that job.
	AllowUIDs []uint32
	// Door opens a second socket, in a folder of its own below Dir, by which programs of any user
	// join jobs by their tokens, and nothing else is asked: a container that is given that folder
	// can do nothing to a job whose token it does not know. See [DoorPath].
	Door bool
	// Beside is what else shares devices of this machine in this process; nil: nothing does.
	Beside Beside
	// IdleExit ends the agent when it has had no job and no peer for so long; 0: never, because
	// somebody else keeps it running and starts another if it fails.
	IdleExit time.Duration
	// InFlight is the predicted device time that a process may have in flight; 0: 2 ms.
	InFlight time.Duration
	// Alone is the same while no other job is on the device and the job has no limit, so that a
	// program whose threads are held up for a moment keeps the device busy meanwhile; 0: 10 ms, or
	// InFlight if that is more.
	Alone time.Duration
	// Nearby is the same for processes of other classes while there is a latency job on the device,
	// whose work waits for as much; 0: 0.3 ms, of which kernels of 0.25 ms run one after another
	// without a gap.
	Nearby time.Duration
	// HostMemory is how much of the host's memory what jobs move there may take together; 0: half
	// of what the machine has.
	HostMemory share.Bytes
	// Moving is the part of the time that memory may take at most that comes and goes with its
	// job's turns, above 0 and below 1: the longer are the turns. 0: a tenth.
	Moving float64
	// DrainTimeout is how long the agent waits for a process to finish what it has in flight before
	// others are let in beside it; 0: 30 s. It is charged to the job, which gets no other lease
	// until that is finished, and pays until then.
	DrainTimeout time.Duration
	// LatencyDrain is the same while a latency job waits; 0: 100 ms.
	LatencyDrain time.Duration
	// Log is told what happens; nil: nothing is logged.
	Log *slog.Logger

	system       system        // nil: the operating system
	measureEvery time.Duration // 0: measureEvery
	hangs        time.Duration // 0: hangs
	showWait     time.Duration // 0: showWait
	rejoins      time.Duration // 0: rejoinWait
	root         string        // folder that holds proc and sys; empty: the machine's
}

// system is what the agent asks the operating system about peers.
type system interface {
	// peer tells who is on the other side of a connection.
	peer(*net.UnixConn) (peer, error)
	// find watches a process that was known by its number and start time.
	find(pid uint32, start uint64) (process, error)
}

// peer is who is on the other side of a connection.
type peer struct {
	uid, pid uint32
	process  process
}

// process is a process that is watched.
type process interface {
	// start is the time at which it began, in clock ticks; 0 if not known.
	start() uint64
	// id is a number that no other process has had since the machine started; 0 if not known.
	id() uint64
	// alive is false as soon as it is known to be ending.
	alive() bool
	// watched reports whether done tells of its end; else only its socket does.
	watched() bool
	// done is closed when it has ended, and has nothing any more.
	done() <-chan struct{}
	// stopped reports whether a signal or a debugger keeps it from running.
	stopped() bool
	// awaitDrain returns when the slot's DrainedSeq is no longer as given, or after the time. It
	// reports whether it can: if not it returns at once.
	awaitDrain(s *wire.Slot, seq uint32, most time.Duration) bool
	// forget ends the watch.
	forget()
}

// Bounds of what an agent takes on.
const (
	maxConns = 8192
	maxJobs  = 2048
	// helloWait is how long a peer may take to say what it wants.
	helloWait = 10 * time.Second
	// writeWait is how long a peer may take to read what it is sent.
	writeWait = time.Second
	// rejoinWait is how long the agent waits for processes that it found in a page to come back.
	rejoinWait = 10 * time.Second
)

func (c *Config) setDefaults() error {
	f := share.Faults{Object: "agent"}
	if c.Policy == "" {
		c.Policy = DefaultPolicy
	}
	if c.InFlight == 0 {
		c.InFlight = 2 * time.Millisecond
	}
	if c.Alone == 0 {
		c.Alone = max(c.InFlight, 10*time.Millisecond)
	}
	if c.Nearby == 0 {
		c.Nearby = min(c.InFlight, 300*time.Microsecond)
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.HostMemory == 0 {
		c.HostMemory = hostMemory() / 2
	}
	if c.LatencyDrain == 0 {
		c.LatencyDrain = 100 * time.Millisecond
	}
	if c.measureEvery == 0 {
		c.measureEvery = measureEvery
	}
	if c.rejoins == 0 {
		c.rejoins = rejoinWait
	}
	if c.showWait == 0 {
		c.showWait = showWait
	}
	if c.hangs == 0 {
		c.hangs = hangs
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.InFlight < 0 || c.InFlight > time.Second {
		f.List = append(
			f.List,
			share.Fault{
				Field: "in flight",
				Value: c.InFlight.String(),
				Bound: "must be above 0 and at most 1s",
			},
		)
	}
	if c.Alone < c.InFlight || c.Alone > time.Second {
		f.List = append(
			f.List,
			share.Fault{
				Field: "alone",
				Value: c.Alone.String(),
				Bound: "must be at least in flight and at most 1s",
			},
		)
	}
	if c.Nearby < 0 || c.Nearby > c.InFlight {
		f.List = append(
			f.List,
			share.Fault{
				Field: "nearby",
				Value: c.Nearby.String(),
				Bound: "must be above 0 and at most in flight",
			},
		)
	}
	if c.DrainTimeout < 0 {
		f.List = append(
			f.List,
			share.Fault{
				Field: "drain timeout",
				Value: c.DrainTimeout.String(),
				Bound: "must be above 0",
			},
		)
	}
	if c.HostMemory < 0 {
		f.List = append(f.List, share.Fault{Field: "host memory",
			Value: c.HostMemory.String(), Bound: "must be above 0"})
	}
	if !(c.Moving >= 0 && c.Moving < 1) {
		f.List = append(f.List, share.Fault{Field: "moving", Value: fmt.Sprint(c.Moving),
			Bound: "must be above 0 and below 1 (0: 0.1)"})
	}
	if c.LatencyDrain < 0 {
		f.List = append(f.List, share.Fault{Field: "latency drain",
			Value: c.LatencyDrain.String(), Bound: "must be above 0"})
	}
	if c.Dir == "" {
		f.List = append(f.List, share.Fault{Field: "dir", Value: `""`, Bound: "must be a folder"})
	}
	if len(c.Devices) == 0 && c.Beside == nil {
		f.List = append(f.List,
			share.Fault{Field: "devices", Value: "none", Bound: "must be at least one"})
	}
	if _, err := policy.New(c.Policy); err != nil {
		return err
	}
	if len(f.List) > 0 {
		return f
	}
	return nil
}

// fraction returns what is written as millionths.
func fraction(ppm uint32) float64 { return float64(ppm) / wire.PPM }

// millionths returns a fraction as written in messages. One above 0 does not become 0, which stands
// for no limit, or no share named.
func millionths(f float64) uint32 {
	if f <= 0 {
		return 0
	}
	return max(1, uint32(f*wire.PPM+0.5))
}
