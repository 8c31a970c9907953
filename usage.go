package weir

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// Share is what a job is promised of one device: Memory, a hard cap; Compute, the guaranteed
// fraction of the device; Limit, the fraction never exceeded; and Class.
type Share = share.Share

// Class says what a job is for. Policies that know classes serve [Latency] before [Standard] and
// [Opportunistic] last.
type Class = share.Class

// The classes.
const (
	Standard      = share.Standard      // throughput; of a job that names none
	Latency       = share.Latency       // somebody waits for it
	Opportunistic = share.Opportunistic // takes what is left over
)

// Bytes is a size in memory. It prints as people write it, such as "512MiB".
type Bytes = share.Bytes

// Units of memory.
const (
	KiB = share.KiB
	MiB = share.MiB
	GiB = share.GiB
)

// Usage is what a job has and got up to now, or to its end.
type Usage struct {
	Name string
	// Share is what the job is promised now, with the cap of memory filled in.
	Share Share
	// Used is the device time charged: half of the cores for two seconds are one second.
	Used time.Duration
	// Holds reports whether the job holds some of the device now.
	Holds bool
	// Recent is the fraction of the device over the last second. Got is the mean fraction over the
	// seconds in which the job had work, and Entitled what it was entitled to in them.
	Recent, Got, Entitled float64
	// Memory is what the job holds of the device's memory, and Peak the most that it held. Shared
	// is how much of Memory are weights that others use, too. Jobs hold them together, once, whose
	// models were opened with a cache ([WithCache]), have the same content, and were admitted for
	// the same shapes, unless the policy has a rule of its own for how many jobs there are. They
	// count in the cap of each. All else is kept for such a job: of memory that is lent it is these
	// weights that others may have between Runs, after those that fewer jobs use; that is so only
	// while a quarter of the device's memory at most is kept.
	Memory, Peak, Shared Bytes
	// Copied is what was moved between host and device: weights when they were loaded, and inputs
	// and outputs where the host cannot address the device's memory.
	Copied Bytes
	// Runs is the number of Runs that have computed, and Queue that of those under way or waiting.
	Runs  int64
	Queue int
	// Grants is how often the job was granted the device, and Revocations how often it was asked
	// back before its time.
	Grants, Revocations int64
}

// HostStatus is the state of a host and its jobs at one moment.
type HostStatus struct {
	Device string
	Policy string
	// Memory is what may be promised, and Held what jobs hold. Promised is what is set apart for
	// them: the sum of their caps or, of jobs whose memory is lent, of what they keep.
	Memory, Promised, Held Bytes
	Jobs                   []Usage // in order of admission
	// Faults is how many of the policy's instructions could not be carried out, and Fault the first
	// of them. A policy that panics is replaced by fair, which Policy then says.
	Faults int64
	Fault  error
}

// Status returns the state of the host now.
func (h *Host) Status() HostStatus {
	st := h.broker.Status()
	s := HostStatus{Device: st.Device, Policy: st.Policy, Memory: st.Memory, Held: st.Reserved}
	for i := range st.Jobs {
		s.Promised += st.Jobs[i].Memory.Kept()
	}
	s.Faults, s.Fault = h.broker.Faults()
	for _, t := range h.tenants() {
		s.Jobs = append(s.Jobs, t.Usage())
	}
	return s
}

// tenants returns the tenants in order of admission.
func (h *Host) tenants() []*Tenant {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*Tenant
	for _, t := range h.models {
		if t != nil {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *Tenant) int { return cmp.Compare(a.job.ID(), b.job.ID()) })
	return all
}

