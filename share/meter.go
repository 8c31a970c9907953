package share

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// Window is the length of the windows over which a Meter compares the share of a job with its
	// entitlement.
	Window = time.Second
	// Slot is the step from one window to the next, and the time over which a Meter takes a job
	// either to have had work or to have run out of it.
	Slot = Window / 10

	// backlogged is the part of a slot for which a job must have had work to count as wanting all
	// it can get. It is below 1 for the sake of jobs whose next request arrives a moment after the
	// last was completed.
	backlogged = 0.98

	// keepSlots bounds a meter's memory: it remembers this many slots at least, and at most twice
	// as many.
	keepSlots = 36000
)

// Meter compares what jobs got of a device with what they deserved. It is fed the intervals in
// which each job held the device and in which it had work, in any order, and may be used from
// several goroutines.
//
// Entitlements are weighted max-min fair ([Entitle]) slot by slot. A job that had work throughout a
// slot demands all it can get; one that ran out of work in it demands what it got, since its
// requests were served. The entitlement of a window is the mean over its slots.
type Meter struct {
	mu   sync.Mutex
	jobs []*metered // in order of ID
	base int        // number of the first slot remembered
	end  time.Duration
}

// metered is what a meter has seen of one job. Element i is of slot base+i.
type metered struct {
	id   JobID
	sh   Share
	used time.Duration
	held []float64 // fraction of the device, mean over the slot
	busy []float64 // fraction of the slot with work
}

// Account is a meter's result for one job.
type Account struct {
	Job  JobID
	Used time.Duration // whole-device time held
	// Errors is |share - entitlement| in percentage points of the device, for each window in which
	// the job had work, in order of time.
	Errors []float64
	// Entitled is the mean entitlement, as a fraction of the device, and Got the mean share, over
	// the same windows.
	Entitled, Got float64
}

// ErrorP95 is the 95th percentile, by nearest rank, of Errors; 0 if the job never had work.
func (a Account) ErrorP95() float64 { return quantile(a.Errors, 0.95) }

// NewMeter returns a meter that knows no jobs.
func NewMeter() *Meter { return &Meter{} }

// Add makes a job known. Adding it again replaces its share from the first slot on.
func (m *Meter) Add(id JobID, s Share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.job(id); j != nil {
		j.sh = s
		return
	}
	m.jobs = append(m.jobs, &metered{id: id, sh: s})
	slices.SortFunc(m.jobs, func(a, b *metered) int { return cmp.Compare(a.id, b.id) })
}

// Hold records that the job held so large a fraction of the device's units from one time to
// another. Unknown jobs and empty intervals are ignored.
func (m *Meter) Hold(id JobID, from, to time.Duration, fraction float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.job(id); j != nil && to > from {
		j.used += time.Duration(float64(to-from) * fraction)
		m.reach(to)
		j.held = m.spread(j.held, from, to, fraction)
	}
}

// Busy records that the job had work from one time to another. Intervals of one job must not
// overlap. Unknown jobs and empty intervals are ignored.
func (m *Meter) Busy(id JobID, from, to time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.job(id); j != nil && to > from {
		m.reach(to)
		j.busy = m.spread(j.busy, from, to, 1)
	}
}

// Accounts returns the account of each job, in order of ID. Windows begin at every slot and lie
// wholly between zero and the last time recorded; if that is less than a window, there is one
// window of that length.
func (m *Meter) Accounts() []Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	due := m.entitlements()
	accounts := make([]Account, len(m.jobs))
	for i, j := range m.jobs {
		accounts[i] = Account{Job: j.id, Used: j.used}
		accounts[i].compare(j, due[i][:m.wholeSlots()], m.windowSlots(), m.windowLength())
	}
	return accounts
}

// compare fills in the errors, one window after the other.
func (a *Account) compare(j *metered, due []float64, slots int, length float64) {
	for first := 0; first+slots <= len(due); first++ {
		var got, entitled, busy float64
		for k := first; k < first+slots; k++ {
			got += at(j.held, k)
			busy += at(j.busy, k)
			entitled += due[k]
		}
		if busy == 0 {
			continue
		}
		got, entitled = got/length, entitled/length
		a.Errors = append(a.Errors, 100*math.Abs(got-entitled))
		a.Entitled += entitled
		a.Got += got
	}
	if n := float64(len(a.Errors)); n > 0 {
		a.Entitled /= n
		a.Got /= n
	}
}

// entitlements returns, for each job and slot, the fraction of the device that the job deserved.
func (m *Meter) entitlements() [][]float64 {
	due := make([][]float64, len(m.jobs))
	for i := range due {
		due[i] = make([]float64, m.slots())
	}
	claims := make([]Claim, len(m.jobs))
	out := make([]float64, len(m.jobs))
	for k := range m.slots() {
		for i, j := range m.jobs {
			demand := at(j.held, k) / m.slotPart(k)
			if at(j.busy, k) >= backlogged*m.slotPart(k) {
				demand = 1
			}
			claims[i] = ClaimOf(j.sh, demand)
		}
		Entitle(claims, out)
		for i := range out {
			due[i][k] = out[i] * m.slotPart(k)
		}
	}
	return due
}

// slotPart is the part of slot k that lies before the end of the record.
func (m *Meter) slotPart(k int) float64 {
	start := time.Duration(m.base+k) * Slot
	return min(1, float64(m.end-start)/float64(Slot))
}

func (m *Meter) slots() int { return int((m.end+Slot-1)/Slot) - m.base }

// wholeSlots leaves out a last slot that the record covers in part, unless the one window needs it.
func (m *Meter) wholeSlots() int {
	n := m.slots()
	if m.end%Slot == 0 || n <= m.windowSlots() {
		return n
	}
	return n - 1
}

func (m *Meter) windowSlots() int { return max(1, min(int(Window/Slot), m.slots())) }

// windowLength is the length of a window in slots.
func (m *Meter) windowLength() float64 {
	return min(float64(Window/Slot), float64(m.end)/float64(Slot))
}

func (m *Meter) job(id JobID) *metered {
	i, ok := slices.BinarySearchFunc(m.jobs, id, func(j *metered, id JobID) int {
		return cmp.Compare(j.id, id)
	})
	if !ok {
		return nil
	}
	return m.jobs[i]
}

// spread adds an interval to the slots that it covers.
func (m *Meter) spread(slots []float64, from, to time.Duration, fraction float64) []float64 {
	from = max(from, time.Duration(m.base)*Slot)
	for from < to {
		k := int(from / Slot)
		next := min(to, time.Duration(k+1)*Slot)
		for len(slots) <= k-m.base {
			slots = append(slots, 0)
		}
		slots[k-m.base] += fraction * float64(next-from) / float64(Slot)
		from = next
	}
	return slots
}

// reach extends the record to a time, and forgets its oldest slots and the jobs seen in them alone
// once there are twice as many as kept.
func (m *Meter) reach(to time.Duration) {
	m.end = max(m.end, to)
	drop := m.slots() - keepSlots
	if drop < keepSlots {
		return
	}
	m.base += drop
	for _, j := range m.jobs {
		j.held = append([]float64(nil), j.held[min(drop, len(j.held)):]...)
		j.busy = append([]float64(nil), j.busy[min(drop, len(j.busy)):]...)
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(j *metered) bool {
		return j.used > 0 && len(j.held) == 0 && len(j.busy) == 0
	})
}

func at(slots []float64, k int) float64 {
	if k < len(slots) {
		return slots[k]
	}
	return 0
}

// quantile returns the q-quantile by nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(0, rank-1)]
}
