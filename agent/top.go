package agent

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// Snapshot is what an agent tells of itself at one moment.
type Snapshot struct {
	Policy  string           `json:"policy"`
	Devices []DeviceSnapshot `json:"devices"`
}

// DeviceSnapshot is the state of one device.
type DeviceSnapshot struct {
	Device        string  `json:"device"`
	Name          string  `json:"name"`
	UUID          string  `json:"uuid,omitempty"` // as NVML writes it; empty: not known
	Fake          bool    `json:"fake"`
	MemoryBytes   int64   `json:"memory_bytes"`
	PromisedBytes int64   `json:"memory_promised_bytes"`
	Guarantee     float64 `json:"compute_promised"`
	// Unmeasured is why what processes hold of the device is not known, as when the management
	// library hangs: memory that they do not count themselves counts as it was last found. Empty:
	// it is known, or nobody had a need for it.
	Unmeasured string `json:"memory_unmeasured,omitempty"`
	// Policy decides on the device; empty: that of the [Snapshot].
	Policy string `json:"policy,omitempty"`
	// Beside says that the jobs are no programs; see [Beside].
	Beside bool          `json:"beside,omitempty"`
	Jobs   []JobSnapshot `json:"jobs"`
}

// JobSnapshot is the state of one job. Shares are fractions of the device.
type JobSnapshot struct {
	Name            string      `json:"name"`
	Class           share.Class `json:"class"`
	Compute         float64     `json:"compute"`
	Limit           float64     `json:"limit"`
	MemoryCapBytes  int64       `json:"memory_cap_bytes"`
	MemoryUsedBytes uint64      `json:"memory_used_bytes"`
	// DriverLimitBytes is what the driver itself lets the job hold, with other jobs of its control
	// group. 0: it does not, and DriverLimitMissing says why, unless nobody could set it or no
	// process has come.
	DriverLimitBytes   uint64 `json:"driver_limit_bytes,omitempty"`
	DriverLimitMissing string `json:"driver_limit_missing,omitempty"`
	// MemoryAwayBytes is what a freeze, or another's turn, has moved to the host: it is not in
	// MemoryUsedBytes, nor, of a frozen job, promised on the device.
	MemoryAwayBytes uint64 `json:"memory_away_bytes,omitempty"`
	// Swaps is how often the job's memory has come back for its turn, and SwapSeconds the time that
	// this took, in which that of others was moved away too: the job was charged for it.
	Swaps       int64   `json:"swaps,omitempty"`
	SwapSeconds float64 `json:"swap_seconds,omitempty"`
	// MemoryFoundBytes is, of that, what the device says that the processes hold and they do not
	// count themselves.
	MemoryFoundBytes uint64 `json:"memory_found_bytes"`
	DeniedAllocs     uint64 `json:"denied_allocs"`
	// DeviceSeconds is what the job was charged since it began: the time for which it held the
	// device. UsedSeconds is, of that, the time for which the device worked for it, as its
	// processes measured it: what is missing are gaps between its kernels. PassedSeconds is what
	// the device did for it beside that, in launches that the policy let pass without a lease: they
	// are charged to nobody.
	DeviceSeconds float64 `json:"device_seconds"`
	UsedSeconds   float64 `json:"used_seconds"`
	PassedSeconds float64 `json:"passed_seconds"`
	// DeviceShare is what it was charged in the last second; see core.Account.
	DeviceShare float64 `json:"device_share"`
	// State is idle, waiting, running, draining or frozen; WaitingMS how long it has been waiting.
	State     string  `json:"state"`
	WaitingMS float64 `json:"waiting_ms"`
	// ThreadPercent is the active thread percentage with which processes of the job that begin now
	// do so as clients of MPS; 0 where the policy needs no clients.
	ThreadPercent uint32 `json:"active_thread_percentage,omitempty"`
	ControllerPID uint32 `json:"controller_pid"`
	// Claim is the one that keeps the job; empty for none.
	Claim string `json:"claim,omitempty"`
	// Gang is that of which the job is a rank; empty for none.
	Gang      string            `json:"gang,omitempty"`
	Launches  uint64            `json:"launches"`
	Processes []ProcessSnapshot `json:"processes"`
}

