package core

import (
	"math"
	"time"

	"github.com/weirgpu/weir/share"
)

const (
	// Window is the length of the windows over which an [Account] compares the share of a job with
	// its entitlement.
	Window = time.Second
	// Slot is the step from one window to the next, and the time over which a job is taken either
	// to have had work or to have run out of it.
	Slot = Window / windowSlots

	windowSlots = 10

	// backlogged is the part of a slot for which a job must have had work to count as wanting all
	// it can get. It is below 1 for the sake of jobs whose next request arrives a moment after the
	// last was completed.
	backlogged = 0.98
)

// Account is what a job got of the device, against its entitlement: weighted max-min fair
// (share.Entitle) slot by slot. A job that had work throughout a slot demands all it can get; one
// that ran out of work in it demands what it got, since its requests were served. The entitlement
// of a window is the mean over its slots. Windows end at every slot; before the first is over there
// is one of what has passed.
type Account struct {
	Job share.JobID
	// Used is the whole-device time charged; the accounts of all jobs sum to the time in which
	// units of the device were in use, weighted by their number.
	Used time.Duration
	// Measured is, of that, the time for which the device was found to have worked for the job, and
	// Passed what it did for it beside that, in launches that needed no lease and are charged to
	// nobody; see [Measure]. What is missing of Used are gaps, in which the job held the device and
	// left it idle, or was not measured.
	Measured, Passed time.Duration
	// Copied is what was moved between host and device for the job.
	Copied share.Bytes
	// Recent is the mean share of the device over the last window.
	Recent float64
	// Windows is the number of windows in which the job had work. Entitled is its mean entitlement
	// over them, as a fraction of the device, and Got its mean share.
	Windows       int64
	Entitled, Got float64
	// ErrorP95 is the 95th percentile over them of |share - entitlement|, and ErrorMax the largest,
	// in percentage points of the device. The percentile is right to a hundredth of itself or of a
	// point, whichever is more.
	ErrorP95, ErrorMax float64
}

// slots is the clock of all accounts of a core.
type slots struct {
	end    time.Duration // of the present slot
	closed int64
	claims []share.Claim
	out    []float64
}

// account compares what one job gets with what it deserves. Its size does not grow.
type account struct {
	clock *slots
	// held and busy are of the present slot: the device time charged and the time with work, in
	// nanoseconds.
	held, busy float64
	past       [windowSlots]slot
	n          int // slots past
	sum        slot
	errors     histogram
	windows    int64
	entitled   float64 // sums over the windows
	got        float64
}

// slot is what a job got in one slot, in fractions of it.
type slot struct{ held, busy, due float64 }

func newAccount(clock *slots) *account { return &account{clock: clock} }

// hold charges device time, in nanoseconds.
func (a *account) hold(cost float64) { a.held += cost }

// advance moves time on, slot by slot. Where nothing happens for longer than a window, all windows
// are equal from then on.
func (c *Core) advance(to time.Duration) {
	to = max(to, c.now)
	for passed := 0; c.slots.end <= to; passed++ {
		if passed > windowSlots {
			more := int64((to-c.slots.end)/Slot) + 1
			c.repeat(more)
			break
		}
		c.now = c.slots.end
		c.closeSlot()
		c.slots.end += Slot
		c.slots.closed++
	}
	c.now = to
}

// repeat passes so many slots that are as the one before, and in which nothing happens.
func (c *Core) repeat(n int64) {
	skipped := time.Duration(n) * Slot
	c.now = c.slots.end - Slot + skipped
	for i := range c.snap.Jobs {
		j := c.jobs[i]
		c.settle(j)
		c.worked(j)
		j.account.held, j.account.busy = 0, 0
		j.account.window(n)
	}
	c.slots.end += skipped
	c.slots.closed += n
}

// worked counts the time with work up to now.
func (c *Core) worked(j *job) {
	if j.busy {
		start := c.slots.end - Slot
		j.account.busy += float64(c.now - max(j.busyMark, start))
	}
	j.busyMark = c.now
}

// closeSlot finds what each job was entitled to in the slot that ends now, and enters it.
func (c *Core) closeSlot() {
	s := &c.slots
	s.claims = s.claims[:0]
	for i := range c.snap.Jobs {
		j := c.jobs[i]
		c.settle(j)
		c.worked(j)
		s.claims = append(s.claims, claim(j, float64(Slot)))
	}
	for len(s.out) < len(s.claims) {
		s.out = append(s.out, 0)
	}
	share.Entitle(s.claims, s.out)
	for i, j := range c.jobs {
		a := j.account
		a.enter(slot{a.held / float64(Slot), a.busy / float64(Slot), s.out[i]})
		a.held, a.busy = 0, 0
	}
}

