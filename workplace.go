package weir

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// Workplace is a job of a [Host] whose work is not that of one model, such as training: it has a
// share like any other, memory up to its cap, and the device while [Workplace.Do] runs. It needs
// [Workplace.Close]. Do is for one goroutine at a time, the other methods for any number.
type Workplace struct {
	host *Host
	job  *broker.Job
	seat *seat.Seat
	left sync.Once
}

// Enter admits a job under a share. Its Shapes mean nothing; a Memory of 0 stands for need, which
// is what the job will hold at the most. The errors are those of [Host.Admit].
func (h *Host) Enter(j Job, need Bytes) (*Workplace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fmt.Errorf("job %s: %w: the host of device %s", j.Name, ErrClosed, h.id)
	}
	if j.Memory == 0 {
		j.Memory = need
	}
	job, err := h.broker.Admit(share.Job{Name: j.Name, Share: j.Share}, need)
	if err != nil {
		return nil, classify(err, ErrOption)
	}
	h.guests++
	job.Arrive() // there is always an iteration to come
	return &Workplace{host: h, job: job, seat: seat.New(job, h.machine.Pool)}, nil
}

// Machine is the device that the host shares. It may be used until the host and all that it has
// admitted are closed.
func (h *Host) Machine() *machine.Machine { return h.machine }

// Quota grants the job's memory.
func (w *Workplace) Quota() device.Quota { return seat.Weights(w.job) }

// Expect tells the policy that iterations take what one of a plan takes.
func (w *Workplace) Expect(p *plan.Plan) { w.job.Expect(seat.Forecast(w.host.machine, p)) }

// Do waits for the device, runs one iteration of the job under its gate, and gives the device back.
// An error of waiting is ctx's, or of kind [ErrClosed]; others are those of run.
func (w *Workplace) Do(ctx context.Context, run func(gate device.Gate) error) error {
	gate, err := w.seat.Acquire(ctx)
	if err != nil {
		return classify(err, ErrOption)
	}
	defer w.seat.Release()
	w.seat.Begin()
	err = run(gate)
	w.seat.End()
	w.seat.Arrive() // before Complete, so that the job never looks as if it had no work
	w.seat.Complete()
	return err
}

// SetShare gives the job another share while it runs, as [Tenant.SetShare] does; a cap below what
// the job needs is an error of kind [ErrMemory].
func (w *Workplace) SetShare(s Share) error { return classify(w.job.SetShare(s), ErrOption) }

// Usage returns what the job has and got up to now.
func (w *Workplace) Usage() Usage { return usageOf(w.job) }

// Close ends the job. What it holds of memory must have been given back.
// A second call does nothing.
func (w *Workplace) Close() { w.left.Do(w.leave) }

func (w *Workplace) leave() {
	w.job.End(nil)
	w.host.mu.Lock()
	w.host.guests--
	last := w.host.closed && w.host.empty()
	w.host.mu.Unlock()
	if last {
		_ = w.host.release() // nothing is held of the device, so it closes
	}
}