// ProcessSnapshot is the state of one process, by what it says itself, as far as the agent knows
// that it can be: it was on the device for no longer than its job was charged, and has no more in
// flight than a drain waits for. The other figures can be anything that fits if the process writes
// false ones.
type ProcessSnapshot struct {
	PID      uint32 `json:"pid"`
	Slot     uint32 `json:"slot"`
	Attached bool   `json:"attached"`
	// Ended says that the process has ended, and that the driver has not its memory back, as while
	// forked children of it live.
	Ended           bool   `json:"ended,omitempty"`
	MemoryUsedBytes uint64 `json:"memory_used_bytes"`
	// MemoryMeasuredBytes is what the device says that the process holds; nil: it does not say, as
	// of a process that the agent's management library does not see.
	MemoryMeasuredBytes *uint64 `json:"memory_measured_bytes"`
	// MemoryFoundBytes is, of what it uses, what it does not count itself.
	MemoryFoundBytes uint64  `json:"memory_found_bytes"`
	WaitingThreads   uint32  `json:"waiting_threads"`
	InFlightMS       float64 `json:"in_flight_ms"`
	DeviceSeconds    float64 `json:"device_seconds"`
	Launches         uint64  `json:"launches"`
	GraphLaunches    uint64  `json:"graph_launches"`
	CopiedBytes      uint64  `json:"copied_bytes"`
	ErrorFlags       uint32  `json:"error_flags"`
	// Stalled is the number of streams that take far longer than predicted while launches wait,
	// and Stalls how often one was found to: what is on them is not bounded in time, as it may wait
	// for what the program launches next.
	Stalled uint32 `json:"stalled_streams"`
	Stalls  uint32 `json:"stalls"`
	// ThreadPercent is the percentage that it began with as a client of MPS; 0: it is none, or has
	// not begun.
	ThreadPercent uint32 `json:"active_thread_percentage,omitempty"`
	// UnknownCalls are driver calls newer than this weir that it looked up: what they do is not
	// counted.
	UnknownCalls []string `json:"unknown_calls,omitempty"`
}

// Keep returns the processes that use the device and keep another part of it than processes of the
// job that begin now get: a client of MPS has for good what it began with.
func (j *JobSnapshot) Keep() []ProcessSnapshot {
	return slices.DeleteFunc(slices.Clone(j.Processes), func(p ProcessSnapshot) bool {
		return j.ThreadPercent == 0 || p.ThreadPercent == j.ThreadPercent ||
			p.MemoryUsedBytes == 0
	})
}

// Snapshot returns the state of the devices that programs share, and of these, now.
func (a *Agent) Snapshot() Snapshot {
	a.mu.Lock()
	jobs := make([]*job, 0, len(a.jobs))
	for _, j := range a.jobs {
		jobs = append(jobs, j)
	}
	s := Snapshot{Policy: a.policy}
	a.mu.Unlock()
	slices.SortFunc(jobs, func(x, y *job) int { return int(x.bj.ID()) - int(y.bj.ID()) })
	for _, d := range a.devices {
		st := d.broker.Status()
		ds := DeviceSnapshot{
			Device:        d.ID(),
			Name:          d.Name,
			UUID:          d.uuid(),
			Fake:          d.Fake,
			MemoryBytes:   int64(d.Memory),
			PromisedBytes: int64(st.Promised),
			Guarantee:     st.Guarantee,
			Jobs:          []JobSnapshot{},
		}
		if why := d.unmeasured.Load(); why != nil {
			ds.Unmeasured = *why
		}
		for _, j := range jobs {
			if j.dev == d {
				ds.Jobs = append(ds.Jobs, j.snapshot())
			}
		}
		s.Devices = append(s.Devices, ds)
	}
	return s
}