// claim is what a job can claim of a slot of this length, given what it got and had to do in it.
func claim(j *job, length float64) share.Claim {
	demand := j.account.held / length
	if j.account.busy >= backlogged*length {
		demand = 1
	}
	return share.ClaimOf(j.spec.Share, demand)
}

// enter adds a slot, and the window that ends with it.
func (a *account) enter(s slot) {
	old := &a.past[a.n%windowSlots]
	*old = s
	a.n++
	a.sum = slot{}
	for i := range a.past {
		a.sum.held += a.past[i].held
		a.sum.busy += a.past[i].busy
		a.sum.due += a.past[i].due
	}
	a.window(1)
}

// window counts n windows like the one that ends with the last slot.
func (a *account) window(n int64) {
	if a.n < windowSlots || a.sum.busy == 0 {
		return
	}
	a.count(a.sum.held/windowSlots, a.sum.due/windowSlots, n)
}

func (a *account) count(got, due float64, n int64) {
	a.windows += n
	a.got += got * float64(n)
	a.entitled += due * float64(n)
	a.errors.add(100*math.Abs(got-due), n)
}

// accountOf returns the job's account up to now.
func (c *Core) accountOf(j *job) Account {
	c.worked(j)
	a := *j.account
	if a.windows == 0 && a.n < windowSlots {
		c.early(j, &a)
	}
	s := c.state(j)
	r := Account{Job: j.id, Used: s.Used, Measured: s.Measured, Passed: s.Passed, Copied: s.Copied,
		Windows: a.windows, ErrorP95: a.errors.quantile(0.95), ErrorMax: a.errors.most}
	if a.windows > 0 {
		r.Entitled, r.Got = a.entitled/float64(a.windows), a.got/float64(a.windows)
	}
	if k := min(a.n, windowSlots); k > 0 {
		r.Recent = a.sum.held / float64(k)
	}
	return r
}

// early makes one window of what has passed since the job was admitted, if it had work.
func (c *Core) early(j *job, a *account) {
	present := c.now - max(c.slots.end-Slot, c.state(j).Admitted)
	length := float64(c.now - c.state(j).Admitted)
	if length <= 0 || a.sum.busy == 0 && a.busy == 0 {
		return
	}
	held, due := a.sum.held*float64(Slot), a.sum.due*float64(Slot)
	if present > 0 {
		held += a.held
		due += c.entitledNow(j, float64(present)) * float64(present)
	}
	a.count(held/length, due/length, 1)
}

// entitledNow is the job's entitlement in the part of a slot that has passed.
func (c *Core) entitledNow(j *job, length float64) float64 {
	claims, out := make([]share.Claim, len(c.jobs)), make([]float64, len(c.jobs))
	for i, o := range c.jobs {
		c.worked(o)
		claims[i] = claim(o, length)
	}
	share.Entitle(claims, out)
	return out[j.index]
}

// Account returns what a job got up to now; false if there is no such job.
func (c *Core) Account(id share.JobID) (Account, bool) {
	j := c.job(id)
	if j == nil {
		return Account{}, false
	}
	return c.accountOf(j), true
}

// histogram counts values from 0 to 100 in classes whose bounds grow by a fiftieth.
type histogram struct {
	counts [buckets]int64
	n      int64
	most   float64
}

const (
	least   = 0.01
	growth  = 1.02
	buckets = 468 // the first below least, the last to 100 and above
)

func (h *histogram) add(v float64, n int64) {
	i := 0
	if v > least {
		i = min(buckets-1, 1+int(math.Log(v/least)/math.Log(growth)))
	}
	h.counts[i] += n
	h.n += n
	h.most = max(h.most, v)
}

// quantile returns the q-quantile by nearest rank: the middle of the class in which it is.
func (h *histogram) quantile(q float64) float64 {
	rank := max(1, int64(math.Ceil(q*float64(h.n))))
	for i, n := range h.counts {
		if rank -= n; rank > 0 {
			continue
		}
		if i == 0 {
			return min(h.most, least/2)
		}
		return min(h.most, least*math.Pow(growth, float64(i)-0.5))
	}
	return 0
}
