package seat

import (
	"context"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// Device is a machine as a broker shares it, under a policy that is yet to be named. Of a processor
// with more cores than a lease can name the first ones are shared.
func Device(name string, m *machine.Machine) core.Config {
	return core.Config{Device: name, Units: min(m.Pool.Threads(), share.MaxUnits),
		Memory: share.Bytes(m.Device.Info().MemoryBytes), Can: Can(m)}
}

// Can says what can be enforced on a device of this machine. One whose memory the host cannot
// address runs whole kernels, beside each other, on units of its own choice.
func Can(m *machine.Machine) share.Can {
	if m.Host != nil {
		return share.Can{Overlap: true, Copies: true}
	}
	return share.Can{Partition: m.Pool.Partitions(), Overlap: true, Resize: true, Preempt: true,
		Copies: true}
}

// Seat is a job at a broker, and the gate of its lease. The goroutine that acquires is tied to the
// processors of the units that it holds. It implements device.Confined, device.Deferent and
// device.Leaver.
type Seat struct {
	job    *broker.Job
	caller *cpu.Caller
	lease  *broker.Lease // nil before the first Acquire
	kept   bool          // the lease is held between two goroutines
	left   bool          // Leave gave the lease back
}

var _ interface {
	device.Confined
	device.Deferent
	device.Leaver
} = (*Seat)(nil)

// New returns the seat of a job whose iterations the pool computes.
func New(job *broker.Job, pool *cpu.Pool) *Seat {
	return &Seat{job: job, caller: pool.NewCaller()}
}

// Acquire waits for the device and returns the gate of the hold. After [Seat.Keep] the device is
// offered to others before the hold goes on.
func (s *Seat) Acquire(ctx context.Context) (device.Gate, error) {
	if s.kept {
		s.kept = false
		if err := s.lease.Renew(ctx); err != nil {
			return nil, err
		}
		s.Units()
		return s, nil
	}
	l, err := s.job.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.lease = l
	s.Units()
	return s, nil
}

// Release gives the device back. Without a hold it does nothing.
func (s *Seat) Release() {
	s.kept, s.left = false, false
	if s.lease != nil {
		s.caller.Release()
		s.lease.Release()
	}
}

// Keep ends the calling goroutine's part in a hold, which another goroutine that has work of the
// same job goes on with by Acquire, or ends by Release.
func (s *Seat) Keep() {
	s.caller.Release()
	s.kept = true
}

// Revoked implements device.Gate.
func (s *Seat) Revoked() bool { return s.lease.Revoked() }

// Defers implements device.Deferent.
func (s *Seat) Defers() bool { return s.job.Opportunistic() }

// Renew implements device.Gate.
func (s *Seat) Renew(ctx context.Context) (err error) {
	s.caller.Pause()
	if s.left {
		s.left = false
		_, err = s.job.Acquire(ctx)
	} else {
		err = s.lease.Renew(ctx)
	}
	if err == nil {
		s.Units()
	}
	return err
}

// Leave implements device.Leaver.
func (s *Seat) Leave() {
	s.caller.Pause()
	s.lease.Release()
	s.left = true
}

// Units implements device.Confined.
func (s *Seat) Units() device.Units {
	units := device.Units(s.lease.Units().Words())
	s.caller.Hold(units)
	return units
}

// Splits implements device.Confined.
func (s *Seat) Splits() bool { return s.lease.Yield() < share.Kernel }

// Arrive and Complete bracket a request.
func (s *Seat) Arrive() { s.job.Arrive() }

// Complete ends the oldest request.
func (s *Seat) Complete() { s.job.Complete() }

// Begin and End bracket an iteration.
func (s *Seat) Begin() { s.job.BeginIteration() }

// End ends the iteration begun first.
func (s *Seat) End() { s.job.EndIteration() }

// Fail ends the job with a cause.
func (s *Seat) Fail(err error) { s.job.End(err) }