func (j *job) snapshot() JobSnapshot {
	j.measure()
	st, account := j.bj.Status(), j.bj.Account()
	wall := j.a.walls.state(j.terms.Token)
	j.mu.Lock()
	defer j.mu.Unlock()
	s := JobSnapshot{
		Name:           j.spec.Name,
		Class:          j.spec.Class,
		Compute:        j.spec.Compute,
		Limit:          j.spec.Cap(),
		MemoryCapBytes: int64(j.spec.Memory),
		DeviceSeconds:  account.Used.Seconds(),
		UsedSeconds:    account.Measured.Seconds(),
		PassedSeconds:  account.Passed.Seconds(),
		DeviceShare:    account.Recent,
		State:          j.state.String(),
		ThreadPercent:  j.terms.ThreadPercent,
		ControllerPID:  j.terms.ControllerPID,
		Gang:           j.gangSpec().Name,
		Claim:          j.claim,
		Processes:      []ProcessSnapshot{},

		DriverLimitBytes:   wall.bytes,
		DriverLimitMissing: wall.why,
	}
	if st.Phase == share.Waiting {
		s.WaitingMS = millis(j.dev.broker.Now() - st.Since)
	}
	if j.unmapped {
		return s
	}
	s.Swaps, s.SwapSeconds = j.turning.swaps, j.turning.took.Seconds()
	if j.turning.out {
		s.MemoryAwayBytes = uint64(j.awayLocked())
	}
	if j.moves.frozen {
		s.State, s.MemoryAwayBytes = "frozen", uint64(j.moves.away)
	}
	s.MemoryUsedBytes = j.page.MemoryHeld()
	s.DeniedAllocs = j.page.Header().DeniedAllocs.Load()
	s.Launches = j.page.Header().LaunchesTotal.Load()
	for _, m := range j.members {
		if m != nil {
			p := m.snapshot(j.a.predicted(m), account.Used)
			s.Launches += p.Launches + p.GraphLaunches
			s.MemoryFoundBytes += p.MemoryFoundBytes
			s.Processes = append(s.Processes, p)
		}
	}
	return s
}

// snapshot returns the process's state, with so much in flight, and no more time of the device than
// its job was charged: what the process measured is on its page, where it can write anything.
func (m *member) snapshot(inFlight, charged time.Duration) ProcessSnapshot {
	used := min(m.s.DeviceNSTotal.Load(), uint64(max(0, charged)))
	p := ProcessSnapshot{
		PID:             m.who.PID,
		Slot:            m.slot,
		Attached:        m.conn != nil,
		Ended:           m.held != nil || m.late,
		MemoryUsedBytes: m.s.MemoryHeld(),
		WaitingThreads:  m.s.Waiting.Load(),
		InFlightMS:      millis(inFlight),
		DeviceSeconds:   time.Duration(used).Seconds(),
		Launches:        m.s.Launches.Load(),
		GraphLaunches:   m.s.GraphLaunches.Load(),
		CopiedBytes:     m.s.CopiesBytes.Load(),
		ErrorFlags:      m.s.ErrorFlags.Load(),
		Stalled:         m.s.Stalled.Load(),
		Stalls:          m.s.Stalls.Load(),
		ThreadPercent:   m.s.ThreadPercent.Load(),
		UnknownCalls:    slices.Clone(m.unknown),

		MemoryFoundBytes: m.s.FoundBytes.Load(),
	}
	if n := m.s.MeasuredBytes.Load(); n != 0 && n != wire.NotMeasured {
		p.MemoryMeasuredBytes = &n
	}
	return p
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// minTop is the shortest interval between snapshots.
const minTop = 50 * time.Millisecond

// serveViewer sends snapshots until the viewer has enough.
func (c *conn) serveViewer(m wire.Top) error {
	if m.IntervalMS == 0 {
		return c.sendSnapshot()
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = c.untilClosed()
	}()
	t := time.NewTicker(max(minTop, time.Duration(m.IntervalMS)*time.Millisecond))
	defer t.Stop()
	for {
		if err := c.sendSnapshot(); err != nil {
			c.close()
			<-gone
			return err
		}
		select {
		case <-t.C:
		case <-gone:
			return nil
		}
	}
}

func (c *conn) sendSnapshot() error {
	text, err := json.Marshal(c.a.all())
	if err != nil {
		return err
	}
	for part := range slices.Chunk(text, wire.MaxText) {
		flags := uint32(wire.FlagMore)
		if text = text[len(part):]; len(text) == 0 {
			flags = 0
		}
		if err := c.write(wire.NewSnapshot(wire.Snapshot{TextLen: uint32(len(part))}, flags),
			string(part), nil); err != nil {
			return err
		}
	}
	return nil
}
