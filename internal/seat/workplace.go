package seat

import (
	"context"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// Shop is what a weir.Host shares, for work that is not a model's.
type Shop struct {
	Machine *machine.Machine
	Broker  *broker.Broker
	// Enter keeps the machine open until Left; the error is that of a host that is closed.
	Enter func() error
	Left  func()
	// Bound tells a *weir.Tenant the most that its cap will ever be, 0 for what the device has: its
	// Runs that need more are refused with a share.ErrNever.
	Bound func(tenant any, most share.Bytes)
	// Kind gives an error of the broker the kind that package weir promises.
	Kind func(error) error
}

// Of returns what a *weir.Host shares. The first host sets it: the interface of package weir names
// no device.
var Of func(host any) Shop

// Workplace is a job of a host whose work is not that of one model, such as training: it has a
// share like any other, memory up to its cap, and the device while [Workplace.Do] runs. It needs
// [Workplace.Close]. Do is for one goroutine at a time, the other methods for any number.
type Workplace struct {
	shop Shop
	job  *broker.Job
	seat *Seat
	left sync.Once
}

// NewWorkplace admits a job under a share, of which a Memory of 0 stands for need: what the job
// will hold at the most. The errors are those of weir.Host.Admit.
func NewWorkplace(s Shop, j share.Job, need share.Bytes) (*Workplace, error) {
	if err := s.Enter(); err != nil {
		return nil, err
	}
	if j.Memory == 0 {
		j.Memory = need
	}
	job, err := s.Broker.Admit(j, need)
	if err != nil {
		s.Left()
		return nil, s.Kind(err)
	}
	job.Arrive() // there is always an iteration to come
	return &Workplace{shop: s, job: job, seat: New(job, s.Machine.Pool)}, nil
}

// Quota grants the job's memory.
func (w *Workplace) Quota() device.Quota { return Weights(w.job) }

// Expect tells the policy that iterations take what one of a plan takes.
func (w *Workplace) Expect(p *plan.Plan) { w.job.Expect(Forecast(w.shop.Machine, p)) }

// Do waits for the device, runs one iteration of the job under its gate, and gives the device back.
// An error of waiting is ctx's, or that of a host that is closed; others are those of run.
func (w *Workplace) Do(ctx context.Context, run func(gate device.Gate) error) error {
	gate, err := w.seat.Acquire(ctx)
	if err != nil {
		return w.shop.Kind(err)
	}
	defer w.seat.Release()
	w.seat.Begin()
	err = run(gate)
	w.seat.End()
	w.seat.Arrive() // before Complete, so that the job never looks as if it had no work
	w.seat.Complete()
	return err
}

// SetShare gives the job another share while it runs, as weir.Tenant.SetShare does.
func (w *Workplace) SetShare(s share.Share) error { return w.shop.Kind(w.job.SetShare(s)) }

// Job is the job at the broker, which tells what it has and got.
func (w *Workplace) Job() *broker.Job { return w.job }

// Close ends the job. What it holds of memory must have been given back. A second call does
// nothing.
func (w *Workplace) Close() {
	w.left.Do(func() {
		w.job.End(nil)
		w.shop.Left()
	})
}