// Policies returns the names of the policies that the device can enforce with their default
// parameters, sorted. Whether one fits the jobs that are there is for [Host.SetPolicy] to say.
func (h *Host) Policies() []string {
	var names []string
	for _, r := range policy.All() {
		if r.Needs.Without(seat.Can(h.machine)) == (share.Can{}) {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// SetPolicy makes another policy decide from here on, as [HostOptions].Policy names it. Runs under
// way give the device back as at the end of a lease, and go on. The error is of kind [ErrOption]
// where there is no such policy or the device cannot enforce it, of kind [ErrMemory] or
// [ErrCompute] where it would not have admitted all jobs, and of kind [ErrClosed].
func (h *Host) SetPolicy(name string) error {
	return classify(h.broker.SetPolicy(name), ErrOption)
}

// SetShare gives the job another share while it runs; a Memory of 0 leaves the cap that it has. For
// a cap below what the job holds it gives back what no Run uses and no [Result] has open: arenas,
// and plans, of which those that a later Run needs are made again. Where the cap has no room for a
// plan, a smaller one is made that computes again what it cannot keep, if that suffices: it takes
// longer and gives the same bits, and goes once the cap is raised. The error is of kind [ErrOption]
// where the share is invalid, of kind [ErrMemory] or [ErrCompute] where the device cannot promise
// it beside the others' or the job uses or needs more than the new cap, and of kind [ErrClosed]
// where the job has ended. On an error the share stays as it is.
func (t *Tenant) SetShare(s Share) error {
	t.setting.Lock()
	defer t.setting.Unlock()
	now := t.share()
	if s.Elastic != now.Elastic {
		return fmt.Errorf("%w: job %s: elastic is %t, and stays so for the job's life", ErrOption,
			t.job.Name(), now.Elastic)
	}
	before := now.Memory
	lower := t.hosted != nil && s.Memory > 0 && s.Memory < before
	if lower {
		if err := t.hosted.SetCap(s.Memory); err != nil {
			return classify(err, ErrOption)
		}
	}
	err := t.change(s, 0)
	if errors.Is(err, core.ErrOverCap) {
		if need := t.need(s.Memory); s.Memory >= need && t.model.shrink(int64(s.Memory)) {
			err = t.change(s, need)
		}
	}
	if err != nil {
		if lower {
			err = errors.Join(err, t.hosted.SetCap(before))
		}
		return classify(err, ErrOption)
	}
	if s.Memory > before { // there may be room for plans that compute nothing again
		t.model.spareThose(func(v *variant) bool { return v.bounded })
	}
	if t.hosted != nil {
		return classify(t.hosted.SetCap(t.most()), ErrOption) // never below what it was
	}
	return nil
}

// Shelve says whether the model is kept in case it is wanted again, with no requests at present.
// While it is, what is lent of its memory ([Share] Elastic) goes before that of others where some
// is wanted, however late its last Run was; the next Run ends that. Weights that it has together
// with other models go so once all of these are shelved.
func (t *Tenant) Shelve(on bool) {
	t.shelving.Lock()
	defer t.shelving.Unlock()
	t.shelved = on
	t.job.Shelve(on)
	if w := t.with.Load(); w != nil {
		w.use.Shelve(on)
	}
}

// need is what the plan that the job was admitted with needs; where that is more than a cap, what a
// smaller plan for the same shapes needs. The job's next Run makes that.
func (t *Tenant) need(most Bytes) Bytes {
	need, m := t.job.Status().Memory.Need+t.common(), t.model
	if most >= need || t.planned.Target == nil || enter(m.closing, m.compiling) != nil {
		return need
	}
	defer m.vacate(0)
	c, err := m.plan(m.closing, t.planned)
	if err != nil {
		return need
	}
	return Bytes(c.Within(m.closing, int64(most)).Plan.PeakBytes(1))
}

// Usage returns what the job has and got up to now; once the model is closed, up to its end.
func (t *Tenant) Usage() Usage {
	st, a := t.job.Status(), t.job.Account()
	memory, shared := t.beside()
	return Usage{Name: t.job.Name(), Share: t.share(), Used: st.Used,
		Holds: !st.Units.Empty(), Recent: a.Recent,
		Got: a.Got, Entitled: a.Entitled, Memory: st.Memory.Resident() + memory,
		Peak: st.Peak + t.common(), Shared: shared,
		Copied: a.Copied,
		Runs:   st.Iterations, Queue: st.Requests, Grants: st.Counts.Grants,
		Revocations: st.Counts.Revocations}
}
