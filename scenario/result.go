package scenario

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/sorting"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// Mode says who decides which job runs.
type Mode string

// The modes of a phase.
const (
	Solo    Mode = "solo"    // each job alone on the device
	Shared  Mode = "shared"  // the broker, under a policy
	Threads Mode = "threads" // the operating system, between goroutine pools of one process
	// the operating system, between processes (nice 0, opportunistic jobs nice 19)
	Processes Mode = "processes"
)

// Result is what a run gives: the phase under the scenario's own policy, in the fields that scripts
// rely on, and all phases.
type Result struct {
	Phase
	Threads int     `json:"threads"`
	Machine string  `json:"machine"`
	Phases  []Phase `json:"phases"`
	// the phases of mode Shared, one a policy
	Results []Phase `json:"results"`
	// policies that were asked for and cannot be enforced on the device
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// add appends a phase.
func (r *Result) add(p *Phase) {
	r.Phases = append(r.Phases, *p)
	if p.Mode == Shared {
		r.Results = append(r.Results, *p)
	}
	r.Phase = *p
}

// Phase is the jobs run together once.
type Phase struct {
	Device string      `json:"device"`
	Mode   Mode        `json:"mode"`
	Policy string      `json:"policy"`
	WallS  float64     `json:"wall_s"`
	Jobs   []JobResult `json:"jobs"`
	Comparison
	// the rule by which weights left the device, "" where all of them stay
	Eviction string `json:"eviction,omitempty"`
	// of a simulation: what the core was told, how much of that a second of real time, and the time
	// that passed in it
	Events     int     `json:"events,omitempty"`
	EventsPerS float64 `json:"events_per_s,omitempty"`
	VirtualS   float64 `json:"virtual_s,omitempty"`
	// weights that left the device and came back, in order of time, and how many more there were
	Switches        []Switch `json:"switches,omitempty"`
	SwitchesLeftOut int64    `json:"switches_left_out,omitempty"`
	// who held the device when, in order of start; only Shared
	Holds  []Hold        `json:"-"`
	Memory []MemorySpan  `json:"-"`
	Wall   time.Duration `json:"-"`
}

// Hold is one interval in which a job held the device, on the phase's clock.
type Hold struct {
	Job      int // index into Phase.Jobs
	From, To time.Duration
	Fraction float64 // of the device's units
	Revoked  bool    // ended because the policy wanted the device for another
}

// MemorySpan is one job's memory at one time of a phase.
type MemorySpan struct {
	At   time.Duration
	Held []share.Bytes // by job
}

// Latency is a distribution in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// The values of JobResult.Status.
const (
	StatusDone    = "done"    // served requests until its iteration count or the end of the phase
	StatusRefused = "refused" // at admission
	StatusFailed  = "failed"  // while running
)

// JobResult is what one job got in a phase.
type JobResult struct {
	Name      string         `json:"name"`
	Class     share.Class    `json:"class"`
	Compute   float64        `json:"compute"`
	Limit     float64        `json:"limit"`
	Precision pass.Precision `json:"precision"` // of the products: bf16 if any is
	Arrival   string         `json:"arrival"`
	// the Poisson rate, given or found from a load
	ArrivalPerS     float64 `json:"arrival_per_s,omitempty"`
	MemoryCapBytes  int64   `json:"memory_cap_bytes"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	// what was moved between host and device: weights each time that they came, and inputs and
	// outputs where the host cannot address the device's memory
	CopiedBytes int64 `json:"copied_bytes"`
	// the peak predicted before anything ran: the plan's and, in the same memory, the request's
	PlanBytes      int64   `json:"plan_bytes"`
	DeviceSeconds  float64 `json:"device_seconds"`
	DeviceShare    float64 `json:"device_share"`
	DeviceShareMax float64 `json:"device_share_max_1s"` // most of the device held over any 1 s
	ShareErrorP95  float64 `json:"share_error_p95"`     // percentage points
	Entitled       float64 `json:"entitled_share"`
	ForecastError  float64 `json:"forecast_error"` // core.JobStatus.ForecastError
	Iterations     int64   `json:"iterations"`
	// with the part done of the one that the end cut off
	IterationsPerS float64 `json:"iterations_per_s"`
	SoloPerS       float64 `json:"solo_iterations_per_s"`
	Slowdown       float64 `json:"slowdown"` // solo_iterations_per_s / iterations_per_s
	Latency        Latency `json:"latency_ms"`
	SoloLatency    Latency `json:"solo_latency_ms"`
	// fraction of the time that the job was busy when alone
	SoloDeviceShare float64 `json:"solo_device_share"`
	CompletionS     float64 `json:"completion_s"`
	// the target of a request, and how many requests were answered within it and how many were not
	TargetMS float64 `json:"qos_ms,omitempty"`
	OnTime   int64   `json:"on_time,omitempty"`
	Late     int64   `json:"late,omitempty"`
	// how long it waited to be let in
	WaitedS     float64 `json:"waited_s,omitempty"`
	Grants      int64   `json:"grants"`
	Revocations int64   `json:"revocations"`
	// of a job whose weights others may have the room of: how often they were told to leave the
	// device, how many bytes they are, the mean part of them on the device, how many bytes came
	// back, and what of its memory was never given to others
	Evictions   int64 `json:"evictions,omitempty"`
	WeightBytes int64 `json:"weight_bytes,omitempty"`
	// what of its weights the job has together with others, which are on the device once, and what
	// these are called: the same for all who have them
	SharedBytes     int64   `json:"shared_bytes,omitempty"`
	SharedWeights   string  `json:"shared_weights,omitempty"`
	Resident        float64 `json:"resident,omitempty"`
	ReturnedBytes   int64   `json:"returned_bytes,omitempty"`
	MemoryKeptBytes int64   `json:"memory_kept_bytes,omitempty"`
	// requests that found weights away, and how long these took
	Missed        int64   `json:"missed,omitempty"`
	MissedLatency Latency `json:"missed_latency_ms,omitzero"`
	Status        string  `json:"status"`
	Error         string  `json:"error"` // "" for a job that is done

	Latencies []time.Duration `json:"-"` // in order of completion
	Residency []Residency     `json:"-"` // in order of time; nil where all stays

	elapsed time.Duration // in which the job could run
	done    float64       // iterations, with the part done of the one that the end cut off
}

// latencyOf summarises latencies by nearest rank; the zero Latency for none.
func latencyOf(ds []time.Duration) Latency {
	if len(ds) == 0 {
		return Latency{}
	}
	s := slices.Clone(ds)
	slices.Sort(s)
	at := func(q float64) float64 {
		i := int(q*float64(len(s))+0.9999999) - 1
		return ms(s[min(max(i, 0), len(s)-1)])
	}
	return Latency{P50: at(0.50), P90: at(0.90), P99: at(0.99), Max: ms(s[len(s)-1])}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// maxShare returns the largest part of the device, by units held, that the job had over any window
// of the given length within the phase.
func maxShare(holds []Hold, job int, window, wall time.Duration) float64 {
	window = min(window, wall)
	if window <= 0 {
		return 0
	}
	var own sim.JobResult
	for _, h := range ownHolds(holds, job) {
		own.Holds = append(own.Holds, sim.Hold{From: h.From, To: h.To, Fraction: h.Fraction})
	}
	return own.PeakShare(window)
}

// ownHolds returns one job's holds that last any time, in order of start.
func ownHolds(holds []Hold, job int) []Hold {
	var own []Hold
	for _, h := range holds {
		if h.Job == job && h.To > h.From {
			own = append(own, h)
		}
	}
	sorting.By(own, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
	return own
}

// total answers how long sorted, disjoint holds last until a time, in logarithmic time: a phase of
// short iterations has hundreds of thousands of them.
type total struct {
	holds  []Hold
	before []time.Duration // the sum of the holds before each
}

func newTotal(holds []Hold) total {
	t := total{holds: holds, before: make([]time.Duration, len(holds)+1)}
	for i, h := range holds {
		t.before[i+1] = t.before[i] + h.To - h.From
	}
	return t
}

func (t total) until(at time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(t.holds, at, func(h Hold, at time.Duration) int {
		return cmp.Compare(h.To, at)
	})
	if i == len(t.holds) {
		return t.before[i]
	}
	return t.before[i] + max(0, at-t.holds[i].From)
}
